//! 100,000 sessions touched once: resident bytes of a live one against a bare ractor actor, and what a sleeping one
//! leaves behind.
//!
//! Each measurement is taken in a process of its own: memory that another one gave back would hide what this one
//! takes. What a sleeping session leaves is the growth of the resident peak from one wave of sessions to the next,
//! for an allocator may keep pages that nobody uses.

mod figure;

use actors::clock::Clock;
use actors::entropy::Entropy;
use actors::live::Live;
use actors::node::Node;
use actors::order::{Lane, Order};
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
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Faults, Open, Store};
use tokio::sync::Semaphore;
use tools::Registry;

/// Sessions of a wave; all of them are live at its end.
const SESSIONS: u64 = 100_000;
/// Waves, one after the other: the figures of time are medians of them.
const WAVES: u64 = 3;
/// Touches on their way at a time.
const IN_FLIGHT: u64 = 256;
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
    json!(each(resident(None), before))
}

/// Bytes for each session.
fn each(after: u64, before: u64) -> f64 {
    (after as f64 - before as f64) / SESSIONS as f64
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
        tools: Arc::new(Registry::new([]).expect("no tools")),
        live: Arc::new(Live::default()),
        sessions: OnceLock::new(),
        calls: Semaphore::new(1),
        at_work: run::AtWork::default(),
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

/// Touches a wave's sessions, looks at the memory, lets them all sleep, and looks again.
async fn wave(node: &Node, runs: &Arc<Table<Run>>, wave: u64) -> Value {
    let driver = session::World {
        runs: Arc::clone(runs),
        clock: node.clock.clone(),
        entropy: node.entropy.clone(),
    };
    let before = resident(None);
    let (started, busy) = (Instant::now(), cpu(None));
    let table = Table::<Session>::open(node.clone(), Arc::new(driver)).await.expect("sessions");
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let (table, node) = (Arc::clone(&table), node.clone());
        tokio::spawn(async move {
            for session in (lane..SESSIONS).step_by(IN_FLIGHT as usize) {
                touch(&table, &node, wave * SESSIONS + session).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane");
    }
    let (wall, busy) = (started.elapsed(), cpu(None) - busy);
    assert_eq!(*table.live().borrow(), SESSIONS as usize, "none fell asleep before it was counted");
    let live = resident(None);
    // The way of a host to sleep is the same as when it has idled; this only asks all of them at once.
    assert_eq!(table.drain(node.clock.now().after(ASLEEP_MAX)).await, Drained::Quiet);
    // Each host holds its table until it is gone.
    while Arc::strong_count(&table) > 1 {
        tokio::time::sleep(LOOK).await;
    }
    let asleep = resident(None);
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / SESSIONS as f64;
    json!({"before": before, "peak": live, "live": each(live, before), "asleep": each(asleep, before),
        "wall_us": micros(wall), "cpu_us": micros(busy)})
}

async fn sessions() -> Value {
    let (node, _place) = node().await;
    node.agenda.start(Partition::all());
    let runs = runs(&node).await;
    let mut waves = vec![];
    for number in 0..WAVES {
        waves.push(wave(&node, &runs, number).await);
    }
    json!(waves)
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
        Some("sessions") => return println!("{}", sessions().await),
        Some(_) | None => (),
    }
    let floor = median((0..ROUNDS).map(|_| apart("bare").as_f64().expect("bytes")).collect());
    let told = apart("sessions");
    let waves = told.as_array().expect("waves");
    let of = |wave: &Value, name: &str| wave[name].as_f64().expect("a number");
    let middle = |name: &str| median(waves.iter().map(|wave| of(wave, name)).collect());
    let live = of(&waves[0], "live");
    // Between the last two: the first one also fills caches that have a bound.
    let kept = (of(&waves[2], "peak") - of(&waves[1], "peak")) / SESSIONS as f64;
    tell(
        "sessions_touched_once",
        &json!({"sessions": SESSIONS, "live_bytes": live.round(), "floor_bytes": floor.round(),
            "ratio": rounded(live / floor, 3), "goal_max": 1.3, "floor": "a bare ractor actor that heard one message",
            "asleep_bytes": kept.round(), "goal_asleep_bytes_max": 100,
            "touch_wall_us": rounded(middle("wall_us"), 1), "touch_cpu_us": rounded(middle("cpu_us"), 1),
            "in_flight": IN_FLIGHT, "waves": waves}),
    );
}
