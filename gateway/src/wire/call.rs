//! Tool calls on the wire: intents, outcomes, invocations, holds and what halts a run.

use super::fact::{Bodies, waited};
use super::time::rfc3339;
use events::aggregate::Aggregate;
use events::catalogue::Fact;
use events::id::RunId;
use events::record::StreamKey;
use events::run::approval::{self, Approval, ApprovalNo, Reach, Resolution};
use events::run::halt::{Decider, Halt, Paused};
use events::run::ledger::{ToolNo, ToolOutcome, correlation};
use events::run::mediated::{Admission, Disposition, Invocation, invocation_id};
use events::run::spec::ReplayClass;
use events::run::terms::{Consent, Source, Terms};
use events::run::{Event, Run, State};
use serde_json::{Map, Value, json};

/// The word for what a restart may do.
#[must_use]
pub const fn replay(class: ReplayClass) -> &'static str {
    match class {
        ReplayClass::ReadOnly => "read_only",
        ReplayClass::Idempotent => "idempotent",
        ReplayClass::Effectful => "effectful",
    }
}

/// The public id of a hold: `<run>.<n>`.
#[must_use]
pub fn approval_id(run: RunId, approval: ApprovalNo) -> String {
    format!("{run}.{}", approval.0)
}

/// The correlation id of a call: what its caller gave, or what follows from the run and its number.
#[must_use]
pub fn correlation_id(run: RunId, call: ToolNo, given: Option<u128>) -> u128 {
    given.unwrap_or_else(|| correlation(run.unique(), call))
}

fn source(source: &Source) -> Value {
    json!({
        "repository": source.repository,
        "commit": source.commit,
        "tree": source.tree,
        "read": source.read,
    })
}

/// On which terms a call runs.
#[must_use]
pub fn terms(terms: &Terms) -> Value {
    let consent = match &terms.consent {
        Consent::Free => json!("free"),
        Consent::Needed => json!("needed"),
        Consent::Granted(grant) => json!({ "grant": grant }),
        Consent::Approved(approval) => json!({ "approval": approval.0 }),
    };
    let gates = terms.gates.iter().map(|gate| json!({"name": gate.name, "version": gate.version}));
    let mediated = terms.mediated.as_ref().map(|one| {
        json!({
            "revision": one.revision,
            "hostnames": one.hostnames,
            "roles": one.roles,
            "source": source(&one.source),
        })
    });
    json!({
        "replay": replay(terms.class),
        "timeout_ms": terms.timeout.0,
        "consent": consent,
        "gates": gates.collect::<Value>(),
        "mediated": mediated,
    })
}

fn admission(admission: &Admission) -> Value {
    json!({
        "input_hash": admission.input.to_string(),
        "policy_revision": admission.policy_revision,
        "stage": admission.stage,
        "lease_until": rfc3339(admission.lease_until),
    })
}

fn decider(by: &Decider) -> String {
    match by {
        Decider::Actor(actor) => actor.to_string(),
        Decider::Policy(revision) => format!("policy:{revision}"),
        Decider::Time => "time".to_owned(),
    }
}

fn rejection(outcome: ToolOutcome) -> Option<&'static str> {
    match outcome {
        ToolOutcome::Rejected(class) => Some(class.word()),
        ToolOutcome::Succeeded | ToolOutcome::Failed => None,
    }
}

fn resolution(resolution: &Resolution, bodies: Bodies) -> Value {
    match resolution {
        Resolution::Approved { edited, reach } => json!({
            "resolution": resolution.word(),
            "edited_arguments": edited.as_ref().map(|edited| bodies.raw(&edited.arguments)),
            "reach": match reach {
                Reach::Call => json!("call"),
                Reach::Run(_) => json!("run"),
                Reach::Standing(grant) => json!({ "grant": grant }),
            },
        }),
        Resolution::Denied { reason } | Resolution::Orphaned { reason } => {
            json!({"resolution": resolution.word(), "reason": bodies.text(reason)})
        }
        Resolution::Expired | Resolution::Voided => json!({"resolution": resolution.word()}),
    }
}

/// The data of what happens to calls; nothing for another event.
#[must_use]
pub fn event(event: &Event, bodies: Bodies) -> Value {
    if let Event::ToolAsked(asked) = event {
        return json!({
            "tool": asked.call.0,
            "index": asked.index,
            "id": asked.id,
            "name": asked.name,
            "arguments": bodies.raw(&asked.arguments),
            "terms": terms(&asked.terms),
            "invocation": asked.admission.as_deref().map(admission),
        });
    }
    if let Event::ToolRefused(refused) = event {
        return json!({
            "index": refused.index,
            "id": refused.id,
            "name": refused.name,
            "executed": false,
            "content": bodies.text(&refused.content),
        });
    }
    if let Event::ToolReceipt(receipt) = event {
        return json!({
            "tool": receipt.call.0,
            "outcome": receipt.outcome.word(),
            "rejection": rejection(receipt.outcome),
            "content": bodies.text(&receipt.content),
        });
    }
    if let Event::ToolUnknown(unknown) = event {
        return json!({
            "tool": unknown.call.0,
            "reason": unknown.reason.word(),
            "lease_until": unknown.lease_until.map(rfc3339),
        });
    }
    if let Event::ToolRetried(retried) = event {
        return json!({"tool": retried.call.0, "attempt": retried.attempt});
    }
    if let Event::ToolNotSent(unsent) = event {
        return json!({
            "tool": unsent.call.0,
            "executed": false,
            "why": unsent.why.word(),
            "waited_ms": waited(unsent.why),
        });
    }
    decision(event, bodies)
}

/// The data of what somebody, or a time, decides.
fn decision(event: &Event, bodies: Bodies) -> Value {
    if let Event::ToolReconciled(settled) = event {
        return json!({
            "tool": settled.call.0,
            "request_id": settled.request,
            "by": decider(&settled.by),
        });
    }
    if let Event::Paused(paused) = event {
        return pause(paused);
    }
    if let Event::ToolsChosen(chosen) = event {
        return json!({"offered": chosen.offered, "dropped": chosen.dropped, "tools_max": chosen.cap});
    }
    if let Event::ToolRepeated(repeated) = event {
        return json!({
            "index": repeated.index,
            "id": repeated.id,
            "name": repeated.name,
            "executed": false,
            "content": bodies.text(&repeated.content),
        });
    }
    if let Event::Resumed(resumed) = event {
        return json!({"by": decider(&resumed.by)});
    }
    if let Event::ApprovalAsked(asked) = event {
        return json!({
            "approval": asked.approval.0,
            "index": asked.index,
            "name": asked.name,
            "arguments": bodies.raw(&asked.arguments),
            "subject": asked.subject.to_string(),
            "until": rfc3339(asked.until),
        });
    }
    let Event::ApprovalResolved(done) = event else { return json!({}) };
    let mut data = resolution(&done.resolution, bodies);
    if let Some(map) = data.as_object_mut() {
        map.insert("approval".to_owned(), json!(done.approval.0));
        map.insert("by".to_owned(), json!(done.by.map(|by| by.to_string())));
    }
    data
}

/// Adds the ids that follow from whose run it is.
pub fn name(run: RunId, event: &Event, data: &mut Value) {
    let Some(map) = data.as_object_mut() else { return };
    if let Event::ToolAsked(asked) = event
        && let Some(admission) = &asked.admission
    {
        let correlation = correlation_id(run, asked.call, admission.correlation);
        let id = invocation_id(run.unique(), correlation);
        map.insert("correlation_id".to_owned(), json!(format!("{correlation:032x}")));
        map.insert("invocation_id".to_owned(), json!(id));
    }
    let approval = match event {
        Event::ApprovalAsked(asked) => asked.approval,
        Event::ApprovalResolved(done) => done.approval,
        _ => return,
    };
    map.insert("approval_id".to_owned(), json!(approval_id(run, approval)));
}

/// The same for a fact of any stream.
pub fn name_in(stream: &StreamKey, fact: &Fact, data: &mut Value) {
    if let Fact::Run(event) = fact
        && let Some(run) = Run::id(stream)
    {
        name(run, event, data);
    }
}

fn pause(paused: &Paused) -> Value {
    json!({"class": paused.class.word(), "until": paused.until.map(rfc3339)})
}

/// What paused a run, if something did.
#[must_use]
pub fn paused(state: &State) -> Option<Value> {
    match &state.halt {
        Some(Halt::Paused(paused)) => Some(pause(paused)),
        Some(Halt::Reconciliation) | None => None,
    }
}

/// An invocation.
#[must_use]
pub fn invocation(run: RunId, one: &Invocation) -> Value {
    let correlation = correlation_id(run, one.call, one.admission.correlation);
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("object", json!("tool_invocation"));
    put("invocation_id", json!(invocation_id(run.unique(), correlation)));
    put("correlation_id", json!(format!("{correlation:032x}")));
    put("run_id", json!(run.to_string()));
    put("tool", json!(one.name));
    put("arguments", Bodies::Whole.raw(&one.arguments));
    put("state", json!(one.disposition.word()));
    put("asked_by", json!(if one.is_models { "model" } else { "caller" }));
    put("terms", terms(&one.terms));
    put("admission", admission(&one.admission));
    match &one.disposition {
        Disposition::Pending => {}
        Disposition::Succeeded(content) => {
            put("result", json!(content));
        }
        Disposition::Rejected { class, content } => {
            put("class", json!(class.word()));
            put("result", json!(content));
        }
        Disposition::Unknown(reason) => {
            put("reason", json!(reason.word()));
        }
        Disposition::Abandoned { request, by } => {
            put("reconciliation", json!({"request_id": request, "by": decider(by)}));
        }
    }
    Value::Object(object)
}

/// A hold.
#[must_use]
pub fn approval(run: RunId, state: &State, one: &Approval) -> Value {
    let asked = &one.asked;
    let done = one.resolved.as_ref();
    let mut object = json!({
        "object": "approval",
        "approval_id": approval_id(run, asked.approval),
        "run_id": run.to_string(),
        "project_id": state.spec.as_ref().map(|spec| spec.project.as_str()),
        "tool": asked.name,
        "arguments": Bodies::Whole.raw(&asked.arguments),
        "subject": asked.subject.to_string(),
        "until": rfc3339(asked.until),
        "status": done.map_or("waiting", |done| done.resolution.word()),
        "by": done.and_then(|done| done.by).map(|by| by.to_string()),
    });
    if let (Some(map), Some(done)) = (object.as_object_mut(), done)
        && let Value::Object(more) = resolution(&done.resolution, Bodies::Whole)
    {
        map.extend(more);
    }
    object
}

/// The holds of a run that nobody has answered.
#[must_use]
pub fn approvals_open(run: RunId, state: &State) -> Value {
    let open = approval::open(state).map(|asked| {
        json!({
            "approval_id": approval_id(run, asked.approval),
            "tool": asked.name,
            "arguments": Bodies::Whole.raw(&asked.arguments),
            "until": rfc3339(asked.until),
        })
    });
    open.collect()
}
