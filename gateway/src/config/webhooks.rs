//! Programs outside that are told of what a person should know: where, of what, and the variable that holds the secret
//! that each message is signed with.

use super::merge::{Problem, Reader};
use super::rule::{self, Broken, Raw};
use super::{Origin, Secret};
use std::collections::BTreeSet;
use url::Url;

/// The table.
const TABLE: &str = "webhooks";
/// Webhooks of one node: each follows the whole journal.
const HOOKS_MAX: usize = 16;
/// Bytes that a secret has at least: a shorter one can be guessed from one signed message.
const SECRET_BYTES_MIN: usize = 16;

/// What a webhook may be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// A call waits for somebody to agree.
    ApprovalAsked,
    /// A run has ended.
    RunFinished,
    /// The outcome of an invocation is unknown, and its run stands still.
    RunNeedsReconciliation,
    /// What may be spent has gone over a mark.
    BudgetCrossed,
    /// A role has been served by another model than the one that is meant to for a quarter of an hour.
    FallbackSustained,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ApprovalAsked,
        Self::RunFinished,
        Self::RunNeedsReconciliation,
        Self::BudgetCrossed,
        Self::FallbackSustained,
    ];

    /// The word in the configuration, in headers and in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ApprovalAsked => "approval.asked",
            Self::RunFinished => "run.finished",
            Self::RunNeedsReconciliation => "run.needs_reconciliation",
            Self::BudgetCrossed => "budget.crossed",
            Self::FallbackSustained => "fallback.sustained",
        }
    }
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Where. Its path may be as good as a key: only the host is ever shown.
    pub url: Url,
    /// The variable that holds the secret.
    pub secret_env: String,
    /// What it holds; a node without it does not start, a client of one need not have it.
    pub secret: Option<Secret>,
    /// Of what.
    pub events: BTreeSet<HookEvent>,
    /// Whether its host may be this machine, or one of a private network.
    pub allow_private: bool,
    /// Whether texts that people and models wrote are told; their hashes and sizes are.
    pub include_text: bool,
}

impl Webhook {
    /// Where it is, for people: the host without the path.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// As `config show` has it.
    pub(super) fn spoken(&self) -> String {
        let events: Vec<&str> = self.events.iter().map(|event| event.word()).collect();
        let secret = if self.secret.is_some() { "set" } else { "not set" };
        let (scheme, host) = (self.url.scheme(), self.host());
        format!("{scheme}://{host}: {}; {} {secret}", events.join(", "), self.secret_env)
    }
}

fn events(raw: &Raw) -> Result<BTreeSet<HookEvent>, Broken> {
    let broken = || {
        let words = HookEvent::ALL.map(HookEvent::word).join(", ");
        Broken::Shown(format!("give a list of some of {words}"))
    };
    let words: Vec<&str> = match raw {
        Raw::List(words) => words.iter().map(String::as_str).collect(),
        Raw::Spoken(text) => text.split(',').map(str::trim).collect(),
        Raw::Text(_) | Raw::Integer(_) | Raw::Switch(_) | Raw::EmptyTable | Raw::Other(_) => {
            return Err(broken());
        }
    };
    let named = |word: &&str| HookEvent::ALL.into_iter().find(|event| event.word() == *word);
    let found: Option<BTreeSet<HookEvent>> = words.iter().map(named).collect();
    found.filter(|events| !events.is_empty()).ok_or_else(broken)
}

/// Asks for every key of every `[[webhooks]]`. Faults are remembered by the reader, and the table is left out.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Webhook> {
    let places = reader.below(TABLE);
    if places.len() > HOOKS_MAX {
        let at = reader.remove(TABLE);
        let (key, value) = (TABLE.to_owned(), format!("{} of them", places.len()));
        let rule = format!("give at most {HOOKS_MAX}");
        reader.problems.push(Problem::Wrong { at, key, value, rule });
        return vec![];
    }
    places.iter().filter_map(|place| one(reader, &format!("{TABLE}.{place}"))).collect()
}

fn one(reader: &mut Reader<'_>, table: &str) -> Option<Webhook> {
    let key = |name: &str| format!("{table}.{name}");
    let before = reader.problems.len();
    let url = reader.take(&key("url"), rule::url);
    let secret_env = reader.take(&key("secret_env"), rule::variable);
    let told = reader.take(&key("events"), events);
    let allow_private = reader.take_or(&key("allow_private"), "false", rule::switch)?;
    let include_text = reader.take_or(&key("include_text"), "false", rule::switch)?;
    let at = ["url", "secret_env", "events"].map(|name| reader.origin(&key(name)));
    let at = at.into_iter().find(|at| *at != Origin::Default).unwrap_or(Origin::Default);
    let missing = [
        ("url", url.is_none(), "give the address that messages are posted to"),
        ("secret_env", secret_env.is_none(), "name the variable that holds the signing secret"),
        ("events", told.is_none(), "say what it is told of"),
    ];
    if reader.problems.len() == before {
        for (name, _, rule) in missing.iter().filter(|(_, is_missing, _)| *is_missing) {
            let (key, value, rule) = (key(name), "(not set)".to_owned(), (*rule).to_owned());
            reader.problems.push(Problem::Wrong { at: at.clone(), key, value, rule });
        }
    }
    let secret_env = secret_env?;
    let secret = reader.environment.get(&secret_env).map(Secret::new);
    if secret.as_ref().is_some_and(|secret| secret.expose().len() < SECRET_BYTES_MIN) {
        let rule =
            format!("the secret in {secret_env} is too short: at least {SECRET_BYTES_MIN} bytes");
        let value = "(not shown)".to_owned();
        reader.problems.push(Problem::Wrong { at, key: key("secret_env"), value, rule });
    }
    Some(Webhook { url: url?, secret_env, secret, events: told?, allow_private, include_text })
}
