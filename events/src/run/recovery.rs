//! What a run does about a model call that failed: the rule of [`model_call`] with what the run knows, as events.

use super::life::{Outcome, Reason, close};
use super::spec::{Plane, Spec};
use super::step::{self, Failure, ModelDelayed, ModelFailed, OpenCall};
use super::{Event, State, account, served, view};
use crate::model_call::{self, Action, Attempts, Class, Rung};
use crate::quantity::{Instant, Millis};
use serde_json::value::RawValue;

/// Evenly spread bits that only this call of this run has (SplitMix64 of the run's seed and the call's number).
pub(super) fn jitter(spec: &Spec, open: &OpenCall) -> u64 {
    let step = u64::from(open.asked.call.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = spec.seed.wrapping_add(step);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(super) fn next(
    state: &State,
    spec: &Spec,
    open: &OpenCall,
    outcome: model_call::Outcome,
    now: Instant,
) -> (Action, Attempts) {
    let route: Vec<Rung<'_>> = spec
        .route
        .iter()
        .enumerate()
        .map(|(place, one)| Rung {
            family: &one.family,
            window: one.context_max,
            barred: served::place(state, spec, place) != place,
        })
        .collect();
    let limits = &spec.limits.recovery;
    model_call::next(&state.attempts, outcome, &route, limits, jitter(spec, open), now)
}

pub(super) fn failed(
    state: &State,
    open: &OpenCall,
    failure: &Failure,
    now: Instant,
) -> Vec<Event> {
    let Some(spec) = &state.spec else { return vec![] };
    let outcome = model_call::Outcome::Failed(model_call::Failed {
        class: failure.class,
        hint: failure.hint,
        others: failure.others,
        renewed: failure.renewed,
        tools_max: tools_max(spec, failure),
        bytes_max: view::shorter(state, spec, open, failure.class),
    });
    let (action, attempts) = next(state, spec, open, outcome, now);
    // Text that a model-plane caller has already read can not be taken back: say so instead of going on.
    let action = match (spec.plane, failure.handed_out) {
        (Plane::Model, 1..) => Action::Surface,
        (Plane::Model, 0) | (Plane::Run | Plane::Embeddings, _) => action,
    };
    let price = step::candidate(state, open).and_then(|who| who.price);
    let event = Event::ModelFailed(ModelFailed {
        call: open.asked.call,
        class: failure.class,
        status: failure.status,
        request_id: failure.request_id.clone(),
        hint: failure.hint,
        charge: failure.charge,
        handed_out: failure.handed_out,
        message: failure.message.clone(),
        profile: failure.profile.clone(),
        others: failure.others,
        renewed: failure.renewed,
        took: failure.took,
        wait: pause(state, action, &attempts, now),
        partial: failure.partial.priced(price.as_ref()),
        attempts,
    });
    let events = step::and_then(state, vec![event], account::word);
    step::and_then(state, events, |after| match action {
        Action::Ask { candidate, not_before } => step::ask(after, candidate, not_before),
        Action::WaitUntil { candidate, until } => {
            let candidate = u32::try_from(candidate).unwrap_or(u32::MAX);
            vec![Event::ModelDelayed(ModelDelayed { until, candidate })]
        }
        Action::Surface => {
            let unfit = view::unfit(spec, failure.class, &attempts);
            let reason = match unfit {
                Some(_) => Reason::ContextUnfit(failure.class),
                None => Reason::ModelFailed(failure.class),
            };
            let kept_out = served::kept_out(state, spec, open.asked.candidate);
            let mut detail = failure.message.clone();
            for why in unfit.map(str::to_owned).into_iter().chain(kept_out) {
                detail = format!("{detail}; {why}");
            }
            close(after, Outcome::Errored, reason, detail)
        }
    })
}

/// The most tools that the provider takes, where it said so and they are fewer than are offered.
fn tools_max(spec: &Spec, failure: &Failure) -> Option<u32> {
    if failure.class != Class::ToolsTooMany {
        return None;
    }
    let tools: Result<Vec<&RawValue>, _> = serde_json::from_slice(spec.tools.json().as_bytes());
    model_call::tools_max(&failure.message, tools.map_or(0, |tools| tools.len()))
}

/// How long the next try waits; none when it does not.
fn pause(state: &State, action: Action, after: &Attempts, now: Instant) -> Option<Millis> {
    let pause = match action {
        Action::Ask { not_before: until, .. } | Action::WaitUntil { until, .. } => until.since(now),
        Action::Surface => return None,
    };
    (pause > Millis(0) || after.waits > state.attempts.waits).then_some(pause)
}
