//! A journal in memory, written by the real aggregates: each command is decided, folded and appended.

mod step;

use super::facts::{NOW, run, said, session, spec, used};
use crate::Reach;
use events::aggregate::{Aggregate, Wake};
use events::artifact::{self, Artifacts};
use events::credential::{self, Credential, ProviderId};
use events::gate::{self, Gates};
use events::grant::{self, Grant, GrantId};
use events::id::{KeyId, Place, RunId, SessionId};
use events::json::Json;
use events::key::{self, Issued, Key};
use events::message::{Message, Part, Role, ToolCall};
use events::model_call::Class;
use events::project::Project;
use events::quantity::{Instant, Millis};
use events::record::{
    Actor, Boot, Commit, CommitId, Entry, Hash, JournalId, Payload, Position, StreamKey, Version,
};
use events::run::approval::{self, Answer as Answered, Reach as Far, Resolution};
use events::run::ledger::{self, Ask, Standing, ToolOutcome, Verdict};
use events::run::life::Life;
use events::run::mediated;
use events::run::rejection::Rejection;
use events::run::spec::ReplayClass;
use events::run::step::{Answer, CallNo, Charge, Failure, Settled, Stop};
use events::run::terms::{Consent, Terms};
use events::run::{self as runs, Run};
use events::session::{self as sessions, OnBusy, Session};
use events::usage::Usage;
use std::collections::BTreeMap;
use store::{Append, Appended, Faults, Store, spill};

/// Xorshift: the same seed gives the same journal.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % count
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }
}

pub(crate) struct Journal {
    pub(crate) store: Store,
    pub(crate) now: Instant,
    pub(crate) newest: u64,
    pub(crate) runs: BTreeMap<RunId, runs::State>,
    pub(crate) sessions: BTreeMap<SessionId, sessions::State>,
    pub(crate) keys: BTreeMap<KeyId, key::State>,
    pub(crate) credentials: BTreeMap<ProviderId, credential::State>,
    pub(crate) grants: BTreeMap<Project, grant::State>,
    pub(crate) gates: BTreeMap<Project, gate::State>,
    pub(crate) artifacts: BTreeMap<Project, artifact::State>,
    ids: u128,
}

impl Journal {
    pub(crate) fn new(journal: u128) -> Self {
        Self::of(Store::memory(Boot(1), JournalId(journal), Faults::none()))
    }

    pub(crate) fn of(store: Store) -> Self {
        let (runs, sessions, keys) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let credentials = BTreeMap::new();
        let (grants, gates, artifacts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            store,
            now: NOW,
            newest: 0,
            runs,
            sessions,
            keys,
            credentials,
            grants,
            gates,
            artifacts,
            ids: 0,
        }
    }

    pub(crate) fn end(&self) -> Position {
        super::facts::here(self.newest)
    }

    pub(crate) fn reach(&self) -> Reach {
        super::facts::reach(self.newest)
    }

    fn draw(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    /// Appends entries as one commit.
    pub(crate) async fn append(&mut self, stream: &StreamKey, entries: Vec<Entry>, wake: Wake) {
        let expected = self.store.tail(stream).await.unwrap();
        let (entries, blobs) = spill(entries);
        let commit = Commit {
            journal: self.store.journal(),
            stream: stream.clone(),
            first_version: Version(expected.version.0 + 1),
            epoch: self.store.epoch(stream.partition()),
            boot: self.store.boot(),
            id: CommitId(self.draw()),
            at: self.now,
            causes: vec![],
            prev: expected.hash,
            entries,
        };
        let appended = self.store.append(Append { commit, expected, wake, blobs }).await;
        let Appended::Appended { position, .. } = appended else { panic!("{appended:?}") };
        self.newest = position.sequence;
    }

    async fn record<A: Aggregate>(
        &mut self,
        id: A::Id,
        state: A::State,
        events: &[A::Event],
    ) -> A::State {
        let after = events.iter().try_fold(state, A::evolve).unwrap();
        if !events.is_empty() {
            let entries = events.iter().map(|event| A::encode(event).unwrap()).collect();
            self.append(&A::stream(&id), entries, A::wake(&after)).await;
        }
        after
    }

    pub(crate) async fn tell_run(&mut self, id: RunId, command: &runs::Command) {
        let state = self.runs.remove(&id).unwrap_or_default();
        let events = Run::decide(&state, command, self.now).unwrap();
        let after = self.record::<Run>(id, state, &events).await;
        self.runs.insert(id, after);
    }

    /// A new host of the run: what it owed is lost.
    pub(crate) async fn wake_run(&mut self, id: RunId) {
        let state = self.runs.remove(&id).unwrap();
        let events = Run::awake(&state);
        let after = self.record::<Run>(id, state, &events).await;
        self.runs.insert(id, after);
    }

    pub(crate) async fn tell_session(&mut self, id: SessionId, command: &sessions::Command) {
        let state = self.sessions.remove(&id).unwrap_or_default();
        let events = Session::decide(&state, command, self.now).unwrap();
        let after = self.record::<Session>(id, state, &events).await;
        self.sessions.insert(id, after);
    }

    pub(crate) async fn tell_key(&mut self, id: KeyId, command: &key::Command) {
        let state = self.keys.remove(&id).unwrap_or_default();
        let events = Key::decide(&state, command, self.now).unwrap();
        let after = self.record::<Key>(id, state, &events).await;
        self.keys.insert(id, after);
    }

    /// Tells the owner of a provider's credentials; what the rules refuse changes nothing.
    pub(crate) async fn tell_credential(&mut self, id: ProviderId, command: &credential::Command) {
        let state = self.credentials.remove(&id).unwrap_or_default();
        let events = Credential::decide(&state, command, self.now).unwrap_or_default();
        let after = self.record::<Credential>(id, state, &events).await;
        self.credentials.insert(id, after);
    }

    pub(crate) async fn write_artifact(&mut self, project: &str, name: &str, text: &str) {
        let (id, name, content) = (Project::of(project), name.parse().unwrap(), text.into());
        let (source, by) = (artifact::Source::Caller, Actor::Admin);
        let write = artifact::Write { name, content, over: None, source, by };
        let state = self.artifacts.remove(&id).unwrap_or_default();
        let command = artifact::Command::Write(write);
        let events = Artifacts::decide(&state, &command, self.now).unwrap();
        let after = self.record::<Artifacts>(id, state, &events).await;
        self.artifacts.insert(id, after);
    }

    pub(crate) async fn open_run(&mut self, id: RunId, text: &str) {
        let spec = spec("default", text);
        self.tell_run(id, &runs::Command::Open { spec, session: None, grant: None }).await;
    }

    /// An entry of a kind that no build knows, in the stream of a run.
    pub(crate) async fn append_stranger(&mut self, id: RunId) {
        let payload = Payload::Inline(vec![1, 2, 3].into());
        let entry = Entry { kind: 9_999, schema: 1, seal: None, payload };
        self.append(&Run::stream(&id), vec![entry], Wake::OnCommand).await;
    }

    /// As many random moves as asked for; each is legal.
    pub(crate) async fn wander(&mut self, dice: &mut Dice, moves: u32) {
        for _ in 0..moves {
            let pause = dice.below(90_000_000).cast_signed();
            self.now = Instant(self.now.0 + pause);
            // Beside the rest, whose course it does not change.
            let mut aside = Dice(dice.0);
            if aside.below(6) == 0 {
                self.turn_profile(&mut aside).await;
            }
            if aside.below(6) == 0 {
                Box::pin(self.turn_grant(&mut aside)).await;
                Box::pin(self.turn_gate(&mut aside)).await;
            }
            if aside.below(8) == 0 {
                let name = aside.pick(&["plan", "notes"]);
                let text = format!("draft {} of the rope", aside.below(9));
                let project = aside.pick(&["default", "lab"]);
                Box::pin(self.write_artifact(project, name, &text)).await;
            }
            match dice.below(20) {
                0 | 1 => {
                    let id = run(self.draw());
                    let project = dice.pick(&["default", "other"]);
                    let spec = spec(project, "alone");
                    let open = runs::Command::Open { spec, session: None, grant: None };
                    self.tell_run(id, &open).await;
                }
                2 | 3 => self.submit(dice).await,
                4 => self.turn_key(dice).await,
                5..=7 => self.hand_over(dice).await,
                _ => self.step(dice).await,
            }
        }
    }

    async fn submit(&mut self, dice: &mut Dice) {
        let id = session(u128::from(dice.below(5)));
        let waiting = self.sessions.get(&id).map_or(0, |state| state.inbox.len());
        if waiting < 3 {
            let (run, spec) = (run(self.draw()), spec("default", "in a session"));
            let on_busy = OnBusy::Queue;
            self.tell_session(id, &sessions::Command::Submit { run, spec, on_busy, seen: None })
                .await;
        } else {
            let (parent, id) = (id, session(1_000 + self.draw()));
            let messages = self.sessions[&parent].messages.clone();
            let at = u32::try_from(messages.len()).unwrap();
            let project = String::from("default");
            let by = Actor::Admin;
            self.tell_session(id, &sessions::Command::Fork { parent, at, messages, project, by })
                .await;
        }
    }

    /// Something happens to one of six profiles of two providers.
    async fn turn_profile(&mut self, dice: &mut Dice) {
        use credential::{Added, Command, Forbidden, Kind, Reason, Removed, Rotated, Saw, Seen};
        let id: ProviderId = dice.pick(&["openai", "anthropic"]).parse().unwrap();
        let profile = dice.pick(&["a", "b", "c"]).to_owned();
        let by = Actor::Admin;
        let saw = |seen| {
            let (model, began) = ("m".to_owned(), self.now);
            Command::Saw(Saw { profile: profile.clone(), revision: 1, model, began, seen })
        };
        let class = dice.pick(&[Class::RateLimited, Class::AuthInvalid, Class::Billing]);
        let status = Some(if class == Class::AuthInvalid { 401 } else { 429 });
        let (hint, reason, forbidden) = (None, Reason::Unnamed, Forbidden::Cools);
        let command = match dice.below(12) {
            0..=2 => {
                let kind = Kind::ApiKey;
                Command::Add(Added { profile, kind, by, revision: 1, expires: None })
            }
            3 => Command::Remove(Removed { profile }),
            4 => Command::MarkDead(Removed { profile }),
            5 => Command::Revive(Removed { profile }),
            6 => Command::Rotate(Rotated { profile, revision: 1 + dice.below(2), expires: None }),
            7 => saw(Seen::Success),
            _ => saw(Seen::Failed { class, status, hint, reason, forbidden }),
        };
        self.tell_credential(id, &command).await;
    }

    /// Grants something in a project, or takes it back; what the rules refuse changes nothing.
    async fn turn_grant(&mut self, dice: &mut Dice) {
        let project = Project::of(dice.pick(&["default", "lab", "No Name"]));
        let (id, by) = (GrantId(u128::from(dice.below(9))), Actor::Admin);
        let command = if dice.below(3) == 0 {
            grant::Command::Revoke(grant::Revoked { id, by })
        } else {
            let pattern = grant::Pattern::exact(&Json::from_bytes(b"{}"));
            let until = Some(Instant(self.now.0 + 400_000_000)).filter(|_| dice.below(2) == 0);
            let tool = "note_append".to_owned();
            grant::Command::Grant(grant::Wanted { id, tool, pattern, by, until })
        };
        let state = self.grants.remove(&project).unwrap_or_default();
        let events = Grant::decide(&state, &command, self.now).unwrap_or_default();
        let after = self.record::<Grant>(project, state, &events).await;
        self.grants.insert(project, after);
    }

    /// Says something of a gate.
    async fn turn_gate(&mut self, dice: &mut Dice) {
        use gate::{Command, Declaration, Evaluator, Evidence, Hardness, Said, Surface, Verdict};
        let project = Project::of(dice.pick(&["default", "lab", "No Name"]));
        let name = dice.pick(&["tests_pass", "reviewed"]).to_owned();
        let hardness = dice.pick(&Hardness::ALL);
        let declared = Some(Declaration { evaluator: Evaluator::Evidence, hardness });
        let (said, by) = (Said { declared, surface: Surface::Writable }, Actor::Admin);
        let command = if dice.below(3) == 0 {
            let run = RunId::new(Place::default(), u128::from(dice.below(4)));
            Command::Waive { name, said, run, reason: "flake".into(), by }
        } else {
            let verdict = dice.pick(&[Verdict::Passed, Verdict::Failed]);
            let evidence = Evidence { text: "seen".into(), reference: None };
            Command::Evaluate { name, said, verdict, evidence, by }
        };
        let state = self.gates.remove(&project).unwrap_or_default();
        let events = Gates::decide(&state, &command, self.now).unwrap_or_default();
        let after = self.record::<Gates>(project, state, &events).await;
        self.gates.insert(project, after);
    }

    async fn turn_key(&mut self, dice: &mut Dice) {
        let id = KeyId::new(Place::default(), u128::from(dice.below(6)));
        let command = if self.keys.contains_key(&id) {
            key::Command::Revoke
        } else {
            let role = dice.pick(&[key::Role::Reader, key::Role::Runner, key::Role::Admin]);
            key::Command::Issue(Issued { name: id.to_string(), role, hash: Hash([7; 32]) })
        };
        self.tell_key(id, &command).await;
    }

    /// Opens the run that holds a session's lock, or takes its end back.
    async fn hand_over(&mut self, dice: &mut Dice) {
        let locked: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(id, state)| {
                Some((
                    *id,
                    state.lock.clone()?,
                    state
                        .messages
                        .iter()
                        .map(events::run::life::MessageRef::from)
                        .collect::<Vec<_>>(),
                ))
            })
            .collect();
        if locked.is_empty() {
            return;
        }
        let (id, lock, history) = dice.pick(&locked);
        let end = self.runs.get(&lock.run).and_then(runs::State::ended).cloned();
        match end {
            None => {
                let grant = Some(runs::Grant { fence: lock.fence, history, generated_by: None });
                let (spec, session) = (lock.spec.clone(), Some(id));
                self.tell_run(lock.run, &runs::Command::Open { spec, session, grant }).await;
            }
            Some(end) => {
                let messages = self.runs[&lock.run].transcript.clone();
                let (run, fence, outcome) = (lock.run, lock.fence, end.outcome);
                let ended = sessions::Command::RunEnded {
                    run,
                    fence,
                    outcome,
                    messages,
                    generated_by: None,
                };
                self.tell_session(id, &ended).await;
            }
        }
    }
}

fn outcome(dice: &mut Dice) -> Settled {
    if dice.below(8) == 0 {
        return Settled::Lost;
    }
    if dice.below(3) == 0 {
        return Settled::Failed(Failure {
            class: dice.pick(&[Class::ServerError, Class::RateLimited, Class::ContextOverflow]),
            status: Some(500),
            request_id: None,
            hint: dice.pick(&[None, Some(Millis(60_000))]),
            charge: dice.pick(&[Charge::Nothing, Charge::Reserved]),
            handed_out: 0,
            message: "boom".into(),
            profile: None,
            others: 0,
            renewed: false,
            took: Millis(3),
            partial: dice.pick(&[Usage::default(), used(4, 1, None), used(4, 1, Some(2))]),
        });
    }
    let class = ReplayClass::Idempotent;
    let verdicts = [
        vec![],
        vec![server(class)],
        vec![server(ReplayClass::Effectful), server(class)],
        vec![Verdict::Client, Verdict::Refused("no such tool".into())],
        vec![on(Terms { consent: Consent::Needed, ..plain(class) }), server(class)],
        vec![on(Terms { mediated: Some(Box::default()), ..plain(class) })],
    ];
    let asks: Vec<Ask> = dice.pick(&verdicts).into_iter().enumerate().map(ask).collect();
    let stop = if asks.is_empty() { Stop::End } else { Stop::ToolCalls };
    let call = |ask: &Ask| {
        let (id, name) = (ask.id.clone(), ask.name.clone());
        Part::ToolCall(ToolCall { id, name, arguments: "{}".into() })
    };
    let parts = asks.iter().map(call).collect();
    let body = Message { role: Role::Assistant, name: None, parts }.body();
    let usage = dice.pick(&[Usage::default(), used(10, 5, None), used(70, 9, Some(33))]);
    Settled::Answered(Answer {
        body,
        asks,
        stop,
        usage,
        served_model: None,
        request_id: None,
        profile: None,
    })
}

fn ask((index, verdict): (usize, Verdict)) -> Ask {
    let (id, name) = (format!("c{index}"), String::from("clock_now"));
    Ask { id, name, arguments: Json::from_bytes(b"{}"), verdict }
}

/// A call's number, for tests that settle it by hand.
pub(crate) fn answer(call: u32, usage: Usage) -> runs::Command {
    let (body, stop) = (said("so"), Stop::End);
    let answer = Answer {
        body,
        asks: vec![],
        stop,
        usage,
        served_model: None,
        request_id: None,
        profile: None,
    };
    runs::Command::Model { call: CallNo(call), outcome: Settled::Answered(answer) }
}

fn server(class: ReplayClass) -> Verdict {
    on(plain(class))
}

fn plain(class: ReplayClass) -> Terms {
    Terms::plain(class, Millis(5_000))
}

fn on(terms: Terms) -> Verdict {
    Verdict::Server(Box::new(terms))
}
