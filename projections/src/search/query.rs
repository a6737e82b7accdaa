//! Words that somebody typed as a question that the index understands: every word must be there, a phrase in quotes as it
//! stands, the last word also as the beginning of one.
//!
//! Whatever is typed is words and never an operator of the index's own language.

/// Words and phrases of one question.
pub const TERMS_MAX: usize = 16;
/// Bytes of one question.
const BYTES_MAX: usize = 1_024;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(String);

/// The text is no question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoQuery {
    /// Nothing in it is a word.
    #[error("the question has no word in it")]
    Empty,
    /// Too much.
    #[error("a question has at most {TERMS_MAX} words or phrases and {BYTES_MAX} bytes")]
    TooLong,
}

impl Words {
    /// The question that a text is.
    ///
    /// # Errors
    ///
    /// [`NoQuery`] without a word, or with too many.
    pub fn of(text: &str) -> Result<Self, NoQuery> {
        if text.len() > BYTES_MAX {
            return Err(NoQuery::TooLong);
        }
        let mut terms: Vec<(String, bool)> = Vec::new();
        // Every second piece stands between quotes.
        for (place, piece) in text.split('"').enumerate() {
            if place % 2 == 1 {
                terms.extend(spoken(piece).map(|phrase| (phrase, false)));
            } else {
                let words = piece.split_whitespace().filter_map(spoken);
                terms.extend(words.map(|word| (word, true)));
            }
        }
        if terms.len() > TERMS_MAX {
            return Err(NoQuery::TooLong);
        }
        let last = terms.len().checked_sub(1).ok_or(NoQuery::Empty)?;
        let terms = terms.iter().enumerate().map(|(place, (term, is_word))| {
            // Whoever is still typing has only begun the last word.
            if place == last && *is_word { format!("\"{term}\"*") } else { format!("\"{term}\"") }
        });
        Ok(Self(terms.collect::<Vec<_>>().join(" AND ")))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What of a piece can be searched for; nothing of a piece without a letter or a digit. Without quotes and zeros, inside
/// the index's quotes everything is a text.
fn spoken(piece: &str) -> Option<String> {
    let has_word = piece.chars().any(char::is_alphanumeric);
    has_word.then(|| piece.replace(['"', '\0'], " ").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, then: &str) {
        assert_eq!(Words::of(text).as_ref().map(Words::as_str), Ok(then));
    }

    #[test]
    fn words_are_words_whatever_they_look_like() {
        check("rope", "\"rope\"*");
        check("  two  words ", "\"two\" AND \"words\"*");
        check("\"a phrase\" more", "\"a phrase\" AND \"more\"*");
        check("ends \"in one\"", "\"ends\" AND \"in one\"");
        check("a OR b NOT c*", "\"a\" AND \"OR\" AND \"b\" AND \"NOT\" AND \"c*\"*");
        check("text:x near(y) -z", "\"text:x\" AND \"near(y)\" AND \"-z\"*");
        check("open \"quote", "\"open\" AND \"quote\"");
        check("- rope !", "\"rope\"*");
        check("größe", "\"größe\"*");
    }

    #[test]
    fn what_has_no_word_or_too_many_is_no_question() {
        for text in ["", "  ", "\"\"", "-- !", "\u{0}"] {
            assert_eq!(Words::of(text), Err(NoQuery::Empty), "{text:?}");
        }
        assert_eq!(Words::of(&"a ".repeat(17)), Err(NoQuery::TooLong));
        assert_eq!(Words::of(&"a".repeat(1_025)), Err(NoQuery::TooLong));
        assert!(Words::of(&"a ".repeat(16)).is_ok());
    }
}
