//! Replies of providers and the class each must get. Hand-written after recordings, client sources and reports.

use super::*;

#[track_caller]
fn check(status: u16, body: &str, then: Class) {
    let headers = HeaderMap::new();
    let reply = Reply { status, headers: &headers, body: body.as_bytes(), now: None };
    assert_eq!(classify(&reply, None).class, then, "{status} {body}");
}

fn error(code: &str, kind: &str, message: &str) -> String {
    serde_json::json!({ "error": { "code": code, "type": kind, "message": message, "param": null } }).to_string()
}

#[test]
fn a_429_has_three_meanings() {
    check(
        429,
        &error("rate_limit_exceeded", "tokens", "Rate limit reached for m. Try again in 1s."),
        Class::RateLimited,
    );
    check(429, "", Class::RateLimited);
    check(
        429,
        &error(
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, check billing",
        ),
        Class::QuotaExhausted,
    );
    check(
        429,
        r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached"}}"#,
        Class::QuotaExhausted,
    );
    let upstream = r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"provider_name":"Google","raw":"is temporarily rate-limited upstream"}}}"#;
    check(429, upstream, Class::UpstreamRateLimited);
}

#[test]
fn a_429_can_be_something_else_altogether() {
    check(
        429,
        &error(
            "rate_limit_exceeded",
            "tokens",
            "Request too large for m on TPM: Limit 10, Requested 20",
        ),
        Class::ContextOverflow,
    );
    check(
        429,
        &error("engine_overloaded_error", "", "The engine is currently overloaded"),
        Class::Overloaded,
    );
    check(429, &error("1113", "", "Insufficient balance or no resource package"), Class::Billing);
    let quota = |id: &str| {
        let details = serde_json::json!([{ "violations": [{ "quotaId": id }] }]);
        serde_json::json!({ "error": { "code": 429, "message": "You exceeded your current quota", "details": details } })
    };
    check(429, &quota("GenerateRequestsPerMinutePerProject").to_string(), Class::RateLimited);
    check(429, &quota("GenerateRequestsPerDayPerProject").to_string(), Class::QuotaExhausted);
}

#[test]
fn a_bad_key_shows_at_four_statuses() {
    check(
        401,
        &error("invalid_api_key", "invalid_request_error", "Incorrect API key provided"),
        Class::AuthInvalid,
    );
    check(401, "", Class::AuthInvalid);
    check(
        401,
        r#"{"detail":"Could not parse your authentication token. Please try signing in again."}"#,
        Class::AuthInvalid,
    );
    check(401, r#"{"detail":"Provided authentication token is expired."}"#, Class::AuthExpired);
    check(
        401,
        &error("invalid_request_error", "authentication_error", "Authentication Fails"),
        Class::AuthInvalid,
    );
    check(
        400,
        r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***y."}"#,
        Class::AuthInvalid,
    );
    check(
        400,
        r#"{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}],"message":"m","status":"INVALID_ARGUMENT"}}"#,
        Class::AuthInvalid,
    );
    check(403, r#"{"error":"API key is disabled"}"#, Class::AuthInvalid);
    check(403, r#"{"message":"country not supported"}"#, Class::InvalidRequest);
    check(
        403,
        r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
        Class::ContentPolicy,
    );
    check(403, &error("", "", "Project does not have access to model m"), Class::ModelNotFound);
}

#[test]
fn money_is_billing() {
    check(
        402,
        r#"{"error":{"message":"Insufficient Balance","code":"invalid_request_error"}}"#,
        Class::Billing,
    );
    check(
        400,
        &error("billing_hard_limit_reached", "", "Billing hard limit has been reached"),
        Class::Billing,
    );
}

#[test]
fn a_missing_model_is_told_from_a_wrong_path() {
    check(
        404,
        &error("model_not_found", "invalid_request_error", "The model `m` does not exist"),
        Class::ModelNotFound,
    );
    check(
        404,
        r#"{"error":{"message":"model \"m\" not found, try pulling it first"}}"#,
        Class::ModelNotFound,
    );
    check(
        404,
        r#"{"error":{"code":404,"message":"No endpoints found for m."}}"#,
        Class::ModelNotFound,
    );
    check(404, "404 page not found", Class::InvalidRequest);
    check(
        400,
        r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#,
        Class::ModelNotFound,
    );
}

#[test]
fn a_long_prompt_shows_in_many_shapes() {
    check(
        400,
        &error("context_length_exceeded", "invalid_request_error", "m"),
        Class::ContextOverflow,
    );
    check(
        400,
        r#"{"error":{"code":400,"message":"request (2009 tokens) exceeds","n_ctx":512,"n_prompt_tokens":2009,"type":"exceed_context_size_error"}}"#,
        Class::ContextOverflow,
    );
    check(
        400,
        r#"{"object":"error","message":"This model's maximum context length is 8192 tokens","code":400}"#,
        Class::ContextOverflow,
    );
    check(413, r#"{"error":"prompt is too long"}"#, Class::ContextOverflow);
    check(
        500,
        r#"{"error":{"message":"the request exceeds the available context size"}}"#,
        Class::ContextOverflow,
    );
    check(413, "", Class::PayloadTooLarge);
    check(400, &error("string_above_max_length", "", "string too long"), Class::PayloadTooLarge);
}

#[test]
fn too_many_tools_are_told_from_other_arrays() {
    let array = |param: &str| {
        serde_json::json!({ "error": { "code": "array_above_max_length", "param": param, "message": "Array too long. Expected maximum length 128" } }).to_string()
    };
    check(400, &array("tools"), Class::ToolsTooMany);
    check(400, &array("stop"), Class::InvalidRequest);
    check(400, r#"{"error":"Too many tools: at most 64"}"#, Class::ToolsTooMany);
}

#[test]
fn the_rest_goes_by_status() {
    check(
        400,
        &error("", "invalid_request_error", "temperature must be below 2"),
        Class::InvalidRequest,
    );
    check(400, r#"{"detail":"Stream must be set to true"}"#, Class::InvalidRequest);
    check(422, r#"{"detail":[{"msg":"field required"}]}"#, Class::InvalidRequest);
    check(400, &error("content_filter", "", "filtered"), Class::ContentPolicy);
    check(
        400,
        r#"{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API."}}"#,
        Class::ReplayRejected,
    );
    check(302, "", Class::InvalidRequest);
    check(408, "", Class::Timeout);
    check(409, "", Class::ServerError);
    check(500, &error("", "server_error", "boom"), Class::ServerError);
    check(502, "<html>bad gateway</html>", Class::ServerError);
    check(503, "", Class::Overloaded);
    check(504, "", Class::Timeout);
    check(529, &error("", "overloaded_error", "Overloaded"), Class::Overloaded);
    check(101, "", Class::Unknown);
}

#[test]
fn an_error_inside_a_200_goes_by_what_it_says() {
    let headers = HeaderMap::new();
    let reply = Reply { status: 200, headers: &headers, body: b"", now: None };
    let inside = |body: &str, began| {
        classify_inside(&serde_json::from_str(body).unwrap(), &reply, began, None)
    };
    let limited = r#"{"error":{"message":"Rate limit reached mid stream","type":"rate_limit_error","code":429}}"#;
    assert_eq!(inside(limited, Began::Yes).class, Class::RateLimited);
    let cut = r#"{"error":{"code":400,"message":"Token limit reached"},"choices":[]}"#;
    assert_eq!(inside(cut, Began::Yes).class, Class::StreamError);
    assert_eq!(inside(cut, Began::No).class, Class::InvalidRequest);
    assert_eq!(inside(r#"{"error":"odd"}"#, Began::No).class, Class::Unknown);
    assert_eq!(
        inside(r#"{"error":{"code":502,"message":"x"}}"#, Began::Yes).class,
        Class::ServerError
    );
    assert_eq!(inside(cut, Began::No).charge, Charge::Unknown);
}

#[test]
fn only_a_refusal_before_work_is_free() {
    let headers = HeaderMap::new();
    let charge = |status, body: &str| {
        classify(&Reply { status, headers: &headers, body: body.as_bytes(), now: None }, None)
            .charge
    };
    for status in [302, 400, 401, 403, 404, 413, 422, 429] {
        assert_eq!(charge(status, ""), Charge::NotCharged, "{status}");
    }
    for status in [408, 499, 500, 502, 503, 529] {
        assert_eq!(charge(status, ""), Charge::Unknown, "{status}");
    }
    assert_eq!(
        charge(400, &error("content_filter", "", "")),
        Charge::Unknown,
        "filtered content was read"
    );
}

#[test]
fn words_are_kept_without_keys_and_short() {
    let headers = HeaderMap::from_iter([(
        reqwest::header::HeaderName::from_static("x-request-id"),
        reqwest::header::HeaderValue::from_static("req_1"),
    )]);
    let key = Secret::new("topsecret".to_owned());
    let body = error("", "", &format!("key topsecret is bad {}", "x".repeat(9_000)));
    let failure = classify(
        &Reply { status: 401, headers: &headers, body: body.as_bytes(), now: None },
        Some(&key),
    );
    assert!(failure.message.starts_with("key [redacted] is bad"), "{}", failure.message);
    assert_eq!(failure.message.len(), MESSAGE_BYTES_MAX);
    assert_eq!(failure.request_id.as_deref(), Some("req_1"));
    let empty = classify(&Reply { status: 502, headers: &headers, body: b"", now: None }, None);
    assert_eq!(empty.to_string(), "server_error: HTTP 502 without a message");
}

#[test]
fn aws_names_its_errors_in_a_header_and_says_the_rest_in_words() {
    let check = |status: u16, name: &'static str, message: &str, then: Class| {
        let headers = HeaderMap::from_iter([(
            reqwest::header::HeaderName::from_static("x-amzn-errortype"),
            reqwest::header::HeaderValue::from_static(name),
        )]);
        let body = serde_json::json!({ "message": message }).to_string();
        let reply = Reply { status, headers: &headers, body: body.as_bytes(), now: None };
        assert_eq!(classify(&reply, None).class, then, "{status} {name} {message}");
    };
    let validation = "ValidationException:http://internal.amazon.com/coral/";
    check(400, validation, "Input is too long for requested model.", Class::ContextOverflow);
    check(400, validation, "The provided model identifier is invalid.", Class::ModelNotFound);
    check(400, validation, "messages: roles must alternate", Class::InvalidRequest);
    let access = "AccessDeniedException";
    check(
        403,
        access,
        "You don't have access to the model with the specified model ID.",
        Class::ModelNotFound,
    );
    check(403, access, "Bearer token is not valid", Class::AuthInvalid);
    check(403, "InvalidSignatureException", "Signature expired", Class::AuthInvalid);
    check(429, "ThrottlingException", "Too many requests", Class::RateLimited);
    check(429, "ModelNotReadyException", "", Class::Overloaded);
    check(400, "ServiceQuotaExceededException", "", Class::QuotaExhausted);
    check(408, "ModelTimeoutException", "", Class::Timeout);
    check(424, "ModelErrorException", "", Class::ServerError);
    check(503, "ServiceUnavailableException", "", Class::Overloaded);
}

#[test]
fn gemini_says_the_class_in_its_words() {
    let google = |code: u16, status: &str, message: &str| {
        serde_json::json!([{ "error": { "code": code, "status": status, "message": message } }])
            .to_string()
    };
    check(
        400,
        &google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        Class::ContextOverflow,
    );
    check(
        400,
        &google(
            400,
            "INVALID_ARGUMENT",
            "Function call is missing a thought_signature in functionCall parts.",
        ),
        Class::ReplayRejected,
    );
    check(
        400,
        &google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        Class::InvalidRequest,
    );
    check(
        403,
        &google(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers. Please use API Key",
        ),
        Class::AuthInvalid,
    );
    check(500, &google(500, "INTERNAL", "An internal error has occurred."), Class::ServerError);
    check(503, &google(503, "UNAVAILABLE", "The model is overloaded."), Class::Overloaded);
    check(504, &google(504, "DEADLINE_EXCEEDED", ""), Class::Timeout);
}
