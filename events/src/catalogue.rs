//! Every aggregate of this build in one list, for readers that meet streams of any kind: verification, projections,
//! the journal's export. Nothing decides here.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::record::{StreamKey, StreamKind};
use crate::{about, artifact, budget, credential, gate, grant, key, run, session, settings};

/// A fact of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Of a session.
    Session(Box<session::Event>),
    /// Of a run.
    Run(Box<run::Event>),
    /// Of a key.
    Key(key::Event),
    /// Of the journal's settings.
    Settings(settings::Event),
    /// Of a provider's credentials.
    Credential(credential::Event),
    /// Of a budget.
    Budget(budget::Event),
    /// Of a project's grants.
    Grant(grant::Event),
    /// Of a project's gates.
    Gates(gate::Event),
    /// Of the artifacts of a project.
    Artifact(Box<artifact::Event>),
    /// Of a project.
    Project(about::Event),
    /// Of the store's own tests.
    Probe,
}

impl Fact {
    /// What happened, as a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Session(event) => event.name(),
            Self::Run(event) => event.name(),
            Self::Key(event) => event.name(),
            Self::Settings(event) => event.name(),
            Self::Credential(event) => event.name(),
            Self::Budget(event) => event.name(),
            Self::Grant(event) => event.name(),
            Self::Gates(event) => event.name(),
            Self::Artifact(event) => event.name(),
            Self::Project(event) => event.name(),
            Self::Probe => "probe",
        }
    }
}

/// The fact that an entry of a stream holds.
///
/// # Errors
///
/// When this build does not know the kind and schema, or the bytes do not decode.
pub fn decode(
    stream: &StreamKey,
    kind: u16,
    schema: u16,
    payload: &[u8],
) -> Result<Fact, CodecError> {
    Ok(match stream.kind() {
        StreamKind::Session => {
            Fact::Session(Box::new(session::Event::decode(kind, schema, payload)?))
        }
        StreamKind::Run => Fact::Run(Box::new(run::Event::decode(kind, schema, payload)?)),
        StreamKind::Key => Fact::Key(key::Event::decode(kind, schema, payload)?),
        StreamKind::Settings => Fact::Settings(settings::Event::decode(kind, schema, payload)?),
        StreamKind::Credential => {
            Fact::Credential(credential::Event::decode(kind, schema, payload)?)
        }
        StreamKind::Budget => Fact::Budget(budget::Event::decode(kind, schema, payload)?),
        StreamKind::Grant => Fact::Grant(grant::Event::decode(kind, schema, payload)?),
        StreamKind::Gates => Fact::Gates(gate::Event::decode(kind, schema, payload)?),
        StreamKind::Artifact => {
            Fact::Artifact(Box::new(artifact::Event::decode(kind, schema, payload)?))
        }
        StreamKind::Project => Fact::Project(about::Event::decode(kind, schema, payload)?),
        StreamKind::Probe => Fact::Probe,
    })
}

/// The fold of a stream of any kind.
#[derive(Debug, Clone)]
pub enum Folded {
    /// A session.
    Session(Box<session::State>),
    /// A run.
    Run(Box<run::State>),
    /// A key.
    Key(Box<key::State>),
    /// The journal's settings.
    Settings(Box<settings::State>),
    /// A provider's credentials.
    Credential(Box<credential::State>),
    /// A budget.
    Budget(Box<budget::State>),
    /// A project's grants.
    Grant(Box<grant::State>),
    /// A project's gates.
    Gates(Box<gate::State>),
    /// The artifacts of a project.
    Artifact(Box<artifact::State>),
    /// A project.
    Project(Box<about::State>),
    /// A stream of the store's own tests.
    Probe,
}

impl Folded {
    /// The fold of no event.
    #[must_use]
    pub fn empty(kind: StreamKind) -> Self {
        match kind {
            StreamKind::Session => Self::Session(Box::default()),
            StreamKind::Run => Self::Run(Box::default()),
            StreamKind::Key => Self::Key(Box::default()),
            StreamKind::Settings => Self::Settings(Box::default()),
            StreamKind::Credential => Self::Credential(Box::default()),
            StreamKind::Budget => Self::Budget(Box::default()),
            StreamKind::Grant => Self::Grant(Box::default()),
            StreamKind::Gates => Self::Gates(Box::default()),
            StreamKind::Artifact => Self::Artifact(Box::default()),
            StreamKind::Project => Self::Project(Box::default()),
            StreamKind::Probe => Self::Probe,
        }
    }

    /// One fact more.
    ///
    /// # Errors
    ///
    /// When it may not follow, or is not of this kind of stream.
    pub fn evolve(self, fact: &Fact) -> Result<Self, IllegalEvent> {
        let stray = |before: &str| IllegalEvent {
            event: fact.name().to_owned(),
            before: before.to_owned(),
        };
        match (self, fact) {
            (Self::Session(state), Fact::Session(event)) => {
                Ok(Self::Session(Box::new(session::Session::evolve(*state, event)?)))
            }
            (Self::Run(state), Fact::Run(event)) => {
                Ok(Self::Run(Box::new(run::Run::evolve(*state, event)?)))
            }
            (Self::Key(state), Fact::Key(event)) => {
                Ok(Self::Key(Box::new(key::Key::evolve(*state, event)?)))
            }
            (Self::Settings(state), Fact::Settings(event)) => {
                Ok(Self::Settings(Box::new(settings::Settings::evolve(*state, event)?)))
            }
            (Self::Credential(state), Fact::Credential(event)) => {
                Ok(Self::Credential(Box::new(credential::Credential::evolve(*state, event)?)))
            }
            (Self::Budget(state), Fact::Budget(event)) => {
                Ok(Self::Budget(Box::new(budget::Budget::evolve(*state, event)?)))
            }
            (Self::Grant(state), Fact::Grant(event)) => {
                Ok(Self::Grant(Box::new(grant::Grant::evolve(*state, event)?)))
            }
            (Self::Gates(state), Fact::Gates(event)) => {
                Ok(Self::Gates(Box::new(gate::Gates::evolve(*state, event)?)))
            }
            (Self::Artifact(state), Fact::Artifact(event)) => {
                Ok(Self::Artifact(Box::new(artifact::Artifacts::evolve(*state, event)?)))
            }
            (Self::Project(state), Fact::Project(event)) => {
                Ok(Self::Project(Box::new(about::About::evolve(*state, event)?)))
            }
            (Self::Probe, Fact::Probe) => Ok(Self::Probe),
            (
                Self::Session(_)
                | Self::Run(_)
                | Self::Key(_)
                | Self::Settings(_)
                | Self::Credential(_)
                | Self::Budget(_)
                | Self::Grant(_)
                | Self::Gates(_)
                | Self::Artifact(_)
                | Self::Project(_)
                | Self::Probe,
                _,
            ) => Err(stray("a stream of another kind")),
        }
    }

    /// When the stream must be looked at; `None` for one that has no rules here.
    #[must_use]
    pub fn wake(&self) -> Option<Wake> {
        match self {
            Self::Session(state) => Some(session::Session::wake(state)),
            Self::Run(state) => Some(run::Run::wake(state)),
            Self::Key(state) => Some(key::Key::wake(state)),
            Self::Settings(state) => Some(settings::Settings::wake(state)),
            Self::Credential(state) => Some(credential::Credential::wake(state)),
            Self::Budget(state) => Some(budget::Budget::wake(state)),
            Self::Grant(state) => Some(grant::Grant::wake(state)),
            Self::Gates(state) => Some(gate::Gates::wake(state)),
            Self::Artifact(state) => Some(artifact::Artifacts::wake(state)),
            Self::Project(state) => Some(about::About::wake(state)),
            Self::Probe => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds are never reused: two aggregates sharing one would read each other's facts.
    #[test]
    fn every_kind_and_schema_belongs_to_one_fact() {
        let mut all: Vec<(u16, u16)> = [
            session::Event::TABLE,
            run::Event::TABLE,
            key::Event::TABLE,
            settings::Event::TABLE,
            credential::Event::TABLE,
            budget::Event::TABLE,
            grant::Event::TABLE,
            gate::Event::TABLE,
            artifact::Event::TABLE,
            about::Event::TABLE,
        ]
        .concat()
        .iter()
        .map(|(kind, schema, _)| (*kind, *schema))
        .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
