//! How large a context is and what it is made of: estimates, for people and for budgets that are only warned of.

use super::{Fold, Piece, history, pieces, roles, tokens};
use crate::message::Role;
use crate::quantity::Tokens;
use crate::run::life::MessageRef;

/// The parts of what a model is sent, in tokens of about four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Schemas of tools.
    pub tools: Tokens,
    /// The operator's text.
    pub system: Tokens,
    /// Older turns that are sent whole.
    pub history: Tokens,
    /// What stands for messages that are not: at most so much.
    pub synopsis: Tokens,
    /// What was asked this turn.
    pub question: Tokens,
    /// The exchanges of this turn.
    pub trace: Tokens,
    /// Messages of the conversation.
    pub messages: usize,
    /// How many of them are in a synopsis.
    pub folded: usize,
}

impl Stats {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Tokens {
        let parts = [self.system, self.history, self.synopsis, self.question, self.trace];
        parts.into_iter().fold(self.tools, Tokens::plus)
    }

    /// Its parts by name.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, Tokens); 6] {
        [
            ("tools", self.tools),
            ("system", self.system),
            ("history", self.history),
            ("synopsis", self.synopsis),
            ("question", self.question),
            ("trace", self.trace),
        ]
    }
}

/// Of a conversation with so many bytes of tools, folded so.
#[must_use]
pub fn stats(all: &[MessageRef], tools: u64, fold: Option<&Fold>) -> Stats {
    let question = history::question(all).unwrap_or(0..0);
    let mut stats = Stats { tools: tokens(tools), messages: all.len(), ..Stats::default() };
    let sent = |place: usize| all.get(place).map(|one| (one.role, one.bytes));
    for piece in pieces(&roles(all), fold) {
        let (place, role, size) = match piece {
            Piece::Whole(place) => {
                let Some((role, size)) = sent(place) else { continue };
                (place, role, size)
            }
            Piece::Cut(place, max) => (place, Role::Tool, max),
            Piece::Synopsis(range, room) => {
                let is_folded = |one: &&MessageRef| one.role != Role::System;
                let folded = all.get(range).unwrap_or_default().iter().filter(is_folded).count();
                stats.folded = stats.folded.saturating_add(folded);
                stats.synopsis = stats.synopsis.plus(tokens(room));
                continue;
            }
        };
        let part = match role {
            Role::System => &mut stats.system,
            Role::User | Role::Assistant | Role::Tool if place < question.start => {
                &mut stats.history
            }
            Role::User | Role::Assistant | Role::Tool if place < question.end => {
                &mut stats.question
            }
            Role::User | Role::Assistant | Role::Tool => &mut stats.trace,
        };
        *part = part.plus(tokens(size));
    }
    stats
}
