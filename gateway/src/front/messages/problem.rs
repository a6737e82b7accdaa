//! What this API says when something is wrong: one envelope, for a status of its own and inside a stream alike.

use events::model_call::Class;
use serde::Serialize;

/// A provider that has too much to do; a number of this API's own.
const OVERLOADED: u16 = 529;

/// The status on this API of what has `status` on the others.
#[must_use]
pub fn status(status: u16, class: Option<Class>) -> u16 {
    if class == Some(Class::Overloaded) { OVERLOADED } else { status }
}

/// The word of this API for a status.
#[must_use]
pub const fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        OVERLOADED => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// The envelope as JSON. `code` is ours, for programs; clients of this API read past it.
#[must_use]
pub fn body(status: u16, message: &str, code: &str, request_id: Option<&str>) -> String {
    let error = Body { kind: kind(status), message, code };
    let envelope = Envelope { kind: "error", error, request_id };
    // Strings only; serialising them can not fail.
    serde_json::to_string(&envelope).unwrap_or_default()
}

#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Body<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
    code: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_word_that_the_sdks_know() {
        let words: Vec<&str> =
            [400, 401, 403, 404, 409, 413, 429, 500, 502, 503, 504, 529].map(kind).to_vec();
        let invalid = "invalid_request_error";
        let expected = [
            invalid,
            "authentication_error",
            "permission_error",
            "not_found_error",
            invalid,
            "request_too_large",
            "rate_limit_error",
            "api_error",
            "api_error",
            "api_error",
            "timeout_error",
            "overloaded_error",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn the_envelope_names_the_request_where_it_is_known() {
        assert_eq!(
            body(404, "no", "not_found", Some("req_1")),
            r#"{"type":"error","error":{"type":"not_found_error","message":"no","code":"not_found"},"request_id":"req_1"}"#
        );
        assert!(!body(500, "no", "c", None).contains("request_id"));
    }
}
