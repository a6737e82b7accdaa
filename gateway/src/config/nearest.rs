//! The known word that a misspelt one was most likely meant to be.

/// Characters from which on a word is looked for inside the known ones.
const PART_CHARS_MIN: usize = 3;

/// Of `among`, the word with the fewest single-character edits to `word`; a word that it is a part of counts as one
/// edit away. None when even the nearest is too far to be a slip of the finger (more than a third of the word, and more
/// than two edits).
#[must_use]
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let chars = word.chars().count();
    let far = (chars / 3).max(2);
    let counted = among.into_iter().map(|known| {
        let is_part = chars >= PART_CHARS_MIN && known != word && known.contains(word);
        (if is_part { 1 } else { edits(word, known) }, known)
    });
    counted.filter(|(edits, _)| *edits <= far).min().map(|(_, known)| known)
}

/// Levenshtein's distance, a row at a time.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (deleted, a) in from.chars().enumerate() {
        let mut diagonal = deleted;
        let mut left = deleted + 1;
        let Some((first, rest)) = row.split_first_mut() else { return left };
        *first = left;
        for (above, b) in rest.iter_mut().zip(to.chars()) {
            let kept = diagonal + usize::from(a != b);
            diagonal = *above;
            left = kept.min(diagonal + 1).min(left + 1);
            *above = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("bind", "bnid", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn a_slip_finds_its_word_and_another_word_finds_none() {
        let known = ["limits.max_body_bytes", "limits.max_connections", "bind"];
        assert_eq!(nearest("limts.max_body_byte", known), Some("limits.max_body_bytes"));
        assert_eq!(nearest("bnd", known), Some("bind"));
        assert_eq!(nearest("connections", known), Some("limits.max_connections"));
        assert_eq!(nearest("colour", known), None);
    }
}
