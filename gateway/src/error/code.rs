//! Every error that a caller can meet, in one table: code, status, exit code, type for `OpenAI` clients, and whether a
//! repeat can help. The runbook's anchor is the code itself.
//!
//! A code without one of them does not compile, and one without a page in `deploy/runbooks/errors.md` fails a test.

use super::Exit;
use axum::http::StatusCode;

/// Whether the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It would fail in the same way.
    Useless,
    /// Nothing was done; a repeat may be accepted.
    Harmless,
    /// It may have been done: only a repeat with the same `Idempotency-Key` does nothing twice.
    WithKey,
}

/// Where a code's page is.
const RUNBOOK: &str = "deploy/runbooks/errors.md";

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $text:literal $status:ident $exit:ident $kind:literal $repeat:ident;)*) => {
        /// Names an error on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// Its word on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $text,)* }
            }

            /// The status of the answer.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status,)* }
            }

            /// How the command line ends.
            #[must_use]
            pub const fn exit(self) -> Exit {
                match self { $(Self::$code => Exit::$exit,)* }
            }

            /// Its type in an answer to an `OpenAI` client.
            #[must_use]
            pub const fn kind(self) -> &'static str {
                match self { $(Self::$code => $kind,)* }
            }

            /// Whether the same request may be sent again.
            #[must_use]
            pub const fn repeat(self) -> Repeat {
                match self { $(Self::$code => Repeat::$repeat,)* }
            }
        }
    };
}

codes! {
    /// The body, a header or a parameter is refused.
    InvalidRequest      "invalid_request"          BAD_REQUEST           Usage              "invalid_request_error" Useless;
    /// The run plane knows no such field.
    UnknownField        "unknown_field"            BAD_REQUEST           Usage              "invalid_request_error" Useless;
    /// No provider serves the model.
    ModelNotFound       "model_not_found"          NOT_FOUND             NotFound           "invalid_request_error" Useless;
    /// The model's name can not be used as written.
    InvalidModel        "invalid_model"            BAD_REQUEST           Usage              "invalid_request_error" Useless;
    /// What would be configured can not work.
    ConfigError         "config_error"             BAD_REQUEST           Configuration      "invalid_request_error" Useless;
    /// The tools that must be offered are more than a provider takes.
    ToolsTooMany        "tools_too_many"           BAD_REQUEST           Usage              "invalid_request_error" Useless;
    /// There is no key, or the node does not know it.
    Unauthorized        "unauthorized"             UNAUTHORIZED          Auth               "authentication_error"  Useless;
    /// The key's role may not.
    Forbidden           "forbidden"                FORBIDDEN             Denied             "permission_error"      Useless;
    /// There is no such object, or it is another project's.
    NotFound            "not_found"                NOT_FOUND             NotFound           "invalid_request_error" Useless;
    /// The messages sent do not begin with the session's own.
    HistoryMismatch     "history_mismatch"         CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The idempotency key was used with another body.
    IdempotencyConflict "idempotency_key_conflict" CONFLICT              Conflict           "invalid_request_error" Useless;
    /// A run owns the session, or its inbox is full.
    SessionBusy         "session_busy"             CONFLICT              Conflict           "invalid_request_error" Harmless;
    /// The campaign was planned under another tool policy than the one in force.
    PolicyRevisionMismatch "policy_revision_mismatch" CONFLICT          Conflict           "invalid_request_error" Useless;
    /// The gate can not be waived, or needs no waiver.
    GateRefused         "gate_refused"             CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The grant is there already, or too many stand.
    GrantConflict       "grant_conflict"           CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The run does not wait for this answer.
    RunNotWaiting       "run_not_waiting"          CONFLICT              Conflict           "invalid_request_error" Useless;
    /// An invocation's outcome is unknown: what builds on it waits until somebody settles it.
    UnresolvedInvocation "unresolved_invocation"   CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The run is halted, or is not, or an invocation is under way.
    RunHalted           "run_halted"               CONFLICT              Conflict           "invalid_request_error" Useless;
    /// Somebody answered before, or the answer is bound to another call.
    ApprovalConflict    "approval_conflict"        CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The invocation may still be running, or is settled, or the id names another decision.
    ReconcileConflict   "reconcile_conflict"       CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The run's budget of mediated calls is used up.
    ToolBudgetExhausted "tool_budget_exhausted"    CONFLICT              Budget             "invalid_request_error" Useless;
    /// The run has finished.
    RunEnded            "run_ended"                CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The node has a journal of its own, and no other nodes.
    NotClustered        "not_clustered"            CONFLICT              Conflict           "invalid_request_error" Useless;
    /// A node can not be drained or fenced as things are.
    NodeRefused         "node_refused"             CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The node that it is about does not answer.
    NodeSilent          "node_silent"              SERVICE_UNAVAILABLE   Failure            "server_error"          Harmless;
    /// A limit of the node or of one actor is reached.
    Busy                "busy"                     TOO_MANY_REQUESTS     Failure            "rate_limit_error"      Harmless;
    /// As many runs as allowed are at work.
    TooManyRuns         "too_many_runs"            TOO_MANY_REQUESTS     Failure            "rate_limit_error"      Harmless;
    /// Somebody else wrote the artifact since.
    ArtifactMoved       "artifact_moved"           CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The body is too large.
    PayloadTooLarge     "payload_too_large"        PAYLOAD_TOO_LARGE     Usage              "invalid_request_error" Useless;
    /// The command is older than what its stream remembers.
    ExpiredCommand      "expired_command"          CONFLICT              Conflict           "invalid_request_error" Useless;
    /// The stream's actor fell too often and is not started.
    Parked              "parked"                   SERVICE_UNAVAILABLE   Failure            "server_error"          Useless;
    /// The journal can not be written.
    StoreUnavailable    "store_unavailable"        SERVICE_UNAVAILABLE   Failure            "server_error"          Harmless;
    /// Whether it was done is not known.
    Lost                "lost"                     SERVICE_UNAVAILABLE   Failure            "server_error"          WithKey;
    /// The deadline passed before an answer came.
    TimedOut            "timed_out"                GATEWAY_TIMEOUT       TimedOut           "server_error"          WithKey;
    /// Every attempt that the rules allow has failed.
    ProvidersExhausted  "providers_exhausted"      BAD_GATEWAY           ProvidersExhausted "server_error"          Useless;
    /// The credential is there already, or was changed meanwhile.
    CredentialConflict  "credential_conflict"      CONFLICT              Conflict           "invalid_request_error" Useless;
    /// There is no vault here, or it can not be read with what this node was given.
    VaultUnusable       "vault_unusable"           SERVICE_UNAVAILABLE   Configuration      "server_error"          Useless;
    /// A budget has no room for the call.
    BudgetExceeded      "budget_exceeded"          PAYMENT_REQUIRED      Budget             "billing_error"         Useless;
    /// The model's provider has no key or no address here.
    RouteUnconfigured   "route_unconfigured"       SERVICE_UNAVAILABLE   Configuration      "server_error"          Useless;
    /// Stored bytes are not those that were written.
    Integrity           "integrity"                INTERNAL_SERVER_ERROR Integrity          "server_error"          Useless;
    /// A defect of ours.
    Internal            "internal"                 INTERNAL_SERVER_ERROR Failure            "server_error"          WithKey;
}

impl Code {
    /// The code that a word names.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == word)
    }

    /// Where its page is: file and anchor.
    #[must_use]
    pub fn runbook(self) -> String {
        format!("{RUNBOOK}#{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGES: &str = include_str!("../../../deploy/runbooks/errors.md");

    #[test]
    fn each_code_has_a_status_an_exit_code_a_type_and_a_page() {
        for code in Code::ALL {
            let status = code.status();
            assert!(status.is_client_error() || status.is_server_error(), "{code:?}");
            assert_ne!(code.exit(), Exit::Ok, "{code:?}");
            assert!(code.kind().ends_with("_error"), "{code:?}");
            let anchor = code.runbook().split_once('#').unwrap().1.to_owned();
            assert!(
                PAGES.lines().any(|line| line == format!("## {anchor}")),
                "{anchor} has no page"
            );
            assert_eq!(Code::named(code.name()), Some(*code), "{code:?}");
        }
    }

    #[test]
    fn each_page_has_a_code() {
        let pages: BTreeSet<&str> =
            PAGES.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(pages, codes);
    }

    #[test]
    fn each_page_says_the_status_that_is_sent() {
        for code in Code::ALL {
            let heading = format!("\n## {}\n", code.name());
            let page = PAGES.split_once(&heading).unwrap().1;
            let page = page.split_once("\n## ").map_or(page, |(page, _)| page);
            let symptom = page.lines().find(|line| line.starts_with("- **Symptom**")).unwrap();
            let said: Vec<&str> =
                symptom.split(|c: char| !c.is_ascii_digit()).filter(|n| n.len() == 3).collect();
            let sent = code.status().as_u16().to_string();
            assert!(
                said.is_empty() || said.contains(&sent.as_str()),
                "{code:?}: {sent} is not in {symptom}"
            );
        }
    }

    #[test]
    fn what_is_refused_for_now_may_be_repeated_and_what_may_be_done_only_with_a_key() {
        for code in Code::ALL {
            let status = code.status();
            if status == StatusCode::TOO_MANY_REQUESTS {
                assert_eq!(code.repeat(), Repeat::Harmless, "{code:?}");
            }
            if status.is_client_error() {
                assert_ne!(code.repeat(), Repeat::WithKey, "{code:?}");
            }
        }
    }
}
