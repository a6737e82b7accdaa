//! From what can go wrong below to the code that a caller is told.

use super::{ApiError, Attempt, Code};
use actors::order::NoDecision;
use events::model_call::Class;
use events::quantity::Millis;
use events::{about, artifact, budget, credential, gate, grant, key, run, session, settings};
use projections::ReadError;
use std::error::Error;
use store::StoreError;
use store::vault::VaultError;

impl From<NoDecision> for ApiError {
    fn from(none: NoDecision) -> Self {
        let code = match none {
            NoDecision::Busy { .. } => Code::Busy,
            NoDecision::Parked { .. } => Code::Parked,
            NoDecision::Lost => Code::Lost,
            NoDecision::TimedOut | NoDecision::DeadlinePassed => Code::TimedOut,
            NoDecision::Expired => Code::ExpiredCommand,
            NoDecision::TooLarge { .. } => Code::PayloadTooLarge,
            NoDecision::NobodyThere | NoDecision::Unsupported { .. } => Code::StoreUnavailable,
        };
        let error = Self::new(code, none.to_string());
        match none {
            NoDecision::Busy { retry_after } => error.retry_after(retry_after),
            NoDecision::Parked { .. }
            | NoDecision::Lost
            | NoDecision::TimedOut
            | NoDecision::DeadlinePassed
            | NoDecision::Expired
            | NoDecision::TooLarge { .. }
            | NoDecision::NobodyThere
            | NoDecision::Unsupported { .. } => error,
        }
    }
}

impl From<run::Refusal> for ApiError {
    fn from(refusal: run::Refusal) -> Self {
        let code = match refusal {
            run::Refusal::NoSuchRun => Code::NotFound,
            run::Refusal::NoSuchApproval(_) => Code::NotFound,
            run::Refusal::NotStarted | run::Refusal::NothingHeld | run::Refusal::NotWaiting => {
                Code::RunNotWaiting
            }
            run::Refusal::Ended => Code::RunEnded,
            run::Refusal::OtherInput | run::Refusal::OtherInvocation => Code::IdempotencyConflict,
            run::Refusal::Unresolved(_) => Code::UnresolvedInvocation,
            run::Refusal::Halted(_) | run::Refusal::NotHalted | run::Refusal::UnderWay => {
                Code::RunHalted
            }
            run::Refusal::AnsweredBefore(_) | run::Refusal::OtherSubject => Code::ApprovalConflict,
            run::Refusal::ConsentNeeded(_) => Code::Forbidden,
            run::Refusal::ToolBudget { .. } => Code::ToolBudgetExhausted,
            run::Refusal::RequestIdUsed(_) | run::Refusal::Leased(_) | run::Refusal::Settled(_) => {
                Code::ReconcileConflict
            }
            run::Refusal::NoSuchCall(_)
            | run::Refusal::NoSuchSlice(_)
            | run::Refusal::NoSuchTool(_)
            | run::Refusal::ResultMissing(_)
            | run::Refusal::NoAnswer
            | run::Refusal::NotMediated(_)
            | run::Refusal::NotARequestId
            | run::Refusal::ResultStray(_) => Code::InvalidRequest,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<session::Refusal> for ApiError {
    fn from(refusal: session::Refusal) -> Self {
        let code = match refusal {
            session::Refusal::Busy | session::Refusal::InboxFull => Code::SessionBusy,
            session::Refusal::HistoryMoved { .. } => Code::HistoryMismatch,
            session::Refusal::Full
            | session::Refusal::IsClosed
            | session::Refusal::Exists
            | session::Refusal::NoScope => Code::InvalidRequest,
            session::Refusal::NotHolder(_) => Code::RunEnded,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<settings::Refusal> for ApiError {
    fn from(refusal: settings::Refusal) -> Self {
        let code = match refusal {
            settings::Refusal::NoWayBack { .. } => Code::NodeRefused,
            settings::Refusal::Mismatch { .. } | settings::Refusal::BadName => Code::ConfigError,
            settings::Refusal::OutOfRange(_) | settings::Refusal::TooManyRevisions => {
                Code::InvalidRequest
            }
        };
        let error = Self::new(code, refusal.to_string());
        match refusal {
            settings::Refusal::OutOfRange(range) => error.param(range.field.name()),
            settings::Refusal::NoWayBack { .. }
            | settings::Refusal::Mismatch { .. }
            | settings::Refusal::BadName
            | settings::Refusal::TooManyRevisions => error,
        }
    }
}

impl From<grant::Refusal> for ApiError {
    fn from(refusal: grant::Refusal) -> Self {
        let code = match refusal {
            grant::Refusal::NoSuchGrant => Code::NotFound,
            grant::Refusal::Exists | grant::Refusal::Full => Code::GrantConflict,
            grant::Refusal::Past | grant::Refusal::BadTool | grant::Refusal::BadPattern(_) => {
                Code::InvalidRequest
            }
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<gate::Refusal> for ApiError {
    fn from(refusal: gate::Refusal) -> Self {
        let code = match refusal {
            gate::Refusal::NoSuchGate(_) => Code::NotFound,
            gate::Refusal::TakesNone(_)
            | gate::Refusal::Hard(_)
            | gate::Refusal::ReadOnly(_)
            | gate::Refusal::IsOpen(_)
            | gate::Refusal::Full => Code::GateRefused,
            gate::Refusal::BadName | gate::Refusal::BadEvidence | gate::Refusal::BadReason => {
                Code::InvalidRequest
            }
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<key::Refusal> for ApiError {
    fn from(refusal: key::Refusal) -> Self {
        let code = match refusal {
            key::Refusal::NoSuchKey => Code::NotFound,
            key::Refusal::Exists => Code::InvalidRequest,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<budget::Refusal> for ApiError {
    fn from(refusal: budget::Refusal) -> Self {
        let code = match &refusal {
            budget::Refusal::Short(short) => return Self::short(short),
            budget::Refusal::Crowded => Code::Busy,
            budget::Refusal::RunEnded => Code::RunEnded,
            budget::Refusal::BadTerms | budget::Refusal::Full => Code::InvalidRequest,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<artifact::Refusal> for ApiError {
    fn from(refusal: artifact::Refusal) -> Self {
        let code = match refusal {
            artifact::Refusal::Moved { .. } => Code::ArtifactMoved,
            artifact::Refusal::TooLong { .. } => Code::PayloadTooLarge,
            artifact::Refusal::ManyVersions { .. } | artifact::Refusal::Full => {
                Code::InvalidRequest
            }
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<about::Refusal> for ApiError {
    fn from(refusal: about::Refusal) -> Self {
        let about::Refusal::TooLong = refusal;
        Self::new(Code::InvalidRequest, refusal.to_string())
    }
}

impl From<credential::Refusal> for ApiError {
    fn from(refusal: credential::Refusal) -> Self {
        let code = match refusal {
            credential::Refusal::NoSuchProfile => Code::NotFound,
            credential::Refusal::Exists | credential::Refusal::NotNow => Code::CredentialConflict,
            credential::Refusal::Full | credential::Refusal::BadName => Code::InvalidRequest,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        let code = match error {
            VaultError::Conflict { .. } => Code::CredentialConflict,
            VaultError::Tampered { .. }
            | VaultError::Swapped { .. }
            | VaultError::Strange { .. } => Code::Integrity,
            VaultError::TooLarge { .. } | VaultError::NotHere { .. } => Code::InvalidRequest,
            VaultError::NoKey { .. }
            | VaultError::WrongKey { .. }
            | VaultError::File(_)
            | VaultError::Format { .. }
            | VaultError::Keys(_) => Code::VaultUnusable,
            VaultError::Outage(_) => Code::StoreUnavailable,
            VaultError::NoChance => Code::Internal,
        };
        // No variant's text holds a value.
        Self::new(code, super::chain(&error))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { position, .. } => {
                let why = format!(
                    "the journal is damaged at position {position}: run `piton journal verify`"
                );
                Self::new(Code::Integrity, why).because(error)
            }
            StoreError::NoBlob(_) | StoreError::Erased(_) => {
                Self::new(Code::Integrity, format!("{error}: run `piton journal verify`"))
            }
            StoreError::SnapshotTooLarge { .. } => Self::internal(error),
            StoreError::Outage(_) | StoreError::Sqlite(_) | StoreError::Closed => {
                let why = "the journal can not be read now: ask again in a moment";
                Self::new(Code::StoreUnavailable, why).because(error)
            }
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let why = "the read models can not be read now: ask again in a moment";
        Self::new(Code::StoreUnavailable, why).because(error)
    }
}

/// Type and code of a failed model call in the words of `OpenAI`'s API; none where it has no word of its own.
pub(super) const fn words(class: Class) -> Option<(&'static str, &'static str)> {
    match class {
        Class::RateLimited => Some(("rate_limit_error", "rate_limit_exceeded")),
        Class::UpstreamRateLimited => Some(("rate_limit_error", "upstream_rate_limited")),
        Class::QuotaExhausted => Some(("insufficient_quota", "insufficient_quota")),
        Class::ContextOverflow => Some(("invalid_request_error", "context_length_exceeded")),
        Class::PayloadTooLarge => Some(("invalid_request_error", "payload_too_large")),
        Class::ToolsTooMany => Some(("invalid_request_error", "array_above_max_length")),
        Class::InvalidRequest => Some(("invalid_request_error", "invalid_request")),
        Class::ModelNotFound => Some(("invalid_request_error", "model_not_found")),
        Class::ContentPolicy => Some(("invalid_request_error", "content_policy_violation")),
        Class::AuthExpired
        | Class::AuthInvalid
        | Class::Billing
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::Transport
        | Class::Tls
        | Class::ReplayRejected
        | Class::StreamTruncated
        | Class::StreamError
        | Class::Unknown => None,
    }
}

impl ApiError {
    /// Stored bytes that this build can not read.
    #[must_use]
    pub fn unreadable(cause: impl Error + Send + Sync + 'static) -> Self {
        let why = "stored bytes do not read: run `piton journal verify`, or start the newer build that wrote them";
        Self::new(Code::Integrity, why).because(cause)
    }

    /// What is left when a model call failed and nothing was left to try. The status is the provider's where a client
    /// knows how to take it.
    #[must_use]
    pub fn of_class(class: Class, detail: &str) -> Self {
        Self::of_attempts(class, detail, vec![])
    }

    /// The same, with what was tried before it was given up.
    #[must_use]
    pub fn of_attempts(class: Class, detail: &str, attempts: Vec<Attempt>) -> Self {
        let said = if detail.is_empty() { "no more was said" } else { detail };
        let tried = summary(&attempts);
        let message = format!("the model call failed ({}): {said}{tried}", class.name());
        let error = Self::new(Code::ProvidersExhausted, message).class(class);
        let status = match class {
            Class::RateLimited | Class::QuotaExhausted | Class::UpstreamRateLimited => 429,
            Class::ContextOverflow
            | Class::InvalidRequest
            | Class::ToolsTooMany
            | Class::ContentPolicy => 400,
            Class::PayloadTooLarge => 413,
            Class::ModelNotFound => 404,
            Class::Overloaded => 503,
            Class::Timeout => 504,
            // The provider's word on its own key is no word on the caller's.
            Class::AuthExpired
            | Class::AuthInvalid
            | Class::Billing
            | Class::ServerError
            | Class::Transport
            | Class::Tls
            | Class::ReplayRejected
            | Class::StreamTruncated
            | Class::StreamError
            | Class::Unknown => 502,
        };
        let status =
            axum::http::StatusCode::from_u16(status).unwrap_or(axum::http::StatusCode::BAD_GATEWAY);
        let error = error.provider(status, attempts);
        match class {
            Class::RateLimited | Class::Overloaded => error.retry_after(Millis(1_000)),
            Class::AuthExpired
            | Class::AuthInvalid
            | Class::Billing
            | Class::QuotaExhausted
            | Class::UpstreamRateLimited
            | Class::ServerError
            | Class::Timeout
            | Class::Transport
            | Class::Tls
            | Class::ContextOverflow
            | Class::PayloadTooLarge
            | Class::ModelNotFound
            | Class::ToolsTooMany
            | Class::InvalidRequest
            | Class::ReplayRejected
            | Class::ContentPolicy
            | Class::StreamTruncated
            | Class::StreamError
            | Class::Unknown => error,
        }
    }
}
/// Attempts that a message names (8); the others stand in the run.
const NAMED_MAX: usize = 8;

/// What was tried, for whoever reads only the message; nothing where that was one attempt.
fn summary(attempts: &[Attempt]) -> String {
    if attempts.len() < 2 {
        return String::new();
    }
    let one = |attempt: &Attempt| {
        let Attempt { provider, model, profile, class, status, .. } = attempt;
        let profile = profile.as_ref().map_or_else(String::new, |name| format!(" [{name}]"));
        let status = status.map_or_else(String::new, |status| format!(" {status}"));
        format!("{provider}:{model}{profile} {class}{status}")
    };
    let named: Vec<String> = attempts.iter().take(NAMED_MAX).map(one).collect();
    let more = match attempts.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; tried {}{more}", named.join(", "))
}
