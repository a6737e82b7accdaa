//! Text while it comes, from the node that owns a run to one that does not.

use super::{Line, Wire};
use crate::hosts::probe::patient;
use actors::bus::{Message, Nats, Pieces, Told, What};
use actors::live::{Found, Live, Reader, Whole};
use async_nats::Client;
use events::aggregate::Aggregate;
use events::id::{Place, RunId};
use events::record::Epoch;
use events::run::Run;
use events::run::step::CallNo;
use events::subject::{Namespace, Subject, Token};
use futures_util::StreamExt;
use providers::Delta as Piece;
use std::sync::Arc;
use store::Faults;

fn run() -> RunId {
    RunId::new(Place::default(), 7)
}

fn namespace() -> Namespace {
    "test".parse().unwrap()
}

/// Two nodes over one server, one of which owns the run.
struct Pair {
    line: Line,
    owner: Arc<Live>,
    other: Arc<Live>,
    client: Client,
}

impl Pair {
    async fn new() -> Self {
        let line = Line::open(Wire::Nats, Faults::none()).await;
        let (owner, other) = (Arc::new(Live::default()), Arc::new(Live::default()));
        let far = line.far.as_ref().unwrap();
        far.owner.carry(&owner);
        patient(far.owner.serve(Run::stream(&run()).partition())).await.unwrap();
        let asker: Nats<_> = super::bus_over(&far.server, &line.rig).await;
        asker.carry(&other);
        let client = patient(async_nats::connect(far.server.urls())).await.unwrap();
        Self { line, owner, other, client }
    }

    /// Says so many pieces of a call at its owner.
    fn say(&self, call: u32, count: u64) {
        let writer = self.owner.writer(run(), "default", CallNo(call));
        (0..count).for_each(|_| writer.push(Piece::Text("a".to_owned())));
        // The ring lives as long as its effect or a reader.
        std::mem::forget(writer);
    }

    /// Says its epoch on the bus, as an owner of that epoch would.
    async fn forge(&self, epoch: Epoch, number: u64) {
        let told = vec![Told { call: CallNo(0), number, what: What::Text(epoch.0.to_string()) }];
        let after = number.checked_sub(1).map(|before| (CallNo(0), before));
        let pieces = Message::Pieces(Pieces { epoch, after, told, more: false });
        let (project, run) = (Token::of_project("default"), run().to_string().parse().unwrap());
        let subject = namespace().spell(&Subject::Delta { project, run });
        self.client.publish(subject, pieces.write().unwrap().into()).await.unwrap();
        patient(self.client.flush()).await.unwrap();
    }
}

/// Places of what was found, as `call.number`, and gaps as `-`.
fn places(reader: &mut Reader) -> Vec<String> {
    let shown = |found: Found| match found {
        Found::Delta(delta) => format!("{}.{}", delta.call.0, delta.number),
        Found::Gap => "-".to_owned(),
    };
    reader.take().into_iter().map(shown).collect()
}

async fn until(reader: &mut Reader, wanted: &str) -> Vec<String> {
    let mut all = vec![];
    while !all.iter().any(|place| place == wanted) {
        patient(reader.changed()).await;
        all.extend(places(reader));
    }
    all
}

#[tokio::test]
async fn far_pieces_come_as_they_are_said_and_the_last_ones_are_not_cut_off() {
    let pair = Pair::new().await;
    pair.say(0, 2);
    let mut reader = pair.other.reader(run());
    assert_eq!(until(&mut reader, "0.1").await, ["0.0", "0.1"], "said before anybody asked");
    pair.say(0, 1);
    assert_eq!(until(&mut reader, "0.2").await, ["0.2"], "told without being asked again");
    // The owner's next message waits for more; who wants all of it does not.
    pair.say(0, 3);
    assert_eq!(patient(reader.whole()).await, Whole::Yes);
    assert_eq!(places(&mut reader), ["0.3", "0.4", "0.5"]);
    pair.say(1, 1);
    assert_eq!(until(&mut reader, "1.0").await, ["1.0"], "and none came twice");
}

#[tokio::test]
async fn what_a_former_owner_still_says_is_not_heard() {
    let pair = Pair::new().await;
    let epoch = pair.line.rig.store.epoch(Run::stream(&run()).partition());
    pair.say(0, 1);
    let mut reader = pair.other.reader(run());
    until(&mut reader, "0.0").await;
    pair.forge(Epoch(epoch.0 + 5), 1).await;
    assert_eq!(until(&mut reader, "0.1").await, ["0.1"]);
    pair.forge(Epoch(epoch.0 + 4), 2).await;
    pair.forge(Epoch(epoch.0 + 5), 2).await;
    patient(reader.changed()).await;
    let found = reader.take();
    let [Found::Delta(delta)] = &found[..] else { panic!("{found:?}") };
    let newer = Piece::Text((epoch.0 + 5).to_string());
    assert_eq!((delta.number, &delta.piece), (2, &newer));
}

#[tokio::test]
async fn a_far_reader_that_comes_too_late_for_the_ring_is_told_of_the_gap() {
    let pair = Pair::new().await;
    pair.say(0, 5_000);
    let mut reader = pair.other.reader(run());
    let found = until(&mut reader, "0.4999").await;
    assert_eq!(found[..2], ["-", "0.904"]);
    assert_eq!(found.len(), 4_096 + 1);
}

#[tokio::test]
async fn nothing_is_said_on_the_bus_while_nobody_far_away_reads() {
    let pair = Pair::new().await;
    let mut heard = pair.client.subscribe("piton.test.delta.>").await.unwrap();
    patient(pair.client.flush()).await.unwrap();
    let here = pair.owner.reader(run());
    pair.say(0, 3);
    assert_eq!(patient(here.whole()).await, Whole::Yes);
    let mut reader = pair.other.reader(run());
    until(&mut reader, "0.2").await;
    pair.say(0, 1);
    let first = patient(heard.next()).await.unwrap();
    let Ok(Message::Pieces(pieces)) = Message::read(&first.payload) else { panic!() };
    let numbers: Vec<u64> = pieces.told.iter().map(|told| told.number).collect();
    assert_eq!(numbers, [3], "the first that was told is the first that somebody waited for");
}
