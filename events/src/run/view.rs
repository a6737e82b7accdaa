//! What of a run's conversation is sent to a candidate: its rules are the context's, its bounds are the run's.

use super::spec::{Candidate, Plane, Spec};
use super::step::{self, OpenCall};
use super::{State, offer};
use crate::context::stats::{Stats, stats};
use crate::context::{self, Bounds, Plan};
use crate::model_call::{Attempts, Class};

/// Of 100 parts of what a model reads, those beyond which a conversation is folded.
const WINDOW_SHARE: u64 = 60;

fn tools(state: &State, spec: &Spec) -> u64 {
    let (tools, _note) = offer::sent(&state.choosing, spec);
    u64::try_from(tools.json().as_bytes().len()).unwrap_or(u64::MAX)
}

/// What the conversation must keep to before that candidate; `refused` is a size that it was learnt to be too much.
fn bounds(state: &State, spec: &Spec, who: &Candidate, refused: Option<u64>) -> Bounds {
    // Texts to be made into vectors are no conversation.
    if spec.plane == Plane::Embeddings {
        return Bounds::default();
    }
    let is_ours = spec.plane == Plane::Run || state.session.is_some();
    let reads = who.context_max.filter(|_| is_ours).map(context::bytes);
    let window = reads.map(|bytes| (bytes / 100).saturating_mul(WINDOW_SHARE));
    let window = window.into_iter().chain(refused).min();
    Bounds {
        history: state.history.len(),
        history_max: Some(context::bytes(spec.limits.history_max)),
        window: window.map(|bytes| bytes.saturating_sub(tools(state, spec))),
    }
}

/// The conversation as that candidate of the route is sent it.
pub(super) fn view(state: &State, spec: &Spec, (place, who): (usize, &Candidate)) -> Plan {
    let learnt = state.attempts.without.bytes_max.filter(|_| state.attempts.candidate == place);
    context::plan(&step::refs(state), &bounds(state, spec, who, learnt))
}

/// To what the conversation is folded that was refused for its size: to half of what was sent, where that saves at least
/// a tenth of it.
pub(super) fn shorter(state: &State, spec: &Spec, open: &OpenCall, class: Class) -> Option<u64> {
    if !is_size(class) {
        return None;
    }
    let who = step::candidate(state, open)?;
    let place = usize::try_from(open.asked.candidate).ok()?;
    let sent = view(state, spec, (place, who)).bytes.saturating_add(tools(state, spec));
    let half = sent / 2;
    let plan = context::plan(&step::refs(state), &bounds(state, spec, who, Some(half)));
    let then = plan.bytes.saturating_add(tools(state, spec));
    (then.saturating_mul(10) <= sent.saturating_mul(9)).then_some(half)
}

const fn is_size(class: Class) -> bool {
    matches!(class, Class::ContextOverflow | Class::PayloadTooLarge)
}

/// Why a conversation that nobody takes for its size ends with that; none where it was something else.
pub(super) fn unfit(spec: &Spec, class: Class, attempts: &Attempts) -> Option<&'static str> {
    if !is_size(class) || spec.plane == Plane::Embeddings {
        return None;
    }
    Some(if attempts.without.folded {
        "it was folded once and is still too long: ask a model that reads more, or send less"
    } else {
        "folding older messages would not make it a tenth shorter: ask a model that reads more, or send less"
    })
}

impl State {
    /// How large its context is and what it is made of, before whoever is asked or would be.
    #[must_use]
    pub fn context(&self) -> Option<Stats> {
        let spec = self.spec.as_ref()?;
        let place = self.attempts.candidate;
        let plan = view(self, spec, (place, spec.route.get(place)?));
        Some(stats(&step::refs(self), tools(self, spec), plan.fold.as_ref()))
    }
}
