//! What was asked of an owner that will never answer is not waited for: whoever asked is told to ask again.

use super::{Command, Far, Line, Server, Wire, partition};
use crate::hosts::probe::patient;
use actors::bus::Bus;
use actors::cluster::keeper::Holders;
use actors::cluster::lease::Holder;
use actors::cluster::owners::Owners;
use actors::order::NoDecision;
use events::record::{Boot, Epoch};
use futures_util::StreamExt;
use std::sync::Arc;
use store::Faults;
use tokio::sync::{mpsc, watch};

fn held_by(boot: u128) -> Arc<Holders> {
    let holder = Holder { node: "n".parse().unwrap(), boot: Boot(boot), epoch: Epoch(1) };
    Arc::new(Holders::from([(partition(), holder)]))
}

/// A line whose asker sees who holds the partition, and who is suspected.
async fn heeding() -> (Line, watch::Sender<Arc<Holders>>, mpsc::Receiver<Boot>) {
    let line = Line::open(Wire::Nats, Faults::none()).await;
    let (holders, seen) = watch::channel(held_by(1));
    let (suspects, suspected) = mpsc::channel(4);
    let Bus::Nats(bus) = &line.bus else { panic!() };
    bus.heed(Owners::new(seen, suspects));
    (line, holders, suspected)
}

/// Hears every command and answers none. It has heard itself: a flush only says that the subscription was written, and
/// another connection's command may overtake it at the server.
async fn deaf(server: &Server) -> async_nats::Subscriber {
    let client = patient(async_nats::connect(server.urls())).await.unwrap();
    let mut deaf = patient(client.subscribe("piton.test.cmd.>")).await.unwrap();
    patient(client.publish("piton.test.cmd.itself", "".into())).await.unwrap();
    patient(deaf.next()).await.unwrap();
    deaf
}

#[tokio::test]
async fn a_command_that_was_lost_on_its_way_is_asked_again_when_another_owner_stands() {
    let (line, holders, _suspected) = heeding().await;
    let Far { owner, server } = line.far.as_ref().unwrap();
    // Hears everything and says nothing, as a node that died with the command in its hand.
    patient(owner.leave(partition())).await;
    let mut deaf = deaf(server).await;
    let order = line.rig.order(Command::Add(3));
    let take_over = async {
        deaf.next().await.unwrap();
        // Heartbeats of the same life, and the end of its lease, are no reason to ask again.
        holders.send_replace(held_by(1));
        holders.send_replace(Arc::default());
        deaf.unsubscribe().await.unwrap();
        patient(owner.serve(partition())).await.unwrap();
        holders.send_replace(held_by(2));
    };
    let (answer, ()) = tokio::join!(line.send(order.clone()), patient(take_over));
    assert_eq!(answer.unwrap_err(), NoDecision::Lost, "and the clock stood still all the while");
    assert_eq!(line.send(order.clone()).await.unwrap().unwrap().state.sum, 3);
    assert_eq!(line.send(order).await.unwrap().unwrap().state.sum, 3, "the same id counts once");
}

#[tokio::test]
async fn a_command_whose_connection_is_gone_is_asked_again() {
    let (mut line, _holders, _suspected) = heeding().await;
    let Far { owner, server } = line.far.as_mut().unwrap();
    patient(owner.leave(partition())).await;
    let mut deaf = deaf(server).await;
    let order = line.rig.order(Command::Add(3));
    let cut = async {
        deaf.next().await.unwrap();
        server.kill(0);
    };
    let asked = line.bus.decide::<super::Probe>(super::Id(1), order);
    let (answer, ()) = tokio::join!(patient(asked), patient(cut));
    assert_eq!(answer.unwrap_err(), NoDecision::Lost);
}

#[tokio::test]
async fn whom_nobody_hears_is_a_suspect() {
    let (line, _holders, mut suspected) = heeding().await;
    line.ask(Command::Add(3)).await.unwrap().unwrap();
    assert!(suspected.try_recv().is_err());
    patient(line.far.as_ref().unwrap().owner.leave(partition())).await;
    for _ in 0..10 {
        assert_eq!(line.ask(Command::Add(3)).await.unwrap_err(), NoDecision::NobodyThere);
    }
    assert_eq!(patient(suspected.recv()).await, Some(Boot(1)));
}
