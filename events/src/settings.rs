//! What a journal says of itself, a stream for each subject. `settings/journal`: which build may read it.
//! `settings/harness`: the model that was selected for every role without a route. `settings/tools`: the bounds of
//! mediated tool calls.
//!
//! A build that met a fact of a newer one would stop single streams at it, long after it had joined; so it is refused
//! before it takes part. The minimum is raised by a person once no older build is wanted any more: there is no way back.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use crate::role::family_check;
use crate::tool_policy::{Frozen, OutOfRange, ToolPolicy};
use serde::{Deserialize, Serialize};
use std::fmt;

crate::events! {
    /// What can have happened to a journal's settings.
    pub enum Event {
        /// Builds that read less are not let in any more.
        ReaderRaised(ReaderRaised) = 900 / 1 "reader_raised";
        /// A model was selected.
        Selected(Selected) = 901 / 1 "selected";
        /// None is selected any more.
        Unselected(Unselected) = 902 / 1 "unselected";
        /// Mediated calls have other bounds in runs that are queued from now on.
        ToolPolicyReplaced(ToolPolicyReplaced) = 903 / 1 "tool_policy_replaced";
    }
}

/// Bytes of the longest provider id that can be selected.
const PROVIDER_BYTES_MAX: usize = 64;
/// Bytes of the longest model name that can be selected.
const MODEL_BYTES_MAX: usize = 256;

/// Counts what builds can read. Raised by the build that first writes a kind or a schema that the one before can not read;
/// `golden/reader.txt` says for each since which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reader(pub u16);

impl Reader {
    /// This build.
    pub const OURS: Self = Self(1);
    /// The first one.
    pub const FIRST: Self = Self(1);
}

impl Default for Reader {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Builds that read less are not let in any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderRaised {
    /// The least that a build must read.
    pub to: Reader,
}

/// A model was selected for every role without a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// Who selected it.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// None is selected any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unselected {
    /// Who said so.
    pub by: Actor,
}

/// Mediated calls have other bounds in runs that are queued from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPolicyReplaced {
    /// All of the bounds.
    pub policy: ToolPolicy,
    /// One more than the one before; the first replacement is 2.
    pub revision: u32,
    /// Who replaced them.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// The streams of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingsId {
    /// Of the journal.
    Journal,
    /// Of who answers.
    Harness,
    /// Of mediated tools.
    Tools,
}

impl SettingsId {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Harness, Self::Tools];

    const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Harness => "harness",
            Self::Tools => "tools",
        }
    }
}

impl fmt::Display for SettingsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Let no build in that reads less.
    RaiseReader(Reader),
    /// Let this model serve every role without a route.
    Select {
        /// Provider id.
        provider: String,
        /// Model name at that provider.
        model: String,
        /// Who selects it.
        by: Actor,
    },
    /// Select none.
    Unselect {
        /// Who says so.
        by: Actor,
    },
    /// Bound mediated calls so.
    ReplaceToolPolicy {
        /// All of the bounds.
        policy: ToolPolicy,
        /// Who says so.
        by: Actor,
    },
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is higher already.
    #[error("the minimum reader is {have} already, and there is no way back")]
    NoWayBack {
        /// The minimum.
        have: Reader,
    },
    /// The model is plainly another vendor's than the provider's.
    #[error("provider {provider} does not serve {model}: it is plainly another vendor's model")]
    Mismatch {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
    },
    /// The name is none.
    #[error(
        "a selection is a provider's id of 1 to {PROVIDER_BYTES_MAX} bytes and a model's name of 1 to {MODEL_BYTES_MAX}"
    )]
    BadName,
    /// A bound lies outside its range.
    #[error("the tool policy is not replaced: {0}")]
    OutOfRange(OutOfRange),
    /// They can not be counted any more.
    #[error("the tool policy was replaced {} times: it can not be replaced again", u32::MAX)]
    TooManyRevisions,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The least that a build must read.
    pub reader: Reader,
    /// The model that is selected.
    pub selection: Option<Selected>,
    /// The newest bounds of mediated calls; none before the first replacement.
    pub replaced: Option<ToolPolicyReplaced>,
}

impl State {
    /// The bounds that a run gets that is queued now.
    #[must_use]
    pub fn tool_policy(&self) -> Frozen {
        let newest =
            |one: &ToolPolicyReplaced| Frozen { policy: one.policy, revision: one.revision };
        self.replaced.as_ref().map_or(Frozen::FIRST, newest)
    }
}

fn select(
    state: &State,
    (provider, model): (&str, &str),
    by: Actor,
    at: Instant,
) -> Result<Vec<Event>, Refusal> {
    let is_name = |name: &str, most: usize| (1..=most).contains(&name.len());
    if !is_name(provider, PROVIDER_BYTES_MAX) || !is_name(model, MODEL_BYTES_MAX) {
        return Err(Refusal::BadName);
    }
    let named = (provider.to_owned(), model.to_owned());
    if family_check(provider, model).is_err() {
        let (provider, model) = named;
        return Err(Refusal::Mismatch { provider, model });
    }
    let stands = state.selection.as_ref();
    if stands.is_some_and(|one| one.provider == provider && one.model == model) {
        return Ok(vec![]);
    }
    let (provider, model) = named;
    Ok(vec![Event::Selected(Selected { provider, model, by, at })])
}

fn replace(
    state: &State,
    policy: ToolPolicy,
    by: Actor,
    at: Instant,
) -> Result<Vec<Event>, Refusal> {
    policy.validate().map_err(Refusal::OutOfRange)?;
    let stands = state.tool_policy();
    if stands.policy == policy {
        return Ok(vec![]);
    }
    let revision = stands.revision.checked_add(1).ok_or(Refusal::TooManyRevisions)?;
    Ok(vec![Event::ToolPolicyReplaced(ToolPolicyReplaced { policy, revision, by, at })])
}

/// Marker: the rules of a journal's settings. They owe the world nothing.
#[derive(Debug)]
pub struct Settings;

/// Settings have no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

impl Aggregate for Settings {
    type Id = SettingsId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Settings;
    const FOLD: u32 = 3;

    fn stream(id: &SettingsId) -> StreamKey {
        StreamKey::named(StreamKind::Settings, id.name())
    }

    fn id(stream: &StreamKey) -> Option<SettingsId> {
        SettingsId::ALL.into_iter().find(|id| id.name() == stream.id())
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        match command {
            Command::RaiseReader(to) => {
                let (to, have) = (*to, state.reader);
                if to < have {
                    return Err(Refusal::NoWayBack { have });
                }
                let raised = (to > have).then_some(Event::ReaderRaised(ReaderRaised { to }));
                Ok(raised.into_iter().collect())
            }
            Command::Select { provider, model, by } => select(state, (provider, model), *by, now),
            Command::Unselect { by } => {
                let stands = state.selection.is_some();
                let unselected = stands.then_some(Event::Unselected(Unselected { by: *by }));
                Ok(unselected.into_iter().collect())
            }
            Command::ReplaceToolPolicy { policy, by } => replace(state, *policy, *by, now),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        let legal = match event {
            Event::ReaderRaised(raised) => {
                let rises = raised.to > state.reader;
                state.reader = raised.to.max(state.reader);
                rises
            }
            // What a build would not select any more was selected all the same; who reads it looks again.
            Event::Selected(selected) => {
                state.selection = Some(selected.clone());
                true
            }
            Event::Unselected(_) => state.selection.take().is_some(),
            Event::ToolPolicyReplaced(replaced) => {
                let follows =
                    state.tool_policy().revision.checked_add(1) == Some(replaced.revision);
                state.replaced = Some(replaced.clone());
                follows
            }
        };
        if legal {
            return Ok(state);
        }
        Err(IllegalEvent { event: event.name().to_owned(), before: format!("{state:?}") })
    }

    fn awake(_state: &State) -> Vec<Event> {
        vec![]
    }

    fn pending(_state: &State) -> Vec<(Never, Never)> {
        vec![]
    }

    fn wake(_state: &State) -> Wake {
        Wake::OnCommand
    }

    fn due() -> Option<Command> {
        None
    }

    fn lost(effect: &Never) -> Command {
        match *effect {}
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::golden;
    use crate::{key, run, session};
    use std::collections::BTreeMap;

    #[test]
    fn whatever_decide_says_evolve_accepts_and_the_minimum_never_falls() {
        for have in 1..5 {
            let state = State { reader: Reader(have), ..State::default() };
            for to in 0..6 {
                let command = Command::RaiseReader(Reader(to));
                match Settings::decide(&state, &command, Instant(0)) {
                    Ok(events) => {
                        let after = events.iter().try_fold(state.clone(), Settings::evolve);
                        assert_eq!(after.unwrap().reader, Reader(to), "{have} to {to}");
                    }
                    Err(refusal) => {
                        assert!(to < have);
                        assert_eq!(refusal, Refusal::NoWayBack { have: Reader(have) });
                    }
                }
            }
            let again = Event::ReaderRaised(ReaderRaised { to: Reader(have) });
            assert!(Settings::evolve(state, &again).is_err());
        }
    }

    fn selecting(provider: &str, model: &str) -> Command {
        Command::Select { provider: provider.to_owned(), model: model.to_owned(), by: Actor::Node }
    }

    #[test]
    fn a_model_of_another_vendor_is_not_selected_and_the_same_one_is_selected_once() {
        let at = Instant(7);
        let state = State::default();
        let refused = Settings::decide(&state, &selecting("anthropic", "gpt-6"), at);
        assert!(matches!(refused, Err(Refusal::Mismatch { .. })), "{refused:?}");
        for (provider, model) in [("", "m"), ("openai", ""), ("openai", &"m".repeat(257))] {
            let refused = Settings::decide(&state, &selecting(provider, model), at);
            assert_eq!(refused, Err(Refusal::BadName), "{provider}:{model}");
        }
        assert_eq!(
            Settings::decide(&state, &Command::Unselect { by: Actor::Node }, at),
            Ok(vec![])
        );
        let chosen = selecting("openai", "gpt-6");
        let events = Settings::decide(&state, &chosen, at).unwrap();
        let state = events.iter().try_fold(state, Settings::evolve).unwrap();
        assert_eq!(state.selection.as_ref().map(|one| (&*one.model, one.at)), Some(("gpt-6", at)));
        assert_eq!(Settings::decide(&state, &chosen, Instant(8)), Ok(vec![]));
        assert_eq!(Settings::decide(&state, &selecting("openai", "b"), at).unwrap().len(), 1);
        let events = Settings::decide(&state, &Command::Unselect { by: Actor::Node }, at).unwrap();
        let state = events.iter().try_fold(state, Settings::evolve).unwrap();
        assert_eq!(state, State::default());
        assert!(Settings::evolve(state, &events[0]).is_err(), "nothing is selected");
    }

    /// Every history of a small world: a revision is one more with each change and stays with each repeat.
    #[test]
    fn whatever_is_said_of_the_tool_policy_evolve_accepts_and_revisions_count_changes() {
        let by = Actor::Admin;
        let with = |calls_limit| ToolPolicy { calls_limit, ..ToolPolicy::V1 };
        let policies = [ToolPolicy::V1, with(1), with(100), with(0), with(101)];
        let mut layer = vec![State::default()];
        for depth in 0..4_u32 {
            let mut next = vec![];
            for state in &layer {
                let before = state.tool_policy();
                assert_eq!(before.policy.validate(), Ok(()));
                assert!(before.revision <= 1 + depth);
                for policy in policies {
                    let command = Command::ReplaceToolPolicy { policy, by };
                    let events = match Settings::decide(state, &command, Instant(9)) {
                        Err(refusal) => {
                            let why = policy.validate().unwrap_err();
                            assert_eq!(refusal, Refusal::OutOfRange(why));
                            assert!(refusal.to_string().contains("calls_limit"), "{refusal}");
                            continue;
                        }
                        Ok(events) => events,
                    };
                    let after = events.iter().try_fold(state.clone(), Settings::evolve).unwrap();
                    assert_eq!(Settings::decide(&after, &command, Instant(9)), Ok(vec![]));
                    let changed = u32::from(policy != before.policy);
                    let revision = before.revision + changed;
                    assert_eq!(after.tool_policy(), Frozen { policy, revision });
                    for event in &events {
                        let again = Settings::evolve(after.clone(), event);
                        assert!(again.is_err(), "a revision twice: {event:?}");
                    }
                    next.push(after);
                }
            }
            layer = next;
        }
    }

    #[test]
    fn each_subject_has_a_stream_of_its_own() {
        for id in SettingsId::ALL {
            assert_eq!(Settings::id(&Settings::stream(&id)), Some(id));
        }
    }

    #[test]
    fn the_bytes_of_an_event_do_not_change() {
        let raised = Event::ReaderRaised(ReaderRaised { to: Reader(300) });
        let (provider, model) = ("openai".to_owned(), "gpt-6".to_owned());
        let (by, at) = (Actor::Node, Instant(300));
        let selected = Event::Selected(Selected { provider, model, by, at });
        let unselected = Event::Unselected(Unselected { by });
        let replaced = Event::ToolPolicyReplaced(ToolPolicyReplaced {
            policy: ToolPolicy::V1,
            revision: 300,
            by: Actor::Admin,
            at,
        });
        let samples = [raised, selected, unselected, replaced];
        let samples = samples.map(|event| (event.name(), Settings::encode(&event).unwrap()));
        golden::check(
            "settings.txt",
            include_str!("golden/settings.txt"),
            Event::TABLE,
            &samples,
            |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
        );
    }

    /// A kind or a schema that is new is unknown to the builds before, so it has the number of the first that reads it.
    #[test]
    fn every_kind_and_schema_says_since_which_reader_it_is_known() {
        let lines = include_str!("golden/reader.txt").lines();
        let since: BTreeMap<(u16, u16), Reader> = lines
            .map(|line| {
                let numbers: Vec<u16> = line.split(' ').map(|word| word.parse().unwrap()).collect();
                let [reader, kind, schema] = numbers[..] else { panic!("{line}") };
                ((kind, schema), Reader(reader))
            })
            .collect();
        let credential = crate::credential::Event::TABLE;
        let budget = crate::budget::Event::TABLE;
        let (grant, gate) = (crate::grant::Event::TABLE, crate::gate::Event::TABLE);
        let ours = [session::Event::TABLE, run::Event::TABLE, key::Event::TABLE, Event::TABLE];
        let of_projects = [grant, gate, crate::artifact::Event::TABLE, crate::about::Event::TABLE];
        let tables = [&ours[..], &[credential, budget], &of_projects].concat();
        for (kind, schema, name) in tables.concat() {
            let known = since.get(&(kind, schema)).unwrap_or_else(|| {
                panic!("{kind} {schema} {name} is new: raise Reader::OURS and add a line to golden/reader.txt")
            });
            assert!(*known <= Reader::OURS, "{name} is known to a reader that is not ours yet");
        }
        assert_eq!(since.values().max(), Some(&Reader::OURS));
    }
}
