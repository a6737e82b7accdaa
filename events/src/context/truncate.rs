//! Texts that are cut say so, and by how much.

use std::borrow::Cow;

/// The room that a text needs at least: for the words that say how much is missing.
pub const LEAST: u64 = 48;

/// The bytes of a character in a JSON text.
const fn bytes(sign: char) -> u64 {
    match sign {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        '\u{20}'..'\u{80}' => 1,
        '\u{80}'..'\u{800}' => 2,
        '\u{800}'..'\u{10000}' => 3,
        _ => 4,
    }
}

/// The bytes of a text in JSON, without its quotes.
#[must_use]
pub fn width(text: &str) -> u64 {
    text.chars().map(bytes).sum()
}

/// The text in at most so many bytes of JSON, or in [`LEAST`] where that is more: its beginning and its end, for what
/// went wrong stands at the end, and between them how many characters are missing.
#[must_use]
pub fn loud(text: &str, most: u64) -> Cow<'_, str> {
    if width(text) <= most {
        return Cow::Borrowed(text);
    }
    // The words for it, with as many digits as there can be.
    let words = |missing: usize| format!("…[truncated {missing} chars]…");
    let all = text.chars().count();
    let left = most.saturating_sub(width(&words(all)));
    let end = left / 3;
    let head = taken(text.chars(), left.saturating_sub(end));
    let tail = taken(text.chars().rev(), end);
    let missing = all.saturating_sub(head).saturating_sub(tail);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(head.saturating_add(missing)).collect();
    Cow::Owned(format!("{begin}{}{end}", words(missing)))
}

/// How many characters fit.
fn taken(signs: impl Iterator<Item = char>, most: u64) -> usize {
    let mut sum = 0_u64;
    let fits = |sign: &char| {
        sum = sum.saturating_add(bytes(*sign));
        sum <= most
    };
    signs.take_while(fits).count()
}

/// The largest share of each, so that all that need no more have what they need and together they have at most `most`.
#[must_use]
pub fn share(widths: &[u64], most: u64) -> u64 {
    let mut sorted = widths.to_vec();
    sorted.sort_unstable();
    let mut left = most;
    let mut others = u64::try_from(sorted.len()).unwrap_or(u64::MAX);
    for width in sorted {
        let even = left / others.max(1);
        if width > even {
            return even;
        }
        left = left.saturating_sub(width);
        others = others.saturating_sub(1);
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_of_a_text_is_that_of_its_json() {
        for text in
            ["plain", "\"q\"\\", "\n\r\t\u{8}\u{c}", "\0\u{1f}\u{7f}", "é€\u{1F9D7}\u{fffd}", ""]
        {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(usize::try_from(width(text)).unwrap() + 2, json.len(), "{text:?}");
        }
    }

    #[test]
    fn what_is_cut_says_how_much_is_missing_and_keeps_both_ends() {
        let text = format!("BEGIN{}END", "\u{1F9D7}\n".repeat(500));
        assert_eq!(loud("short", 5), "short");
        for most in [LEAST, 49, 63, 100, 999, 2_000] {
            let cut = loud(&text, most);
            assert!(width(&cut) <= most, "{most}: {cut}");
            let missing: usize = cut
                .split("[truncated ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            let words = format!("…[truncated {missing} chars]…");
            let kept = cut.chars().count() - words.chars().count();
            assert_eq!(kept + missing, text.chars().count(), "{most}");
            assert!(most < 100 || (cut.starts_with("BEGIN") && cut.ends_with("END")), "{cut}");
        }
    }

    #[test]
    fn small_ones_have_what_they_need_and_the_others_the_same() {
        assert_eq!(share(&[10, 10], 20), u64::MAX);
        assert_eq!(share(&[10, 100, 90], 110), 50);
        assert_eq!(share(&[100, 100, 100], 90), 30);
        assert_eq!(share(&[], 0), u64::MAX);
    }
}
