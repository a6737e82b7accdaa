//! A value that no eye should meet by accident: it prints as `redacted`, and is read only where it is said aloud.
//!
//! It guards against a key in a `{:?}` of the structure around it. It does not wipe memory: that is left to the
//! process's end.

use std::fmt;
use std::sync::Arc;

/// A key, a password, a header's value.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes it in.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every call of this is a place to look at in a review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redacted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("sk-planted");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "redacted Some(\n    redacted,\n)");
        assert_eq!(secret.expose(), "sk-planted");
    }
}
