//! A session drives the run that holds its lock until that run has ended, and takes its messages in.
//!
//! Every step may be repeated: opening a run that is open changes nothing, and an end is taken once. So a restart
//! simply begins again and finds what is already so.

use crate::clock::Clock;
use crate::departure::Dispatch;
use crate::entropy::Entropy;
use crate::host::Hosted;
use crate::order::{Lane, NoDecision, Observed, Order};
use crate::table::Table;
use events::id::SessionId;
use events::quantity::Millis;
use events::record::{Actor, CommandId};
use events::run::life::{Fence, MessageRef, Outcome};
use events::run::{self, Grant, Run};
use events::session::{Command, Drive, Session};
use std::{fmt, sync::Arc, time::Duration};
use tracing::warn;

/// How long one question to a run may take before it is asked again.
const ASK: Millis = Millis(30_000);
/// The pause before a question that got no decision is repeated.
const PAUSE: Millis = Millis(200);

/// What sessions need.
pub struct World {
    /// Where the runs are.
    pub runs: Arc<Table<Run>>,
    /// What time it is.
    pub clock: Clock,
    /// For command ids.
    pub entropy: Entropy,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl Hosted for Session {
    type World = World;
    const INBOX: usize = 64;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(_effect: &Fence) -> &'static str {
        "drive"
    }

    /// Nothing of it leaves the node, nor needs leave: a run lives in its session's partition, and takes a command under
    /// the same fence as this one's own appends.
    async fn perform(
        world: &Arc<World>,
        session: SessionId,
        _effect: Fence,
        what: Drive,
        _dispatch: Dispatch,
    ) -> Command {
        loop {
            match open(world, session, &what).await {
                Ok(Ok(observed)) => match ended(world, &what, observed).await {
                    Some(end) => return end,
                    None => world.clock.pause(PAUSE).await,
                },
                // The id was taken by another request: nothing of this one can be said.
                Ok(Err(refusal)) => {
                    warn!(run = %what.run, %refusal, "session_run_refused");
                    return end(&what, Outcome::Errored, vec![], None);
                }
                Err(NoDecision::Parked { .. } | NoDecision::NobodyThere) => {
                    world.clock.pause(ASK).await;
                }
                Err(_again) => world.clock.pause(PAUSE).await,
            }
        }
    }
}

async fn open(
    world: &World,
    session: SessionId,
    what: &Drive,
) -> Result<Result<Observed<Run>, run::Refusal>, NoDecision> {
    let now = world.clock.now();
    let order = Order {
        command: run::Command::Open {
            spec: Arc::clone(&what.spec),
            session: Some(session),
            grant: Some(Grant {
                fence: what.fence,
                history: what.messages.iter().map(MessageRef::from).collect(),
                generated_by: what.generated_by.clone(),
            }),
        },
        id: CommandId::new(now, world.entropy.draw()),
        correlation: what.run.unique(),
        actor: Actor::Node,
        deadline: now.after(ASK),
        lane: Lane::Data,
    };
    world.runs.decide(what.run, order).await
}

/// Waits for the end; `None` when the run's host went away first.
async fn ended(world: &World, what: &Drive, observed: Observed<Run>) -> Option<Command> {
    let mut newest = observed;
    let mut beliefs = None;
    loop {
        if let Some(finished) = newest.state.ended() {
            let outcome = finished.outcome;
            let messages = match outcome {
                // A run that ended under another lock has been taken in before.
                Outcome::Completed if finished.fence != Some(what.fence) => vec![],
                Outcome::Completed => newest.state.transcript.clone(),
                // A turn without an answer is not part of the conversation; the run's journal keeps it.
                Outcome::Exhausted | Outcome::Errored | Outcome::Cancelled => vec![],
            };
            let made = outcome == Outcome::Completed && what.spec.role.is_generator();
            let served = newest.state.served_by.as_ref().filter(|_| made);
            let generated_by = served.map(|by| by.provider.clone());
            return Some(end(what, outcome, messages, generated_by));
        }
        let watch = match &mut beliefs {
            Some(watch) => watch,
            none => none.insert(world.runs.watch(what.run).await.ok()?),
        };
        newest = watch.borrow_and_update().clone();
        if newest.state.ended().is_none() {
            watch.changed().await.ok()?;
            newest = watch.borrow().clone();
        }
    }
}

fn end(
    what: &Drive,
    outcome: Outcome,
    messages: Vec<events::message::Body>,
    generated_by: Option<String>,
) -> Command {
    let (run, fence) = (what.run, what.fence);
    Command::RunEnded { run, fence, outcome, messages, generated_by }
}
