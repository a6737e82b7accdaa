//! A partition that changes its owner while the node goes on: handed over in peace, lost at once, taken again.

use super::probe::{Command, How, Id, Probe, Rig, Work, patient, undecided};
use actors::order::NoDecision;
use actors::table::Drained;
use events::aggregate::Aggregate;
use events::id::Partition;
use events::quantity::{Instant, Millis};

fn partition(id: u32) -> Partition {
    Probe::stream(&Id(id)).partition()
}

/// A stream of another partition than that of stream 1.
fn elsewhere() -> u32 {
    (2..).find(|id| partition(*id) != partition(1)).unwrap()
}

fn soon(rig: &Rig) -> Instant {
    rig.hand.now().after(Millis(10_000))
}

#[tokio::test]
async fn a_partition_is_handed_over_when_its_streams_have_nothing_open() {
    let rig = Rig::new().await;
    let other = elsewhere();
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let mut leave = Box::pin(rig.table.hand_over(partition(1), soon(&rig)));
    assert!(futures_util::poll!(&mut leave).is_pending());
    assert_eq!(undecided(rig.ask(1, Command::Add(1)).await), NoDecision::NobodyThere);
    assert_eq!(rig.granted(other, Command::Add(1)).await.state.sum, 1);
    rig.world.free.send_replace(true);
    assert_eq!(patient(leave).await, Drained::Quiet);
    assert_eq!(rig.folded(1).await.closed, [(0, How::Done)]);
    rig.table.serve(partition(1));
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.sum, 1);
}

#[tokio::test]
async fn a_hand_over_ends_at_its_deadline_whatever_is_open() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let deadline = soon(&rig);
    let mut leave = Box::pin(rig.table.hand_over(partition(1), deadline));
    assert!(futures_util::poll!(&mut leave).is_pending());
    rig.hand.set(deadline);
    assert_eq!(patient(leave).await, Drained::Cut { hosts: 1 });
    assert_eq!(rig.folded(1).await.open.len(), 1);
}

#[tokio::test]
async fn a_lost_partition_ends_its_hosts_and_their_effects_at_once_and_no_other() {
    let rig = Rig::new().await;
    let other = elsewhere();
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.granted(other, Command::Open(Work::Wait)).await;
    rig.world.has_started(2).await;
    assert_eq!(patient(rig.table.lose(partition(1))).await, Drained::Cut { hosts: 1 });
    assert_eq!(*rig.world.aborted.lock().unwrap(), [(Id(1), 0)]);
    assert_eq!(undecided(rig.ask(1, Command::Add(1)).await), NoDecision::NobodyThere);
    assert!(rig.table.observe(Id(1)).await.is_err(), "nor may anybody look");
    assert_eq!(rig.state(other).await.open.len(), 1);
    assert!(rig.table.parked().is_empty(), "it is no fall");
    // Its next owner finds the effect open and records that it was lost; here it is the same node again.
    rig.table.serve(partition(1));
    assert_eq!(rig.state(1).await.closed, [(0, How::Unknown)]);
}

#[tokio::test]
async fn the_agenda_leaves_a_partition_alone_and_comes_back_to_it() {
    let rig = Rig::new().await;
    let at = rig.hand.now().after(Millis(1_000));
    rig.start_agenda();
    rig.granted(1, Command::RingAt(at)).await;
    rig.node.agenda.leave(partition(1));
    rig.table.lose(partition(1)).await;
    rig.hand.set(at.after(Millis(1)));
    rig.table.serve(partition(1));
    assert_eq!(rig.state(1).await.rings, 0, "nobody reminded it");
    rig.node.agenda.start([partition(1)]);
    rig.until(1, |state| state.rings == 1).await;
}
