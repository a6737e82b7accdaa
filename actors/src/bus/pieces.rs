//! Pieces of a run's answers on their way to other nodes: a question for what the owner's ring holds, and pieces, told
//! as they come or in answer.

use crate::live::{Delta, Found, PieceNo, bytes};
use crate::order::Build;
use events::record::Epoch;
use events::run::step::CallNo;
use providers::Delta as Piece;
use serde::{Deserialize, Serialize};

/// Bytes of text in one message (64 KiB): a thousand pieces as a rule. What does not fit goes into the next one.
pub const PIECES_BYTES_MAX: usize = 64 << 10;
/// Bytes of a piece that crosses nodes at all (512 KiB), so that every message fits what a server takes. A larger one is
/// a gap there.
pub const PIECE_BYTES_MAX: usize = 512 << 10;

/// Asks a run's owner for what its ring holds, and to be told what comes, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Who asks, for the answer that the owner is too old.
    pub build: Build,
    /// The newest piece that the asker has.
    pub after: Option<PieceNo>,
}

/// Pieces in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pieces {
    /// Which ownership of the partition tells them: of a lower one than the highest that was heard, nobody takes any.
    pub epoch: Epoch,
    /// The piece before them, where there was one.
    pub after: Option<PieceNo>,
    /// They.
    pub told: Vec<Told>,
    /// Whether the answer goes on behind them.
    pub more: bool,
}

/// A numbered piece, frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Which wire call.
    pub call: CallNo,
    /// Its number within that call.
    pub number: u64,
    /// What.
    pub what: What,
}

/// [`Piece`], frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// [`Piece::Text`].
    Text(String),
    /// [`Piece::Reasoning`].
    Reasoning(String),
    /// [`Piece::Refusal`].
    Refusal(String),
    /// [`Piece::ToolCallStarted`].
    Call {
        /// Its place among the answer's calls.
        index: u64,
        /// Its id.
        id: String,
        /// Its name.
        name: String,
    },
    /// [`Piece::ToolCallArguments`].
    Arguments {
        /// Its place among the answer's calls.
        index: u64,
        /// More of them.
        fragment: String,
    },
}

impl From<&Delta> for Told {
    fn from(delta: &Delta) -> Self {
        let what = match &delta.piece {
            Piece::Text(text) => What::Text(text.clone()),
            Piece::Reasoning(text) => What::Reasoning(text.clone()),
            Piece::Refusal(text) => What::Refusal(text.clone()),
            Piece::ToolCallStarted { index, id, name } => What::Call {
                index: u64::try_from(*index).unwrap_or(u64::MAX),
                id: id.clone(),
                name: name.clone(),
            },
            Piece::ToolCallArguments { index, fragment } => What::Arguments {
                index: u64::try_from(*index).unwrap_or(u64::MAX),
                fragment: fragment.clone(),
            },
        };
        Self { call: delta.call, number: delta.number, what }
    }
}

impl From<Told> for Delta {
    fn from(told: Told) -> Self {
        let place = |index| usize::try_from(index).unwrap_or(usize::MAX);
        let piece = match told.what {
            What::Text(text) => Piece::Text(text),
            What::Reasoning(text) => Piece::Reasoning(text),
            What::Refusal(text) => Piece::Refusal(text),
            What::Call { index, id, name } => {
                Piece::ToolCallStarted { index: place(index), id, name }
            }
            What::Arguments { index, fragment } => {
                Piece::ToolCallArguments { index: place(index), fragment }
            }
        };
        Self { call: told.call, number: told.number, piece }
    }
}

/// What a ring gave, in messages that follow each other from `after` on. What was dropped shows in the numbers.
pub(super) fn pack(found: Vec<Found>, mut after: Option<PieceNo>, epoch: Epoch) -> Vec<Pieces> {
    let mut all: Vec<Pieces> = vec![];
    let mut held = 0_usize;
    for found in found {
        let Found::Delta(delta) = found else { continue };
        let size = bytes(&delta.piece);
        if Some(delta.place()) <= after || size > PIECE_BYTES_MAX {
            continue;
        }
        let told = Told::from(&*delta);
        match all.last_mut() {
            Some(last) if held.saturating_add(size) <= PIECES_BYTES_MAX => last.told.push(told),
            before => {
                if let Some(before) = before {
                    before.more = true;
                }
                held = 0;
                all.push(Pieces { epoch, after, told: vec![told], more: false });
            }
        }
        held = held.saturating_add(size);
        after = Some(delta.place());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn text(number: u64, bytes: usize) -> Found {
        let piece = Piece::Text("a".repeat(bytes));
        Found::Delta(Arc::new(Delta { call: CallNo(0), number, piece }))
    }

    #[test]
    fn messages_are_bounded_and_follow_each_other() {
        let half = PIECES_BYTES_MAX / 2;
        let found = vec![text(0, half), text(1, half), text(2, half), text(3, 1)];
        let packed = pack(found, None, Epoch(4));
        let shown: Vec<_> = packed
            .iter()
            .map(|pieces| {
                let told: Vec<u64> = pieces.told.iter().map(|told| told.number).collect();
                (pieces.after.map(|(_, number)| number), told, pieces.more, pieces.epoch)
            })
            .collect();
        let epoch = Epoch(4);
        assert_eq!(shown, [(None, vec![0, 1], true, epoch), (Some(1), vec![2, 3], false, epoch)]);
    }

    #[test]
    fn what_the_asker_has_and_what_is_too_large_is_left_out() {
        let found = vec![text(0, 1), text(1, PIECE_BYTES_MAX + 1), Found::Gap, text(5, 1)];
        let packed = pack(found, Some((CallNo(0), 0)), Epoch(1));
        let [pieces] = &packed[..] else { panic!("{packed:?}") };
        assert_eq!(pieces.after, Some((CallNo(0), 0)));
        assert_eq!(pieces.told.iter().map(|told| told.number).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn a_piece_is_the_same_on_the_other_side() {
        let index = 3;
        let pieces = [
            Piece::Text("a".into()),
            Piece::Reasoning("b".into()),
            Piece::Refusal("c".into()),
            Piece::ToolCallStarted { index, id: "d".into(), name: "e".into() },
            Piece::ToolCallArguments { index, fragment: "f".into() },
        ];
        for piece in pieces {
            let delta = Delta { call: CallNo(2), number: 9, piece };
            assert_eq!(Delta::from(Told::from(&delta)), delta);
        }
    }
}
