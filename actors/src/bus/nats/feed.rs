//! The reader's side of text while it comes: the ring of a run of another node is filled from what its owner tells, and
//! from its answer where something is missing.
//!
//! Pieces are numbered within their call, so what came twice is left out and what is missing is seen. The owner may
//! change at any time, also to this node: whoever owns the partition is asked, by its subject.

use super::Nats;
use crate::bus::envelope::Message;
use crate::bus::pieces::{Pieces, Ring};
use crate::live::{Far, Inlet, Live, Offered, Wanted, Whole};
use crate::order::Build;
use crate::task;
use async_nats::Subscriber;
use events::aggregate::Aggregate;
use events::id::RunId;
use events::record::{Epoch, StreamKey};
use events::run::Run;
use events::subject::Token;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How often a run that is read is asked for again, so that it stays told: a quarter of how long it is.
const AGAIN: Duration = Duration::from_secs(5);
/// How soon, when nobody answered: the partition moves.
const SOON: Duration = Duration::from_millis(250);
/// The least between two looks, so that one that finds nothing to do is no busy loop.
const MOMENT: Duration = Duration::from_millis(1);
/// How long an owner may take to answer; a hung one never does.
const ASK_MAX: Duration = Duration::from_millis(800);
/// Messages of one answer: a ring of a mebibyte and its remainders.
const ANSWERS_MAX: usize = 64;

impl<D: Send + Sync + 'static> Nats<D> {
    /// Tells other nodes what the runs of this one say while they say it, and hears it from them.
    pub fn carry(&self, live: &Arc<Live>) {
        self.0.desk.tellers.listen_to(live);
        live.reach(Box::new(self.clone()));
    }
}

impl<D: Send + Sync + 'static> Far for Nats<D> {
    fn feed(&self, run: RunId, inlet: Inlet, wanted: mpsc::Receiver<Wanted>) {
        let stream = Run::stream(&run);
        let feed = Feed { bus: self.clone(), run, stream, inlet, heard: Epoch::default() };
        task::spawn(task::Kind::Follow, feed.run(wanted));
    }
}

struct Feed<D> {
    bus: Nats<D>,
    run: RunId,
    stream: StreamKey,
    inlet: Inlet,
    /// The highest ownership that was heard of.
    heard: Epoch,
}

impl<D: Send + Sync + 'static> Feed<D> {
    async fn run(mut self, mut wanted: mpsc::Receiver<Wanted>) {
        let mut told: Option<Subscriber> = None;
        let mut ask_at = Instant::now();
        while self.inlet.is_wanted() {
            if self.bus.serves(self.stream.partition()) {
                // What is said here is in the ring already; that it moves away is seen soon.
                told = None;
                ask_at = Instant::now() + SOON;
            } else if ask_at <= Instant::now() {
                // In this order: the server reads both in theirs, so nothing falls between.
                if told.is_none() {
                    told = self.subscribe().await;
                }
                ask_at = Instant::now() + self.ask().await;
            }
            let now = Instant::now();
            let look = ask_at.min(now + SOON).max(now + MOMENT);
            tokio::select! {
                asked = wanted.recv() => {
                    let Some(asked) = asked else { return };
                    ask_at = self.whole(asked, &mut wanted).await.unwrap_or(ask_at);
                }
                message = next(&mut told) => match message {
                    Some(message) => if self.hear(&message) == Offered::Hole {
                        ask_at = Instant::now();
                    },
                    None => told = None,
                },
                () = tokio::time::sleep_until(look) => {}
            }
        }
    }

    async fn subscribe(&self) -> Option<Subscriber> {
        let run = self.run.to_string().parse::<Token>().ok()?;
        let desk = &self.bus.0.desk;
        let subject = desk.namespace.deltas_of(&run);
        match desk.client.subscribe(subject).await {
            Ok(subscriber) => Some(subscriber),
            Err(error) => {
                tracing::debug!(%error, run = %self.run, "its pieces are had by asking");
                None
            }
        }
    }

    fn hear(&mut self, message: &async_nats::Message) -> Offered {
        // Of a build that is not known: the answer to the next question says so.
        let Ok(Message::Pieces(pieces)) = Message::read(&message.payload) else {
            return Offered::Taken;
        };
        if pieces.epoch < self.heard {
            return Offered::Taken;
        }
        self.heard = pieces.epoch;
        self.inlet.offer(pieces.after, pieces.told.into_iter().map(Into::into).collect())
    }

    /// Answers everybody who waits with one question; when to ask again, if it was asked.
    async fn whole(&mut self, first: Wanted, more: &mut mpsc::Receiver<Wanted>) -> Option<Instant> {
        let mut all = vec![first];
        while let Ok(another) = more.try_recv() {
            all.push(another);
        }
        let (whole, ask_at) = if self.bus.serves(self.stream.partition()) {
            (Whole::Yes, None)
        } else {
            let wait = self.ask().await;
            let whole = if wait == AGAIN { Whole::Yes } else { Whole::Unsure };
            (whole, Some(Instant::now() + wait))
        };
        all.into_iter().for_each(|asked| asked.answer(whole));
        ask_at
    }

    /// Takes what the owner has; says when to ask again.
    async fn ask(&mut self) -> Duration {
        let asked = tokio::time::timeout(ASK_MAX, self.take_all()).await;
        if asked == Ok(Some(())) { AGAIN } else { SOON }
    }

    async fn take_all(&mut self) -> Option<()> {
        for _ in 0..ANSWERS_MAX {
            let ring = Ring { build: Build::OURS, after: self.inlet.newest() };
            let answer = self.bus.request(&self.stream, &Message::Ring(ring)).await.ok()?;
            let Message::Pieces(Pieces { epoch, after, told, more }) = answer else { return None };
            if epoch < self.heard {
                return None;
            }
            self.heard = epoch;
            self.inlet.force(after, told.into_iter().map(Into::into).collect());
            if !more {
                return Some(());
            }
        }
        None
    }
}

async fn next(told: &mut Option<Subscriber>) -> Option<async_nats::Message> {
    match told {
        Some(told) => told.next().await,
        None => std::future::pending().await,
    }
}
