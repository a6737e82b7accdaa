//! Appending: judge by the tail, publish with the expected sequence, and settle whatever is not a plain yes.

use super::api::{Ask, Tries, leader, publish};
use super::message::{headers, recorded, tail};
use super::settings::{APPEND_MAX, HEADER_BYTES};
use super::settle::{Heard, Seen, Settled, Settling, Step};
use super::{ShardView, Shared};
use crate::slot::{Candidate, Verdict};
use crate::{Appended, Malformed, Outage, StoreError, metric};
use events::record::{Epoch, Position, Tail};
use events::subject::Subject;
use std::time::Instant;
use tokio::task::unconstrained;

impl Shared {
    pub(super) async fn append(&self, candidate: Candidate) -> Appended {
        if let Some(outage) = self.lazy_outage() {
            return Appended::Unknown(outage);
        }
        // Unconstrained: the first poll must take a place in both queues, or the runtime's own turns would mix the order
        // in which appends came. What waits for room feels the servers' pace.
        let Ok(_room) = unconstrained(self.room.acquire()).await else {
            return Appended::Unknown(Outage::Unavailable("the store is closed".to_owned()));
        };
        // One commit of a stream at a time, in the order in which they came.
        let _turn = unconstrained(self.turn(&candidate.stream).lock()).await;
        let client = match self.link.up() {
            Ok(client) => client,
            Err(outage) => return Appended::Unknown(outage),
        };
        let bytes = candidate.frame.bytes.len();
        if bytes.saturating_add(HEADER_BYTES) > client.max_payload() {
            return Appended::Malformed(Malformed::TooLarge { bytes });
        }
        let known = self.known_tail(&candidate).await;
        let tail = match known {
            Ok(tail) => tail,
            // Whoever reads the stream again, as a conflict asks, is told how it is damaged.
            Err(StoreError::Corrupt { .. }) => {
                return Appended::Conflict { tail: candidate.expected };
            }
            Err(error) => return Appended::Unknown(outage(error)),
        };
        match candidate.judge(&tail) {
            Verdict::Fits => {}
            Verdict::Conflict | Verdict::Fenced(_) => {
                return self.reject(&candidate).await;
            }
        }
        match self.put_blobs(&client, &candidate).await {
            Ok(None) => {}
            Ok(Some(missing)) => return Appended::Malformed(Malformed::BlobMissing(missing)),
            Err(error) => return Appended::Unknown(outage(error)),
        }
        self.settle(&candidate).await
    }

    /// Publishes nothing; only says whether the commit stands.
    pub(super) async fn refuse(&self, candidate: Candidate, owned: Epoch) -> Appended {
        let epoch =
            owned.max(self.shard_of(&candidate.stream).index().epoch(candidate.stream.partition()));
        match self.look_at_slot(&candidate).await {
            Seen::Ours(sequence) => self.duplicate(&candidate, sequence),
            Seen::Empty | Seen::Other | Seen::IdTaken | Seen::Nothing => Appended::Fenced { epoch },
        }
    }

    /// The tail that the candidate is judged by: the remembered one when it is the expected one, else the leader's.
    async fn known_tail(&self, candidate: &Candidate) -> Result<Tail, StoreError> {
        match self.remembered(&candidate.stream) {
            Some(tail) if tail.sequence == candidate.expected.sequence => Ok(tail),
            Some(_) | None => self.tail(&candidate.stream).await,
        }
    }

    /// Says why a commit does not fit: it may stand already.
    async fn reject(&self, candidate: &Candidate) -> Appended {
        let mut tries = Tries::within(APPEND_MAX);
        loop {
            match self.look_at_slot(candidate).await {
                Seen::Ours(sequence) => return self.duplicate(candidate, sequence),
                Seen::Empty | Seen::Other | Seen::IdTaken => return self.lost(candidate).await,
                Seen::Nothing if tries.again().await => {}
                Seen::Nothing => return Appended::Unknown(silent()),
            }
        }
    }

    /// Publishes until the slot is seen filled, or the time is up.
    async fn settle(&self, candidate: &Candidate) -> Appended {
        let began = Instant::now();
        let mut looked = false;
        let appended = self.settled(candidate, &mut looked).await;
        metrics::histogram!(metric::APPEND_SECONDS).record(began.elapsed());
        if looked {
            let outcome = match &appended {
                Appended::Appended { .. } => "appended",
                Appended::Duplicate { .. } => "duplicate",
                Appended::Conflict { .. } | Appended::Fenced { .. } | Appended::Malformed(_) => {
                    "lost"
                }
                Appended::Unknown(_) => "unknown",
            };
            metrics::counter!(metric::SETTLED, metric::OUTCOME => outcome).increment(1);
        }
        appended
    }

    async fn settled(&self, candidate: &Candidate, looked: &mut bool) -> Appended {
        let shard = self.shard_of(&candidate.stream);
        let subject = self.namespace.spell(&Subject::Journal(candidate.stream.clone()));
        let body = bytes::Bytes::from_owner(candidate.frame.bytes.clone());
        let mut settling = Settling::default();
        let mut tries = Tries::within(APPEND_MAX);
        let mut step = Step::Publish;
        let mut first = true;
        loop {
            // Between tries, and never before the first one.
            let retry = !first && matches!(step, Step::Publish);
            if retry && !tries.again().await {
                return Appended::Unknown(silent());
            }
            first = false;
            *looked |= matches!(step, Step::LookAtSlot | Step::LookAt(_));
            step = match step {
                Step::Answer(settled) => return self.answer(candidate, settled).await,
                Step::Publish => {
                    // Nothing is published into a connection that is down: it would be sent when nobody waits for it.
                    let heard = match self.link.up() {
                        Ok(client) => {
                            let headers = headers(candidate, &shard.name);
                            publish(&client, subject.clone(), headers, body.clone()).await
                        }
                        Err(_) => Heard::NotSent,
                    };
                    settling.heard(heard)
                }
                Step::LookAtSlot => match self.look_at_slot(candidate).await {
                    Seen::Nothing if !tries.again().await => return Appended::Unknown(silent()),
                    seen => settling.seen(seen),
                },
                Step::LookAt(sequence) => match self.look_at(candidate, sequence).await {
                    Seen::Nothing if !tries.again().await => return Appended::Unknown(silent()),
                    Seen::Nothing => Step::LookAt(sequence),
                    seen => settling.seen(seen),
                },
            };
        }
    }

    async fn answer(&self, candidate: &Candidate, settled: Settled) -> Appended {
        match settled {
            Settled::Appended(sequence) => {
                let tail = candidate.tail(sequence);
                let shard = self.shard_of(&candidate.stream);
                self.remember(&candidate.stream, tail);
                shard.written(sequence);
                Appended::Appended { position: Position { shard: shard.shard, sequence }, tail }
            }
            Settled::Duplicate(sequence) => self.duplicate(candidate, sequence),
            Settled::Lost => self.lost(candidate).await,
            Settled::Unknown(outage) => Appended::Unknown(outage),
        }
    }

    fn duplicate(&self, candidate: &Candidate, sequence: u64) -> Appended {
        let shard = self.shard_of(&candidate.stream);
        shard.written(sequence);
        let position = Position { shard: shard.shard, sequence };
        Appended::Duplicate { position, version: candidate.last }
    }

    /// Another commit has the slot, or the candidate does not fit: whose is the last one?
    async fn lost(&self, candidate: &Candidate) -> Appended {
        match self.tail(&candidate.stream).await {
            Ok(tail) => match candidate.judge(&tail) {
                Verdict::Fenced(epoch) => Appended::Fenced { epoch },
                Verdict::Conflict | Verdict::Fits => Appended::Conflict { tail },
            },
            Err(StoreError::Corrupt { .. }) => Appended::Conflict { tail: candidate.expected },
            Err(error) => Appended::Unknown(outage(error)),
        }
    }

    /// What the leader has in the slot: the first message of the stream after the expected sequence.
    async fn look_at_slot(&self, candidate: &Candidate) -> Seen {
        metrics::counter!(metric::LOOKS).increment(1);
        let Ok(client) = self.link.up() else { return Seen::Nothing };
        let shard = self.shard_of(&candidate.stream);
        let subject = self.namespace.spell(&Subject::Journal(candidate.stream.clone()));
        let ask = Ask::Next(&subject, candidate.expected.sequence.saturating_add(1));
        match leader(client, &shard.name, &ask).await {
            Ok(None) => Seen::Empty,
            Ok(Some(message)) => self.compare(shard, candidate, &message).unwrap_or(Seen::Other),
            Err(_) => Seen::Nothing,
        }
    }

    /// Whether the commit's id stands for its own bytes at a sequence.
    async fn look_at(&self, candidate: &Candidate, sequence: u64) -> Seen {
        metrics::counter!(metric::LOOKS).increment(1);
        let Ok(client) = self.link.up() else { return Seen::Nothing };
        let shard = self.shard_of(&candidate.stream);
        match leader(client, &shard.name, &Ask::At(sequence)).await {
            Ok(Some(message)) => self.compare(shard, candidate, &message).unwrap_or(Seen::IdTaken),
            // The leader may not have it yet, or the server remembers an id whose message was never stored.
            Ok(None) | Err(_) => Seen::Nothing,
        }
    }

    fn compare(
        &self,
        shard: &ShardView,
        candidate: &Candidate,
        message: &async_nats::jetstream::message::StreamMessage,
    ) -> Option<Seen> {
        // By the bytes and not by the id: an id may be given to other bytes.
        let (found, _) = recorded(&self.namespace, shard.shard, message).ok()?;
        (found.hash == candidate.frame.hash).then(|| Seen::Ours(tail(&found).sequence))
    }
}

fn silent() -> Outage {
    Outage::Unavailable("no leader said what became of the commit".to_owned())
}

pub(super) fn outage(error: StoreError) -> Outage {
    match error {
        StoreError::Outage(outage) => outage,
        other => Outage::Unavailable(other.to_string()),
    }
}
