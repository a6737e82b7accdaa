//! Where a conversation may be cut, and where it is: between turns, and where one turn is too large, between exchanges.

use super::Sums;
use crate::message::Role;
use crate::run::life::MessageRef;
use std::ops::Range;

const fn asks(role: Role) -> bool {
    matches!(role, Role::User | Role::System)
}

/// The question of this turn: what its asker said last, with all that was said just before by nobody else. None where
/// nobody asked anything; such a conversation is left as it is.
pub(super) fn question(all: &[MessageRef]) -> Option<Range<usize>> {
    let last = all.iter().rposition(|one| one.role == Role::User)?;
    let before = all.get(..last)?.iter().rposition(|one| !asks(one.role));
    Some(before.map_or(0, |place| place.saturating_add(1))..last.saturating_add(1))
}

/// Places among the first `to` where a turn begins.
fn turns(all: &[MessageRef], to: usize) -> impl DoubleEndedIterator<Item = usize> + Clone {
    let begins = move |place: &usize| {
        let before = place.checked_sub(1).and_then(|before| all.get(before));
        all.get(*place).is_some_and(|one| asks(one.role))
            && before.is_none_or(|one| !asks(one.role))
    };
    (0..to.min(all.len())).filter(begins)
}

/// Places from `from` on and before `to` where an exchange begins: at what is no result of a tool.
fn begins(all: &[MessageRef], from: usize, to: usize) -> impl Iterator<Item = usize> + Clone {
    let begins = |place: &usize| all.get(*place).is_some_and(|one| one.role != Role::Tool);
    (from..to.min(all.len())).filter(begins)
}

/// So many of the first messages, less what would part the last call among them from its results.
pub(super) fn whole(all: &[MessageRef], to: usize) -> usize {
    let before_results = |place: &usize| all.get(*place).is_none_or(|one| one.role != Role::Tool);
    (0..=to).rev().find(before_results).unwrap_or(0)
}

/// How many of the first `to` messages are folded, so that at most `most` bytes of them stay whole. It is worked out turn
/// by turn, as it was while they were said: beyond `most`, only the newest half of it stays.
pub(super) fn cut(all: &[MessageRef], sums: &Sums, to: usize, most: u64) -> usize {
    let mut cut = 0;
    for end in turns(all, to).filter(|place| *place > 0).chain([to]) {
        if sums.between(cut, end) > most {
            cut = keep(all, sums, cut..end, most);
        }
    }
    cut
}

/// Where what stays begins: at the oldest turn of the newest half; else at the newest turn, if that fits at all; else
/// within it, at the oldest exchange that fits.
fn keep(all: &[MessageRef], sums: &Sums, within: Range<usize>, most: u64) -> usize {
    let fits = |place: &usize, most: u64| sums.between(*place, within.end) <= most;
    let after = within.start.saturating_add(1);
    let turns = turns(all, within.end).filter(|place| *place > within.start);
    let half = turns.clone().find(|place| fits(place, most / 2));
    let newest = turns.clone().next_back().filter(|place| fits(place, most));
    let exchange = || begins(all, after, within.end).find(|place| fits(place, most));
    half.or(newest).or_else(exchange).unwrap_or(within.end)
}

/// Where the exchanges from `from` on begin that stay whole, so that these have at most so many bytes, or the second
/// number once there is a synopsis beside them; the newest one stays whatever it has. Worked out exchange by exchange,
/// as [`cut`] is.
pub(super) fn exchanges(
    all: &[MessageRef],
    sums: &Sums,
    from: usize,
    (alone, beside): (u64, u64),
) -> usize {
    let starts: Vec<usize> = begins(all, from, all.len()).collect();
    let ends = starts.iter().copied().skip(1).chain([all.len()]);
    let mut cut = from;
    for (start, end) in starts.iter().copied().zip(ends) {
        let most = if cut == from { alone } else { beside };
        if sums.between(cut, end) > most && start > cut {
            let fits = |place: &usize| sums.between(*place, end) <= beside / 2;
            let behind = starts.iter().copied().filter(|place| *place > cut && *place <= start);
            cut = behind.into_iter().find(fits).unwrap_or(start);
        }
    }
    cut
}
