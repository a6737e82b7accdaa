//! Facts to fold, one of each kind.

use crate::Reach;
use events::id::{Place, RunId, SessionId};
use events::json::Json;
use events::leave::NotSent;
use events::message::{Body, Message, Role};
use events::model_call::{Attempts, Class};
use events::prompt::{Catalogue, Params};
use events::quantity::{Instant, MicroUsd, Millis, Tokens};
use events::record::{Actor, Hash, Position, Shard};
use events::run::Event;
use events::run::approval::{self, ApprovalAsked, ApprovalNo, ApprovalResolved, Resolution};
use events::run::halt::Decider;
use events::run::hold::{ClientAnswered, ClientAsked, ClientGone};
use events::run::ledger::{
    ToolAsked, ToolNo, ToolNotSent, ToolOutcome, ToolReceipt, ToolRefused, ToolRetried, ToolUnknown,
};
use events::run::life::{Finished, Outcome, Queued, Reason, Started};
use events::run::mediated::{Admission, ToolReconciled};
use events::run::served::{InsteadOf, ServedBy};
use events::run::spec::{Candidate, Delivery, LOGIC, Limits, Plane, ReplayClass, Spec};
use events::run::step::{
    CallNo, Charge, ModelAnswered, ModelAsked, ModelDelayed, ModelFailed, ModelUnknown, Stop,
};
use events::run::unsent::ModelNotSent;
use events::usage::{Billing, Price, Rates, Usage};
use std::sync::Arc;

/// 2023-11-14T22:13:20Z.
pub(crate) const NOW: Instant = Instant(1_700_000_000_000_000);

pub(crate) fn run(unique: u128) -> RunId {
    RunId::new(Place::default(), unique)
}

pub(crate) fn session(unique: u128) -> SessionId {
    SessionId::new(Place::default(), unique)
}

pub(crate) fn here(sequence: u64) -> Position {
    Position { shard: Shard(0), sequence }
}

pub(crate) fn reach(sequence: u64) -> Reach {
    [here(sequence)].into_iter().collect()
}

fn candidate(provider: &str, model: &str, price: Option<Price>) -> Candidate {
    Candidate {
        provider: provider.into(),
        model: model.into(),
        price,
        billing: Billing::Metered,
        output_max: Tokens(100),
        family: "f".into(),
        context_max: None,
        tools_max: None,
    }
}

pub(crate) fn said(text: &str) -> Body {
    Message::text(Role::User, text).body()
}

/// A priced model, and one without a price behind it.
pub(crate) fn spec(project: &str, text: &str) -> Arc<Spec> {
    let (input, output) = (MicroUsd(1_000_000), MicroUsd(2_000_000));
    let usual = Rates { input, output, cached_input: None, cache_write: None };
    let price = Price { usual, long: None };
    Arc::new(Spec {
        plane: Plane::Run,
        delivery: Delivery::Live,
        project: project.into(),
        caller: Actor::Admin,
        route: vec![candidate("openai", "one", Some(price)), candidate("local", "two", None)],
        route_source: "call".into(),
        role: events::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: events::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec!["clock_now".into()],
        params: Params::default(),
        input: vec![said(text)],
        limits: Limits { steps_max: 6, ..Limits::default() },
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: LOGIC,
        metadata: std::collections::BTreeMap::new(),
        seed: 7,
        input_hash: Hash([1; 32]),
    })
}

pub(crate) fn queued() -> Event {
    Event::Queued(Queued { spec: spec("default", "hi"), session: None })
}

pub(crate) fn started() -> Event {
    Event::Started(Started { fence: None, history: vec![], generated_by: None })
}

pub(crate) fn asked(call: u32, step: u32, candidate: u32, reserved: Option<u64>) -> Event {
    Event::ModelAsked(ModelAsked {
        call: CallNo(call),
        step,
        candidate,
        not_before: NOW,
        request: Hash::default(),
        reserved: reserved.map(MicroUsd),
        fold: None,
    })
}

pub(crate) fn used(prompt: u64, completion: u64, cost: Option<u64>) -> Usage {
    Usage {
        prompt: Some(Tokens(prompt)),
        completion: Some(Tokens(completion)),
        cost: cost.map(MicroUsd),
        ..Usage::default()
    }
}

/// By the first of the route, or by another instead of it.
pub(crate) fn served_by(instead_of: Option<InsteadOf>) -> ServedBy {
    let (provider, model) = ("openai".into(), "one".into());
    ServedBy { provider, model, instead_of, judges_itself: false }
}

pub(crate) fn answered(call: u32, usage: Usage) -> Event {
    Event::ModelAnswered(ModelAnswered {
        call: CallNo(call),
        served_by: served_by(None),
        body: Message::text(Role::Assistant, "so").body(),
        asks: vec![],
        stop: Stop::End,
        usage,
        served_model: None,
        request_id: None,
        profile: None,
    })
}

pub(crate) fn failed(call: u32, charge: Charge) -> Event {
    Event::ModelFailed(ModelFailed {
        call: CallNo(call),
        class: Class::ServerError,
        status: Some(500),
        request_id: None,
        hint: None,
        charge,
        handed_out: 0,
        message: "boom".into(),
        profile: None,
        others: 0,
        renewed: false,
        took: Millis(3),
        wait: None,
        partial: Usage::default(),
        attempts: Attempts::default(),
    })
}

pub(crate) fn unknown(call: u32, reserved: Option<u64>) -> Event {
    let (call, reserved) = (CallNo(call), reserved.map(MicroUsd));
    let (partial, attempts) = (Usage::default(), Attempts::default());
    Event::ModelUnknown(ModelUnknown { call, reserved, partial, attempts })
}

pub(crate) fn not_sent(call: u32) -> Event {
    Event::ModelNotSent(ModelNotSent { call: CallNo(call), why: NotSent::LeaseOver })
}

pub(crate) fn delayed(until: Instant) -> Event {
    Event::ModelDelayed(ModelDelayed { until, candidate: 0 })
}

pub(crate) fn tool_asked(call: u32) -> Event {
    Event::ToolAsked(ToolAsked {
        call: ToolNo(call),
        index: Some(0),
        id: "c".into(),
        name: "clock_now".into(),
        arguments: Json::from_bytes(b"{}"),
        terms: events::run::terms::Terms::plain(ReplayClass::ReadOnly, Millis(5_000)),
        admission: None,
    })
}

pub(crate) fn tool_unknown(call: u32) -> Event {
    Event::ToolUnknown(ToolUnknown {
        call: ToolNo(call),
        reason: events::run::ledger::UnknownReason::Interrupted,
        lease_until: None,
    })
}

/// Facts of tools that change nothing but where the row stands.
pub(crate) fn other_tools() -> [Event; 4] {
    let (call, outcome) = (ToolNo(0), ToolOutcome::Succeeded);
    let (id, name, content) = (String::from("c"), String::from("t"), String::from("no"));
    [
        Event::ToolRetried(ToolRetried { call, attempt: 1 }),
        Event::ToolNotSent(ToolNotSent { call, why: NotSent::LeaseOver }),
        Event::ToolReceipt(ToolReceipt { call, outcome, content: "done".into() }),
        Event::ToolRefused(ToolRefused { index: 1, id, name, content }),
    ]
}

/// Somebody is asked about a call with these arguments, for a minute.
pub(crate) fn approval_asked(approval: u32, arguments: &str) -> Event {
    let (name, arguments) = (String::from("note_append"), Json::from_bytes(arguments.as_bytes()));
    Event::ApprovalAsked(ApprovalAsked {
        approval: ApprovalNo(approval),
        index: 0,
        subject: approval::subject(&name, &arguments),
        name,
        arguments,
        until: NOW.after(Millis(60_000)),
    })
}

pub(crate) fn approval_resolved(approval: u32, resolution: Resolution, by: Option<Actor>) -> Event {
    Event::ApprovalResolved(ApprovalResolved { approval: ApprovalNo(approval), resolution, by })
}

/// A call that goes through the broker, whose lease ends in 35 seconds.
pub(crate) fn invoked(call: u32) -> Event {
    let Event::ToolAsked(asked) = tool_asked(call) else { panic!("an intent") };
    Event::ToolAsked(ToolAsked {
        admission: Some(Box::new(Admission {
            correlation: None,
            input: Hash([4; 32]),
            policy_revision: 3,
            stage: "chat".into(),
            lease_until: NOW.after(Millis(35_000)),
        })),
        ..asked
    })
}

pub(crate) fn settled(call: u32, outcome: ToolOutcome) -> Event {
    Event::ToolReceipt(ToolReceipt { call: ToolNo(call), outcome, content: "so".into() })
}

pub(crate) fn given_up(call: u32) -> Event {
    let (request, by) = (format!("{call:032x}"), Decider::Actor(Actor::Admin));
    Event::ToolReconciled(ToolReconciled { call: ToolNo(call), request, by })
}

pub(crate) fn client_asked(until: Instant) -> Event {
    Event::ClientAsked(ClientAsked { calls: vec!["c".into()], until })
}

pub(crate) fn client_answered() -> Event {
    Event::ClientAnswered(ClientAnswered { results: vec![] })
}

pub(crate) fn client_gone() -> Event {
    Event::ClientGone(ClientGone { calls: vec!["c".into()] })
}

pub(crate) fn finished(outcome: Outcome, reason: Reason) -> Event {
    Event::Finished(Finished { outcome, reason, detail: "why".into(), fence: None })
}
