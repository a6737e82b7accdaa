//! A journal on real servers, written by the real aggregates into partitions of every shard.

use crate::probe::{JOURNAL, fresh};
use events::aggregate::Aggregate;
use events::id::{KeyId, Partition, Place, RunId, SessionId};
use events::key::{self, Issued, Key};
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params};
use events::quantity::{Instant, MicroUsd, Tokens};
use events::record::{Actor, Boot, Commit, Entry, Hash, Position, StreamKey};
use events::run::spec::{Candidate, Delivery, LOGIC, Limits, Plane, Spec};
use events::run::step::{Answer, CallNo, Settled, Stop};
use events::run::{self as runs, Run};
use events::session::{self as sessions, OnBusy, Session};
use events::usage::{Billing, Usage};
use futures_util::future::join_all;
use gateway::auth::text;
use gateway::config::Secret;
use projections::Reach;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::jetstream::{LazySync, SHARDS, Servers};
use store::{Append, Appended, Connect, Faults, Store};
use tests::nats::Nats;

/// 2023-11-14T22:13:20Z.
const NOW: i64 = 1_700_000_000_000_000;

pub struct Journal {
    pub store: Store,
    ends: BTreeMap<u16, u64>,
    /// Issued and not revoked.
    pub keys: BTreeMap<KeyId, key::State>,
}

/// A place in a shard.
fn place(shard: u16) -> Place {
    // Not the first partition of the shard: its number must not do for the shard's.
    let shard = usize::from(shard % SHARDS + SHARDS);
    Place { partition: Partition::all().nth(shard).unwrap(), ..Place::default() }
}

pub fn run(shard: u16, unique: u128) -> RunId {
    RunId::new(place(shard), unique)
}

pub fn session(shard: u16, unique: u128) -> SessionId {
    SessionId::new(place(shard), unique)
}

pub fn key(shard: u16, unique: u128) -> KeyId {
    KeyId::new(place(shard), unique)
}

/// What its holder presents.
pub fn secret(id: KeyId) -> Secret {
    text::issued(id, [7; 32])
}

fn spec() -> Arc<Spec> {
    let (provider, model) = (String::from("openai"), String::from("m"));
    let one = Candidate {
        provider,
        model,
        price: None,
        billing: Billing::Metered,
        output_max: Tokens(1_000),
        family: "f".into(),
        context_max: None,
        tools_max: None,
    };
    Arc::new(Spec {
        plane: Plane::Run,
        delivery: Delivery::Live,
        project: "default".into(),
        caller: Actor::Admin,
        route: vec![one],
        route_source: "call".into(),
        role: events::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: events::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec![],
        params: Params::default(),
        input: vec![Message::text(Role::User, "hi").body()],
        limits: Limits::default(),
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: LOGIC,
        metadata: BTreeMap::new(),
        seed: 7,
        input_hash: Hash::default(),
    })
}

impl Journal {
    /// A new one, all partitions of it owned.
    pub async fn on(nats: &Nats) -> Self {
        let connect = Connect {
            servers: Servers::at(nats.urls()),
            monitors: nats.monitors(),
            namespace: "views".parse().unwrap(),
            boot: Boot(1),
            fresh: JOURNAL,
            replicas: 1,
            shard_bytes_max: 64 << 20,
            lazy_sync: LazySync::Refuse,
            faults: Faults::none(),
        };
        let store = Store::connect(connect).await.unwrap();
        let own = |partition| store.own(partition, events::record::Epoch(0));
        let owned = join_all(Partition::all().map(own)).await;
        assert!(owned.iter().all(Result::is_ok), "{owned:?}");
        Self { store, ends: BTreeMap::new(), keys: BTreeMap::new() }
    }

    /// Where every shard ends.
    pub fn ends(&self) -> Reach {
        let position = |shard| {
            let sequence = self.ends.get(&shard).copied().unwrap_or_default();
            Position { shard: events::record::Shard(shard), sequence }
        };
        (0..SHARDS).map(position).collect()
    }

    /// Appends entries as one commit of that second.
    pub async fn append(
        &mut self,
        stream: &StreamKey,
        entries: Vec<Entry>,
        second: i64,
    ) -> Position {
        let expected = self.store.tail(stream).await.unwrap();
        let commit = Commit {
            journal: self.store.journal(),
            stream: stream.clone(),
            first_version: expected.version.plus(1),
            epoch: self.store.epoch(stream.partition()),
            boot: self.store.boot(),
            id: fresh(self.store.boot()),
            at: Instant(NOW + second * 1_000_000),
            causes: vec![],
            prev: expected.hash,
            entries,
        };
        let wake = events::aggregate::Wake::OnCommand;
        let appended = self.store.append(Append { commit, expected, wake, blobs: vec![] }).await;
        let Appended::Appended { position, .. } = appended else { panic!("{appended:?}") };
        self.ends.insert(position.shard.0, position.sequence);
        position
    }

    async fn tell<A: Aggregate>(
        &mut self,
        id: A::Id,
        state: A::State,
        command: &A::Command,
        second: i64,
    ) -> (A::State, Position) {
        let events = A::decide(&state, command, Instant(NOW + second * 1_000_000)).unwrap();
        let after = events.iter().try_fold(state, A::evolve).unwrap();
        let entries = events.iter().map(|event| A::encode(event).unwrap()).collect();
        (after, self.append(&A::stream(&id), entries, second).await)
    }

    /// A run that is queued in that second, and answered in the next one at this cost.
    pub async fn answered_run(&mut self, id: RunId, second: i64, cost: u64) -> Position {
        let open = runs::Command::Open { spec: spec(), session: None, grant: None };
        let (state, _) = self.tell::<Run>(id, runs::State::default(), &open, second).await;
        let body = Message::text(Role::Assistant, "so").body();
        let usage =
            Usage { prompt: Some(Tokens(3)), cost: Some(MicroUsd(cost)), ..Usage::default() };
        let (asks, stop) = (vec![], Stop::End);
        let answer =
            Answer { body, asks, stop, usage, served_model: None, request_id: None, profile: None };
        let command = runs::Command::Model { call: CallNo(0), outcome: Settled::Answered(answer) };
        self.tell::<Run>(id, state, &command, second + 1).await.1
    }

    /// A session that takes a run in, in each of these seconds.
    pub async fn active_session(&mut self, id: SessionId, seconds: &[i64]) {
        let mut state = sessions::State::default();
        for (nth, second) in (1..).zip(seconds) {
            let run = RunId::derived(id.place(), &[id.to_string().as_bytes(), &[nth]]);
            let (spec, on_busy) = (spec(), OnBusy::Queue);
            let submit = sessions::Command::Submit { run, spec, on_busy, seen: None };
            state = self.tell::<Session>(id, state, &submit, *second).await.0;
        }
    }

    pub async fn issued_key(&mut self, id: KeyId, second: i64) {
        let (name, role) = (id.to_string(), key::Role::Reader);
        let hash = text::hash(secret(id).expose());
        let issue = key::Command::Issue(Issued { name, role, hash });
        let (state, _) = self.tell::<Key>(id, key::State::default(), &issue, second).await;
        self.keys.insert(id, state);
    }

    pub async fn revoked_key(&mut self, id: KeyId, second: i64) {
        let state = self.keys.remove(&id).unwrap();
        self.tell::<Key>(id, state, &key::Command::Revoke, second).await;
    }
}
