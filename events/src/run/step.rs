//! One step of a run: a model call, asked again until it is answered or nothing is left to try.
//!
//! The intent with its reservation is committed before a byte leaves. A lost outcome is `unknown`, keeps its
//! reservation and is asked again under a new number; an answered call is never asked again.

use super::account::{self, count};
use super::draw::Took;
use super::life::{self, MessageRef, Outcome, Reason};
use super::served::{self, ServedBy};
use super::spec::{Candidate, Spec};
use super::{
    Event, Refusal, State, admit, course, draw, hold, ledger, offer, owed, recovery, tried, unsent,
    view,
};
use crate::context::Fold;
use crate::leave::NotSent;
use crate::message::Body;
use crate::model_call::{self, Action, Attempts, Class};
use crate::prompt::{Catalogue, request_hash, tokens_upper};
use crate::quantity::{Instant, MicroUsd, Millis, Tokens};
use crate::record::Hash;
use crate::usage::{Billing, Usage};
use serde::{Deserialize, Serialize};

/// Numbers the wire calls of a run, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct CallNo(pub u32);

/// The intent to ask a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAsked {
    /// Which wire call.
    pub call: CallNo,
    /// Which step, from 1.
    pub step: u32,
    /// Which candidate of the frozen route.
    pub candidate: u32,
    /// No byte leaves before then.
    pub not_before: Instant,
    /// Names the neutral request.
    pub request: Hash,
    /// The most it can cost; `None` for a model without a price.
    pub reserved: Option<MicroUsd>,
    /// How the conversation is folded for it; whole when `None`.
    pub fold: Option<Fold>,
}

/// How the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// It was done.
    End,
    /// It reached the token limit.
    Length,
    /// It wants tools.
    ToolCalls,
    /// Its content was cut.
    ContentFilter,
}

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// Which wire call.
    pub call: CallNo,
    /// Who answered, and instead of whom.
    pub served_by: ServedBy,
    /// The assistant's message.
    pub body: Body,
    /// The tool calls in it, with what the edge found about each.
    pub asks: Vec<ledger::Ask>,
    /// How it stopped.
    pub stop: Stop,
    /// What was reported, priced.
    pub usage: Usage,
    /// The model name in the answer, where it differs from what was asked.
    pub served_model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The profile that was used on the wire, where the provider has any.
    pub profile: Option<String>,
}

/// What a failed call is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Charge {
    /// It was refused before any work: proven.
    Nothing,
    /// Nobody proved that it was free: its reservation counts.
    Reserved,
}

/// The model call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// Which wire call.
    pub call: CallNo,
    /// The one error class.
    pub class: Class,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// When the provider said to come back.
    pub hint: Option<Millis>,
    /// What it is charged.
    pub charge: Charge,
    /// Characters of text that were handed out before; they are discarded.
    pub handed_out: u64,
    /// The provider's words, redacted.
    pub message: String,
    /// The profile that was used on the wire; none when nothing was sent, or the provider has no profiles.
    pub profile: Option<String>,
    /// Other profiles of the provider that were ready then.
    pub others: u32,
    /// Whether the profile's token had ended and was had anew.
    pub renewed: bool,
    /// How long the provider took to fail.
    pub took: Millis,
    /// How long the next try waits; none when it does not, or there is none.
    pub wait: Option<Millis>,
    /// What was reported of its usage before it broke off, priced: a lower bound.
    pub partial: Usage,
    /// What was tried so far in this step, this call included.
    pub attempts: Attempts,
}

/// The outcome of a model call was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUnknown {
    /// Which wire call.
    pub call: CallNo,
    /// Its upper bound, kept as spent.
    pub reserved: Option<MicroUsd>,
    /// What was reported of its usage before it was given up, priced: a lower bound. Nothing where a node died.
    pub partial: Usage,
    /// What was tried so far in this step, this call included.
    pub attempts: Attempts,
}

/// Nothing is in flight until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelDelayed {
    /// Then.
    pub until: Instant,
    /// Who is asked then.
    pub candidate: u32,
}

/// What an effect reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// The model answered.
    Answered(Answer),
    /// It failed.
    Failed(Failure),
    /// The task died without a word.
    Lost,
    /// Nothing left.
    NotSent(NotSent),
}

/// An answer, as the edge decoded and checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The assistant's message.
    pub body: Body,
    /// Its tool calls.
    pub asks: Vec<ledger::Ask>,
    /// How it stopped.
    pub stop: Stop,
    /// What was reported.
    pub usage: Usage,
    /// The model name in the answer.
    pub served_model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The profile that was used on the wire, where the provider has any.
    pub profile: Option<String>,
}

/// A failure, as the edge classified it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The one error class.
    pub class: Class,
    /// HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// When to come back.
    pub hint: Option<Millis>,
    /// What it is charged.
    pub charge: Charge,
    /// Characters of text that were handed out before.
    pub handed_out: u64,
    /// The provider's words, redacted.
    pub message: String,
    /// The profile that was used on the wire; none when nothing was sent, or the provider has no profiles.
    pub profile: Option<String>,
    /// Other profiles of the provider that are ready.
    pub others: u32,
    /// Whether the profile's token had ended and was had anew.
    pub renewed: bool,
    /// How long the provider took to fail.
    pub took: Millis,
    /// What was reported of its usage before it broke off.
    pub partial: Usage,
}

/// The wire call in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The intent.
    pub asked: ModelAsked,
}

/// Extends events by what follows from the state after them.
pub(super) fn and_then(
    state: &State,
    mut events: Vec<Event>,
    next: impl FnOnce(&State) -> Vec<Event>,
) -> Vec<Event> {
    if let Ok(after) = super::fold(state, &events) {
        events.extend(next(&after));
    }
    events
}

/// What was settled since the last call and is told to the model with the next one.
fn news(state: &State) -> Vec<Body> {
    let mut news = ledger::results(state);
    news.extend(state.answers.iter().cloned());
    news
}

pub(super) fn refs(state: &State) -> Vec<MessageRef> {
    let own = state.transcript.iter().map(MessageRef::from);
    let news = news(state);
    state.history.iter().copied().chain(own).chain(news.iter().map(MessageRef::from)).collect()
}

fn reserve(bytes: u64, tools: &Catalogue, spec: &Spec, candidate: &Candidate) -> Option<MicroUsd> {
    let tools = tools.json().as_bytes().len();
    let input = Tokens(bytes).plus(tokens_upper(tools));
    let output = spec.params.output_max.unwrap_or(candidate.output_max);
    candidate.price.map(|price| price.worst(input, output))
}

fn within_budget(state: &State, spec: &Spec, who: &Candidate, reserved: Option<MicroUsd>) -> bool {
    let spent =
        state.total.cost.unwrap_or_default().plus(state.total.cost_upper.unwrap_or_default());
    let money = match (spec.limits.cost_max, reserved) {
        (None, _) => true,
        // Spends none of it.
        (Some(_), None) if who.billing == Billing::Subscription => true,
        // A model without a price can not be fitted into a money budget.
        (Some(_), None) => false,
        (Some(max), Some(reserved)) => spent.plus(reserved) <= max,
    };
    money && spec.limits.model_calls_max.is_none_or(|max| state.model_calls() < max)
}

pub(super) fn ask(state: &State, candidate: usize, not_before: Instant) -> Vec<Event> {
    // What halts a run stops its models too; whoever resumes it asks.
    let Some(spec) = state.spec.as_ref().filter(|_| state.halt.is_none()) else { return vec![] };
    let candidate = served::place(state, spec, candidate);
    let Some(who) = spec.route.get(candidate) else {
        if let Some(end) = served::nobody(state, spec) {
            return end;
        }
        let detail = "the route has no candidate left".to_owned();
        return life::close(state, Outcome::Errored, Reason::ModelFailed(Class::Unknown), detail);
    };
    let offer = match offer::offer(state, spec, (candidate, who)) {
        Ok(offer) => offer,
        Err(many) => {
            let reason = Reason::ModelFailed(Class::ToolsTooMany);
            return life::close(state, Outcome::Errored, reason, many.to_string());
        }
    };
    let view = view::view(state, spec, (candidate, who));
    let note = offer.note.as_ref().map_or(0, |note| MessageRef::from(note).bytes);
    let reserved = reserve(view.bytes.saturating_add(note), &offer.tools, spec, who);
    if !within_budget(state, spec, who, reserved) {
        let detail = "the next model call does not fit the run's budget".to_owned();
        return life::close(state, Outcome::Exhausted, Reason::Budget, detail);
    }
    if let Some(asked) = draw::short(state, spec, (candidate, who), reserved, not_before) {
        return vec![asked];
    }
    let (tools, mut names) = (offer.tools.hash(), view.names);
    names.extend(offer.note.iter().map(Body::hash));
    let request = request_hash(&who.provider, &who.model, tools, &names, &spec.params);
    let asked = Event::ModelAsked(ModelAsked {
        call: state.next_call,
        step: state.step + u32::from(state.between_steps),
        candidate: u32::try_from(candidate).unwrap_or(u32::MAX),
        not_before,
        request,
        reserved,
        fold: view.fold,
    });
    offer.event.into_iter().chain([asked]).collect()
}

pub(super) fn settled(
    state: &State,
    call: CallNo,
    outcome: &Settled,
    now: Instant,
) -> Result<Vec<Event>, Refusal> {
    let Some(open) = state.model.as_ref().filter(|open| open.asked.call == call) else {
        return if call < state.next_call { Ok(vec![]) } else { Err(Refusal::NoSuchCall(call)) };
    };
    Ok(match outcome {
        Settled::Answered(answer) => answered(state, open, answer, now),
        Settled::Failed(failure) => recovery::failed(state, open, failure, now),
        Settled::Lost => unknown(state, open, now),
        Settled::NotSent(why) => unsent::not_sent(state, open, *why, now),
    })
}

fn answered(state: &State, open: &OpenCall, answer: &Answer, now: Instant) -> Vec<Event> {
    let price = candidate(state, open).and_then(|who| who.price);
    let Some(served_by) = served::served_by(state, open.asked.candidate) else { return vec![] };
    let event = Event::ModelAnswered(ModelAnswered {
        call: open.asked.call,
        served_by,
        body: answer.body.clone(),
        asks: answer.asks.clone(),
        stop: answer.stop,
        usage: answer.usage.priced(price.as_ref()),
        served_model: answer.served_model.clone(),
        request_id: answer.request_id.clone(),
        profile: answer.profile.clone(),
    });
    let events = and_then(state, vec![event], account::word);
    and_then(state, events, |after| {
        if hold::hands_over(after, &answer.asks) {
            return life::close(after, Outcome::Completed, Reason::ToolCalls, String::new());
        }
        let held = hold::ask(after, &answer.asks, now).into_iter().collect();
        and_then(after, held, |then| course::go_on(then, now))
    })
}

/// The outcome is lost: keep the reservation, ask again under a new number, or end after too many.
pub(super) fn unknown(state: &State, open: &OpenCall, now: Instant) -> Vec<Event> {
    let Some(spec) = &state.spec else { return vec![] };
    let (action, attempts) = recovery::next(state, spec, open, model_call::Outcome::Unknown, now);
    let event = Event::ModelUnknown(ModelUnknown {
        call: open.asked.call,
        reserved: open.asked.reserved,
        partial: Usage::default(),
        attempts,
    });
    and_then(state, vec![event], |after| match action {
        // A pause that the provider asked for holds for the next try too.
        Action::Ask { candidate, not_before } => {
            ask(after, candidate, not_before.max(open.asked.not_before))
        }
        Action::WaitUntil { .. } | Action::Surface => {
            let detail = format!("{} model calls of this step were lost", attempts.unknown);
            life::close(after, Outcome::Errored, Reason::ModelUnknown, detail)
        }
    })
}

/// Gives up the call in flight, of whose usage this much was seen.
pub(super) fn give_up(state: &State, seen: &Usage) -> Option<Event> {
    let open = state.model.as_ref()?;
    let price = candidate(state, open).and_then(|who| who.price);
    let attempts = Attempts {
        total: state.attempts.total.saturating_add(1),
        unknown: state.attempts.unknown.saturating_add(1),
        ..state.attempts
    };
    Some(Event::ModelUnknown(ModelUnknown {
        call: open.asked.call,
        reserved: open.asked.reserved,
        partial: seen.priced(price.as_ref()),
        attempts,
    }))
}

pub(super) fn due(state: &State, now: Instant) -> Vec<Event> {
    match &state.delayed {
        Some(delayed) if delayed.until <= now => {
            ask(state, usize::try_from(delayed.candidate).unwrap_or(usize::MAX), now)
        }
        Some(_) | None => vec![],
    }
}

pub(super) fn candidate<'a>(state: &'a State, open: &OpenCall) -> Option<&'a Candidate> {
    state.spec.as_ref()?.route.get(usize::try_from(open.asked.candidate).ok()?)
}

pub(super) fn on_asked(state: &mut State, event: &ModelAsked) -> Option<()> {
    let idle = owed::at_work(state) && !owed::busy(state) && !state.concluded;
    if !idle || event.call != state.next_call {
        return None;
    }
    draw::on_intent(state, event.reserved)?;
    let news = news(state);
    state.transcript.extend(news);
    state.answers.clear();
    state.tools.clear();
    if state.between_steps {
        state.attempts = Attempts::after(&state.attempts, event.candidate);
        state.tried.clear();
        state.primary_failed = None;
        state.step += 1;
        state.between_steps = false;
    }
    state.delayed = None;
    state.attempts.candidate = usize::try_from(event.candidate).ok()?;
    state.next_call = CallNo(state.next_call.0.checked_add(1)?);
    state.model = Some(OpenCall { asked: event.clone() });
    Some(())
}

pub(super) fn take_open(state: &mut State, call: CallNo) -> Option<OpenCall> {
    let open = state.model.take_if(|open| open.asked.call == call)?;
    state.unsent.in_a_row = 0;
    Some(open)
}

pub(super) fn on_answered(state: &mut State, event: &ModelAnswered) -> Option<()> {
    let open = take_open(state, event.call)?;
    count(state, &open, |total, billing| {
        total.answered(&event.usage, open.asked.reserved, billing);
    });
    draw::settle(state, &open, Took::Cost(event.usage.cost));
    state.usage = event.usage;
    state.served_by = Some(event.served_by.clone());
    state.answered = state.answered.checked_add(1)?;
    state.transcript.push(event.body.clone());
    state.tools = admit::waiting(&event.asks);
    state.concluded = event.asks.is_empty();
    state.stop = Some(event.stop);
    state.between_steps = true;
    Some(())
}

pub(super) fn on_failed(state: &mut State, event: &ModelFailed) -> Option<()> {
    let open = take_open(state, event.call)?;
    count(state, &open, |total, billing| match event.charge {
        Charge::Nothing => total.refused(),
        Charge::Reserved => total.unknown(&event.partial, open.asked.reserved, billing),
    });
    tried::failed(state, &open, event);
    if open.asked.candidate == 0 {
        state.primary_failed = Some(event.class);
    }
    draw::settle(state, &open, Took::failed(event.charge, &event.partial));
    state.attempts = event.attempts;
    Some(())
}

pub(super) fn on_unknown(state: &mut State, event: &ModelUnknown) -> Option<()> {
    let open = take_open(state, event.call)?;
    count(state, &open, |total, billing| {
        total.unknown(&event.partial, event.reserved, billing);
    });
    draw::settle(state, &open, Took::Worst(event.partial.cost));
    tried::unknown(state, &open);
    state.attempts = event.attempts;
    Some(())
}

pub(super) fn on_delayed(state: &mut State, event: &ModelDelayed) -> Option<()> {
    if state.model.is_some() || state.between_steps || !owed::at_work(state) {
        return None;
    }
    state.delayed = Some(event.clone());
    Some(())
}
