//! The one error class of the product, and what each allows: the policy table.

use serde::{Deserialize, Serialize};

/// The one error class of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// The token has expired and may be refreshed.
    AuthExpired,
    /// The key is wrong.
    AuthInvalid,
    /// Payment is due.
    Billing,
    /// This key asks too often.
    RateLimited,
    /// This key's quota is used up until it resets.
    QuotaExhausted,
    /// The aggregator's upstream is limited; the key is healthy.
    UpstreamRateLimited,
    /// The provider has no room.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// No answer in time.
    Timeout,
    /// The connection failed.
    Transport,
    /// The connection can not be trusted.
    Tls,
    /// The prompt is longer than the model reads.
    ContextOverflow,
    /// The request is larger than the provider takes.
    PayloadTooLarge,
    /// The provider has no such model for this key.
    ModelNotFound,
    /// More tools than the provider takes.
    ToolsTooMany,
    /// The provider can not work with the request.
    InvalidRequest,
    /// Replayed reasoning was refused.
    ReplayRejected,
    /// The content was refused.
    ContentPolicy,
    /// The stream ended without its terminal event.
    StreamTruncated,
    /// An error came inside the stream.
    StreamError,
    /// None of the above.
    Unknown,
}

impl Class {
    /// Every class, in order.
    pub const ALL: [Self; 21] = [
        Self::AuthExpired,
        Self::AuthInvalid,
        Self::Billing,
        Self::RateLimited,
        Self::QuotaExhausted,
        Self::UpstreamRateLimited,
        Self::Overloaded,
        Self::ServerError,
        Self::Timeout,
        Self::Transport,
        Self::Tls,
        Self::ContextOverflow,
        Self::PayloadTooLarge,
        Self::ModelNotFound,
        Self::ToolsTooMany,
        Self::InvalidRequest,
        Self::ReplayRejected,
        Self::ContentPolicy,
        Self::StreamTruncated,
        Self::StreamError,
        Self::Unknown,
    ];

    /// Its word on wires, in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthExpired => "auth_expired",
            Self::AuthInvalid => "auth_invalid",
            Self::Billing => "billing",
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::UpstreamRateLimited => "upstream_rate_limited",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Tls => "tls",
            Self::ContextOverflow => "context_overflow",
            Self::PayloadTooLarge => "payload_too_large",
            Self::ModelNotFound => "model_not_found",
            Self::ToolsTooMany => "tools_too_many",
            Self::InvalidRequest => "invalid_request",
            Self::ReplayRejected => "replay_rejected",
            Self::ContentPolicy => "content_policy",
            Self::StreamTruncated => "stream_truncated",
            Self::StreamError => "stream_error",
            Self::Unknown => "unknown",
        }
    }

    /// Whether another profile of the same provider may fare better.
    #[must_use]
    pub const fn rotates(self) -> bool {
        self.row(OnPolicy::Surface).rotates
    }

    /// The row of the policy table.
    #[must_use]
    pub const fn row(self, on_policy: OnPolicy) -> Row {
        /// What most rows say of the parts that they do not speak of.
        const NEXT: Row =
            Row { mend: None, rotates: false, same: Same::Never, then: Then::Candidate };
        match self {
            Self::AuthExpired | Self::AuthInvalid | Self::Billing | Self::QuotaExhausted => {
                Row { rotates: true, ..NEXT }
            }
            Self::RateLimited => Row { rotates: true, then: Then::CandidateElseWait, ..NEXT },
            Self::UpstreamRateLimited | Self::ModelNotFound => NEXT,
            Self::Overloaded
            | Self::ServerError
            | Self::Timeout
            | Self::Transport
            | Self::StreamTruncated
            | Self::StreamError => Row { same: Same::Retries, ..NEXT },
            Self::ToolsTooMany => Row { mend: Some(Mend::FewerTools), ..NEXT },
            Self::ContextOverflow | Self::PayloadTooLarge => {
                Row { mend: Some(Mend::FoldedContext), then: Then::LargerWindow, ..NEXT }
            }
            Self::ReplayRejected => Row { mend: Some(Mend::WithoutReasoning), ..NEXT },
            Self::InvalidRequest => Row { then: Then::OtherFamily, ..NEXT },
            Self::ContentPolicy | Self::Tls => match on_policy {
                OnPolicy::Surface => Row { then: Then::Nobody, ..NEXT },
                OnPolicy::Fall => NEXT,
            },
            Self::Unknown => Row { same: Same::Once, ..NEXT },
        }
    }
}

/// What is done about content that was refused and connections that can not be trusted: `retry.fallback_on_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnPolicy {
    /// The caller is told.
    Surface,
    /// The next candidate is asked.
    Fall,
}

/// What a class allows, in this order: less is asked for, another profile, the same one again, somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// What may be left out of the request, once.
    pub mend: Option<Mend>,
    /// Whether another profile of the same provider may fare better.
    pub rotates: bool,
    /// How often the same one is asked again.
    pub same: Same,
    /// Who is asked after that.
    pub then: Then,
}

/// What may be left out of a request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// Replayed reasoning.
    WithoutReasoning,
    /// The tools beyond the number that the provider named.
    FewerTools,
    /// Older parts of the conversation, for a synopsis of them.
    FoldedContext,
}

/// How often the same profile is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// Not at all: it would say the same.
    Never,
    /// Once more.
    Once,
    /// `api_max_retries` times.
    Retries,
}

/// Who is asked once the same provider is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The next candidate.
    Candidate,
    /// The next candidate; with none left, whoever is ready first, when that is.
    CandidateElseWait,
    /// The next candidate that may read more.
    LargerWindow,
    /// The next candidate of another API family.
    OtherFamily,
    /// Nobody: no other one could mend it.
    Nobody,
}
