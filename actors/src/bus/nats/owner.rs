//! The answering end: one subscription for each partition of this node, drained by a task that does nothing but route.
//!
//! A subscription that is not drained loses messages with no more than a notice in the client, so nothing is awaited
//! between two of them: each command waits for its answer in a task of its own, and there are only so many of those.

use super::teller::Tellers;
use super::{COMMAND_BYTES_MAX, NotFetched, fetch, stow};
use crate::bus::envelope::{Ask, Belief, Body, Carried, Message};
use crate::bus::pieces::Ring;
use crate::clock::Clock;
use crate::host::Hosted;
use crate::metric::{self, Full};
use crate::order::{Build, NoDecision, Observed, Order};
use crate::table::Table;
use crate::task;
use async_nats::{Client, Subscriber};
use bytes::Bytes;
use events::aggregate::Aggregate;
use events::id::Partition;
use events::quantity::Millis;
use events::record::{StreamKey, StreamKind};
use events::run::Run;
use events::subject::{Namespace, Subject};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use store::Store;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// Commands of other nodes that may wait for their answers here at a time. At [`super::INLINE_BYTES_MAX`] each this
/// is 1 GiB at the very worst, and a few megabytes as a rule; more are told that there is no room.
pub const ANSWERS_MAX: usize = 4_096;
/// What an asker is told to wait when there is no room.
const RETRY_AFTER: Millis = Millis(250);

/// How long the server may take to confirm that it has read a subscription, or its end.
const BARRIER_MAX: Duration = Duration::from_secs(2);

/// The server could not be told that this node listens.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    /// The subscription was not made.
    #[error("the subscription could not be made")]
    Subscribe(#[from] async_nats::SubscribeError),
    /// The server did not answer after it, so nobody knows whether it listens.
    #[error("the server did not answer")]
    Silent,
}

/// Who can answer for streams of one kind.
pub(super) trait Answers: Send + Sync + 'static {
    fn answer(
        &self,
        stream: StreamKey,
        message: Message,
        desk: Desk,
    ) -> BoxFuture<'static, Message>;
}

/// A table, held weakly: its hosts may hold the bus.
pub(super) struct Answering<A: Hosted>(pub(super) Weak<Table<A>>);

/// What both ends need; cheap to clone.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) client: Client,
    pub(super) namespace: Namespace,
    pub(super) store: Store,
    pub(super) clock: Clock,
    // A std lock: it is held over no await.
    kinds: Arc<Mutex<BTreeMap<StreamKind, Arc<dyn Answers>>>>,
    room: Arc<Semaphore>,
    pub(super) tellers: Tellers,
}

/// How far a partition's subscription has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Commands are decided here.
    Serving,
    /// They are not: another node is about to take over, or has.
    Resigned,
    /// No more are wanted.
    Ended,
}

/// A partition that is listened for. Dropping it ends that too.
pub(super) struct Served {
    phase: watch::Sender<Phase>,
    router: JoinHandle<()>,
    client: Client,
}

impl Served {
    pub(super) fn is_serving(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }

    pub(super) fn resign(&self) {
        self.phase.send_replace(Phase::Resigned);
    }

    /// Returns when the server sends nothing more, or can not be asked.
    pub(super) async fn end(self) {
        self.phase.send_replace(Phase::Ended);
        if let Err(error) = self.router.await {
            tracing::error!(%error, "the router of a partition fell");
        }
        if !barrier(&self.client).await {
            tracing::warn!("the server did not confirm the end of a subscription");
        }
    }
}

/// Whether the server has read everything that this client sent before: it reads in order, and once it says that nobody
/// listens on a name that was never used, it has read what stood before the question.
pub(in crate::bus) async fn barrier(client: &Client) -> bool {
    let asked = client.request(client.new_inbox(), Bytes::new());
    match tokio::time::timeout(BARRIER_MAX, asked).await {
        Ok(Err(error)) => error.kind() == async_nats::RequestErrorKind::NoResponders,
        Ok(Ok(_)) => true,
        Err(_silent) => false,
    }
}

impl Desk {
    pub(super) fn new(client: Client, namespace: Namespace, store: Store, clock: Clock) -> Self {
        let room = Arc::new(Semaphore::new(ANSWERS_MAX));
        Self {
            client,
            namespace,
            store,
            clock,
            kinds: Arc::default(),
            room,
            tellers: Tellers::default(),
        }
    }

    pub(super) fn learn(&self, kind: StreamKind, answers: Arc<dyn Answers>) {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, answers);
    }

    pub(super) async fn listen(&self, partition: Partition) -> Result<Served, NotServed> {
        let subject = self.namespace.commands_of(partition);
        let subscriber = self.client.subscribe(subject).await?;
        if !barrier(&self.client).await {
            return Err(NotServed::Silent);
        }
        let (phase, at) = watch::channel(Phase::Serving);
        let client = self.client.clone();
        let router = task::spawn(task::Kind::Serve, self.clone().route(subscriber, at));
        Ok(Served { phase, router, client })
    }

    async fn route(self, mut subscriber: Subscriber, mut phase: watch::Receiver<Phase>) {
        loop {
            let message = tokio::select! {
                biased;
                message = subscriber.next() => message,
                _ended = phase.wait_for(|phase| *phase == Phase::Ended) => break,
            };
            let Some(message) = message else {
                tracing::warn!("a subscription ended by itself");
                return;
            };
            let now = *phase.borrow();
            match now {
                Phase::Serving => self.take(message),
                Phase::Resigned | Phase::Ended => self.pass(message),
            }
        }
        // What the server sends before it knows is dropped by the client, which is why another node listens by now.
        if let Err(error) = subscriber.unsubscribe().await {
            tracing::warn!(%error, "a subscription was not taken back");
        }
        while let Some(message) = subscriber.next().await {
            self.pass(message);
        }
    }

    /// Says that this node does not know what becomes of a command: the next owner may hear it too.
    fn pass(&self, message: async_nats::Message) {
        let Some(reply) = message.reply else { return };
        let desk = self.clone();
        task::spawn(task::Kind::Serve, async move {
            desk.reply(reply, undecided(NoDecision::Lost)).await;
        });
    }

    /// Hands one message on, without waiting for anything.
    fn take(&self, message: async_nats::Message) {
        let Some(reply) = message.reply.clone() else { return };
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            metric::busy(Full::Bus);
            let desk = self.clone();
            let busy = undecided(NoDecision::Busy { retry_after: RETRY_AFTER });
            task::spawn(task::Kind::Serve, async move { desk.reply(reply, busy).await });
            return;
        };
        let desk = self.clone();
        task::spawn(task::Kind::Serve, async move {
            let answer = desk.clone().answer(&message).await;
            desk.reply(reply, answer).await;
            drop(room);
        });
    }

    async fn answer(self, message: &async_nats::Message) -> Message {
        let unsupported = |asker| {
            metric::unsupported();
            undecided(NoDecision::Unsupported { asker, owner: Build::OURS })
        };
        let Ok(asked) = Message::read(&message.payload) else { return unsupported(Build::OURS) };
        let asker = match &asked {
            Message::Ask(ask) => ask.build,
            Message::Observe(build) | Message::Ring(Ring { build, .. }) => *build,
            Message::Belief(_)
            | Message::Refused(_)
            | Message::Undecided(_)
            | Message::Pieces(_) => Build::OURS,
        };
        let Ok(Subject::Command(stream)) = self.namespace.parse(&message.subject) else {
            return unsupported(asker);
        };
        if let Message::Ring(ring) = &asked {
            let answer = Run::id(&stream).and_then(|run| self.tellers.answer(&self, run, ring));
            return answer.unwrap_or_else(|| undecided(NoDecision::NobodyThere));
        }
        let answers = {
            let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.get(&stream.kind()).map(Arc::clone)
        };
        let Some(answers) = answers else { return undecided(NoDecision::NobodyThere) };
        answers.answer(stream, asked, self).await
    }

    async fn reply(&self, to: async_nats::Subject, answer: Message) {
        let sent = match answer.write() {
            Ok(bytes) => self.client.publish(to, bytes.into()).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = sent {
            // The asker times out, and repeats its command.
            tracing::warn!(error, "an answer was not sent");
        }
    }
}

impl<A: Hosted> Answers for Answering<A> {
    fn answer(
        &self,
        stream: StreamKey,
        message: Message,
        desk: Desk,
    ) -> BoxFuture<'static, Message> {
        let table = self.0.upgrade();
        Box::pin(async move {
            let Some((table, id)) = table.zip(A::id(&stream)) else {
                return undecided(NoDecision::NobodyThere);
            };
            let answer = match message {
                Message::Ask(ask) => decide(&table, id, ask, &desk).await,
                Message::Observe(_) => match table.observe(id).await {
                    Ok(observed) => belief(&desk, &observed).await,
                    Err(why) => Err(why),
                },
                Message::Belief(_)
                | Message::Refused(_)
                | Message::Undecided(_)
                | Message::Ring(_)
                | Message::Pieces(_) => {
                    Err(NoDecision::Unsupported { asker: Build::OURS, owner: Build::OURS })
                }
            };
            answer.unwrap_or_else(undecided)
        })
    }
}

async fn decide<A: Hosted>(
    table: &Arc<Table<A>>,
    id: A::Id,
    ask: Ask,
    desk: &Desk,
) -> Result<Message, NoDecision> {
    let Ask { build, id: command_id, correlation, actor, left, urgent, command } = ask;
    let deadline = desk.clock.now().after(left);
    let bytes = fetch(&desk.store, &command.body, COMMAND_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| match error {
        // Nothing was done, and the blob may be there the next time.
        NotFetched::Store(_) => NoDecision::Busy { retry_after: RETRY_AFTER },
        NotFetched::TooLarge { bytes, max } => NoDecision::TooLarge { bytes, max },
    })?;
    let command = A::Command::unpack(command.kind, command.schema, &bytes).map_err(|error| {
        tracing::warn!(%error, asker = %build, "a command is not known");
        metric::unsupported();
        NoDecision::Unsupported { asker: build, owner: Build::OURS }
    })?;
    let lane = urgent.into();
    let order = Order { command, id: command_id, correlation, actor, deadline, lane };
    match table.decide(id, order).await? {
        Ok(observed) => belief(desk, &observed).await,
        Err(refusal) => {
            // A refusal changed nothing, so it may be asked for again.
            let again = NoDecision::Busy { retry_after: RETRY_AFTER };
            let mut parcel = refusal.pack().map_err(|_unwritable| again)?;
            parcel.body = stow(&desk.store, parcel.body).await.map_err(|_out| again)?;
            Ok(Message::Refused(parcel))
        }
    }
}

/// What is believed, ready to be sent. Decided it is in any case, so what fails here is lost and not busy.
async fn belief<A: Hosted>(desk: &Desk, observed: &Observed<A>) -> Result<Message, NoDecision> {
    let Observed { version, position, state } = observed;
    let bytes = postcard::to_stdvec(&**state).map_err(|_unwritable| NoDecision::Lost)?;
    let state = stow(&desk.store, Body::Inline(bytes)).await.map_err(|_out| NoDecision::Lost)?;
    let (version, position) = (*version, *position);
    Ok(Message::Belief(Belief { version, position, fold: A::FOLD, state }))
}

fn undecided(why: NoDecision) -> Message {
    match why.pack() {
        Ok(parcel) => Message::Undecided(parcel),
        // Numbers always serialise; an empty parcel reads as lost.
        Err(_) => Message::Undecided(super::super::Parcel {
            kind: 0,
            schema: 0,
            body: Body::Inline(vec![]),
        }),
    }
}
