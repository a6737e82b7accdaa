//! Ids of tool calls as a family takes them: of its letters, and none twice in one conversation.
//!
//! A conversation may have been led by several families, and some count their calls anew in each answer. The same
//! conversation always gives the same ids, so that a cached prefix stays one.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Characters of an id that every family takes.
const ID_CHARS_MAX: usize = 64;
/// Characters that are kept of an id that is mended.
const KEPT_CHARS_MAX: usize = 40;
/// Bytes of the hash that tells mended ids apart.
const HASH_BYTES: usize = 8;

/// The ids of one conversation.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    used: BTreeSet<String>,
    /// What the calls of the last assistant's turn are called on the wire.
    now: BTreeMap<String, String>,
}

impl CallIds {
    /// An assistant's turn begins: results after it answer its calls and no earlier ones.
    pub(crate) fn turn(&mut self) {
        self.now.clear();
    }

    /// The id on the wire of a call of this turn.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_fit = id.len() <= ID_CHARS_MAX && id.chars().all(is_char);
        let mut wire = id.to_owned();
        let mut tries = 0_u64;
        while tries == 0 && !is_fit || self.used.contains(&wire) {
            wire =
                id.chars().take(KEPT_CHARS_MAX).map(|c| if is_char(c) { c } else { '_' }).collect();
            wire.push('_');
            for byte in Sha256::digest(format!("{tries}:{id}")).iter().take(HASH_BYTES) {
                // Writing to a string can not fail.
                let _infallible = write!(wire, "{byte:02x}");
            }
            tries += 1;
        }
        self.used.insert(wire.clone());
        self.now.insert(id.to_owned(), wire.clone());
        wire
    }

    /// The id on the wire of the call that a result answers.
    pub(crate) fn result(&self, id: &str) -> String {
        self.now.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mended_the_same_way_each_time_and_none_stands_twice() {
        let lead = || {
            let mut ids = CallIds::default();
            let first =
                [ids.call("toolu_1"), ids.call("functions.f:0"), ids.result("functions.f:0")];
            ids.turn();
            let again =
                [ids.call("functions.f:0"), ids.result("functions.f:0"), ids.call("toolu_1")];
            (first, again)
        };
        let (first, again) = lead();
        assert_eq!((&first, &again), (&lead().0, &lead().1));
        assert_eq!(first[0], "toolu_1");
        assert!(first[1].starts_with("functions_f_0_") && first[1] == first[2], "{first:?}");
        assert!(again[0] == again[1] && again[0] != first[1] && again[2] != "toolu_1", "{again:?}");
        let long = CallIds::default().call(&"é".repeat(500));
        assert!(long.len() <= ID_CHARS_MAX && long.is_ascii(), "{long}");
    }
}
