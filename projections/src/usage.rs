//! What model calls used and cost, added up by run, day, minute and what they belong to.
//!
//! Every row is a commutative sum, so the order of streams does not matter. Unknown is never zero: calls that nobody
//! reported tokens or a price for are counted beside the sums, which are lower bounds then.

mod rows;

pub(crate) use rows::{fallbacks, fold, of_run, summary, total};

use crate::Reach;
use crate::calls::{Calls, Served, Settled};
use events::aggregate::IllegalEvent;
use events::id::RunId;
use events::quantity::Instant;
use events::record::Actor;
use events::run::Event;
use events::usage::Total;
use std::fmt;

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 4;
/// The longest trailing window, in hours (a year and a day).
pub const WINDOW_HOURS_MAX: u32 = 366 * 24;

const MINUTE_MICROS: i64 = 60_000_000;
const DAY_MICROS: i64 = 24 * 60 * MINUTE_MICROS;

/// What to add up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// The run.
    Run,
    /// Its project.
    Project,
    /// Who served the call.
    Provider,
    /// Which model of whom.
    Model,
    /// What the model was asked for.
    Role,
    /// The phase of a flow.
    Phase,
    /// Who asked for the run.
    Caller,
    /// Who asked for the run, of access keys only.
    Key,
    /// The profile of the provider that the call was made with, where that is known.
    Profile,
    /// The day on which the call was settled, in UTC.
    Day,
}

/// A day in UTC, counted from 1970-01-01. Prints as `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

impl Day {
    /// The day of an instant.
    #[must_use]
    pub const fn of(at: Instant) -> Self {
        Self(at.0.div_euclid(DAY_MICROS))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Years begin in March here, so that the leap day is the last of its year; 146,097 days are 400 years.
        let days = self.0.saturating_add(719_468);
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// What a sum belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A run.
    Run(RunId),
    /// A project.
    Project(String),
    /// A provider.
    Provider(String),
    /// A model of a provider.
    Model(Served),
    /// What models were asked for.
    Role(String),
    /// A phase of a flow; `None` for runs of none.
    Phase(Option<String>),
    /// Whoever asked.
    Caller(Actor),
    /// A profile of a provider.
    Profile {
        /// Provider id.
        provider: String,
        /// Its name.
        profile: String,
    },
    /// A day.
    Day(Day),
}

/// A sum and what it belongs to. [`Total::is_lower_bound`] says whether more may have been used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it belongs to.
    pub key: Key,
    /// The sum.
    pub total: Total,
}

/// Sums by one property: the dearest first, days newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// At most 200 lines.
    pub lines: Vec<Line>,
    /// Lines that are not shown.
    pub left_off: u64,
    /// The sum of all, those not shown included.
    pub all: Total,
    /// Where the sums stand in the log.
    pub at: Reach,
}

/// Sums of a trailing window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The first instant in it: a whole minute, so that the window is up to a minute longer than asked for.
    pub since: Instant,
    /// The sum of all.
    pub all: Total,
    /// By model, the dearest first, at most 200.
    pub by_model: Vec<Line>,
    /// By provider, the dearest first, at most 200.
    pub by_provider: Vec<Line>,
    /// By role, the dearest first, at most 200.
    pub by_role: Vec<Line>,
    /// By phase, the dearest first, at most 200; of runs that belong to one.
    pub by_phase: Vec<Line>,
    /// Where the sums stand in the log.
    pub at: Reach,
}

/// How often a role was served by another provider than the one that was meant to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Who was meant to serve: provider and model.
    pub primary: Served,
    /// Who served.
    pub fallback: Served,
    /// What it was asked for.
    pub role: String,
    /// `call_failed`, `model_mismatch`, `capability_unsupported` or `not_independent`.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The newest time.
    pub last: Instant,
}

/// A run that has not ended: whom its next settled call belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    project: String,
    caller: Actor,
    role: String,
    phase: Option<String>,
    calls: Calls,
}

/// What a fact means: the run from now on, unless it has ended, and a call that was settled by it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    open: Option<Open>,
    settled: Option<(Served, Settled)>,
    /// Who was meant to serve an answer that somebody else gave, and why.
    instead_of: Option<(Served, &'static str)>,
}

/// The profile that a call was settled with.
fn profile(event: &Event) -> Option<&str> {
    if let Event::ModelFailed(failed) = event {
        return failed.profile.as_deref();
    }
    let Event::ModelAnswered(answered) = event else { return None };
    answered.profile.as_deref()
}

/// Who was meant to give an answer that somebody else gave, and why that one did not.
fn instead_of(event: &Event) -> Option<(Served, &'static str)> {
    let Event::ModelAnswered(answered) = event else { return None };
    let meant = answered.served_by.instead_of.as_ref()?;
    let (provider, model) = (meant.provider.clone(), meant.model.clone());
    Some((Served { provider, model }, meant.why.name()))
}

/// One fact more. Total over the facts of a run.
fn evolve(before: Option<Open>, event: &Event) -> Result<Step, IllegalEvent> {
    let word = if before.is_some() { "a run that has not ended" } else { "no run, or its end" };
    let illegal = || IllegalEvent { event: event.name().to_owned(), before: word.to_owned() };
    let mut open = match (before, event) {
        (None, Event::Queued(queued)) => {
            let spec = &queued.spec;
            let (role, phase) = (spec.role.to_string(), spec.phase.clone());
            let (project, caller) = (spec.project.clone(), spec.caller);
            let open = Open { project, caller, role, phase, calls: Calls::new(spec) };
            return Ok(Step { open: Some(open), settled: None, instead_of: None });
        }
        (Some(open), _) => open,
        // What it did not use of its budgets goes back after its end, and its answer may be withheld.
        (None, Event::SliceReturned(_) | Event::Withheld(_) | Event::ToolReconciled(_)) => {
            return Ok(Step { open: None, settled: None, instead_of: None });
        }
        (None, _) => return Err(illegal()),
    };
    let instead_of = instead_of(event);
    let settled = match event {
        Event::Queued(_) => return Err(illegal()),
        Event::ModelAsked(asked) => {
            open.calls.asked(asked).ok_or_else(illegal)?;
            None
        }
        Event::ModelAnswered(answered) => Some(open.calls.answered(answered).ok_or_else(illegal)?),
        Event::ModelFailed(failed) => Some(open.calls.failed(failed).ok_or_else(illegal)?),
        Event::ModelUnknown(unknown) => Some(open.calls.unknown(unknown).ok_or_else(illegal)?),
        Event::ModelNotSent(unsent) => {
            open.calls.not_sent(unsent).ok_or_else(illegal)?;
            None
        }
        Event::Finished(_) => return Ok(Step { open: None, settled: None, instead_of: None }),
        Event::Started(_)
        | Event::ModelDelayed(_)
        | Event::SliceAsked(_)
        | Event::SliceGranted(_)
        | Event::SliceRefused(_)
        | Event::SliceReturned(_)
        | Event::ToolAsked(_)
        | Event::ToolRefused(_)
        | Event::ToolReceipt(_)
        | Event::ToolUnknown(_)
        | Event::ToolRetried(_)
        | Event::ToolNotSent(_)
        | Event::ToolReconciled(_)
        | Event::ToolsChosen(_)
        | Event::ToolRepeated(_)
        | Event::Paused(_)
        | Event::Resumed(_)
        | Event::ApprovalAsked(_)
        | Event::ApprovalResolved(_)
        | Event::ClientAsked(_)
        | Event::ClientAnswered(_)
        | Event::ClientGone(_)
        | Event::Withheld(_)
        | Event::SpendCrossed(_) => None,
    };
    Ok(Step { open: Some(open), settled, instead_of })
}

#[cfg(test)]
mod tests;
