//! A fact as JSON, whole: what the journal's export and the events stream show.

use super::{time::rfc3339, usage};
use events::budget::Scope;
use events::catalogue::Fact;
use events::context::{Fold, Span};
use events::journal;
use events::leave::NotSent;
use events::message::Body;
use events::run;
use events::run::ledger::Verdict;
use events::run::life::{Finished, MessageRef, Outcome, Reason};
use events::run::spec::{Candidate, Delivery, Dropped, Plane, Spec};
use events::run::step::{Charge, Stop};
use events::usage::{Price, Rates};
use events::{about, artifact, json::Json, key, model_call::Class, session};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What stands where people or models wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// What they wrote.
    Whole,
    /// Its SHA-256 and its size: who may read it finds it in the journal.
    Named,
}

impl Bodies {
    /// JSON that somebody wrote.
    pub fn raw(self, json: &Json) -> Value {
        match self {
            Self::Whole => raw(json),
            Self::Named => named(json.as_bytes()),
        }
    }

    /// Text that somebody wrote.
    pub fn text(self, text: &str) -> Value {
        match self {
            Self::Whole => Value::from(text),
            Self::Named => named(text.as_bytes()),
        }
    }

    fn body(self, body: &Body) -> Value {
        self.raw(body.json())
    }

    fn all(self, all: &[Body]) -> Value {
        all.iter().map(|body| self.body(body)).collect()
    }

    fn artifact(self, event: &artifact::Event) -> Value {
        let artifact::Event::Written(written) = event;
        super::artifact::event(event, self.text(&written.content))
    }

    fn project(self, event: &about::Event) -> Value {
        let about::Event::Described(said) = event;
        super::artifact::of_project(event, self.text(&said.description))
    }

    fn fields(self, fields: &BTreeMap<String, String>) -> Value {
        match self {
            Self::Whole => json!(fields),
            Self::Named => named(json!(fields).to_string().as_bytes()),
        }
    }
}

fn named(bytes: &[u8]) -> Value {
    json!({"hash": journal::hash(bytes).to_string(), "bytes": bytes.len()})
}

/// Any fact, whole.
#[must_use]
pub fn fact(fact: &Fact) -> Value {
    told(fact, Bodies::Whole)
}

/// Any fact, for whoever may read so much of it.
#[must_use]
pub fn told(fact: &Fact, bodies: Bodies) -> Value {
    match fact {
        Fact::Session(event) => session_event(event, bodies),
        Fact::Run(event) => run_event(event, bodies),
        Fact::Key(event) => key_event(event),
        Fact::Settings(event) => super::settings::event(event),
        Fact::Credential(event) => super::credential::event(event),
        Fact::Budget(event) => super::budget::event(event),
        Fact::Grant(event) => super::grant::event(event),
        Fact::Gates(event) => super::gate::event(event),
        Fact::Artifact(event) => bodies.artifact(event),
        Fact::Project(event) => bodies.project(event),
        Fact::Probe => Value::Null,
    }
}

/// Stored JSON as a value; text that is not JSON as a string.
#[must_use]
pub fn raw(json: &Json) -> Value {
    serde_json::from_slice(json.as_bytes()).unwrap_or_else(|_| Value::from(json.as_str()))
}

fn refs(all: &[MessageRef]) -> Value {
    all.iter().map(|one| json!({"hash": one.hash.to_string(), "bytes": one.bytes})).collect()
}

/// Which messages of a conversation a call was not sent whole: from one to before another, each by its place.
fn folded(fold: &Fold) -> Value {
    let span = |span: Span| json!({"from": span.from, "to": span.to, "bytes_max": span.room});
    json!({
        "turns": fold.turns.map(span),
        "exchanges": fold.exchanges.map(span),
        "results": fold.results.map(|cut| json!({"from": cut.from, "bytes_max": cut.max})),
    })
}

fn price(price: &Price) -> Value {
    let long =
        price.long.map(|long| json!({"above_tokens": long.above.0, "price": rates(&long.rates)}));
    json!({"usual": rates(&price.usual), "long_input": long})
}

fn rates(rates: &Rates) -> Value {
    json!({
        "input_usd_per_million": usage::dollars(Some(rates.input)),
        "output_usd_per_million": usage::dollars(Some(rates.output)),
        "cached_input_usd_per_million": usage::dollars(rates.cached_input),
        "cache_write_usd_per_million": usage::dollars(rates.cache_write),
    })
}

fn candidate(one: &Candidate) -> Value {
    json!({
        "provider": one.provider,
        "model": one.model,
        "price": one.price.as_ref().map(price),
        "output_tokens_max": one.output_max.0,
        "family": one.family,
        "context_tokens_max": one.context_max.map(|max| max.0),
    })
}

fn dropped(one: &Dropped) -> Value {
    json!({"provider": one.provider, "model": one.model, "reason": one.unfit.name()})
}

/// A run's frozen request.
fn spec(spec: &Spec, bodies: Bodies) -> Value {
    json!({
        "plane": match spec.plane {
            Plane::Model => "model",
            Plane::Run => "run",
            Plane::Embeddings => "embeddings",
        },
        "delivery": match spec.delivery { Delivery::Live => "live", Delivery::Whole => "whole" },
        "project": spec.project,
        "caller": spec.caller.to_string(),
        "role": spec.role.as_str(),
        "phase": spec.phase,
        "route": spec.route.iter().map(candidate).collect::<Value>(),
        "route_source": spec.route_source,
        "dropped": spec.dropped.iter().map(dropped).collect::<Value>(),
        "evaluator_independence": spec.independence.name(),
        "tools": bodies.raw(spec.tools.json()),
        "tools_hash": spec.tools.hash().to_string(),
        "server_tools": spec.server_tools,
        "output_tokens_max": spec.params.output_max.map(|max| max.0),
        "params": bodies.raw(&spec.params.extra),
        "input": bodies.all(&spec.input),
        "steps_max": spec.limits.steps_max,
        "budget": {
            "usd": usage::dollars(spec.limits.cost_max),
            "calls": spec.limits.model_calls_max,
        },
        "budgets": spec.budgets.iter().map(Scope::as_str).collect::<Vec<_>>(),
        "tool_policy": super::settings::frozen(&spec.tool_policy),
        "campaign": spec.campaign,
        "metadata": bodies.fields(&spec.metadata),
        "logic": spec.logic,
        "input_hash": spec.input_hash.to_string(),
    })
}

/// The word for how a run ended.
#[must_use]
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Exhausted => "exhausted",
        Outcome::Errored => "errored",
        Outcome::Cancelled => "cancelled",
    }
}

/// The word for why.
#[must_use]
pub const fn reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Answered => "answered",
        Reason::ToolCalls => "tool_calls",
        Reason::Length => "length",
        Reason::ContentFilter => "content_filter",
        Reason::StepLimit => "step_limit",
        Reason::Budget => "budget",
        Reason::ModelFailed(_) => "model_failed",
        Reason::ModelUnknown => "model_unknown",
        Reason::ClientToolGone => "client_tool_gone",
        Reason::NotIndependent => "not_independent",
        Reason::ContextUnfit(_) => "context_unfit",
        Reason::Stopped => "stopped",
    }
}

/// The error class behind an end, where a model call was its cause.
#[must_use]
pub const fn class(reason: &Reason) -> Option<Class> {
    match reason {
        Reason::ModelFailed(class) | Reason::ContextUnfit(class) => Some(*class),
        Reason::Answered
        | Reason::ToolCalls
        | Reason::Length
        | Reason::ContentFilter
        | Reason::StepLimit
        | Reason::Budget
        | Reason::ModelUnknown
        | Reason::ClientToolGone
        | Reason::NotIndependent
        | Reason::Stopped => None,
    }
}

/// The word for how an answer stopped.
#[must_use]
pub const fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::Length => "length",
        Stop::ToolCalls => "tool_calls",
        Stop::ContentFilter => "content_filter",
    }
}

fn finished(end: &Finished, bodies: Bodies) -> Value {
    json!({
        "outcome": outcome(end.outcome),
        "reason": reason(&end.reason),
        "class": class(&end.reason).map(Class::name),
        "detail": bodies.text(&end.detail),
        "fence": end.fence.map(|fence| fence.0),
    })
}

pub(super) const fn waited(why: NotSent) -> Option<u64> {
    match why {
        NotSent::TooLate { waited } => Some(waited.0),
        NotSent::LeaseOver | NotSent::CalledOff => None,
    }
}

fn verdict(verdict: &Verdict, bodies: Bodies) -> Value {
    match verdict {
        Verdict::Server(found) => json!({"runs": "server", "terms": super::call::terms(found)}),
        Verdict::Client => json!({"runs": "client"}),
        Verdict::Refused(why) => json!({"runs": "nobody", "why": bodies.text(why)}),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm an event")]
fn run_event(event: &run::Event, bodies: Bodies) -> Value {
    match event {
        run::Event::Queued(queued) => json!({
            "session_id": queued.session.map(|id| id.to_string()),
            "spec": spec(&queued.spec, bodies),
        }),
        run::Event::Started(started) => json!({
            "fence": started.fence.map(|fence| fence.0),
            "history": refs(&started.history),
            "generated_by": started.generated_by,
        }),
        run::Event::ModelAsked(asked) => json!({
            "call": asked.call.0,
            "step": asked.step,
            "candidate": asked.candidate,
            "not_before": rfc3339(asked.not_before),
            "request_hash": asked.request.to_string(),
            "reserved_usd": usage::dollars(asked.reserved),
            "folded": asked.fold.as_ref().map(folded),
        }),
        run::Event::ModelAnswered(answered) => json!({
            "call": answered.call.0,
            "message": bodies.body(&answered.body),
            "tool_calls": answered.asks.iter().map(|ask| json!({
                "id": ask.id,
                "name": ask.name,
                "arguments": bodies.raw(&ask.arguments),
                "verdict": verdict(&ask.verdict, bodies),
            })).collect::<Value>(),
            "stop": stop(answered.stop),
            "served_by": super::run::name(&answered.served_by),
            "instead_of": super::run::instead_of(&answered.served_by),
            "warning": super::run::warning(&answered.served_by),
            "usage": usage::call(&answered.usage),
            "served_model": answered.served_model,
            "profile": answered.profile,
            "request_id": answered.request_id,
        }),
        run::Event::ModelFailed(failed) => json!({
            "call": failed.call.0,
            "class": failed.class.name(),
            "status": failed.status,
            "request_id": failed.request_id,
            "retry_after_ms": failed.hint.map(|hint| hint.0),
            "charged": match failed.charge { Charge::Nothing => "nothing", Charge::Reserved => "at_most_reserved" },
            "handed_out_chars": failed.handed_out,
            "message": bodies.text(&failed.message),
            "profile": failed.profile,
            "profiles_ready": failed.others,
            "token_renewed": failed.renewed,
            "duration_ms": failed.took.0,
            "wait_ms": failed.wait.map(|wait| wait.0),
            "partial_usage": usage::partial(&failed.partial),
            "attempts": failed.attempts.total,
        }),
        run::Event::ModelUnknown(unknown) => json!({
            "call": unknown.call.0,
            "reserved_usd": usage::dollars(unknown.reserved),
            "partial_usage": usage::partial(&unknown.partial),
            "attempts": unknown.attempts.total,
        }),
        run::Event::ModelDelayed(delayed) => json!({
            "until": rfc3339(delayed.until),
            "candidate": delayed.candidate,
        }),
        run::Event::ModelNotSent(unsent) => {
            json!({"call": unsent.call.0, "why": unsent.why.word(), "waited_ms": waited(unsent.why)})
        }
        run::Event::SliceAsked(_)
        | run::Event::SliceGranted(_)
        | run::Event::SliceRefused(_)
        | run::Event::SliceReturned(_) => super::budget::of_run(event),
        run::Event::ToolAsked(_)
        | run::Event::ToolRefused(_)
        | run::Event::ToolReceipt(_)
        | run::Event::ToolUnknown(_)
        | run::Event::ToolRetried(_)
        | run::Event::ToolNotSent(_)
        | run::Event::ToolReconciled(_)
        | run::Event::ToolsChosen(_)
        | run::Event::ToolRepeated(_)
        | run::Event::Paused(_)
        | run::Event::Resumed(_)
        | run::Event::ApprovalAsked(_)
        | run::Event::ApprovalResolved(_) => super::call::event(event, bodies),
        run::Event::ClientAsked(asked) => {
            json!({"calls": asked.calls, "until": rfc3339(asked.until)})
        }
        run::Event::ClientAnswered(answered) => json!({"results": bodies.all(&answered.results)}),
        run::Event::ClientGone(gone) => json!({"calls": gone.calls}),
        run::Event::SpendCrossed(crossed) => json!({
            "alert_usd": usage::dollars(Some(crossed.alert)),
            "spent_usd": usage::dollars(Some(crossed.spent)),
        }),
        run::Event::Finished(end) => finished(end, bodies),
        run::Event::Withheld(_) => json!({}),
    }
}

fn session_event(event: &session::Event, bodies: Bodies) -> Value {
    match event {
        session::Event::Opened(opened) => json!({
            "project": opened.project,
            "by": opened.by.to_string(),
            "key_slot": opened.key_slot,
        }),
        session::Event::Forked(forked) => json!({
            "parent": forked.parent.to_string(),
            "at": forked.at,
            "messages": bodies.all(&forked.messages),
        }),
        session::Event::Queued(queued) => {
            json!({"run_id": queued.run.to_string(), "spec": spec(&queued.spec, bodies)})
        }
        session::Event::Granted(granted) => {
            json!({"run_id": granted.run.to_string(), "fence": granted.fence.0})
        }
        session::Event::Committed(committed) => json!({
            "run_id": committed.run.to_string(),
            "messages": bodies.all(&committed.messages),
        }),
        session::Event::Released(released) => json!({
            "run_id": released.run.to_string(),
            "fence": released.fence.0,
            "outcome": outcome(released.outcome),
            "generated_by": released.generated_by,
        }),
        session::Event::Closed(_) => json!({}),
        session::Event::ScopeSet(set) => {
            json!({"project": set.project, "by": set.by.to_string()})
        }
    }
}

/// The word for a role.
#[must_use]
pub const fn role(role: key::Role) -> &'static str {
    match role {
        key::Role::Reader => "reader",
        key::Role::Runner => "runner",
        key::Role::Approver => "approver",
        key::Role::Operator => "operator",
        key::Role::Admin => "admin",
    }
}

fn key_event(event: &key::Event) -> Value {
    match event {
        key::Event::Issued(issued) => json!({
            "name": issued.name,
            "role": role(issued.role),
            "hash": issued.hash.to_string(),
        }),
        key::Event::Revoked(_) => json!({}),
    }
}
