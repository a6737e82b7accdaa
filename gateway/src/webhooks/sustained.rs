//! When a fallback is sustained: a role has been served by another model than the one that is meant to for a quarter of an
//! hour, without five minutes in which it was not. The alert of the same name says it in the same way.
//!
//! It is counted in memory, by the times of the journal: a node that starts begins to count anew.

use events::quantity::{Instant, Millis};
use std::collections::BTreeMap;

/// How long it goes on before it is said.
const AFTER: Millis = Millis(900_000);
/// A pause that ends it.
const GAP: Millis = Millis(300_000);
/// Routes that are counted; more than a table of routes has.
const KEYS_MAX: usize = 1_024;

/// Who was meant to serve, who did, and for which role.
pub(super) type Key = (String, String, String);

/// One uninterrupted time of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spell {
    /// Since when.
    pub(super) since: Instant,
    last: Instant,
    /// Answers in it.
    pub(super) count: u64,
    told: bool,
}

/// What a node has seen of fallbacks.
#[derive(Debug, Default)]
pub struct Sustained(BTreeMap<Key, Spell>);

impl Sustained {
    /// One fallback more; the spell when it is to be told now, once.
    pub(super) fn note(&mut self, key: Key, at: Instant) -> Option<Spell> {
        let fresh = Spell { since: at, last: at, count: 0, told: false };
        if !self.0.contains_key(&key) && self.0.len() >= KEYS_MAX {
            self.0.retain(|_, spell| at <= spell.last.after(GAP));
        }
        if !self.0.contains_key(&key) && self.0.len() >= KEYS_MAX {
            return None;
        }
        let spell = self.0.entry(key).or_insert(fresh);
        if at > spell.last.after(GAP) {
            *spell = fresh;
        }
        spell.last = spell.last.max(at);
        spell.count = spell.count.saturating_add(1);
        let is_due = !spell.told && spell.last >= spell.since.after(AFTER);
        spell.told |= is_due;
        is_due.then_some(*spell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_700_000_000_000_000);

    fn key() -> Key {
        ("openai:a".into(), "anthropic:b".into(), "chat".into())
    }

    /// At these minutes; when it was told.
    fn told(minutes: &[u64]) -> Vec<u64> {
        let mut seen = Sustained::default();
        let at = |minute: u64| NOW.after(Millis(minute * 60_000));
        let is_told = |minute: &&u64| seen.note(key(), at(**minute)).is_some();
        minutes.iter().filter(is_told).copied().collect()
    }

    #[test]
    fn a_quarter_of_an_hour_without_a_pause_is_told_once() {
        assert_eq!(told(&[0, 4, 8, 12, 16, 20, 24]), [16]);
        assert_eq!(told(&[0, 4, 8, 12]), [0; 0]);
        // A pause begins a new one, which is told again.
        assert_eq!(told(&[0, 4, 8, 14, 16, 20, 24, 29]), [29]);
        assert_eq!(told(&[0, 5, 10, 15, 21, 26, 31, 36]), [15, 36]);
    }

    #[test]
    fn roles_are_counted_apart_and_not_without_end() {
        let mut seen = Sustained::default();
        for n in 0..2 * KEYS_MAX {
            let key = (n.to_string(), String::new(), String::new());
            assert_eq!(seen.note(key, NOW), None);
        }
        assert_eq!(seen.0.len(), KEYS_MAX);
        seen.note(key(), NOW.after(GAP).after(Millis(1)));
        assert_eq!(seen.0.len(), 1);
    }
}
