//! Which model call of a run is open and who serves it: what a settled call means for sums.
//!
//! The sums are those of the run's own rules ([`Total::answered`], [`Total::refused`], [`Total::unknown`]), so that a
//! list and a run never disagree about money: a failed call whose charge nobody disproved counts its reservation.

use events::quantity::MicroUsd;
use events::run::spec::Spec;
use events::run::step::{CallNo, Charge, ModelAnswered, ModelAsked, ModelFailed, ModelUnknown};
use events::run::unsent::ModelNotSent;
use events::usage::{Billing, Total, Usage};
use serde::{Deserialize, Serialize};

/// Who serves a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Served {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    call: CallNo,
    candidate: u32,
    reserved: Option<MicroUsd>,
}

/// The route of a run and its call in flight. Kept with its row until it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Calls {
    route: Vec<(Served, Billing)>,
    open: Option<Open>,
}

/// What came of a call, as far as sums go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It used and cost this; if nobody says what, up to the second.
    Answered(Usage, Option<MicroUsd>, Billing),
    /// It was free: proven.
    Refused,
    /// It used and cost at least this, and up to the second.
    Unknown(Usage, Option<MicroUsd>, Billing),
}

impl Settled {
    pub(crate) fn count(&self, total: &mut Total) {
        match self {
            Self::Answered(usage, reserved, billing) => {
                total.answered(usage, *reserved, *billing);
            }
            Self::Refused => total.refused(),
            Self::Unknown(seen, reserved, billing) => total.unknown(seen, *reserved, *billing),
        }
    }
}

/// Each method is `None` for a fact that may not follow.
impl Calls {
    pub(crate) fn new(spec: &Spec) -> Self {
        let route = spec.route.iter().map(|candidate| {
            let (provider, model) = (candidate.provider.clone(), candidate.model.clone());
            (Served { provider, model }, candidate.billing)
        });
        Self { route: route.collect(), open: None }
    }

    /// The first of the route.
    pub(crate) fn primary(&self) -> Option<&Served> {
        self.route.first().map(|(served, _)| served)
    }

    pub(crate) fn asked(&mut self, event: &ModelAsked) -> Option<()> {
        let known = usize::try_from(event.candidate).ok()? < self.route.len();
        (known && self.open.is_none()).then_some(())?;
        let ModelAsked { call, candidate, reserved, .. } = *event;
        self.open = Some(Open { call, candidate, reserved });
        Some(())
    }

    fn take(&mut self, call: CallNo) -> Option<(Open, Served, Billing)> {
        let open = self.open.take_if(|open| open.call == call)?;
        let (served, billing) = self.route.get(usize::try_from(open.candidate).ok()?)?;
        Some((open, served.clone(), *billing))
    }

    pub(crate) fn answered(&mut self, event: &ModelAnswered) -> Option<(Served, Settled)> {
        let (open, served, billing) = self.take(event.call)?;
        Some((served, Settled::Answered(event.usage, open.reserved, billing)))
    }

    pub(crate) fn failed(&mut self, event: &ModelFailed) -> Option<(Served, Settled)> {
        let (open, served, billing) = self.take(event.call)?;
        let settled = match event.charge {
            Charge::Nothing => Settled::Refused,
            Charge::Reserved => Settled::Unknown(event.partial, open.reserved, billing),
        };
        Some((served, settled))
    }

    pub(crate) fn unknown(&mut self, event: &ModelUnknown) -> Option<(Served, Settled)> {
        let (_, served, billing) = self.take(event.call)?;
        Some((served, Settled::Unknown(event.partial, event.reserved, billing)))
    }

    /// It was never asked: no sum knows it.
    pub(crate) fn not_sent(&mut self, event: &ModelNotSent) -> Option<()> {
        self.take(event.call).map(|_never| ())
    }
}
