//! Which calls fail: the first two with the same text, not the third. Kept for a bounded number of texts, so that a
//! long demo does not grow.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Calls of one text that fail before one succeeds.
pub(super) const STRIKES: u8 = 2;
/// Texts that are remembered: 256; the one that began longest ago goes first, and would then fail twice again.
const TEXTS_MAX: usize = 256;

/// How often each text has failed.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// A digest of the text and its strikes, oldest first. A std lock: it is held for a few lines that do not wait.
    struck: Mutex<VecDeque<(u128, u8)>>,
}

impl Schedule {
    /// Counts a call with this text. Gives which failure it is, from one, or nothing when it succeeds.
    pub(super) fn strike(&self, text: u128) -> Option<u8> {
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = struck.iter().position(|(other, _)| *other == text) else {
            if struck.len() == TEXTS_MAX {
                struck.pop_front();
            }
            struck.push_back((text, 1));
            return Some(1);
        };
        match struck.get_mut(at) {
            Some((_, strikes)) if *strikes < STRIKES => {
                *strikes += 1;
                Some(*strikes)
            }
            Some(_) | None => {
                struck.remove(at);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calls_fail_the_third_succeeds_and_it_starts_over() {
        let schedule = Schedule::default();
        let strikes: Vec<_> = (0..6).map(|_| schedule.strike(7)).collect();
        assert_eq!(strikes, [Some(1), Some(2), None, Some(1), Some(2), None]);
    }

    #[test]
    fn texts_count_apart_and_the_oldest_is_forgotten() {
        let schedule = Schedule::default();
        let texts = u128::try_from(TEXTS_MAX).unwrap();
        for text in 0..=texts {
            assert_eq!(schedule.strike(text), Some(1));
        }
        assert_eq!(schedule.struck.lock().unwrap().len(), TEXTS_MAX);
        assert_eq!(schedule.strike(1), Some(2), "still known");
        assert_eq!(schedule.strike(0), Some(1), "forgotten, so it begins again");
    }
}
