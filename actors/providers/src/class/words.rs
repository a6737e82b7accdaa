//! The codes and words by which providers say what is wrong, each seen in a recording, in a client library's source
//! or in a public report. Codes are exact; words are looked for in lower case, narrow ones first, because a wrong
//! class sends a run the wrong way.

use super::envelope::Envelope;
use events::model_call::Class;
use serde_json::Value;

/// `code`, `type` or `reason` of an error body.
const CODES: [(&str, Class); 67] = [
    ("insufficient_quota", Class::QuotaExhausted),
    ("quota_exceeded", Class::QuotaExhausted),
    ("exceeded_current_quota_error", Class::QuotaExhausted),
    ("usage_limit_reached", Class::QuotaExhausted),
    ("usage_not_included", Class::QuotaExhausted),
    ("billing_hard_limit_reached", Class::Billing),
    ("billing_not_active", Class::Billing),
    ("billing_error", Class::Billing),
    ("insufficient_balance", Class::Billing),
    ("insufficient_credits", Class::Billing),
    ("insufficient_funds", Class::Billing),
    ("rate_limit_exceeded", Class::RateLimited),
    ("rate_limit_error", Class::RateLimited),
    ("rate_limit_reached_error", Class::RateLimited),
    ("too_many_requests", Class::RateLimited),
    ("context_length_exceeded", Class::ContextOverflow),
    ("exceed_context_size_error", Class::ContextOverflow),
    ("context_window_exceeded", Class::ContextOverflow),
    ("model_context_window_exceeded", Class::ContextOverflow),
    ("string_above_max_length", Class::PayloadTooLarge),
    ("request_too_large", Class::PayloadTooLarge),
    ("invalid_api_key", Class::AuthInvalid),
    ("incorrect_api_key", Class::AuthInvalid),
    ("api_key_invalid", Class::AuthInvalid),
    ("invalid_authentication", Class::AuthInvalid),
    ("invalid_authentication_error", Class::AuthInvalid),
    ("incorrect_api_key_error", Class::AuthInvalid),
    ("authentication_error", Class::AuthInvalid),
    ("token_expired", Class::AuthExpired),
    ("expired_token", Class::AuthExpired),
    ("model_not_found", Class::ModelNotFound),
    ("model_not_found_error", Class::ModelNotFound),
    ("unknown_model", Class::ModelNotFound),
    ("no_such_model", Class::ModelNotFound),
    ("deploymentnotfound", Class::ModelNotFound),
    ("content_filter", Class::ContentPolicy),
    ("content_policy_violation", Class::ContentPolicy),
    ("responsibleaipolicyviolation", Class::ContentPolicy),
    ("data_inspection_failed", Class::ContentPolicy),
    ("moderation_blocked", Class::ContentPolicy),
    ("overloaded_error", Class::Overloaded),
    ("engine_overloaded_error", Class::Overloaded),
    ("server_overloaded", Class::Overloaded),
    ("service_unavailable", Class::Overloaded),
    ("server_error", Class::ServerError),
    ("api_error", Class::ServerError),
    ("timeout_error", Class::Timeout),
    ("invalid_encrypted_content", Class::ReplayRejected),
    ("missing_thought_signature", Class::ReplayRejected),
    // AWS. An exception that says nothing of its own (validation, access, not found) is read by its words.
    ("throttlingexception", Class::RateLimited),
    ("toomanyrequestsexception", Class::RateLimited),
    ("servicequotaexceededexception", Class::QuotaExhausted),
    ("unrecognizedclientexception", Class::AuthInvalid),
    ("invalidsignatureexception", Class::AuthInvalid),
    ("signaturedoesnotmatch", Class::AuthInvalid),
    ("incompletesignatureexception", Class::AuthInvalid),
    ("missingauthenticationtokenexception", Class::AuthInvalid),
    ("invalidclienttokenid", Class::AuthInvalid),
    ("expiredtokenexception", Class::AuthExpired),
    ("resourcenotfoundexception", Class::ModelNotFound),
    ("modelnotreadyexception", Class::Overloaded),
    ("serviceunavailableexception", Class::Overloaded),
    ("modeltimeoutexception", Class::Timeout),
    ("internalserverexception", Class::ServerError),
    ("internalfailure", Class::ServerError),
    ("modelerrorexception", Class::ServerError),
    ("modelstreamerrorexception", Class::StreamError),
];

const OVERFLOW: [&str; 10] = [
    "exceed context limit",
    "maximum context length",
    "context length",
    "context_length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "exceeds the maximum number of tokens",
];
const NO_MODEL: [&str; 13] = [
    "does not exist",
    "not exist",
    "not found",
    "no endpoints found",
    "unknown model",
    "is not a valid model",
    "do not have access to",
    "does not have access to",
    "don't have access to",
    "model identifier is invalid",
    // Only by way of a profile: under this name nobody serves it.
    "with on-demand throughput",
    "is not supported for generatecontent",
    // By a subscription, which serves other ones.
    "is not supported when using",
];
const BAD_KEY: [&str; 7] =
    ["incorrect", "invalid", "not valid", "missing", "no api key", "not provided", "unauthorized"];
const POLICY: [&str; 5] = [
    "content policy",
    "content management policy",
    "content filter",
    "moderation",
    "usage policies",
];
const REPLAY: [&str; 7] = [
    "invalid `signature` in `thinking`",
    "`thinking` or `redacted_thinking` blocks",
    "reasoning_content",
    "encrypted content could not be",
    "invalid signature in thinking",
    "thought signature",
    "thought_signature",
];
const QUOTA: [&str; 5] = [
    "exceeded your current quota",
    "quota exceeded",
    "usage limit",
    "quota has been",
    "free-models-per-day",
];
const MONEY: [&str; 9] = [
    "credit balance",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "billing",
    "payment required",
    "have any credits",
    "all available credits",
    "spending limit",
];

fn any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn lower(envelope: &Envelope) -> String {
    envelope.message.to_lowercase()
}

/// The class that the body's code, type or reason names.
pub(super) fn coded(envelope: &Envelope) -> Option<Class> {
    if envelope.code == "array_above_max_length" {
        let tools = envelope.param == "tools" || lower(envelope).contains("tools");
        return Some(if tools { Class::ToolsTooMany } else { Class::InvalidRequest });
    }
    let reasons =
        envelope.details().filter_map(|detail| detail.get("reason").and_then(Value::as_str));
    let reasons = reasons.map(str::to_lowercase);
    let mut said = [envelope.code.clone(), envelope.kind.clone()].into_iter().chain(reasons);
    said.find_map(|word| CODES.iter().find(|(code, _)| *code == word).map(|(_, class)| *class))
}

/// The three meanings of 429, and the two that are not about rates at all.
pub(super) fn limited(envelope: &Envelope) -> Class {
    if envelope.upstream.is_some() {
        return Class::UpstreamRateLimited;
    }
    let text = lower(envelope);
    // One request above the limit of a minute: waiting never helps, a shorter prompt does.
    if text.contains("request too large") {
        return Class::ContextOverflow;
    }
    let quotas: Vec<&str> = envelope
        .details()
        .filter_map(|detail| detail.get("violations").and_then(Value::as_array))
        .flatten()
        .filter_map(|violation| violation.get("quotaId").and_then(Value::as_str))
        .collect();
    if !quotas.is_empty() {
        let daily = quotas.iter().any(|id| id.contains("PerDay"));
        return if daily { Class::QuotaExhausted } else { Class::RateLimited };
    }
    if let Some(class @ (Class::QuotaExhausted | Class::Billing | Class::Overloaded)) =
        coded(envelope)
    {
        class
    } else if any(&text, &QUOTA) {
        Class::QuotaExhausted
    } else if any(&text, &MONEY) {
        Class::Billing
    } else if text.contains("overloaded") {
        Class::Overloaded
    } else {
        Class::RateLimited
    }
}

/// The status that an error inside a success would have had, as far as its type says.
pub(super) fn implied(envelope: &Envelope) -> Option<u16> {
    let said = [envelope.code.as_str(), envelope.kind.as_str()];
    let is = |words: [&str; 2]| said.iter().any(|word| words.contains(word));
    if is(["invalid_request_error", "validationexception"]) {
        Some(400)
    } else if is(["permission_error", "accessdeniedexception"]) {
        Some(403)
    } else if is(["not_found_error", "notfounderror"]) {
        Some(404)
    } else {
        None
    }
}

/// Whether a 401 speaks of a token that was good for a while.
pub(super) fn expired(envelope: &Envelope) -> bool {
    let text = lower(envelope);
    text.contains("token") && text.contains("expired")
}

/// 403: a key, a model, a content or money; what speaks of none of them is a request that this provider refuses.
pub(super) fn forbidden(envelope: &Envelope) -> Class {
    let text = lower(envelope);
    if any(&text, &POLICY) || text.contains("flagged") {
        Class::ContentPolicy
    } else if any(&text, &MONEY) || any(&text, &QUOTA) {
        Class::Billing
    } else if text.contains("model") && any(&text, &NO_MODEL) {
        Class::ModelNotFound
    } else if any(&text, &["api key", "api-key", "api_key", "credential", "token", "authenticat"]) {
        Class::AuthInvalid
    } else {
        Class::InvalidRequest
    }
}

/// 404: the model, or else a path that this provider does not serve.
pub(super) fn missing(envelope: &Envelope) -> Class {
    let text = lower(envelope);
    let about_model = any(&text, &["model", "deployment", "endpoints found"]);
    if about_model { Class::ModelNotFound } else { Class::InvalidRequest }
}

/// What the words alone say, for statuses that say little.
pub(super) fn spoken(envelope: &Envelope) -> Option<Class> {
    let text = lower(envelope);
    let about_key = any(&text, &["api key", "api-key", "api_key"]);
    let about_tools =
        text.contains("tools") && any(&text, &["too many", "maximum", "at most", "too long"]);
    if any(&text, &OVERFLOW) {
        Some(Class::ContextOverflow)
    } else if about_key && any(&text, &BAD_KEY) {
        Some(Class::AuthInvalid)
    } else if about_tools {
        Some(Class::ToolsTooMany)
    } else if any(&text, &REPLAY) {
        Some(Class::ReplayRejected)
    } else if any(&text, &POLICY) {
        Some(Class::ContentPolicy)
    } else if text.contains("model") && any(&text, &NO_MODEL) {
        Some(Class::ModelNotFound)
    } else if any(&text, &MONEY) {
        Some(Class::Billing)
    } else if text.contains("overloaded") {
        Some(Class::Overloaded)
    } else {
        None
    }
}
