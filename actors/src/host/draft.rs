//! A commit in the making: decided on a growing copy, appended once, and only then believed and answered.
//!
//! Folding before appending catches an illegal event before it is written; a log that holds one could never be
//! replayed again.

use super::{Host, HostError, Hosted, Memory};
use crate::cluster::bucket::uptime;
use crate::inbox::{End, Item, Origin, Outcome, Verdict};
use crate::metric;
use crate::order::NoDecision;
use events::aggregate::{Aggregate, Wake};
use events::id::digest;
use events::journal;
use events::quantity::Instant;
use events::record::{
    Actor, Cause, CommandId, Commit, CommitId, Entry, Payload, Position, Tail, Version,
};
use std::sync::Arc;
use store::fault::{Next, Visitor};
use store::{Append, Appended, Point};

/// Entries after which a draft is appended before more is decided: a quarter of what one commit may have, so that
/// the last command's entries fit as well.
const DRAFT_ENTRIES: usize = journal::ENTRIES_MAX / 4;
/// Bytes of payload after which a draft is appended: half of what would drive payloads into blobs.
const DRAFT_BYTES: usize = store::COMMIT_INLINE_MAX / 2;

/// What was decided and does not stand yet.
pub(super) struct Draft<A: Aggregate> {
    now: Instant,
    state: Arc<A::State>,
    entries: Vec<Entry>,
    bytes: usize,
    causes: Vec<Cause>,
}

impl<A: Aggregate> Draft<A> {
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= DRAFT_ENTRIES || self.bytes >= DRAFT_BYTES
    }

    /// Folds facts into the growing copy; the believed state stays as it is.
    fn grow(&mut self, events: &[A::Event]) -> Result<(), HostError> {
        if events.is_empty() {
            return Ok(());
        }
        // The first growth copies the state, for memory holds it too; the later ones do not.
        let mut state = Arc::unwrap_or_clone(std::mem::take(&mut self.state));
        for event in events {
            let entry = A::encode(event)?;
            self.bytes += match &entry.payload {
                Payload::Inline(bytes) => bytes.len(),
                Payload::Blob(_) => 0,
            };
            self.entries.push(entry);
            state = A::evolve(state, event)?;
        }
        self.state = Arc::new(state);
        Ok(())
    }

    fn decide(
        &mut self,
        command: &A::Command,
        cause: impl FnOnce(u16) -> Cause,
    ) -> Result<Verdict<A>, HostError> {
        let events = match A::decide(&self.state, command, self.now) {
            Ok(events) => events,
            Err(refusal) => return Ok(Verdict::Refused(refusal)),
        };
        self.grow(&events)?;
        if !events.is_empty() {
            // Too many to count are too many to append; the store says so.
            self.causes.push(cause(u16::try_from(events.len()).unwrap_or(u16::MAX)));
        }
        Ok(Verdict::Stands)
    }
}

impl<A: Hosted> Host<A> {
    pub(super) fn draft(&self, memory: &Memory<A>) -> Draft<A> {
        Draft {
            now: self.node().clock.now(),
            state: Arc::clone(&memory.state),
            entries: vec![],
            bytes: 0,
            causes: vec![],
        }
    }

    /// The first commit of an incarnation, if anything is open: it has started nothing, so all of that is lost.
    pub(super) async fn awake(&self, memory: &mut Memory<A>) -> Result<(), HostError> {
        loop {
            let mut draft = self.draft(memory);
            draft.grow(&A::awake(&memory.state))?;
            if draft.entries.is_empty() || self.append(memory, draft).await? == Landing::Stands {
                return Ok(());
            }
        }
    }

    /// Decides one item on the growing copy.
    pub(super) fn judge(
        &self,
        memory: &Memory<A>,
        draft: &mut Draft<A>,
        item: &Item<A>,
    ) -> Result<Verdict<A>, HostError> {
        match item {
            Item::Asked(asked) => {
                let order = &asked.order;
                if self.repeats(memory, draft, order.id) {
                    return Ok(Verdict::Stands);
                }
                if asked.origin == Origin::Caller && memory.known.has_forgotten(order.id) {
                    return Ok(Verdict::Unheard(NoDecision::Expired));
                }
                if draft.now >= order.deadline {
                    return Ok(Verdict::Unheard(NoDecision::DeadlinePassed));
                }
                let (command, correlation, actor) = (order.id, order.correlation, order.actor);
                let cause = |entries| Cause { command, correlation, actor, entries };
                let informed = A::informed(self.table.world(), &self.id, &order.command);
                draft.decide(informed.as_ref().unwrap_or(&order.command), cause)
            }
            Item::Outcome(outcome) => self.judge_outcome(memory, draft, outcome),
        }
    }

    fn judge_outcome(
        &self,
        memory: &Memory<A>,
        draft: &mut Draft<A>,
        outcome: &Outcome<A>,
    ) -> Result<Verdict<A>, HostError> {
        let &Outcome { ref effect, id, correlation, ref end } = outcome;
        if self.repeats(memory, draft, id) {
            return Ok(Verdict::Stands);
        }
        let cause = |entries| Cause { command: id, correlation, actor: Actor::Node, entries };
        match end {
            End::Said(command) => draft.decide(command, cause),
            End::Died if memory.effects.is_running(effect) => draft.decide(&A::lost(effect), cause),
            // It was aborted because it is owed no longer, or died with a former host, whose open intents
            // were closed when this one woke.
            End::Died => Ok(Verdict::Stands),
        }
    }

    fn repeats(&self, memory: &Memory<A>, draft: &Draft<A>, id: CommandId) -> bool {
        let version = memory.known.version(id);
        if let Some(version) = version {
            tracing::debug!(stream = %self.stream, command = %id, version = version.0, "repeated");
        }
        version.is_some() || draft.causes.iter().any(|cause| cause.command == id)
    }

    /// Appends what was decided, believes it, and answers.
    pub(super) async fn land(
        &self,
        memory: &mut Memory<A>,
        draft: Draft<A>,
        judged: Vec<(Item<A>, Verdict<A>)>,
    ) -> Result<(), HostError> {
        metric::batch(A::KIND, judged.len());
        let landing = if draft.entries.is_empty() {
            Landing::Stands
        } else {
            self.drill_outcomes(&judged, Point::BeforeOutcome).await;
            let landing = self.append(memory, draft).await?;
            self.drill_outcomes(&judged, Point::AfterOutcome).await;
            landing
        };
        let mut untold = vec![];
        for (item, verdict) in judged {
            match (item, landing) {
                (Item::Asked(asked), _) => asked.answer(match (verdict, landing) {
                    (Verdict::Unheard(why), _) => Err(why),
                    (Verdict::Stands | Verdict::Refused(_), Landing::Conflict) => {
                        Err(NoDecision::Lost)
                    }
                    (Verdict::Stands, Landing::Stands) => Ok(Ok(memory.observed())),
                    (Verdict::Refused(refusal), Landing::Stands) => Ok(Err(refusal)),
                }),
                // Nobody would tell it again.
                (outcome @ Item::Outcome(_), Landing::Conflict) => untold.push(outcome),
                (Item::Outcome(outcome), Landing::Stands) => {
                    if let Verdict::Refused(refusal) = verdict {
                        let Outcome { effect, .. } = &outcome;
                        tracing::debug!(stream = %self.stream, ?effect, %refusal, "outcome refused");
                    }
                    memory.effects.told(&outcome.effect);
                }
            }
        }
        self.inbox.give_back(untold.into_iter());
        Ok(())
    }

    /// Publishes one commit until its slot is seen filled. An outage is waited out at the gate, however long.
    async fn append(&self, memory: &mut Memory<A>, draft: Draft<A>) -> Result<Landing, HostError> {
        let Draft { now, state, entries, causes, .. } = draft;
        self.drill_intents(memory, &state).await;
        let append = self.commit(&memory.tail, now, A::wake(&state), entries, causes);
        let mut unsettled = false;
        let mut sent = uptime();
        loop {
            if !unsettled {
                sent = uptime();
            }
            let stands = match self.node().store.append(append.clone()).await {
                Appended::Appended { position, tail } => (position, tail),
                // An earlier try of ours. It was not folded: it begins where our belief ends.
                Appended::Duplicate { position, version } => {
                    (position, tail_of(&append.commit, position, version))
                }
                Appended::Conflict { tail } => {
                    tracing::warn!(stream = %self.stream, version = tail.version.0, "lost the slot");
                    self.catch_up(memory).await?;
                    return Ok(Landing::Conflict);
                }
                Appended::Fenced { epoch } => return Err(HostError::Fenced(epoch)),
                Appended::Malformed(malformed) => return Err(malformed.into()),
                Appended::Unknown(outage) => {
                    unsettled = true;
                    self.node().gate.report(outage);
                    self.node().gate.pass().await;
                    continue;
                }
            };
            if unsettled {
                self.node().gate.settled();
            }
            // Of the first try where one was not answered: it may be the one that landed.
            memory.intended = sent;
            let before = Arc::clone(&memory.state);
            self.believe(memory, state, stands, &append.commit.causes);
            A::noted(self.table.world(), &self.id, &before, &memory.state);
            drop(before);
            self.publish_belief(memory);
            return Ok(Landing::Stands);
        }
    }

    /// The points of a drill before a commit that intends something; nothing without one.
    async fn drill_intents(&self, memory: &Memory<A>, state: &A::State) {
        if !self.node().store.faults().armed() {
            return;
        }
        for (effect, _) in A::pending(state) {
            if !memory.effects.knows(&effect) {
                self.visit(Point::BeforeIntent, &effect).await;
            }
        }
    }

    /// The points of a drill around a commit that settles something; nothing without one.
    async fn drill_outcomes(&self, judged: &[(Item<A>, Verdict<A>)], point: Point) {
        if !self.node().store.faults().armed() {
            return;
        }
        for (item, _) in judged {
            if let Item::Outcome(outcome) = item {
                self.visit(point, &outcome.effect).await;
            }
        }
    }

    async fn visit(&self, point: Point, effect: &A::EffectId) {
        let visitor = Visitor { what: A::word(effect), name: &self.stream };
        // Nothing to fail here: it goes on, or is killed.
        let _: Next = self.node().store.faults().visited(point, visitor).await;
    }

    fn commit(
        &self,
        tail: &Tail,
        now: Instant,
        wake: Wake,
        entries: Vec<Entry>,
        causes: Vec<Cause>,
    ) -> Append {
        let (entries, blobs) = store::spill(entries);
        let store = &self.node().store;
        let (epoch, boot) = (store.epoch(self.stream.partition()), store.boot());
        let id = CommitId(digest(&[
            self.stream.as_str().as_bytes(),
            &epoch.0.to_le_bytes(),
            &boot.0.to_le_bytes(),
            &tail.version.0.to_le_bytes(),
        ]));
        let commit = Commit {
            journal: store.journal(),
            stream: self.stream.clone(),
            first_version: tail.version.plus(1),
            epoch,
            boot,
            id,
            at: now,
            causes,
            prev: tail.hash,
            entries,
        };
        Append { commit, expected: *tail, wake, blobs }
    }
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landing {
    /// It is in the log and believed.
    Stands,
    /// Another commit took its place; that one is believed now.
    Conflict,
}

fn tail_of(commit: &Commit, position: Position, version: Version) -> Tail {
    let &Commit { epoch, boot, .. } = commit;
    let hash = journal::encode(commit).hash;
    Tail { version, hash, epoch, boot, sequence: position.sequence }
}
