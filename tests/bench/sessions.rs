//! 100,000 sessions touched once: resident bytes of a live one against a bare ractor actor, and what a sleeping one
//! leaves behind.
//!
//! Each measurement is taken in a process of its own: memory that another one gave back would hide what this one
//! takes. What sleeping sessions leave is seen over small waves of them, for an allocator keeps pages that nobody
//! uses, and of a peak of a gigabyte that would be more than what is looked for.

mod figure;

use actors::clock::Clock;
use actors::entropy::Entropy;
use actors::live::Live;
use actors::node::Node;
use actors::order::{Lane, Order};
use actors::perform::room::Room;
use actors::perform::{run, session};
use actors::table::{Drained, Table};
use events::id::{Partition, Place, SessionId};
use events::message::{Message, Role};
use events::quantity::Millis;
use events::record::{Actor, Boot, CommandId, JournalId};
use events::run::Run;
use events::session::{Command, Session};
use figure::{ROUNDS, cpu, folder, median, resident, rounded, tell};
use ractor::{ActorProcessingErr, ActorRef};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{Faults, Open, Store};
use tools::Registry;

/// Sessions, or bare actors, that are live at the same time.
const SESSIONS: u64 = 100_000;
/// Sessions that are live at the same time where they fall asleep, wave after wave.
const WAVE: u64 = 10_000;
/// Waves until the store's memory of streams, which has a bound, has been full once.
const WARM: u64 = 7;
/// As many sessions again, twice: each span sees it full once, so what the second adds is there for good.
const WAVES: u64 = 3 * WARM;
/// Touches on their way at a time.
const IN_FLIGHT: usize = 256;
/// How long a wave may take to fall asleep.
const ASLEEP_MAX: Millis = Millis(30_000);
/// Between two looks at a state.
const LOOK: Duration = Duration::from_millis(5);

/// An actor that knows nothing and has been spoken to once.
struct Bare;

impl ractor::Actor for Bare {
    type Msg = ();
    type State = Arc<AtomicU64>;
    type Arguments = Arc<AtomicU64>;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        heard: Arc<AtomicU64>,
    ) -> Result<Arc<AtomicU64>, ActorProcessingErr> {
        Ok(heard)
    }

    async fn handle(
        &self,
        _: ActorRef<()>,
        (): (),
        heard: &mut Arc<AtomicU64>,
    ) -> Result<(), ActorProcessingErr> {
        heard.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

async fn bare() -> Value {
    let heard = Arc::new(AtomicU64::new(0));
    let before = resident(None);
    let mut actors = vec![];
    for _ in 0..SESSIONS {
        let (actor, _join) =
            ractor::Actor::spawn(None, Bare, Arc::clone(&heard)).await.expect("an actor");
        actor.cast(()).expect("it lives");
        actors.push(actor);
    }
    while heard.load(Ordering::Relaxed) < SESSIONS {
        tokio::time::sleep(LOOK).await;
    }
    json!((resident(None) - before) / SESSIONS)
}

async fn node() -> (Node, tempfile::TempDir) {
    let place = tempfile::tempdir_in(folder()).expect("a folder");
    let path = place.path().join("journal.db");
    let open = Open { path, boot: Boot(1), fresh: JournalId(1), faults: Faults::none() };
    let store = Store::open(open).expect("a store");
    (Node::new(store, Clock::System, Entropy::System), place)
}

async fn runs(node: &Node) -> Arc<Table<Run>> {
    // A node chooses it where it starts; no provider is asked here.
    let _set = rustls::crypto::ring::default_provider().install_default();
    let world = run::World {
        client: providers::Client::new().expect("a client"),
        endpoints: [].into(),
        lent: [].into(),
        credentials: None,
        tools: Arc::new(Registry::new([]).expect("no tools")),
        judge: actors::judge::Judge::new(Arc::new(Registry::new([]).expect("no tools"))),
        live: Arc::new(Live::default()),
        sessions: OnceLock::new(),
        budgets: OnceLock::new(),
        calls: Room::for_calls(1),
        in_flight: run::InFlight::default(),
        fallbacks: Arc::default(),
        at_work: run::AtWork::default(),
        approvers: run::Approvers::default(),
        clock: node.clock.clone(),
        entropy: node.entropy.clone(),
    };
    Table::open(node.clone(), Arc::new(world)).await.expect("runs")
}

async fn touch(table: &Arc<Table<Session>>, node: &Node, session: u64) {
    let place = Place { partition: Partition::of(session), ..Place::default() };
    let (id, now) = (SessionId::new(place, u128::from(session)), node.clock.now());
    let messages = vec![Message::text(Role::User, "Hello, what can you do for me?").body()];
    let parent = SessionId::new(place, u128::MAX);
    let order = Order {
        command: Command::Fork {
            parent,
            at: 1,
            messages,
            project: "default".into(),
            by: Actor::Admin,
        },
        id: CommandId::new(now, node.entropy.draw()),
        correlation: u128::from(session),
        actor: Actor::Admin,
        deadline: now.after(Millis(30_000)),
        lane: Lane::Data,
    };
    table.decide(id, order).await.expect("a decision").expect("a session");
}

/// Touches so many sessions once.
async fn touched(node: &Node, runs: &Arc<Table<Run>>, sessions: Range<u64>) -> Arc<Table<Session>> {
    let driver = session::World {
        runs: Arc::clone(runs),
        clock: node.clock.clone(),
        entropy: node.entropy.clone(),
    };
    let table = Table::<Session>::open(node.clone(), Arc::new(driver)).await.expect("sessions");
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let (table, node, sessions) = (Arc::clone(&table), node.clone(), sessions.clone());
        tokio::spawn(async move {
            for session in sessions.skip(lane).step_by(IN_FLIGHT) {
                touch(&table, &node, session).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane");
    }
    table
}

/// All of them live at once.
async fn live() -> Value {
    let (node, _place) = node().await;
    node.agenda.start(Partition::all());
    let runs = runs(&node).await;
    let before = resident(None);
    let (started, busy) = (Instant::now(), cpu(None));
    let table = touched(&node, &runs, 0..SESSIONS).await;
    let (wall, busy) = (started.elapsed(), cpu(None) - busy);
    assert_eq!(*table.live().borrow(), SESSIONS as usize, "none fell asleep before it was counted");
    let micros = |time: Duration| rounded(time.as_secs_f64() * 1e6 / SESSIONS as f64, 1);
    let each = (resident(None) - before) / SESSIONS;
    json!({"live_bytes": each, "touch_wall_us": micros(wall), "touch_cpu_us": micros(busy)})
}

/// Wave after wave falls asleep; resident bytes after each.
async fn asleep() -> Value {
    let (node, _place) = node().await;
    node.agenda.start(Partition::all());
    let runs = runs(&node).await;
    let mut after = vec![resident(None)];
    for wave in 0..WAVES {
        let table = touched(&node, &runs, wave * WAVE..(wave + 1) * WAVE).await;
        // The way of a host to sleep is the same as when it has idled; this only asks all of them at once.
        assert_eq!(table.drain(node.clock.now().after(ASLEEP_MAX)).await, Drained::Quiet);
        // Each host holds its table until it is gone.
        while Arc::strong_count(&table) > 1 {
            tokio::time::sleep(LOOK).await;
        }
        after.push(resident(None));
    }
    json!(after)
}

/// Bytes that a sleeping session leaves: the growth of the peak between two spans of waves.
fn left(after: &[f64]) -> f64 {
    let peak = |span: usize| {
        after.iter().skip(1 + span * WARM as usize).take(WARM as usize).copied().fold(0.0, f64::max)
    };
    (peak(2) - peak(1)) / (WARM * WAVE) as f64
}

/// Takes one measurement in a process of its own.
fn apart(what: &str) -> Value {
    let own = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(own).arg(what).output().expect("it runs");
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bare") => return println!("{}", bare().await),
        Some("live") => return println!("{}", live().await),
        Some("asleep") => return println!("{}", asleep().await),
        Some(_) | None => (),
    }
    let number = |value: &Value| value.as_f64().expect("a number");
    let floor = median((0..ROUNDS).map(|_| number(&apart("bare"))).collect());
    let live = apart("live");
    let after: Vec<f64> = apart("asleep").as_array().expect("waves").iter().map(number).collect();
    let touched = (WAVES * WAVE) as f64;
    tell(
        "sessions_touched_once",
        &json!({
            "sessions": SESSIONS, "live_bytes": live["live_bytes"], "floor_bytes": floor,
            "floor": "a bare ractor actor that heard one message",
            "ratio": rounded(number(&live["live_bytes"]) / floor, 3), "goal_max": 1.3,
            "touch_wall_us": live["touch_wall_us"], "touch_cpu_us": live["touch_cpu_us"],
            "in_flight": IN_FLIGHT, "asleep_bytes": left(&after).round(), "goal_asleep_bytes_max": 100,
            "asleep_sessions": touched, "resident_after_waves": after,
        }),
    );
}
