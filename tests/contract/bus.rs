//! What a bus must answer, the same for each wire: a behaviour is an async function over a [`Line`], and the list
//! below runs it on every wire.

use crate::hosts::probe::{Command, Id, Probe, Refusal, Rig, patient};
use actors::bus::{Bus, COMMAND_BYTES_MAX, Local, Nats};
use actors::directory::Serves;
use actors::host::Hosted;
use actors::order::{Answer, NoDecision, Order};
use actors::table::Table;
use events::aggregate::Aggregate;
use events::id::Partition;
use events::quantity::Millis;
use events::subject::Namespace;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use store::{Fault, Faults, Point};
use tests::nats::{Nats as Server, Sync};

mod far;
mod live;
mod moved;

/// How a command travels.
#[derive(Debug, Clone, Copy)]
enum Wire {
    Local,
    /// From one connection to a server to another one, which answers for the partition.
    Nats,
}

/// Which kinds are served at the far end.
struct Directory(Option<Arc<Table<Probe>>>);

impl Serves<Probe> for Directory {
    fn table(&self) -> Option<&Arc<Table<Probe>>> {
        self.0.as_ref()
    }
}

/// A bus with a node at its end.
struct Line {
    rig: Rig,
    bus: Bus<Directory>,
    /// The end that answers, with the server between.
    far: Option<Far>,
    // The bus does not keep it alive.
    _directory: Arc<Directory>,
}

/// The other end of a line over a server.
struct Far {
    owner: Nats<Directory>,
    server: Server,
}

/// A bus of its own connection, over the rig's store and clock.
async fn bus_over(server: &Server, rig: &Rig) -> Nats<Directory> {
    let client = patient(async_nats::connect(server.urls())).await.unwrap();
    let namespace: Namespace = "test".parse().unwrap();
    Nats::new(client, namespace, Local::new(), rig.store.clone(), rig.hand.clock())
}

impl Line {
    async fn open(wire: Wire, faults: Faults) -> Self {
        let rig = Rig::with(faults).await;
        let directory = Directory(Some(rig.table.clone()));
        Self::over(wire, rig, directory).await
    }

    /// The node is there, but it does not serve this kind.
    async fn open_empty(wire: Wire) -> Self {
        Self::over(wire, Rig::new().await, Directory(None)).await
    }

    async fn over(wire: Wire, rig: Rig, directory: Directory) -> Self {
        let directory = Arc::new(directory);
        let (bus, far) = match wire {
            Wire::Local => {
                let local = Local::new();
                local.lead_to(&directory);
                (Bus::Local(local), None)
            }
            Wire::Nats => {
                let server = Server::one(Sync::Default).await;
                let owner = bus_over(&server, &rig).await;
                if let Some(table) = &directory.0 {
                    owner.answer_for(table);
                }
                patient(owner.serve(partition())).await.unwrap();
                (Bus::Nats(bus_over(&server, &rig).await), Some(Far { owner, server }))
            }
        };
        Self { rig, bus, far, _directory: directory }
    }

    /// A bus of the same wire that leads to nobody.
    async fn nowhere(&self) -> Bus<Directory> {
        let Some(Far { owner, server }) = &self.far else { return Bus::Local(Local::new()) };
        patient(owner.leave(partition())).await;
        Bus::Nats(bus_over(server, &self.rig).await)
    }

    async fn send(&self, order: Order<Command>) -> Answer<Probe> {
        patient(self.bus.decide::<Probe>(Id(1), order)).await
    }

    async fn ask(&self, command: Command) -> Answer<Probe> {
        self.send(self.rig.order(command)).await
    }

    async fn sum(&self) -> u64 {
        patient(self.bus.observe::<Probe>(Id(1))).await.unwrap().state.sum
    }
}

/// Where the one stream of these tests lives.
fn partition() -> Partition {
    Probe::stream(&Id(1)).partition()
}

/// The owner's store hangs at its first commit for longer than any test.
fn stuck() -> Faults {
    Faults::once(Point::BeforeCommit, 1, Fault::Delay(Duration::from_secs(3_600)))
}

/// Makes a test of each behaviour for each wire.
macro_rules! behaviours {
    ($($name:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Wire::Local).await;
            })*
        }

        mod nats {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Wire::Nats).await;
            })*
        }
    };
}

behaviours! {
    a_decision_is_replied,
    a_refusal_is_an_answer,
    a_full_owner_is_busy,
    a_silent_owner_times_out,
    without_an_owner_nobody_is_there,
    a_duplicate_command_counts_once,
    a_deadline_that_passed_is_not_sent,
    a_payload_too_large_is_not_sent,
    a_cancelled_caller_changes_nothing,
    whoever_watches_is_told_each_belief_until_nobody_watches,
}

async fn a_decision_is_replied(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let answer = line.ask(Command::Add(3)).await.unwrap().unwrap();
    assert_eq!((answer.version.0, answer.state.sum), (1, 3));
    assert_eq!(line.sum().await, 3);
}

async fn a_refusal_is_an_answer(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let answer = line.ask(Command::Forbidden).await;
    assert_eq!(answer.unwrap().unwrap_err(), Refusal::Forbidden);
}

async fn a_full_owner_is_busy(wire: Wire) {
    let line = Line::open(wire, stuck()).await;
    let mut waiting: Vec<_> =
        (0..Probe::INBOX).map(|_| Box::pin(line.ask(Command::Add(1)))).collect();
    for ask in &mut waiting {
        assert!(futures_util::poll!(ask).is_pending());
    }
    let answer = line.ask(Command::Add(1)).await;
    let Err(NoDecision::Busy { retry_after }) = answer else { panic!("{answer:?}") };
    assert!(retry_after > Millis(0));
}

async fn a_silent_owner_times_out(wire: Wire) {
    let line = Line::open(wire, stuck()).await;
    let order = line.rig.order(Command::Add(1));
    let deadline = order.deadline;
    let mut ask = Box::pin(line.send(order));
    assert!(futures_util::poll!(&mut ask).is_pending());
    // Its host has taken it before the time comes.
    line.rig.visited(Point::BeforeCommit).await;
    line.rig.hand.set(deadline);
    assert_eq!(ask.await.unwrap_err(), NoDecision::TimedOut);
}

async fn without_an_owner_nobody_is_there(wire: Wire) {
    let line = Line::open_empty(wire).await;
    assert_eq!(line.ask(Command::Add(1)).await.unwrap_err(), NoDecision::NobodyThere);
    let seen = line.bus.observe::<Probe>(Id(1)).await;
    assert_eq!(seen.unwrap_err(), NoDecision::NobodyThere);
    let nowhere = line.nowhere().await;
    let answer = nowhere.decide::<Probe>(Id(1), line.rig.order(Command::Add(1))).await;
    assert_eq!(answer.unwrap_err(), NoDecision::NobodyThere);
}

async fn a_duplicate_command_counts_once(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let order = line.rig.order(Command::Add(3));
    let answers = join_all((0..3).map(|_| line.send(order.clone()))).await;
    for answer in answers {
        assert_eq!(answer.unwrap().unwrap().state.sum, 3);
    }
    line.rig.live(0).await;
    assert_eq!(line.send(order).await.unwrap().unwrap().state.sum, 3);
}

async fn a_deadline_that_passed_is_not_sent(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let order = Order { deadline: line.rig.hand.now(), ..line.rig.order(Command::Add(3)) };
    assert_eq!(line.send(order).await.unwrap_err(), NoDecision::DeadlinePassed);
    assert_eq!(line.sum().await, 0);
}

async fn a_payload_too_large_is_not_sent(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let answer = line.ask(Command::Store(vec![0; COMMAND_BYTES_MAX])).await.unwrap_err();
    let NoDecision::TooLarge { bytes, max } = answer else { panic!("{answer}") };
    assert!(bytes > max && max == COMMAND_BYTES_MAX);
    let half = line.ask(Command::Store(vec![0; COMMAND_BYTES_MAX / 2])).await;
    assert_eq!(half.unwrap().unwrap().state.bytes, COMMAND_BYTES_MAX / 2);
}

async fn a_cancelled_caller_changes_nothing(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    let order = line.rig.order(Command::Add(3));
    let mut ask = Box::pin(line.send(order.clone()));
    assert!(futures_util::poll!(&mut ask).is_pending());
    drop(ask);
    assert_eq!(line.sum().await, 3, "what was sent still counts");
    assert_eq!(line.send(order).await.unwrap().unwrap().state.sum, 3);
}

async fn whoever_watches_is_told_each_belief_until_nobody_watches(wire: Wire) {
    let line = Line::open(wire, Faults::none()).await;
    line.ask(Command::Add(3)).await.unwrap().unwrap();
    let mut beliefs = patient(line.bus.watch::<Probe>(Id(1))).await.unwrap();
    assert_eq!(beliefs.borrow_and_update().state.sum, 3);
    for sum in [7, 11] {
        let told = line.ask(Command::Add(4)).await.unwrap().unwrap();
        let seen = patient(beliefs.wait_for(|belief| belief.state.sum >= sum)).await.unwrap();
        assert_eq!((seen.version, seen.position), (told.version, told.position));
        assert_eq!(*seen.state, *told.state);
    }
}
