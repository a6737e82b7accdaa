//! What is found about a tool call before it may be intended: the one place that every call crosses, whoever makes it. The
//! order is fixed: is there such a tool, do its arguments fit, does every gate stand open, does somebody have to agree.
//! What is found is recorded with the call, so that nothing later asks again what the answer was.

use crate::hooks::{Blocked, HookCall};
use crate::preconditions::Preconditions;
use events::id::RunId;
use events::json::Json;
use events::message::ToolCall;
use events::run::ledger::{Ask, Verdict};
use events::run::spec::{ApprovalMode, Plane, Spec};
use events::run::terms::{Consent, GateSeen, Mediated, Terms};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tools::registry::Entry;
use tools::tool::{Origin, Tier};
use tools::{Registry, ToolError};

/// Judges tool calls.
#[derive(Debug, Clone)]
pub struct Judge {
    tools: Arc<Registry>,
    /// Set once there is a way to the owners of gates and grants; before that no gate is open.
    before: Arc<OnceLock<Preconditions>>,
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
    pub fn new(tools: Arc<Registry>) -> Self {
        Self { tools, before: Arc::default() }
    }

    /// Says what must hold before any call; the first word stands.
    pub fn precede(&self, preconditions: Preconditions) {
        // A node says it once.
        let _first = self.before.set(preconditions);
    }

    /// What is found about a call in a model's answer.
    pub async fn ask(&self, run: RunId, spec: &Spec, call: &ToolCall) -> Ask {
        let (id, name) = (call.id.clone(), call.name.clone());
        let is_ours =
            spec.server_tools.contains(&call.name) && self.tools.get(&call.name).is_some();
        if !is_ours && spec.plane != Plane::Run {
            let arguments = Json::from(call.arguments.clone());
            return Ask { id, name, arguments, verdict: Verdict::Client };
        }
        let (arguments, verdict) = match self.judge(run, spec, (&call.name, &call.arguments)).await
        {
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
    pub async fn judge(
        &self,
        run: RunId,
        spec: &Spec,
        (name, given): (&str, &str),
    ) -> Result<Admitted, Refused> {
        let plain = || Json::from(given.to_owned());
        let offered = spec.server_tools.iter().any(|one| one == name);
        let Some(entry) = self.tools.get(name).filter(|_| offered) else {
            return Err(Refused { arguments: plain(), told: unknown(spec, name) });
        };
        let arguments = match entry.check(given) {
            Ok(canonical) => canonical.json,
            Err(invalid) => return Err(Refused { arguments: plain(), told: invalid.content() }),
        };
        match self.terms((run, spec), entry, &arguments).await {
            Ok(terms) => Ok(Admitted { arguments, terms }),
            Err(told) => Err(Refused { arguments, told }),
        }
    }

    /// On which terms a tool runs for a run, or what its caller is told when it does not.
    async fn terms(
        &self,
        (run, spec): (RunId, &Spec),
        entry: &Entry,
        arguments: &Json,
    ) -> Result<Terms, String> {
        let gates = self.gates((run, &spec.project), entry.gates()).await?;
        if let Some(before) = self.before.get() {
            let (project, tool) = (spec.project.as_str(), entry.name());
            let call = HookCall { run, project, tool, arguments };
            before.hooked(&call).await.map_err(|blocked| blocked_by(&blocked))?;
        }
        let consent = match (entry.tier(), spec.approval_mode, entry.origin()) {
            (Tier::Free, _, _) | (Tier::Approval, ApprovalMode::Forward, Origin::Server(_)) => {
                Consent::Free
            }
            (Tier::Approval, ApprovalMode::Hold, _) => {
                self.granted(&spec.project, entry.name(), arguments).await
            }
            (Tier::Approval, ApprovalMode::Forward, Origin::Native) => {
                tracing::warn!(tool = entry.name(), "approval_tool_refused_unattended");
                return Err(unattended(entry.name()));
            }
        };
        let mediated = entry.mediated().then(|| {
            let (hostnames, roles) = (vec![], vec![spec.caller.to_string()]);
            let (revision, source) = (entry.revision(), spec.source.clone());
            Box::new(Mediated { revision, hostnames, roles, source })
        });
        Ok(Terms { class: entry.class(), timeout: entry.timeout(), consent, gates, mediated })
    }

    /// The gates of a tool, all of them open.
    ///
    /// # Errors
    ///
    /// What its caller is told of the first that is not.
    async fn gates(&self, whose: (RunId, &str), names: &[String]) -> Result<Vec<GateSeen>, String> {
        let Some(first) = names.first() else { return Ok(vec![]) };
        let Some(before) = self.before.get() else {
            return Err(shut(first, "the node is starting"));
        };
        let passed = before.passed(whose, names).await;
        let passed = passed.map_err(|why| shut(why.name(), &why.to_string()))?;
        Ok(passed
            .into_iter()
            .map(|one| GateSeen { name: one.name, version: one.version })
            .collect())
    }

    /// Whether a standing grant covers a call that somebody would have to agree to.
    async fn granted(&self, project: &str, tool: &str, arguments: &Json) -> Consent {
        let Some(before) = self.before.get() else { return Consent::Needed };
        let granted = before.granted(project, tool, arguments).await;
        granted.map_or(Consent::Needed, |grant| Consent::Granted(grant.to_string()))
    }

    /// Whether the gates of a call that was intended are still open: between the intent and its first byte lies time.
    ///
    /// # Errors
    ///
    /// What the model is told; nothing was executed.
    pub async fn again(&self, whose: (RunId, &str), terms: &Terms) -> Result<(), String> {
        let names: Vec<String> = terms.gates.iter().map(|gate| gate.name.clone()).collect();
        self.gates(whose, &names).await.map(|_open| ())
    }
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

fn blocked_by(blocked: &Blocked) -> String {
    let hint = "a hook of this node did not let it pass, so the call was NOT executed";
    let message = blocked.to_string();
    json!({ "status": "error", "error": "blocked_by_hook", "message": message, "hint": hint })
        .to_string()
}

fn unknown(spec: &Spec, name: &str) -> String {
    let known = spec.server_tools.join(", ");
    let message = format!("no tool is called {name:?}: this run offers {known}");
    ToolError::Failed(message).content()
}
