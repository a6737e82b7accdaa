//! The owner's side of text while it comes: it tells a run's pieces to other nodes while one of them wants them.
//!
//! A teller is a reader of the ring like any other. So an effect never waits for the network: a teller that falls behind
//! finds a gap, which shows in the numbers. Nobody far away wants it: nothing is sent, and nothing is kept.

use super::owner::Desk;
use crate::bus::envelope::Message;
use crate::bus::pieces::{Pieces, Ring, pack};
use crate::live::{Live, PieceNo, Reader};
use crate::task;
use async_nats::connection::State;
use events::aggregate::Aggregate;
use events::id::RunId;
use events::run::Run;
use events::subject::{Subject, Token};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How long a run is told after somebody asked; whoever still reads asks again well before.
pub(super) const TOLD_FOR: Duration = Duration::from_secs(20);
/// Runs that are told at a time: as many as model calls may be in flight. The pieces of more are had by asking.
const TELLERS_MAX: usize = 1_024;
/// The pause after each message. Pieces that come meanwhile, about as many as a fast model says in a blink, go together.
const TOGETHER: Duration = Duration::from_millis(15);

/// The runs that are told.
#[derive(Clone, Default)]
pub(super) struct Tellers {
    live: Arc<OnceLock<Weak<Live>>>,
    // A std lock: it is held over no await.
    until: Arc<Mutex<BTreeMap<RunId, Instant>>>,
}

impl Tellers {
    /// Where the pieces are, once; held weakly, for it leads here too.
    pub(super) fn listen_to(&self, live: &Arc<Live>) {
        self.live.get_or_init(|| Arc::downgrade(live));
    }

    fn until(&self) -> MutexGuard<'_, BTreeMap<RunId, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the ring holds behind what the asker has; from now on the run is told.
    pub(super) fn answer(&self, desk: &Desk, run: RunId, asked: &Ring) -> Option<Message> {
        let live = self.live.get()?.upgrade()?;
        // First, so that what comes in between is told twice and not never.
        self.tell(desk, &live, run);
        let mut reader = live.listen(run);
        let epoch = desk.store.epoch(Run::stream(&run).partition());
        let found = reader.take();
        let after = asked.after.max(reader.dropped());
        let nothing = || Pieces { epoch, after, told: vec![], more: false };
        let first = pack(found, after, epoch).into_iter().next();
        Some(Message::Pieces(first.unwrap_or_else(nothing)))
    }

    fn tell(&self, desk: &Desk, live: &Live, run: RunId) {
        let mut until = self.until();
        let is_told = until.contains_key(&run);
        if !is_told && until.len() >= TELLERS_MAX {
            return;
        }
        until.insert(run, Instant::now() + TOLD_FOR);
        if !is_told {
            let mut reader = live.listen(run);
            let _had_by_asking = reader.take();
            let told = reader.newest();
            task::spawn(task::Kind::Serve, self.clone().follow(desk.clone(), run, reader, told));
        }
    }

    async fn follow(self, desk: Desk, run: RunId, mut reader: Reader, mut told: Option<PieceNo>) {
        loop {
            let Some(until) = self.lasts(run) else { return };
            tokio::select! {
                () = reader.changed() => {}
                () = tokio::time::sleep_until(until) => continue,
            }
            let epoch = desk.store.epoch(Run::stream(&run).partition());
            let found = reader.take();
            for pieces in pack(found, told.max(reader.dropped()), epoch) {
                told = pieces.told.last().map(|told| (told.call, told.number)).or(told);
                publish(&desk, run, &reader, pieces).await;
            }
            tokio::time::sleep(TOGETHER).await;
        }
    }

    /// Until when a run is told; nobody has asked any more when there is no such time.
    fn lasts(&self, run: RunId) -> Option<Instant> {
        let mut all = self.until();
        let until = all.get(&run).copied()?;
        if until > Instant::now() {
            return Some(until);
        }
        all.remove(&run);
        None
    }
}

async fn publish(desk: &Desk, run: RunId, reader: &Reader, pieces: Pieces) {
    // The client would keep it, and tell it when it is old; the readers see the hole and ask.
    if desk.client.connection_state() != State::Connected {
        return;
    }
    let project = Token::of_project(reader.project().as_deref().unwrap_or_default());
    let Ok(run) = run.to_string().parse::<Token>() else { return };
    let subject = desk.namespace.spell(&Subject::Delta { project, run });
    let Ok(bytes) = Message::Pieces(pieces).write() else { return };
    if let Err(error) = desk.client.publish(subject, bytes.into()).await {
        tracing::debug!(%error, "pieces were not told");
    }
}
