//! After a restart nobody sends a command: what owes something is woken, what has a time of its own is woken then,
//! and never more of them in a second than the node can bear.

use super::probe::{Command, How, Id, Rig, Work, patient};
use actors::agenda::WAKES_PER_SECOND;
use actors::supervisor::{FALLS_MAX, WINDOW};
use events::quantity::Millis;
use futures_util::future::join_all;

#[tokio::test]
async fn what_owes_something_is_woken_by_a_restart_alone() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.granted(2, Command::Open(Work::Again)).await;
    rig.granted(3, Command::Add(1)).await;
    let rig = rig.restart().await;
    rig.start_agenda();
    assert_eq!(rig.world.has_started(1).await, [(Id(2), 1)]);
    rig.world.free.send_replace(true);
    rig.live(0).await;
    assert_eq!(rig.folded(1).await.closed, [(0, How::Unknown)]);
    assert_eq!(rig.folded(2).await.closed, [(0, How::Unknown), (1, How::Done)]);
    assert_eq!(rig.log(3).await.len(), 1, "who owes nothing is left asleep");
}

#[tokio::test]
async fn a_time_of_its_own_comes_though_its_host_sleeps() {
    let rig = Rig::new().await;
    rig.start_agenda();
    let (soon, later) = (rig.hand.now().after(Millis(5_000)), rig.hand.now().after(Millis(9_000)));
    rig.granted(1, Command::RingAt(later)).await;
    // Noted while the agenda waits for the later one.
    rig.granted(2, Command::RingAt(soon)).await;
    rig.live(0).await;
    rig.hand.set(soon);
    rig.until(2, |state| state.rings == 1).await;
    assert_eq!(rig.state(1).await.rings, 0);
    rig.hand.set(later);
    rig.until(1, |state| state.rings == 1).await;
    // Looking again rings nobody twice.
    rig.node.agenda.look();
    rig.live(0).await;
    assert_eq!((rig.folded(1).await.rings, rig.folded(2).await.rings), (1, 1));
}

#[tokio::test]
async fn a_time_that_came_while_the_node_was_down_is_caught_up() {
    let rig = Rig::new().await;
    let at = rig.hand.now().after(Millis(5_000));
    rig.granted(1, Command::RingAt(at)).await;
    rig.hand.advance(Millis(86_400_000));
    let rig = rig.restart().await;
    rig.start_agenda();
    patient(rig.table.live().wait_for(|live| *live == 1)).await.unwrap();
    rig.until(1, |state| state.rings == 1).await;
}

#[tokio::test]
async fn wakes_are_paced() {
    let rig = Rig::new().await;
    let streams = u32::try_from(2 * WAKES_PER_SECOND + 10).unwrap();
    join_all((0..streams).map(|id| rig.granted(id, Command::Open(Work::Again)))).await;
    let rig = rig.restart().await;
    rig.start_agenda();
    for woken in [WAKES_PER_SECOND, 2 * WAKES_PER_SECOND, 2 * WAKES_PER_SECOND + 10] {
        let started = rig.world.has_started(woken).await;
        // Each of them goes on and sleeps again, and still nobody else is woken.
        assert_eq!(started.len(), woken);
        rig.live(woken).await;
        rig.hand.advance(Millis(1_000));
    }
}

#[tokio::test]
async fn a_parked_stream_that_owes_something_is_woken_when_its_time_is_over() {
    let rig = Rig::new().await;
    rig.start_agenda();
    rig.granted(1, Command::Open(Work::Again)).await;
    for _ in 0..FALLS_MAX {
        let _lost = rig.ask(1, Command::Panic).await;
    }
    rig.live(0).await;
    let started = rig.world.started.borrow().len();
    rig.hand.advance(WINDOW);
    rig.world.has_started(started + 1).await;
    rig.world.free.send_replace(true);
    rig.until(1, |state| state.open.is_empty()).await;
}
