//! What of a conversation a model is sent: as much as fits whole, and a synopsis of what is older. No model is asked
//! for it, and nothing is lost by it: the journal keeps every message, and what is folded is only this view.
//!
//! **Two halves that must agree.** The rules decide what is folded when they intend a call, and know the session's
//! messages by [`MessageRef`] alone (name, size, speaker). The shell has the messages and writes the text. So [`plan`]
//! works from references only and says *which* messages are folded and how large the synopsis may be; that [`Fold`] is
//! part of the intent, and [`render`] makes the text of it from the messages, the same text for ever. The request's hash
//! is over what is sent: the names of the messages that stay, and for a synopsis the names of those that it stands for,
//! the room that it has and the version of its wording ([`names`]). A replay therefore compares folded requests without
//! reading one message, and a node whose wording is another can not send what was intended here.
//!
//! **What is folded.** A conversation is older turns, the question of this turn, and the exchanges that answer it. System
//! text and the question are never folded, and the newest exchange neither: the model is at work on it.
//!
//! 1. Older turns of a session, beyond its budget of history. Always, on every plane.
//! 2. Exchanges of this turn and, where these are not what is large, older turns too: beyond about 60 % of what the model
//!    reads. Where the conversation is ours, that is of runs and of sessions; a caller who sends its whole conversation
//!    each time has its own ways to shorten it.
//! 3. The same below a size that the provider refused. For everybody, once a step.
//!
//! What is cut away is decided by walking over the conversation as it grew: beyond the upper mark it is folded down to a
//! lower one, and stays as it is until it is beyond the upper one again. So the same messages are sent in the same form
//! for many steps and turns, and a provider's cache stays warm. A cut is only ever made before a message that answers no
//! call, so that a call and its results are never parted.

mod fold;
mod history;
pub mod stats;
pub mod truncate;

use crate::message::{Body, Role};
use crate::quantity::Tokens;
use crate::record::Hash;
use crate::run::life::MessageRef;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Bytes of stored messages that are taken for one token. An estimate, as prose has it; reservations do not use it.
pub const TOKEN_BYTES: u64 = 4;
/// Version of what [`render`] writes. Another wording is another request.
const WORDING: u16 = 1;
/// The least room of a synopsis; what is not twice as large is left whole.
const ROOM_MIN: u64 = 1_024;
/// The most room of a synopsis.
const ROOM_MAX: u64 = 16_384;
/// The least that results of tools are cut to.
const RESULTS_MIN: u64 = 4_096;

/// Messages that one synopsis stands for; the system's among them stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first of them.
    pub from: u32,
    /// The first behind them.
    pub to: u32,
    /// The most bytes that the synopsis has.
    pub room: u64,
}

/// Results of tools that are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// From this message on.
    pub from: u32,
    /// The most bytes that one of them has.
    pub max: u64,
}

/// How a conversation is folded for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fold {
    /// Older turns.
    pub turns: Option<Span>,
    /// Older exchanges of this turn.
    pub exchanges: Option<Span>,
    /// Results that are too large even so.
    pub results: Option<Cut>,
}

/// What a conversation must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// How many of its messages, from the first, are of earlier turns of its session.
    pub history: usize,
    /// The most bytes of those that stay whole.
    pub history_max: Option<u64>,
    /// The most bytes of all of it.
    pub window: Option<u64>,
}

/// A conversation as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How it is folded, if it is.
    pub fold: Option<Fold>,
    /// What names each message that is sent.
    pub names: Vec<Hash>,
    /// The most bytes that they have together.
    pub bytes: u64,
}

/// About so many tokens.
#[must_use]
pub const fn tokens(bytes: u64) -> Tokens {
    Tokens(bytes.div_ceil(TOKEN_BYTES))
}

/// So many tokens have about so many bytes.
#[must_use]
pub const fn bytes(tokens: Tokens) -> u64 {
    tokens.0.saturating_mul(TOKEN_BYTES)
}

/// Sizes of messages that may be folded, added up, so that any stretch of them is one subtraction.
struct Sums(Vec<u64>);

impl Sums {
    fn of(all: &[MessageRef]) -> Self {
        let mut sum = 0_u64;
        let mut sums = vec![0];
        sums.extend(all.iter().map(|one| {
            sum = sum.saturating_add(if one.role == Role::System { 0 } else { one.bytes });
            sum
        }));
        Self(sums)
    }

    fn between(&self, from: usize, to: usize) -> u64 {
        let up_to = |place: usize| self.0.get(place).or(self.0.last()).copied().unwrap_or(0);
        up_to(to).saturating_sub(up_to(from))
    }
}

/// The most room of a synopsis in so large a window.
fn room_max(window: Option<u64>) -> u64 {
    window.map_or(ROOM_MAX, |window| (window / 8).clamp(ROOM_MIN, ROOM_MAX))
}

/// The room of a synopsis of so many bytes; none where it would not save at least half of them.
fn room(folded: u64, window: Option<u64>) -> Option<u64> {
    let room = (folded / 8).clamp(ROOM_MIN, room_max(window));
    (folded >= room.saturating_mul(2)).then_some(room)
}

fn span(sums: &Sums, range: Range<usize>, window: Option<u64>) -> Option<Span> {
    let room = room(sums.between(range.start, range.end), window)?;
    let (from, to) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
    Some(Span { from, to, room })
}

/// Which messages are folded, from their references alone.
#[must_use]
pub fn plan(all: &[MessageRef], bounds: &Bounds) -> Plan {
    let fold = folded(all, bounds).filter(|fold| *fold != Fold::default());
    let names = names(all, fold.as_ref());
    Plan { names, bytes: size(all, fold.as_ref()), fold }
}

fn folded(all: &[MessageRef], bounds: &Bounds) -> Option<Fold> {
    let question = history::question(all)?;
    let (sums, window) = (Sums::of(all), bounds.window);
    let cut = |to: usize, most: u64| history::cut(all, &sums, to, most);
    let turns = |to: usize| Fold { turns: span(&sums, 0..to, window), ..Fold::default() };
    let session = history::whole(all, bounds.history.min(question.start));
    let mut older = bounds.history_max.map_or(0, |max| cut(session, max));
    let Some(window) = window else { return Some(turns(older)) };
    if sums.between(older, question.start) > window / 2 {
        older = older.max(cut(question.start, window / 2));
    }
    let before = all.get(..question.end)?;
    let fixed = |older: usize| size(before, Some(&turns(older)));
    if fixed(older) > window {
        older = older.max(cut(question.start, window / 8));
    }
    let left = window.saturating_sub(fixed(older));
    let folded = left.saturating_sub(room_max(bounds.window));
    let newer = history::exchanges(all, &sums, question.end, (left, folded));
    let exchanges = span(&sums, question.end..newer, bounds.window);
    let fold = Fold { exchanges, ..turns(older) };
    if size(all, Some(&fold)) <= window {
        return Some(fold);
    }
    let from = u32::try_from(question.end).ok()?;
    let cut = Fold { results: Some(Cut { from, max: (window / 8).max(RESULTS_MIN) }), ..fold };
    Some(if size(all, Some(&cut)) < size(all, Some(&fold)) { cut } else { fold })
}

/// What is sent in the place of messages.
enum Piece {
    /// This one as it is.
    Whole(usize),
    /// This one with its results cut.
    Cut(usize, u64),
    /// A synopsis of those of these that are not the system's.
    Synopsis(Range<usize>, u64),
}

/// The one reading of a [`Fold`], so that its size, its names and its text can not part.
fn pieces(roles: &[(Role, u64)], fold: Option<&Fold>) -> Vec<Piece> {
    let fold = fold.copied().unwrap_or_default();
    let index = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
    let spans = [fold.turns, fold.exchanges].into_iter().flatten();
    let spans: Vec<(Range<usize>, u64)> =
        spans.map(|span| (index(span.from)..index(span.to), span.room)).collect();
    let mut out = Vec::with_capacity(roles.len());
    for (place, (role, bytes)) in roles.iter().enumerate() {
        let of = spans.iter().find(|(range, _)| range.contains(&place));
        let cut = fold
            .results
            .filter(|cut| *role == Role::Tool && place >= index(cut.from) && *bytes > cut.max);
        match (of, cut) {
            (Some(_), _) if *role != Role::System => {}
            (None, Some(cut)) => out.push(Piece::Cut(place, cut.max)),
            (None, None) | (Some(_), _) => out.push(Piece::Whole(place)),
        }
        if let Some((range, room)) = of.filter(|(range, _)| place.checked_add(1) == Some(range.end))
        {
            out.push(Piece::Synopsis(range.clone(), *room));
        }
    }
    out
}

fn roles(all: &[MessageRef]) -> Vec<(Role, u64)> {
    all.iter().map(|one| (one.role, one.bytes)).collect()
}

/// The most bytes of a conversation that is folded so.
fn size(all: &[MessageRef], fold: Option<&Fold>) -> u64 {
    let of = |piece: &Piece| match piece {
        Piece::Whole(place) => all.get(*place).map_or(0, |one| one.bytes),
        Piece::Cut(_, max) => *max,
        Piece::Synopsis(_, room) => *room,
    };
    pieces(&roles(all), fold).iter().fold(0, |sum, piece| sum.saturating_add(of(piece)))
}

/// What names each message that is sent of a conversation that is folded so.
#[must_use]
pub fn names(all: &[MessageRef], fold: Option<&Fold>) -> Vec<Hash> {
    let name = |piece: &Piece| match piece {
        Piece::Whole(place) => all.get(*place).map_or(Hash([0; 32]), |one| one.hash),
        Piece::Cut(place, max) => {
            digest(b"piton/cut", *max, all.get(*place..).unwrap_or_default().iter().take(1))
        }
        Piece::Synopsis(range, room) => {
            let folded = all.get(range.clone()).unwrap_or_default();
            let folded = folded.iter().filter(|one| one.role != Role::System);
            digest(b"piton/synopsis", *room, folded)
        }
    };
    pieces(&roles(all), fold).iter().map(name).collect()
}

fn digest<'a>(what: &[u8], most: u64, messages: impl Iterator<Item = &'a MessageRef>) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(what);
    hasher.update(WORDING.to_le_bytes());
    hasher.update(most.to_le_bytes());
    for message in messages {
        hasher.update(message.hash.0);
    }
    Hash(hasher.finalize().into())
}

/// The messages that are sent of a conversation that is folded so.
#[must_use]
pub fn render(messages: Vec<Body>, fold: Option<&Fold>) -> Vec<Body> {
    if fold.is_none() {
        return messages;
    }
    let bytes = |body: &Body| u64::try_from(body.json().as_bytes().len()).unwrap_or(u64::MAX);
    let roles: Vec<(Role, u64)> =
        messages.iter().map(|body| (body.speaker(), bytes(body))).collect();
    let text = |piece: &Piece| match piece {
        Piece::Whole(place) => messages.get(*place).cloned(),
        Piece::Cut(place, max) => messages.get(*place).map(|body| fold::cut(body, *max)),
        Piece::Synopsis(range, room) => {
            let folded = messages.get(range.clone()).unwrap_or_default();
            let speaks = roles.get(range.clone()).unwrap_or_default();
            let folded = folded.iter().zip(speaks).filter(|(_, (role, _))| *role != Role::System);
            Some(fold::synopsis(folded.map(|(body, _)| body), *room))
        }
    };
    pieces(&roles, fold).iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests;
