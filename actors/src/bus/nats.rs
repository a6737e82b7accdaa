//! The bus between nodes: a request to the subject of a stream, answered by whoever owns its partition.
//!
//! "Nobody listens" is certain, so nothing was done; a time-out is not, so the command is repeated under its id. While
//! the connection is down nothing is sent at all: the client would keep it and send it after the caller was told no.

mod feed;
mod owner;
mod teller;

use super::envelope::{Ask, Belief, Body, Carried, INLINE_BYTES_MAX, Message};
use super::far;
use super::local::{COMMAND_BYTES_MAX, Local, size};
use super::refold::refold;
use crate::clock::Clock;
use crate::cluster::owners::Owners;
use crate::directory::Serves;
use crate::host::Hosted;
use crate::metric;
use crate::order::{Answer, Build, NoDecision, Observed, Order};
use crate::table::Table;
use async_nats::client::{Request, RequestErrorKind};
use async_nats::{Client, connection::State};
use bytes::Bytes;
use events::codec::CodecError;
use events::id::Partition;
use events::quantity::Millis;
use events::record::StreamKey;
use events::subject::{Namespace, Subject};
use owner::{Answering, Desk, Served};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use store::{BLOB_BYTES_MAX, Blob, Store, StoreError};
use tokio::sync::watch;

pub(super) use owner::barrier;
pub use owner::{ANSWERS_MAX, NotServed};

/// How long a read of a far state may take: the owner's own five seconds, and the way there and back.
const OBSERVE_MAX: Duration = Duration::from_secs(8);
/// What a caller is told to wait while this node is cut off: a reconnect takes about as long.
const CUT_OFF: Millis = Millis(500);
/// How long a question waits for a connection that is being made anew: longer than it takes where a server is left.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
/// How often the connection is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Requests to the owners of partitions, and answers for those of this node. Clones are the same bus.
pub struct Nats<D>(Arc<Inner<D>>);

struct Inner<D> {
    desk: Desk,
    local: Local<D>,
    owners: OnceLock<Owners>,
    // A std lock: it is held over no await.
    served: Mutex<BTreeMap<Partition, Served>>,
}

impl<D> Nats<D> {
    /// A bus over a connection. It asks at once, and answers for no partition yet.
    ///
    /// `store` is where both ends find what is too large for a message.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: Namespace,
        local: Local<D>,
        store: Store,
        clock: Clock,
    ) -> Self {
        let desk = Desk::new(client, namespace, store, clock);
        Self(Arc::new(Inner { desk, local, owners: OnceLock::new(), served: Mutex::default() }))
    }

    /// Says where this node's own partitions are served, once.
    pub fn lead_to(&self, directory: &Arc<D>) {
        self.0.local.lead_to(directory);
    }

    /// Says what is seen of the owners, once: what waits at one that is not any more is then told to ask again.
    pub fn heed(&self, owners: Owners) {
        self.0.owners.get_or_init(|| owners);
    }

    /// Its connection.
    #[must_use]
    pub fn client(&self) -> Client {
        self.0.desk.client.clone()
    }

    /// Answers for the streams of a table, in the partitions that are served.
    pub fn answer_for<A: Hosted>(&self, table: &Arc<Table<A>>) {
        self.0.desk.learn(A::KIND, Arc::new(Answering::<A>(Arc::downgrade(table))));
    }

    /// Listens for commands to a partition. They reach this node once this has returned.
    ///
    /// # Errors
    ///
    /// When the server could not be told; this node then answers for it no more than before.
    pub async fn serve(&self, partition: Partition) -> Result<(), NotServed> {
        if self.serves(partition) {
            return Ok(());
        }
        let served = self.0.desk.listen(partition).await?;
        self.served().insert(partition, served);
        Ok(())
    }

    /// Decides nothing more for a partition, and says so to whoever asks: [`NoDecision::Lost`], for the next owner may
    /// hear the same command. What came before is still decided and answered.
    ///
    /// The first step of a hand-over. The last one is [`Self::leave`], once the next owner serves: the client drops what
    /// the server sends while a subscription ends, so until then somebody else must hear it.
    pub fn resign(&self, partition: Partition) {
        if let Some(served) = self.served().get(&partition) {
            served.resign();
        }
    }

    /// Stops listening. Once this has returned, no command reaches this node, and without another owner askers are
    /// told [`NoDecision::NobodyThere`].
    pub async fn leave(&self, partition: Partition) {
        let served = self.served().remove(&partition);
        if let Some(served) = served {
            served.end().await;
        }
    }

    /// Whether this node decides for a partition.
    #[must_use]
    pub fn serves(&self, partition: Partition) -> bool {
        self.served().get(&partition).is_some_and(Served::is_serving)
    }

    pub(super) async fn decide<A>(&self, id: A::Id, order: Order<A::Command>) -> Answer<A>
    where
        A: Hosted,
        A::Command: Serialize,
        D: Serves<A>,
    {
        let stream = A::stream(&id);
        if self.serves(stream.partition()) {
            return self.0.local.decide(id, order).await;
        }
        let began = Instant::now();
        let answer = Box::pin(self.decide_far::<A>(id, &stream, order)).await;
        metric::asked(&answer, began.elapsed());
        answer
    }

    pub(super) async fn observe<A>(&self, id: A::Id) -> Result<Observed<A>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        let stream = A::stream(&id);
        if self.serves(stream.partition()) {
            return self.0.local.observe(id).await;
        }
        let far = Box::pin(async {
            match self.request(&stream, &Message::Observe(Build::OURS)).await? {
                Message::Belief(belief) => self.believe::<A>(id, belief).await,
                Message::Undecided(why) => Err(self.undecided(&why.body, (why.kind, why.schema))),
                Message::Ask(_)
                | Message::Observe(_)
                | Message::Refused(_)
                | Message::Ring(_)
                | Message::Pieces(_) => Err(NoDecision::Lost),
            }
        });
        tokio::time::timeout(OBSERVE_MAX, far).await.unwrap_or(Err(NoDecision::TimedOut))
    }

    pub(super) async fn watch<A>(
        &self,
        id: A::Id,
    ) -> Result<watch::Receiver<Observed<A>>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        if self.serves(A::stream(&id).partition()) {
            return self.0.local.watch(id).await;
        }
        let first = self.observe::<A>(id).await?;
        Ok(far::watch(self.0.desk.store.clone(), id, first))
    }

    async fn decide_far<A: Hosted>(
        &self,
        id: A::Id,
        stream: &StreamKey,
        order: Order<A::Command>,
    ) -> Answer<A>
    where
        A::Command: Serialize,
    {
        let Order { command, id: command_id, correlation, actor, deadline, lane } = order;
        let bytes = size(&command);
        let too_large = NoDecision::TooLarge { bytes, max: COMMAND_BYTES_MAX };
        if bytes > COMMAND_BYTES_MAX {
            return Err(too_large);
        }
        let clock = &self.0.desk.clock;
        let asked = async {
            let mut command = command.pack().map_err(|_unwritable| too_large)?;
            // Nothing was sent yet.
            let busy = |_out: StoreError| NoDecision::Busy { retry_after: CUT_OFF };
            command.body = stow(&self.0.desk.store, command.body).await.map_err(busy)?;
            let left = deadline.since(clock.now());
            if left == Millis(0) {
                return Err(NoDecision::DeadlinePassed);
            }
            let (build, urgent) = (Build::OURS, lane.into());
            let ask = Ask { build, id: command_id, correlation, actor, left, urgent, command };
            match self.request(stream, &Message::Ask(ask)).await? {
                Message::Belief(belief) => self.believe::<A>(id, belief).await.map(Ok),
                Message::Refused(refusal) => self.refused::<A>(refusal).await.map(Err),
                Message::Undecided(why) => Err(self.undecided(&why.body, (why.kind, why.schema))),
                Message::Ask(_) | Message::Observe(_) | Message::Ring(_) | Message::Pieces(_) => {
                    Err(NoDecision::Lost)
                }
            }
        };
        if clock.now() >= deadline {
            return Err(NoDecision::DeadlinePassed);
        }
        tokio::select! {
            biased;
            answer = asked => answer,
            () = clock.sleep_until(deadline) => Err(NoDecision::TimedOut),
        }
    }

    async fn request(&self, stream: &StreamKey, message: &Message) -> Result<Message, NoDecision> {
        let Desk { client, namespace, .. } = &self.0.desk;
        let Some(connection) = connected(client).await else {
            return Err(NoDecision::Busy { retry_after: CUT_OFF });
        };
        let bytes = message.write().map_err(|_unwritable| NoDecision::Lost)?;
        let sent = bytes.len();
        let subject = namespace.spell(&Subject::Command(stream.clone()));
        // Our own deadlines end it.
        let request = Request::new().payload(bytes.into()).timeout(None);
        let partition = stream.partition();
        let owners = self.0.owners.get();
        let asked_of = owners.and_then(|owners| owners.of(partition));
        let moved = async {
            match owners {
                Some(owners) => owners.moved(partition, asked_of).await,
                None => std::future::pending().await,
            }
        };
        let reply = tokio::select! {
            biased;
            reply = client.send_request(subject, request) => reply,
            // Nobody is left who could answer: the same question goes to the next owner.
            () = moved => return Err(NoDecision::Lost),
            // The answer went to a connection that is gone.
            () = lost(client, connection) => return Err(NoDecision::Lost),
        };
        let reply = reply.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => {
                if let Some(owners) = owners {
                    owners.unheard(partition);
                }
                NoDecision::NobodyThere
            }
            RequestErrorKind::TimedOut => NoDecision::TimedOut,
            RequestErrorKind::MaxPayloadExceeded => {
                NoDecision::TooLarge { bytes: sent, max: INLINE_BYTES_MAX }
            }
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => NoDecision::Lost,
        })?;
        // What it was is not known to this build, so neither is what became of the command.
        Message::read(&reply.payload).map_err(|_unread| NoDecision::Lost)
    }

    async fn believe<A: Hosted>(
        &self,
        id: A::Id,
        belief: Belief,
    ) -> Result<Observed<A>, NoDecision> {
        let Belief { version, position, fold, state } = belief;
        let store = &self.0.desk.store;
        // It was decided: from here on, not knowing the state is not knowing the outcome.
        let lost = |why: &(dyn std::error::Error + 'static)| {
            tracing::warn!(stream = %A::stream(&id), error = why, "a far state does not read");
            NoDecision::Lost
        };
        let state = if fold == A::FOLD {
            let bytes = fetch(store, &state, BLOB_BYTES_MAX).await.map_err(|why| lost(&why))?;
            events::codec::decode(0, 0, &bytes).map_err(|why: CodecError| lost(&why))?
        } else {
            refold::<A>(store, &id, version).await.map_err(|why| lost(&why))?
        };
        Ok(Observed { version, position, state: Arc::new(state) })
    }

    async fn refused<A: Hosted>(&self, refusal: super::Parcel) -> Result<A::Refusal, NoDecision> {
        let super::Parcel { kind, schema, body } = refusal;
        let bytes = fetch(&self.0.desk.store, &body, COMMAND_BYTES_MAX).await;
        let bytes = bytes.map_err(|_out| NoDecision::Lost)?;
        // A refusal changes nothing, even one that only the owner's build knows.
        A::Refusal::unpack(kind, schema, &bytes)
            .map_err(|_unknown| NoDecision::Unsupported { asker: Build::OURS, owner: Build::OURS })
    }

    fn undecided(&self, body: &Body, (kind, schema): (u16, u16)) -> NoDecision {
        let Body::Inline(bytes) = body else { return NoDecision::Lost };
        match NoDecision::unpack(kind, schema, bytes) {
            // An owner that could not read the question does not know whose it was.
            Ok(NoDecision::Unsupported { owner, .. }) => {
                NoDecision::Unsupported { asker: Build::OURS, owner }
            }
            Ok(why) => why,
            Err(_unknown) => NoDecision::Lost,
        }
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<Partition, Served>> {
        self.0.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the connection that stands, after a short wait for one.
async fn connected(client: &Client) -> Option<u64> {
    let up = async {
        while client.connection_state() != State::Connected {
            tokio::time::sleep(LOOK).await;
        }
        number(client)
    };
    tokio::time::timeout(RECONNECT_MAX, up).await.ok()
}

/// Returns when a connection is gone.
async fn lost(client: &Client, connection: u64) {
    while client.connection_state() == State::Connected && number(client) == connection {
        tokio::time::sleep(LOOK).await;
    }
}

/// Which connection of a client stands: how often it has connected. Counted before the new one carries anything, so what
/// was sent under another number may be lost with it.
pub(super) fn number(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}

/// Moves what is too large for a message into the store.
async fn stow(store: &Store, body: Body) -> Result<Body, StoreError> {
    match body {
        Body::Inline(bytes) if bytes.len() > INLINE_BYTES_MAX => {
            let blob = Blob::new(bytes.into());
            let reference = blob.reference;
            store.put_blob(blob).await?;
            Ok(Body::Blob { hash: reference.hash, bytes: reference.bytes })
        }
        Body::Inline(_) | Body::Blob { .. } => Ok(body),
    }
}

/// Why a body is not at hand.
#[derive(Debug, thiserror::Error)]
enum NotFetched {
    #[error("the store does not give it")]
    Store(#[from] StoreError),
    #[error("it has {bytes} bytes, the most is {max}")]
    TooLarge { bytes: usize, max: usize },
}

/// The bytes of a body, wherever they are.
async fn fetch(store: &Store, body: &Body, max: usize) -> Result<Bytes, NotFetched> {
    match (body, body.blob()) {
        (Body::Inline(bytes), _) => Ok(Bytes::copy_from_slice(bytes)),
        (Body::Blob { bytes, .. }, Some(blob)) => {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            if bytes > max {
                return Err(NotFetched::TooLarge { bytes, max });
            }
            Ok(Bytes::from_owner(store.blob(&blob).await?))
        }
        (Body::Blob { .. }, None) => Err(NotFetched::TooLarge { bytes: 0, max }),
    }
}

impl<D> Clone for Nats<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D> fmt::Debug for Nats<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.served().len();
        f.debug_struct("Nats").field("partitions", &partitions).finish_non_exhaustive()
    }
}
