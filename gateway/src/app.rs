//! What every handler can reach, and the routes merged into one service with its limits.
//!
//! A handler reads the log's owners for single objects and the projections for lists and totals; it never decides.

use crate::auth::Verifier;
use crate::boot::{Answering, ClusterView};
use crate::config::Config;
use crate::directory::Directory;
use crate::error::{ApiError, Code};
use crate::metric;
use crate::telemetry::Metrics;
use actors::bus::Bus;
use actors::clock::Clock;
use actors::cluster::place;
use actors::credentials::Credentials;
use actors::directory::Serves;
use actors::entropy::Entropy;
use actors::follower::Follower;
use actors::host::Hosted;
use actors::judge::Judge;
use actors::live::Live;
use actors::node::Node;
use actors::order::{Lane, NoDecision, Observed, Order};
use actors::perform::run::{Approvers, AtWork, Fallbacks};
use actors::routing::Routing;
use actors::served::Served;
use events::budget::{Budget, Scope, Whose};
use events::id::{Generation, Partition, Place};
use events::quantity::{Instant, Millis};
use events::record::{Actor, CommandId};
use events::settings::{Settings, SettingsId};
use events::tool_policy::Frozen;
use projections::Handle;
use serde::Serialize;
use std::{
    fmt,
    sync::{Arc, Weak},
};
use store::Store;
use tokio::sync::{Semaphore, watch};
use tools::Registry;

/// The longest a request waits for a decision before it is told to ask again.
pub const DECISION: Millis = Millis(10_000);

/// The wait before a stream that moves between nodes is asked again.
const MOVING: Millis = Millis(100);

/// Everything a node serves with.
pub struct Parts {
    /// What it was told.
    pub config: Config,
    /// Store, clock, chance, gate, agenda.
    pub node: Node,
    /// The way to the owners of streams.
    pub bus: Bus<Directory>,
    /// The owners that are here.
    pub directory: Arc<Directory>,
    /// Text while it comes.
    pub live: Arc<Live>,
    /// Which model answers, by what this node was told.
    pub answering: Answering,
    /// Which profiles the providers have.
    pub credentials: Arc<Credentials>,
    /// What may be spent.
    pub budgets: Follower<Budget>,
    /// What was set durably.
    pub settings: Follower<Settings>,
    /// The tools that run here.
    pub tools: Arc<Registry>,
    /// What is found about a call before it may be intended.
    pub judge: Judge,
    /// Who may.
    pub verifier: Verifier,
    /// Lists and totals.
    pub projections: Handle,
    /// How much of the runs is at work.
    pub at_work: AtWork,
    /// Room for runs that a caller waits for.
    pub room: Arc<Semaphore>,
    /// What was served by another model than the one that was meant to.
    pub fallbacks: Arc<Fallbacks>,
    /// Who could answer a hold.
    pub approvers: Approvers,
    /// What is counted.
    pub metrics: Metrics,
    /// Turns true when the node stops accepting.
    pub stopping: watch::Receiver<bool>,
    /// The partitions that are served here; all of them where the journal is a file.
    pub served: watch::Receiver<Served>,
    /// The cluster, where there is one.
    pub cluster: Option<ClusterView>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The way back to a node that does not keep it alive.
#[derive(Clone)]
pub struct Back(Weak<Parts>);

impl Back {
    /// The node, while it is there.
    #[must_use]
    pub fn app(&self) -> Option<App> {
        self.0.upgrade().map(App)
    }
}

impl fmt::Debug for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Back").finish_non_exhaustive()
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Which model answers now: a profile that was added since opens its provider, a selection serves what has no route.
    #[must_use]
    pub fn routing(&self) -> Arc<Routing> {
        self.answering.routing(&self.credentials, &self.settings)
    }

    /// The way back to it for what it holds itself.
    #[must_use]
    pub fn back(&self) -> Back {
        Back(Arc::downgrade(&self.0))
    }

    /// The models that are offered, for `GET /v1/models`.
    #[must_use]
    pub fn models(&self) -> Vec<String> {
        self.answering.models(&self.credentials)
    }

    /// The budgets that count some work, narrow to wide. One that is set counts what begins from the moment on when this
    /// node knows of it, usually within a second.
    #[must_use]
    pub fn budgets_of(&self, whose: Whose<'_>) -> Vec<Scope> {
        let is_set = |scope: &Scope| self.budgets.get(scope).state.terms.is_some();
        Scope::of(whose).filter(is_set).collect()
    }

    /// The bounds of mediated calls that a run gets which is queued now, as far as this node knows: usually what was
    /// set a second ago.
    #[must_use]
    pub fn tool_policy(&self) -> Frozen {
        self.settings.get(&SettingsId::Tools).state.tool_policy()
    }

    /// The log.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.node.store
    }

    /// What time it is.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.node.clock
    }

    /// Where random numbers come from.
    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.node.entropy
    }

    /// Where a new root is to live: with this node, so that a new conversation asks nobody else; anywhere while it owns
    /// nothing.
    #[must_use]
    pub fn place(&self) -> Place {
        let [first, ..] = self.entropy().draw().to_le_bytes();
        let served = *self.served.borrow();
        let nth = usize::from(first) % usize::try_from(served.count()).unwrap_or(1).max(1);
        let anywhere = Partition::of(u64::from(first));
        let partition = served.iter().nth(nth).unwrap_or(anywhere);
        Place { partition, generation: Generation::FIRST }
    }

    /// Whether all that belongs to this node is served by it.
    #[must_use]
    pub fn has_its_share(&self) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        let nodes = Arc::clone(&cluster.nodes.borrow());
        let served = *self.served.borrow();
        let mut share = place::belonging(&cluster.node, &nodes.takers()).into_iter();
        nodes.life(&cluster.node).is_some() && share.all(|partition| served.contains(partition))
    }

    /// Asks the owner of a stream for a decision.
    ///
    /// # Errors
    ///
    /// What the caller is told when the rules say no, or nobody decided.
    pub async fn decide<A>(
        &self,
        id: A::Id,
        order: Order<A::Command>,
    ) -> Result<Observed<A>, ApiError>
    where
        A: Hosted,
        A::Command: Serialize + Clone,
        Directory: Serves<A>,
        ApiError: From<A::Refusal>,
    {
        Ok(self.ask::<A>(id, order).await??)
    }

    /// The same for whoever tells refusals apart.
    ///
    /// # Errors
    ///
    /// The outer one when nobody decided, the inner one when the rules say no.
    pub async fn ask<A>(
        &self,
        id: A::Id,
        order: Order<A::Command>,
    ) -> Result<Result<Observed<A>, A::Refusal>, NoDecision>
    where
        A: Hosted,
        A::Command: Serialize + Clone,
        Directory: Serves<A>,
    {
        loop {
            match self.bus.decide::<A>(id, order.clone()).await {
                Err(why) if self.is_moving(why, order.deadline) => self.clock().pause(MOVING).await,
                answer => return answer,
            }
        }
    }

    /// Whether a partition is on its way from one node to another, so that asking again under the same id is worth it.
    /// A node with a journal of its own has nobody else to ask.
    fn is_moving(&self, why: NoDecision, deadline: Instant) -> bool {
        let moves = matches!(why, NoDecision::NobodyThere | NoDecision::Lost);
        moves && self.cluster.is_some() && self.clock().now().after(MOVING) < deadline
    }

    /// What the owner of a stream believes.
    ///
    /// # Errors
    ///
    /// What the caller is told when nobody could be asked.
    pub async fn observe<A>(&self, id: A::Id) -> Result<Observed<A>, ApiError>
    where
        A: Hosted,
        Directory: Serves<A>,
    {
        Ok(self.observe_of::<A>(id).await?)
    }

    /// The same for whoever tells the reasons apart.
    ///
    /// # Errors
    ///
    /// When nobody could be asked.
    pub async fn observe_of<A>(&self, id: A::Id) -> Result<Observed<A>, NoDecision>
    where
        A: Hosted,
        Directory: Serves<A>,
    {
        let deadline = self.clock().now().after(DECISION);
        loop {
            match self.bus.observe::<A>(id).await {
                Err(why) if self.is_moving(why, deadline) => self.clock().pause(MOVING).await,
                seen => return seen,
            }
        }
    }

    /// What the owner of a stream believes, and each belief that follows.
    ///
    /// # Errors
    ///
    /// What the caller is told when nobody could be asked.
    pub async fn watch<A>(&self, id: A::Id) -> Result<watch::Receiver<Observed<A>>, ApiError>
    where
        A: Hosted,
        Directory: Serves<A>,
    {
        let deadline = self.clock().now().after(DECISION);
        loop {
            match self.bus.watch::<A>(id).await {
                Err(why) if self.is_moving(why, deadline) => self.clock().pause(MOVING).await,
                seen => return Ok(seen?),
            }
        }
    }

    /// Whether there is room for one more run.
    ///
    /// # Errors
    ///
    /// 429 with a time to come back, while as many are at work as the configuration allows.
    pub fn admit_run(&self) -> Result<(), ApiError> {
        let most = self.config.limits.max_concurrent_runs;
        if self.at_work.count() < most { Ok(()) } else { Err(self.full()) }
    }

    /// What one run too many is told.
    #[must_use]
    pub fn full(&self) -> ApiError {
        let most = self.config.limits.max_concurrent_runs;
        metric::refused(metric::Limit::Runs);
        ApiError::new(Code::TooManyRuns, too_many(most)).retry_after(Millis(1_000))
    }

    /// A command of a caller's, on its way now.
    pub fn order<C>(&self, command: C, actor: Actor, lane: Lane) -> Order<C> {
        let now = self.clock().now();
        let id = CommandId::new(now, self.entropy().draw());
        Order { command, id, correlation: id.0, actor, deadline: now.after(DECISION), lane }
    }
}

/// The place that a name always gets.
#[must_use]
pub fn place_of(name: u128) -> Place {
    let [first, ..] = name.to_le_bytes();
    Place { partition: Partition::of(u64::from(first)), generation: Generation::FIRST }
}

/// What a run beyond the limit is told.
fn too_many(most: usize) -> String {
    let are = if most == 1 { "run is" } else { "runs are" };
    format!("{most} {are} at work: try again, or raise limits.max_concurrent_runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_is_at_work_and_two_are() {
        assert!(too_many(1).starts_with("1 run is at work: "));
        assert!(too_many(2).starts_with("2 runs are at work: "));
    }
}
