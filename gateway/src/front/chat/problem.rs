//! What this API says when something is wrong: one envelope, for a status of its own and inside a stream alike, since
//! clients read both with the same code.

use bytes::Bytes;
use serde::Serialize;

/// `{"error": {message, type, param, code}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem<'a> {
    /// For a person.
    pub message: &'a str,
    /// OpenAI's coarse word, such as `invalid_request_error`.
    pub kind: &'a str,
    /// The field that is at fault.
    pub param: Option<&'a str>,
    /// The word that a program may act on.
    pub code: Option<&'a str>,
}

impl Problem<'_> {
    /// The envelope as JSON.
    #[must_use]
    pub fn body(&self) -> Bytes {
        // Strings only; serialising them can not fail.
        Bytes::from(serde_json::to_vec(&self.wire()).unwrap_or_default())
    }

    pub(super) fn wire(&self) -> impl Serialize {
        let Self { message, kind, param, code } = *self;
        Envelope { error: Body { message, kind, param, code } }
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

/// Absent words are null, not left out: the SDKs read all four.
#[derive(Serialize)]
struct Body<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_has_four_words_and_absent_ones_are_null() {
        let problem =
            Problem { message: "no", kind: "invalid_request_error", param: None, code: Some("c") };
        assert_eq!(
            problem.body(),
            r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"c"}}"#
        );
    }
}
