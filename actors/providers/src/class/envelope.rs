//! The error body of a provider, whatever shape it has: `{"error":{…}}`, `{"error":"…"}`, `{"detail":…}`, a bare
//! message, an array of one, or no JSON at all. Reading one never fails; it may only find less.

use crate::secret::cut;
use serde_json::Value;

/// Bytes of words that are kept of a body without a known shape.
const WORDS_BYTES_MAX: usize = 4_096;

/// What an error body says. Empty where it says nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Envelope {
    /// `code`, in lower case; numbers as text.
    pub(crate) code: String,
    /// `type`, in lower case.
    pub(crate) kind: String,
    /// What the error is about: `param`.
    pub(crate) param: String,
    /// The words for a person.
    pub(crate) message: String,
    /// The upstream provider that an aggregator speaks of.
    pub(crate) upstream: Option<String>,
    /// The whole error as parsed, for the hints inside.
    pub(crate) error: Value,
}

impl Envelope {
    /// Reads a body.
    pub(crate) fn read(body: &[u8]) -> Self {
        serde_json::from_slice::<Value>(body).map_or_else(
            |_| {
                let text = String::from_utf8_lossy(body);
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                Self { message: cut(&words, WORDS_BYTES_MAX).to_owned(), ..Self::default() }
            },
            |value| Self::of(&value),
        )
    }

    /// Reads a body that is already parsed.
    pub(crate) fn of(root: &Value) -> Self {
        let root = root.as_array().and_then(|array| array.first()).unwrap_or(root);
        let error = root.get("error").filter(|error| !error.is_null());
        let inner = error.or_else(|| root.get("detail")).unwrap_or(root);
        // `{"code": …, "error": "words"}` keeps its code beside the words.
        let field =
            |name: &str| inner.get(name).or_else(|| root.get(name)).map(word).unwrap_or_default();
        let message = match inner {
            Value::String(words) => words.clone(),
            Value::Array(list) => {
                let parts =
                    list.iter().map(|item| item.get("msg").map_or_else(|| word(item), word));
                parts.collect::<Vec<_>>().join("; ")
            }
            Value::Object(_) => field("message"),
            Value::Null | Value::Bool(_) | Value::Number(_) => word(inner),
        };
        let metadata = inner.get("metadata");
        let raw = metadata.and_then(|metadata| metadata.get("raw")).map(word).unwrap_or_default();
        let message = if raw.is_empty() { message } else { format!("{message}: {raw}") };
        Self {
            code: field("code").to_lowercase(),
            kind: field("type").to_lowercase(),
            param: field("param"),
            message,
            upstream: metadata
                .and_then(|metadata| metadata.get("provider_name"))
                .map(word)
                .filter(|name| !name.is_empty()),
            error: inner.clone(),
        }
    }

    /// Whether a parsed body of a 200 is an error and no answer.
    pub(crate) fn is_error(root: &Value) -> bool {
        let says = |name: &str| root.get(name).is_some_and(|value| !value.is_null());
        let is_kind =
            |kind: &str| root.get("object").or_else(|| root.get("type")).is_some_and(|v| v == kind);
        says("error") || (!says("choices") && (says("detail") || is_kind("error")))
    }

    /// The HTTP status that the body itself names: its numeric code.
    pub(crate) fn status(&self) -> Option<u16> {
        let inside = self.error.get("status_code").or_else(|| self.error.get("raw_status_code"));
        let code = inside.and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        code.or_else(|| self.code.parse().ok()).filter(|status| (400..600).contains(status))
    }

    /// The entries of `details`, as Google's APIs and their twins write them.
    pub(crate) fn details(&self) -> impl Iterator<Item = &Value> {
        self.error.get("details").and_then(Value::as_array).into_iter().flatten()
    }
}

/// A value as words: text as it is, a number in digits, nothing for null.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, code: &str, kind: &str, message: &str) {
        let found = Envelope::read(body.as_bytes());
        assert_eq!(
            (found.code.as_str(), found.kind.as_str(), found.message.as_str()),
            (code, kind, message)
        );
    }

    #[test]
    fn every_shape_is_read() {
        check(r#"{"error":{"message":"m","type":"T","param":null,"code":"C"}}"#, "c", "t", "m");
        check(r#"{"error":{"message":"m","code":429}}"#, "429", "", "m");
        check(r#"{"code":"The model is gone","error":"words"}"#, "the model is gone", "", "words");
        check(r#"{"error":"bare words"}"#, "", "", "bare words");
        check(r#"{"detail":"words"}"#, "", "", "words");
        check(r#"{"detail":[{"msg":"a","loc":["body"]},{"msg":"b"}]}"#, "", "", "a; b");
        check(
            r#"{"object":"error","message":"m","type":"BadRequest","code":400}"#,
            "400",
            "badrequest",
            "m",
        );
        check(r#"[{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}]"#, "404", "", "m");
        check(r#"{"error":{"message":"e","metadata":{"raw":"r"}}}"#, "", "", "e: r");
        check("<html>\n bad  gateway </html>", "", "", "<html> bad gateway </html>");
        for nothing in ["", "null", "{}", "[]", r#"{"error":null}"#] {
            check(nothing, "", "", "");
        }
    }

    #[test]
    fn a_body_may_name_its_own_status() {
        let status = |body: &str| Envelope::read(body.as_bytes()).status();
        assert_eq!(status(r#"{"error":{"code":429}}"#), Some(429));
        assert_eq!(status(r#"{"error":{"code":"503"}}"#), Some(503));
        assert_eq!(status(r#"{"raw_status_code":422,"message":"m"}"#), Some(422));
        assert_eq!(status(r#"{"error":{"code":1113}}"#), None);
        assert_eq!(status(r#"{"error":{"code":"insufficient_quota"}}"#), None);
    }

    #[test]
    fn an_answer_is_no_error() {
        let is_error = |body: &str| Envelope::is_error(&serde_json::from_str(body).unwrap());
        assert!(!is_error(r#"{"choices":[],"error":null,"usage":{}}"#));
        assert!(!is_error(r#"{"choices":[{"detail":1}],"detail":"fine"}"#));
        assert!(is_error(r#"{"choices":[{}],"error":{"code":400}}"#));
        assert!(is_error(r#"{"detail":"no"}"#));
        assert!(is_error(r#"{"object":"error","message":"no"}"#));
    }
}
