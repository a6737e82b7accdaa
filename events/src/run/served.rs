//! Who gave an answer, instead of whom, and that an evaluator is not served by whom it judges.
//!
//! Who judges is kept apart from who made what is judged, by the provider: whoever last served the generator of the same
//! session, as it really was and not as it was meant. Under `require` its models are passed over; under `warn` they are
//! asked, and the answer says so.

use super::spec::{Spec, Unfit};
use super::{Event, State, life};
use crate::role::Independence;
use life::{Outcome, Reason};
use serde::{Deserialize, Serialize};

/// Who gave an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedBy {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// Who was meant to, where somebody else was.
    pub instead_of: Option<InsteadOf>,
    /// An evaluator that was served by whom it judges, which is only warned of here.
    pub judges_itself: bool,
}

/// Who was meant to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsteadOf {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// Why it did not.
    pub why: Why,
}

/// Why a primary did not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// It was asked and did not answer.
    CallFailed,
    /// It is plainly another vendor's model, and was dropped.
    ModelMismatch,
    /// Its API can not do what the request needs.
    CapabilityUnsupported,
    /// It served what is to be judged.
    NotIndependent,
}

impl Why {
    /// Its word on wires, in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CallFailed => "call_failed",
            Self::ModelMismatch => Unfit::ModelMismatch.name(),
            Self::CapabilityUnsupported => Unfit::CapabilityUnsupported.name(),
            Self::NotIndependent => "not_independent",
        }
    }
}

impl From<Unfit> for Why {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::ModelMismatch => Self::ModelMismatch,
            Unfit::CapabilityUnsupported => Self::CapabilityUnsupported,
        }
    }
}

/// The provider of what is judged, for a run that judges and a rule that cares.
fn judged<'a>(state: &'a State, spec: &Spec) -> Option<&'a str> {
    let cares = spec.role.is_evaluator() && spec.independence != Independence::Off;
    state.generated_by.as_deref().filter(|_| cares)
}

/// The first candidate from this place on that may serve.
pub(super) fn place(state: &State, spec: &Spec, from: usize) -> usize {
    let Some(judged) = judged(state, spec).filter(|_| spec.independence == Independence::Require)
    else {
        return from;
    };
    let mut rest = spec.route.iter().enumerate().skip(from);
    rest.find(|(_, one)| one.provider != judged).map_or(spec.route.len(), |(place, _)| place)
}

/// The end of a run whose chain has nobody left who may judge; nothing for any other run.
pub(super) fn nobody(state: &State, spec: &Spec) -> Option<Vec<Event>> {
    let detail = rule(judged(state, spec)?);
    Some(life::close(state, Outcome::Errored, Reason::NotIndependent, detail))
}

fn rule(judged: &str) -> String {
    format!(
        "an evaluator must be served by another provider than {judged}, which served the generator of this session, and \
         nobody else is left to ask: route the role evaluator to another provider, let one stand behind it \
         (fallback_providers), or set evaluator_independence"
    )
}

/// Why those behind a candidate that failed were not asked; nothing where there is nobody, or nobody was kept out.
pub(super) fn kept_out(state: &State, spec: &Spec, candidate: u32) -> Option<String> {
    let judged = judged(state, spec).filter(|_| spec.independence == Independence::Require)?;
    let behind = usize::try_from(candidate).ok()?.saturating_add(1);
    let kept_out = spec.route.iter().skip(behind).any(|one| one.provider == judged);
    kept_out.then(|| rule(judged))
}

/// Who answers as this candidate of the route, by its place.
pub(super) fn served_by(state: &State, candidate: u32) -> Option<ServedBy> {
    let spec = state.spec.as_ref()?;
    let by = spec.route.get(usize::try_from(candidate).ok()?)?;
    let judged = judged(state, spec);
    let first = spec.route.first().filter(|_| candidate > 0);
    let instead_of = match (spec.dropped.first(), first) {
        (Some(dropped), _) => {
            let (provider, model) = (dropped.provider.clone(), dropped.model.clone());
            Some(InsteadOf { provider, model, why: dropped.unfit.into() })
        }
        (None, Some(first)) => {
            let (provider, model) = (first.provider.clone(), first.model.clone());
            let passed_over = place(state, spec, 0) > 0;
            let why = if passed_over { Why::NotIndependent } else { Why::CallFailed };
            Some(InsteadOf { provider, model, why })
        }
        (None, None) => None,
    };
    let (provider, model) = (by.provider.clone(), by.model.clone());
    let judges_itself = judged == Some(provider.as_str());
    Some(ServedBy { provider, model, instead_of, judges_itself })
}
