//! A run's slices of budgets: asked of their owners, wherever those are, and given back after the end.
//!
//! Both may be repeated: a question is answered once under its number, and a slice is taken back once. So a restart, a
//! lost answer and an owner that dies need no rule of their own.

use super::World;
use crate::metric;
use crate::order::{Answer, Lane, NoDecision, Order};
use events::budget::{Amount, Budget, Command, Refusal, Returned, Scope, Wanted};
use events::id::RunId;
use events::quantity::{Instant, Millis};
use events::record::{Actor, CommandId};
use events::run::draw::{Settled, SliceAsked};
use futures_util::future::BoxFuture;
use std::fmt;

/// How long one question may take before it is asked again.
const ASK: Millis = Millis(5_000);
/// The pause before a question that got no decision is repeated.
const PAUSE: Millis = Millis(200);
/// How long a call waits for its slice (60 s): an owner that dies is replaced within a lease's 15 s. Longer than that is a
/// clear refusal and not a wait without end.
const SLICE_MAX: Millis = Millis(60_000);

type Ask = dyn Fn(Scope, Order<Command>) -> BoxFuture<'static, Answer<Budget>> + Send + Sync;

/// The way to the owners of budgets.
pub struct Budgets(Box<Ask>);

impl Budgets {
    /// A way that asks so.
    #[must_use]
    pub fn new(
        ask: impl Fn(Scope, Order<Command>) -> BoxFuture<'static, Answer<Budget>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgets").finish_non_exhaustive()
    }
}

/// Asks once. Each try has an id of its own: what makes a repeat harmless is the number of the question.
async fn once(world: &World, scope: Scope, command: Command, run: RunId) -> Answer<Budget> {
    let Some(Budgets(ask)) = world.budgets.get() else { return Err(NoDecision::NobodyThere) };
    let now = world.clock.now();
    let order = Order {
        command,
        id: CommandId::new(now, world.entropy.draw()),
        correlation: run.unique(),
        actor: Actor::Node,
        deadline: now.after(ASK),
        lane: Lane::Data,
    };
    ask(scope, order).await
}

pub(super) async fn ask(world: &World, run: RunId, asked: &SliceAsked) -> Settled {
    let scope = asked.scope;
    let until: Instant = world.clock.now().after(SLICE_MAX);
    let wanted = Wanted { scope, run, ask: asked.ask.0, usd: asked.usd, calls: asked.calls };
    loop {
        match once(world, scope, Command::Grant(wanted.clone()), run).await {
            Ok(Ok(_held)) => return Settled::Granted,
            Ok(Err(Refusal::Short(short))) => {
                metric::short(scope.width());
                tracing::warn!(%run, %scope, %short, "budget_refused");
                return Settled::Refused(short);
            }
            // Some of those that hold one end; the others of these can not be said to a question.
            Ok(Err(refusal)) => tracing::debug!(%run, %scope, %refusal, "no slice yet"),
            Err(why) => tracing::debug!(%run, %scope, %why, "no slice yet"),
        }
        if world.clock.now() >= until {
            tracing::warn!(%run, %scope, "budget_unreached");
            return Settled::Unreached;
        }
        world.clock.pause(PAUSE).await;
    }
}

pub(super) async fn give_back(world: &World, run: RunId, scope: Scope, used: Amount) {
    loop {
        let command = Command::Return(Returned { run, used });
        match once(world, scope, command, run).await {
            Ok(Ok(_taken)) => return,
            Ok(Err(refusal)) => tracing::warn!(%run, %scope, %refusal, "slice_not_returned yet"),
            Err(why) => tracing::debug!(%run, %scope, %why, "slice not returned yet"),
        }
        world.clock.pause(PAUSE).await;
    }
}
