//! The project that a conversation is about: what its runs belong to that name none.
//!
//! It is said in the conversation and changes nothing that was said before: a run keeps the project that it was frozen
//! with, and the session stays in the one that it was opened in.

use super::{Event, Refusal, State};
use crate::record::Actor;
use serde::{Deserialize, Serialize};

/// Bytes of the longest project's name that can be a scope.
const NAME_BYTES_MAX: usize = 256;

/// From now on it is about this project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeSet {
    /// The project's name.
    pub project: String,
    /// Who said so.
    pub by: Actor,
}

impl State {
    /// The project of a run that names none; `None` where nobody said one.
    #[must_use]
    pub fn project(&self) -> Option<&str> {
        let opened = self.opened.as_ref().map(|opened| opened.project.as_str());
        self.scope.as_deref().or(opened)
    }
}

pub(super) fn set(state: &State, project: &str, by: Actor) -> Result<Vec<Event>, Refusal> {
    if state.opened.is_none() || !(1..=NAME_BYTES_MAX).contains(&project.len()) {
        return Err(Refusal::NoScope);
    }
    if state.closed {
        return Err(Refusal::IsClosed);
    }
    if state.project() == Some(project) {
        return Ok(vec![]);
    }
    Ok(vec![Event::ScopeSet(ScopeSet { project: project.to_owned(), by })])
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Opened, Session};
    use super::*;
    use crate::aggregate::Aggregate;
    use crate::quantity::Instant;

    fn scoped(state: &State, project: &str) -> Result<Vec<Event>, Refusal> {
        let command = Command::SetScope { project: project.to_owned(), by: Actor::Node };
        Session::decide(state, &command, Instant(7))
    }

    #[test]
    fn a_scope_is_set_once_and_the_last_one_holds() {
        assert_eq!(scoped(&State::default(), "lab"), Err(Refusal::NoScope));
        let opened = Opened { project: "default".to_owned(), by: Actor::Node, key_slot: 0 };
        let mut state = Session::evolve(State::default(), &Event::Opened(opened)).unwrap();
        assert_eq!(state.project(), Some("default"));
        for (project, count) in [("default", 0), ("lab", 1), ("lab", 0), ("default", 1)] {
            let events = scoped(&state, project).unwrap();
            assert_eq!(events.len(), count, "{project}");
            state = events.iter().try_fold(state, Session::evolve).unwrap();
            assert_eq!(state.project(), Some(project));
        }
        assert_eq!(scoped(&state, ""), Err(Refusal::NoScope));
        assert_eq!(scoped(&state, &"x".repeat(257)), Err(Refusal::NoScope));
        state.closed = true;
        assert_eq!(scoped(&state, "lab"), Err(Refusal::IsClosed));
    }
}
