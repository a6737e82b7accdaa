//! A run's answer taken back by whoever asked for it. The journal keeps every word, for it only grows; the doors that
//! would give the answer out again do so no more.

use super::life::{self, Life};
use super::unsent::Flight;
use super::{Event, State, step};
use serde::{Deserialize, Serialize};

/// Its answer is given out no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {}

/// What is still at work is ended in the same commit: nobody would read what it goes on to say.
pub(super) fn withhold(state: &State, flight: &Flight) -> Vec<Event> {
    if state.withheld {
        return vec![];
    }
    step::and_then(state, life::stop(state, flight), |_ended| vec![Event::Withheld(Withheld {})])
}

pub(super) fn on_withheld(state: &mut State, _event: &Withheld) -> Option<()> {
    let ended = matches!(state.life, Life::Ended(_));
    (ended && !state.withheld).then(|| state.withheld = true)
}
