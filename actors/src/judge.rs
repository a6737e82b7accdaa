//! What is found about a tool call before it may be intended: the one place that every call crosses, whoever makes it. The
//! order is fixed: is there such a tool, do its arguments fit, does every gate stand open, does somebody have to agree.
//! What is found is recorded with the call, so that nothing later asks again what the answer was.

use events::json::Json;
use events::message::ToolCall;
use events::run::ledger::{Ask, Verdict};
use events::run::spec::{ApprovalMode, Plane, Spec};
use events::run::terms::{Consent, Mediated, Terms};
use serde_json::json;
use std::sync::Arc;
use tools::registry::Entry;
use tools::tool::{Origin, Tier};
use tools::{Registry, ToolError};

/// Judges tool calls.
#[derive(Debug, Clone)]
pub struct Judge {
    tools: Arc<Registry>,
}

/// A call that may be intended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Canonical arguments.
    pub arguments: Json,
    /// On which terms.
    pub terms: Terms,
}

/// A call that is not run: what its caller is told, and its arguments as far as they could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Canonical arguments, or those that were given.
    pub arguments: Json,
    /// JSON as text; it says that nothing was executed.
    pub told: String,
}

impl Judge {
    /// Over these tools.
    #[must_use]
    pub const fn new(tools: Arc<Registry>) -> Self {
        Self { tools }
    }

    /// What is found about a call in a model's answer.
    pub async fn ask(&self, spec: &Spec, call: &ToolCall) -> Ask {
        let (id, name) = (call.id.clone(), call.name.clone());
        let is_ours =
            spec.server_tools.contains(&call.name) && self.tools.get(&call.name).is_some();
        if !is_ours && spec.plane != Plane::Run {
            let arguments = Json::from(call.arguments.clone());
            return Ask { id, name, arguments, verdict: Verdict::Client };
        }
        let (arguments, verdict) = match self.judge(spec, &call.name, &call.arguments).await {
            Ok(admitted) => (admitted.arguments, Verdict::Server(Box::new(admitted.terms))),
            Err(refused) => (refused.arguments, Verdict::Refused(refused.told)),
        };
        Ask { id, name, arguments, verdict }
    }

    /// What is found about a call for a run.
    ///
    /// # Errors
    ///
    /// [`Refused`] with what its caller is told.
    pub async fn judge(&self, spec: &Spec, name: &str, given: &str) -> Result<Admitted, Refused> {
        let plain = || Json::from(given.to_owned());
        let offered = spec.server_tools.iter().any(|one| one == name);
        let Some(entry) = self.tools.get(name).filter(|_| offered) else {
            return Err(Refused { arguments: plain(), told: unknown(spec, name) });
        };
        let arguments = match entry.check(given) {
            Ok(canonical) => canonical.json,
            Err(invalid) => return Err(Refused { arguments: plain(), told: invalid.content() }),
        };
        match terms(spec, entry) {
            Ok(terms) => Ok(Admitted { arguments, terms }),
            Err(told) => Err(Refused { arguments, told }),
        }
    }
}

/// On which terms a tool runs for a run, or what its caller is told when it does not.
fn terms(spec: &Spec, entry: &Entry) -> Result<Terms, String> {
    let consent = match (entry.tier(), spec.approval_mode, entry.origin()) {
        (Tier::Free, _, _) | (Tier::Approval, ApprovalMode::Forward, Origin::Server(_)) => {
            Consent::Free
        }
        (Tier::Approval, ApprovalMode::Hold, _) => Consent::Needed,
        (Tier::Approval, ApprovalMode::Forward, Origin::Native) => {
            tracing::warn!(tool = entry.name(), "approval_tool_refused_unattended");
            return Err(unattended(entry.name()));
        }
    };
    if let Some(gate) = entry.gates().first() {
        return Err(shut(gate, "nobody evaluates it"));
    }
    let mediated = entry.mediated().then(|| {
        let (hostnames, roles) = (vec![], vec![]);
        let (revision, source) = (entry.revision(), spec.source.clone());
        Box::new(Mediated { revision, hostnames, roles, source })
    });
    Ok(Terms { class: entry.class(), timeout: entry.timeout(), consent, gates: vec![], mediated })
}

fn unattended(name: &str) -> String {
    let hint = "nobody is there to agree to it in this run, so the call was NOT executed";
    json!({ "status": "error", "error": "approval_required_unattended", "tool": name, "hint": hint })
        .to_string()
}

fn shut(gate: &str, why: &str) -> String {
    let hint = "the gate is shut, so the call was NOT executed";
    json!({ "status": "error", "error": "gate_shut", "gate": gate, "message": why, "hint": hint })
        .to_string()
}

fn unknown(spec: &Spec, name: &str) -> String {
    let known = spec.server_tools.join(", ");
    let message = format!("no tool is called {name:?}: this run offers {known}");
    ToolError::Failed(message).content()
}
