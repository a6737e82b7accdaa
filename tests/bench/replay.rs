//! Verified replay, in events per CPU second: hash, link, decode and fold, against SHA-256 and postcard of the same
//! bytes.

mod figure;

use events::aggregate::Aggregate;
use events::id::{Place, RunId};
use events::journal::{self, Frame};
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params};
use events::quantity::{Instant, Tokens};
use events::record::{
    Actor, Boot, Commit, CommitId, Epoch, Hash, JournalId, Payload, StreamKey, Version,
};
use events::run::ledger::{self, Ask, ToolNo, ToolOutcome, Verdict};
use events::run::spec::{Candidate, Delivery, LOGIC, Limits, Plane, ReplayClass, Spec};
use events::run::step::{self, CallNo};
use events::run::terms::Terms;
use events::run::{Command, Event, Run, State};
use events::usage::{Billing, Usage};
use figure::{ROUNDS, cpu, median, rounded, tell};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Steps of the run that is replayed.
const STEPS: u32 = 200;
/// CPU time of each round.
const ROUND: Duration = Duration::from_secs(2);

fn spec() -> Arc<Spec> {
    let one = Candidate {
        provider: "openai".into(),
        model: "m".into(),
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
        server_tools: vec!["clock_now".into()],
        params: Params::default(),
        input: vec![Message::text(Role::User, "what time is it?").body()],
        limits: Limits { steps_max: STEPS + 1, ..Limits::default() },
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: LOGIC,
        metadata: std::collections::BTreeMap::new(),
        seed: 7,
        input_hash: Hash::default(),
    })
}

fn answer(call: u32) -> Command {
    let verdict = Verdict::Server(Box::new(Terms::plain(
        ReplayClass::ReadOnly,
        events::quantity::Millis(5_000),
    )));
    let arguments = events::json::Json::from_bytes(b"{}");
    let asks =
        vec![Ask { id: format!("call_{call}"), name: "clock_now".into(), arguments, verdict }];
    let body = Message::text(
        Role::Assistant,
        "Let me look at the clock for you, and then say what it shows.",
    )
    .body();
    let answer = step::Answer {
        body,
        asks,
        stop: step::Stop::ToolCalls,
        usage: Usage::default(),
        served_model: None,
        request_id: None,
        profile: None,
    };
    Command::Model { call: CallNo(call), outcome: step::Settled::Answered(answer) }
}

fn receipt(call: u32) -> Command {
    let outcome = ledger::Settled::Receipt(
        ToolOutcome::Succeeded,
        r#"{"now":"2026-11-30T18:59:10Z"}"#.into(),
    );
    Command::Tool { call: ToolNo(call), attempt: 0, outcome }
}

/// The frames of one long run, linked as a store would have them.
fn frames() -> (StreamKey, Vec<Frame>) {
    let id = RunId::new(Place::default(), 1);
    let (journal_id, stream) = (JournalId(1), Run::stream(&id));
    let (mut state, mut prev, mut version) =
        (State::default(), journal::genesis(journal_id, &stream), Version::EMPTY);
    let open = Command::Open { spec: spec(), session: None, grant: None };
    let steps = (0..STEPS).flat_map(|step| [answer(step), receipt(step)]);
    let mut frames = vec![];
    for (n, command) in std::iter::once(open).chain(steps).enumerate() {
        let events = Run::decide(&state, &command, Instant(1)).expect("a decision");
        let entries: Vec<_> =
            events.iter().map(|event| Run::encode(event).expect("an entry")).collect();
        let (count, first_version) = (entries.len(), version.plus(1));
        let (epoch, boot, id) = (Epoch(1), Boot(1), CommitId(n as u128));
        let commit = Commit {
            journal: journal_id,
            stream: stream.clone(),
            first_version,
            epoch,
            boot,
            id,
            at: Instant(1),
            causes: vec![],
            prev,
            entries,
        };
        let frame = journal::encode(&commit);
        prev = frame.hash;
        version = version.plus(count);
        state = events.iter().try_fold(state, Run::evolve).expect("a fold");
        frames.push(frame);
    }
    (stream, frames)
}

fn verified(stream: &StreamKey, frames: &[Frame]) -> u64 {
    let mut state = State::default();
    let (mut prev, mut events) = (None, 0);
    for frame in frames {
        let commit = journal::decode_of(stream, &frame.bytes, frame.hash).expect("a commit");
        assert!(prev.is_none_or(|prev| prev == commit.prev), "a link");
        prev = Some(frame.hash);
        for entry in &commit.entries {
            let Payload::Inline(bytes) = &entry.payload else { continue };
            let event = Event::decode(entry.kind, entry.schema, bytes).expect("an event");
            state = Run::evolve(state, &event).expect("a fold");
            events += 1;
        }
    }
    events
}

/// SHA-256 over the same bytes, and postcard over the same payloads.
fn floor(frames: &[Frame], payloads: &[(u16, u16, Arc<[u8]>)]) -> u64 {
    for frame in frames {
        std::hint::black_box(journal::hash(&frame.bytes));
    }
    for (kind, schema, bytes) in payloads {
        std::hint::black_box(Event::decode(*kind, *schema, bytes).expect("an event"));
    }
    payloads.len() as u64
}

fn rate(mut round: impl FnMut() -> u64) -> f64 {
    let (before, mut events) = (cpu(None), 0);
    while cpu(None) - before < ROUND {
        for _ in 0..20 {
            events += round();
        }
    }
    events as f64 / (cpu(None) - before).as_secs_f64()
}

fn main() {
    let (stream, frames) = frames();
    let decoded =
        frames.iter().map(|frame| journal::decode(&frame.bytes, frame.hash).expect("a commit"));
    let payloads: Vec<_> = decoded
        .flat_map(|commit| commit.entries)
        .filter_map(|entry| match entry.payload {
            Payload::Inline(bytes) => Some((entry.kind, entry.schema, bytes)),
            Payload::Blob(_) => None,
        })
        .collect();
    let (mut own, mut bare) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        bare.push(rate(|| floor(&frames, &payloads)));
        own.push(rate(|| verified(&stream, &frames)));
    }
    let (own, bare) = (median(own), median(bare));
    tell(
        "verified_replay",
        &json!({"events_per_cpu_s": own.round(), "floor_per_cpu_s": bare.round(),
            "ratio": rounded(own / bare, 3), "goal": 0.6, "goal_per_cpu_s": 1_000_000,
            "floor": "SHA-256 and postcard decode of the same bytes"}),
    );
}
