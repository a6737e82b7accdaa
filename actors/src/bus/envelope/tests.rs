//! Pinned bytes of everything that crosses nodes.

use super::*;
use crate::bus::life::{Reply, Request};
use crate::bus::pieces::{Told, What};
use events::id::{Place, RunId, SessionId};
use events::json::Json;
use events::message::{Body as Said, Message as Written, Role};
use events::prompt::{Catalogue, Params};
use events::quantity::Millis;
use events::quantity::{Instant, Tokens};
use events::record::Actor;
use events::record::Boot;
use events::record::Epoch;
use events::run::approval::{Answer, ApprovalNo, Resolution};
use events::run::halt::Halt;
use events::run::mediated::Invoke;
use events::run::spec::ReplayClass;
use events::run::terms::Terms;
use events::run::unsent::Flight;
use events::run::{self, draw, ledger, life, spec, step};
use events::tool_policy::Field;
use events::usage::Usage;
use events::{budget, credential, key, session};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

mod project;

const PINNED: &str = include_str!("../../golden/bus.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The lines of one type: (kind, schema), name, bytes of a sample of each variant.
fn lines<T: Carried + PartialEq + std::fmt::Debug>(samples: &[T], out: &mut Vec<String>) {
    let mut left: BTreeSet<(u16, u16)> =
        T::TABLE.iter().map(|(kind, schema, _)| (*kind, *schema)).collect();
    assert_eq!(left.len(), T::TABLE.len(), "a number stands twice");
    for sample in samples {
        let Parcel { kind, schema, body: Body::Inline(bytes) } = sample.pack().unwrap() else {
            panic!("{sample:?} is not inline")
        };
        assert_eq!(&T::unpack(kind, schema, &bytes).unwrap(), sample);
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert!(T::unpack(kind, schema, &longer).is_err(), "a byte left over was ignored");
        assert_eq!(
            T::unpack(kind, schema + 1, &bytes),
            Err(CodecError::Unknown { kind, schema: schema + 1 })
        );
        let (_, _, name) = T::TABLE.iter().find(|row| (row.0, row.1) == (kind, schema)).unwrap();
        out.push(format!("{kind} {schema} {} {}", name.replace(' ', ""), hex(&bytes)));
        left.remove(&(kind, schema));
    }
    assert!(left.is_empty(), "no sample of {left:?}");
}

fn said(text: &str) -> Said {
    Written::text(Role::User, text).body()
}

fn run_spec() -> Arc<spec::Spec> {
    Arc::new(spec::Spec {
        plane: spec::Plane::Model,
        delivery: spec::Delivery::Live,
        project: "default".into(),
        caller: Actor::Admin,
        route: vec![],
        route_source: "call".into(),
        role: events::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: events::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec![],
        params: Params::default(),
        input: vec![said("hi")],
        limits: spec::Limits::default(),
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: 1,
        metadata: std::collections::BTreeMap::new(),
        seed: 7,
        input_hash: Hash([9; 32]),
    })
}

fn run_id() -> RunId {
    RunId::new(Place::default(), 7)
}

fn session_commands() -> Vec<session::Command> {
    use session::Command::{Again, Fork, RunEnded, SetScope, Submit};
    let parent = SessionId::new(Place::default(), 9);
    vec![
        Submit {
            run: run_id(),
            spec: run_spec(),
            on_busy: session::OnBusy::Reject,
            seen: Some(300),
        },
        Fork {
            parent,
            at: 1,
            messages: vec![said("hi")],
            project: "default".into(),
            by: Actor::Node,
        },
        RunEnded {
            run: run_id(),
            fence: life::Fence(3),
            outcome: life::Outcome::Completed,
            messages: vec![said("ho")],
            generated_by: Some("p".into()),
        },
        Again,
        SetScope { project: "lab".into(), by: Actor::Node },
    ]
}

fn run_commands() -> Vec<run::Command> {
    use run::Command::{
        Abandon, Approval, ClientAnswer, ClientGone, Due, Invoke, Model, Open, Resume, Returned,
        Slice, Stop, Tool, Withhold,
    };
    let session = Some(SessionId::new(Place::default(), 9));
    let history = vec![life::MessageRef { hash: Hash([4; 32]), bytes: 5, role: Role::User }];
    let grant = Some(run::Grant { fence: life::Fence(3), history, generated_by: Some("p".into()) });
    let receipt = ledger::Settled::Receipt(ledger::ToolOutcome::Succeeded, "done".into());
    vec![
        Open { spec: run_spec(), session, grant },
        Model { call: step::CallNo(2), outcome: step::Settled::Lost },
        Tool { call: ledger::ToolNo(4), attempt: 1, outcome: receipt },
        ClientAnswer { results: vec![said("out")] },
        ClientGone,
        Stop { seen: Flight::Left(Usage { prompt: Some(Tokens(7)), ..Usage::default() }) },
        Stop { seen: Flight::Stayed(step::CallNo(2)) },
        Due,
        Slice { ask: draw::SliceNo(3), outcome: draw::Settled::Granted },
        Slice { ask: draw::SliceNo(3), outcome: draw::Settled::Refused(short()) },
        Returned { scope: budget::Scope::ALL },
        Withhold { seen: Flight::default() },
        Invoke(Box::new(invoke())),
        Abandon { call: ledger::ToolNo(4), request: "0".repeat(32), by: Actor::Admin },
        Resume { by: Actor::Admin },
        Approval { approval: ApprovalNo(1), answer: Box::new(answer()) },
    ]
}

fn invoke() -> Invoke {
    let terms = Terms::plain(ReplayClass::ReadOnly, Millis(5));
    let arguments = Json::from_bytes(b"{}");
    Invoke { correlation: 7, name: "t".into(), arguments, terms }
}

fn answer() -> Answer {
    let resolution = Resolution::Denied { reason: "no".into() };
    Answer { subject: Some(Hash([4; 32])), resolution, by: Actor::Admin }
}

fn refusals(out: &mut Vec<String>) {
    use run::Refusal as Run;
    use session::Refusal as Session;
    let session = [
        Session::Busy,
        Session::InboxFull,
        Session::HistoryMoved { have: 300, seen: 2 },
        Session::Full,
        Session::NotHolder(run_id()),
        Session::Exists,
        Session::IsClosed,
        Session::NoScope,
    ];
    lines(&session, out);
    let run = [
        Run::NoSuchRun,
        Run::NotStarted,
        Run::Ended,
        Run::OtherInput,
        Run::NoSuchCall(step::CallNo(2)),
        Run::NoSuchTool(ledger::ToolNo(4)),
        Run::NothingHeld,
        Run::ResultMissing("a".into()),
        Run::ResultStray("b".into()),
        Run::NoSuchSlice(draw::SliceNo(3)),
        Run::NoSuchApproval(ApprovalNo(1)),
        Run::AnsweredBefore("denied".into()),
        Run::NotWaiting,
        Run::OtherSubject,
        Run::NoAnswer,
        Run::Unresolved(ledger::ToolNo(4)),
        Run::Halted(Halt::Reconciliation),
        Run::NotHalted,
        Run::UnderWay,
        Run::ToolBudget { limit: 30, which: Field::CallsLimit },
        Run::OtherInvocation,
        Run::NotMediated("t".into()),
        Run::ConsentNeeded("t".into()),
        Run::NotARequestId,
        Run::RequestIdUsed(ledger::ToolNo(4)),
        Run::Leased(Instant(9)),
        Run::Settled("abandoned".into()),
    ];
    lines(&run, out);
    lines(&[key::Refusal::NoSuchKey, key::Refusal::Exists], out);
    use credential::Refusal as Credential;
    let credential = [
        Credential::NoSuchProfile,
        Credential::Exists,
        Credential::Full,
        Credential::BadName,
        Credential::NotNow,
    ];
    lines(&credential, out);
    use budget::Refusal as Budget;
    let budget =
        [Budget::Short(short()), Budget::Crowded, Budget::RunEnded, Budget::BadTerms, Budget::Full];
    lines(&budget, out);
}

fn short() -> Box<budget::Short> {
    use events::quantity::MicroUsd;
    Box::new(budget::Short {
        scope: budget::Scope::ALL,
        usd: Some(MicroUsd(300)),
        calls: None,
        spent: budget::Amount { usd: MicroUsd(2), calls: 1 },
        reserved: budget::Amount::default(),
        wanted: Some(MicroUsd(299)),
        renews: budget::Renewal::Day,
        renews_at: Some(Instant(300)),
    })
}

fn budget_commands() -> Vec<budget::Command> {
    use budget::{Amount, Command, Renewal, Returned, Scope, Terms, Unpriced, Wanted};
    use events::quantity::MicroUsd;
    let (scope, run) = (Scope::ALL, run_id());
    let terms = Terms {
        usd: Some(MicroUsd(300)),
        calls: None,
        renews: Renewal::Day,
        warn_at: vec![50, 80],
        unpriced: Unpriced::Refuse,
    };
    let used = Amount { usd: MicroUsd(300), calls: 2 };
    vec![
        Command::Set(terms),
        Command::Remove,
        Command::Grant(Wanted { scope, run, ask: 1, usd: Some(MicroUsd(300)), calls: 1 }),
        Command::Return(Returned { run, used }),
        Command::Due,
        Command::List(scope),
        Command::Unlist(scope),
    ]
}

fn undecided() -> Vec<NoDecision> {
    let build = |patch| Build { major: 0, minor: 1, patch };
    vec![
        NoDecision::Busy { retry_after: Millis(250) },
        NoDecision::Parked { until: Instant(1_700_000_000_000_000) },
        NoDecision::Lost,
        NoDecision::TimedOut,
        NoDecision::DeadlinePassed,
        NoDecision::Expired,
        NoDecision::TooLarge { bytes: 9_000_000, max: 8_388_608 },
        NoDecision::NobodyThere,
        NoDecision::Unsupported { asker: build(300), owner: build(2) },
    ]
}

fn messages() -> Vec<Message> {
    let parcel = |body| Parcel { kind: 205, schema: 1, body };
    let ask = |urgent, body| {
        Message::Ask(Ask {
            build: Build { major: 0, minor: 1, patch: 0 },
            id: CommandId(u128::MAX),
            correlation: 5,
            actor: Actor::Admin,
            left: Millis(30_000),
            urgent,
            command: parcel(body),
        })
    };
    let position = Position { shard: events::record::Shard(3), sequence: 70_000 };
    let state = Body::Inline(vec![1, 2, 3]);
    vec![
        ask(Urgency::First, Body::Inline(vec![])),
        ask(Urgency::Usual, Body::Blob { hash: Hash([0xab; 32]), bytes: 300_000 }),
        Message::Observe(Build { major: 0, minor: 1, patch: 0 }),
        Message::Belief(Belief { version: Version(12), position, fold: 3, state }),
        Message::Refused(parcel(Body::Inline(vec![7]))),
        Message::Undecided(parcel(Body::Inline(vec![8]))),
        Message::Ring(Ring {
            build: Build { major: 0, minor: 1, patch: 0 },
            after: Some((step::CallNo(1), 300)),
        }),
        Message::Pieces(Pieces { epoch: Epoch(9), after: None, told: told(), more: true }),
    ]
}

fn told() -> Vec<Told> {
    let what = [
        What::Text("a".into()),
        What::Reasoning("b".into()),
        What::Refusal("c".into()),
        What::Call { index: 1, id: "d".into(), name: "e".into() },
        What::Arguments { index: 300, fragment: "f".into() },
    ];
    let told = |(number, what)| Told { call: step::CallNo(2), number, what };
    (7..).zip(what).map(told).collect()
}

fn key_commands() -> Vec<key::Command> {
    let issued = key::Issued { name: "ci".into(), role: key::Role::Runner, hash: Hash([5; 32]) };
    vec![key::Command::Issue(issued), key::Command::Revoke]
}

fn between_nodes(out: &mut Vec<String>) {
    use crate::bus::node::{Answer, Described, Question};
    let build = Build { major: 0, minor: 1, patch: 2 };
    lines(&[Question::Describe(build), Question::Drain, Question::Undrain], out);
    let described = |horizon| {
        let since = Instant(1_700_000_000_000_000);
        let boot = Boot(300);
        Answer::Described(Described { build, boot, since, serves: 22, horizon })
    };
    let answers = [described(None), described(Some(Millis(9_000))), Answer::Done];
    lines(&[&answers[..], &[Answer::Unsupported(build)]].concat(), out);
}

fn settings_words(out: &mut Vec<String>) {
    use events::settings::{Command, Reader, Refusal};
    use events::tool_policy::{Field, OutOfRange, ToolPolicy};
    let (by, have) = (Actor::Admin, Reader(2));
    let named = || ("openai".to_owned(), "m".to_owned());
    let (provider, model) = named();
    let select = Command::Select { provider, model, by };
    let replace = Command::ReplaceToolPolicy { policy: ToolPolicy::V1, by };
    lines(&[Command::RaiseReader(have), select, Command::Unselect { by }, replace], out);
    let (provider, model) = named();
    let mismatch = Refusal::Mismatch { provider, model };
    let range = Refusal::OutOfRange(OutOfRange { field: Field::TimeoutSeconds, value: 300 });
    let counted = Refusal::TooManyRevisions;
    lines(&[Refusal::NoWayBack { have }, mismatch, Refusal::BadName, range, counted], out);
}

fn credential_commands() -> Vec<credential::Command> {
    use credential::{
        Added, Command, Fault, Forbidden, Kind, LoginLost, Outcome, Probing, Reason, Removed,
        Rotated, Saw, Seen, Stale, Told,
    };
    let profile = || String::from("main");
    let told = |outcome| Command::Told(Told { profile: profile(), attempt: 7, outcome });
    let saw = |seen| {
        let (revision, model, began) = (300, "m".to_owned(), Instant(5));
        Command::Saw(Saw { profile: profile(), revision, model, began, seen })
    };
    let (kind, by, revision) = (Kind::ApiKey, Actor::Admin, 300);
    vec![
        Command::Add(Added { profile: profile(), kind, by, revision, expires: None }),
        Command::Rotate(Rotated { profile: profile(), revision: 301, expires: Some(Instant(5)) }),
        Command::Remove(Removed { profile: profile() }),
        Command::MarkDead(Removed { profile: profile() }),
        Command::Revive(Removed { profile: profile() }),
        Command::Probe(Probing { profile: profile(), model: "m".to_owned() }),
        saw(Seen::Success),
        saw(Seen::Failed {
            class: events::model_call::Class::AuthInvalid,
            status: Some(401),
            hint: Some(Millis(300)),
            reason: Reason::Named,
            forbidden: Forbidden::Cools,
        }),
        Command::Refresh(Stale { profile: profile(), revision }),
        told(Outcome::Done { revision: 302, expires: Some(Instant(9)) }),
        told(Outcome::Again { why: Fault::Limited, hint: Some(Millis(300)) }),
        told(Outcome::NeedsLogin(LoginLost::Reused)),
        told(Outcome::Lost),
    ]
}

/// `PITON_BLESS=1` rewrites the file instead.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "blessing rewrites a file of the source tree; test code only"
)]
fn the_bytes_of_what_crosses_nodes_do_not_change() {
    let mut found = vec![];
    lines(&messages(), &mut found);
    lines(&undecided(), &mut found);
    lines(&session_commands(), &mut found);
    lines(&run_commands(), &mut found);
    lines(&key_commands(), &mut found);
    lines(&[Request::Ping, Request::Suspect { boot: Boot(300) }], &mut found);
    lines(&[Reply::Here], &mut found);
    lines(&credential_commands(), &mut found);
    lines(&budget_commands(), &mut found);
    refusals(&mut found);
    between_nodes(&mut found);
    settings_words(&mut found);
    project::words(&mut found);
    if std::env::var_os("PITON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden/bus.txt");
        std::fs::write(path, found.join("\n") + "\n").unwrap();
        return;
    }
    let pinned: Vec<&str> = PINNED.lines().collect();
    for line in &found {
        assert!(pinned.contains(&line.as_str()), "bytes changed: {line}");
    }
    let shown: Vec<&str> = found.iter().map(String::as_str).collect();
    for line in pinned {
        assert!(shown.contains(&line), "a pinned word is not said any more: {line}");
    }
}

#[test]
fn no_number_is_used_twice_over_the_whole_bus() {
    let tables = [
        Message::TABLE,
        NoDecision::TABLE,
        session::Command::TABLE,
        session::Refusal::TABLE,
        run::Command::TABLE,
        run::Refusal::TABLE,
        key::Command::TABLE,
        key::Refusal::TABLE,
        events::settings::Command::TABLE,
        events::settings::Refusal::TABLE,
        crate::bus::node::Question::TABLE,
        crate::bus::node::Answer::TABLE,
        Request::TABLE,
        Reply::TABLE,
        credential::Command::TABLE,
        credential::Refusal::TABLE,
        budget::Command::TABLE,
        budget::Refusal::TABLE,
        events::grant::Command::TABLE,
        events::grant::Refusal::TABLE,
        events::gate::Command::TABLE,
        events::gate::Refusal::TABLE,
        events::artifact::Command::TABLE,
        events::artifact::Refusal::TABLE,
        events::about::Command::TABLE,
        events::about::Refusal::TABLE,
    ];
    let all: Vec<(u16, u16)> =
        tables.into_iter().flatten().map(|(kind, schema, _)| (*kind, *schema)).collect();
    assert_eq!(BTreeSet::from_iter(all.clone()).len(), all.len());
}

#[test]
fn a_whole_message_starts_with_its_numbers_and_ends_with_its_last_byte() {
    for message in messages() {
        let bytes = message.write().unwrap();
        assert_eq!(Message::read(&bytes), Ok(message));
        assert!(Message::read(&[&bytes[..], &[0]].concat()).is_err());
        for end in 0..bytes.len() {
            assert!(Message::read(&bytes[..end]).is_err(), "{end} bytes of {bytes:?}");
        }
    }
    let observe = Message::Observe(Build { major: 1, minor: 2, patch: 3 }).write().unwrap();
    assert_eq!(observe, [2, 0, 1, 0, 1, 2, 3]);
}

#[test]
fn every_lane_has_its_urgency() {
    for lane in [Lane::Data, Lane::Control] {
        assert_eq!(Lane::from(Urgency::from(lane)), lane);
    }
}
