//! The order in which a node starts and stops. Each part is started after what it rests on, and stopped before it.
//!
//! Start: data folder, store, keys, providers, tables, agenda, read models, listener. Work that a crash left open is
//! found by the agenda and done without a command. Stop: accept nothing, let what is in flight finish or be cut at a
//! bound, end the rest in the log as it would have been after a crash.

mod budgets;
mod bus;
mod cluster;
pub mod credentials;
mod desk;
mod drill;
mod journal;
pub mod keys;
mod note;
mod outside;
mod patience;
mod preconditions;
pub mod prices;
mod providers;
mod read_models;
mod reader;
mod settings;
mod stop;
mod tools;

pub use cluster::View as ClusterView;
pub use journal::FolderError;
pub use note::{FILE as NODE_FILE, NodeNote};
pub use providers::Answering;
pub use reader::ReaderError;
pub use stop::Stop;
pub use tools::{NAMES, ToolsError, WebError};

use crate::app::{App, Parts};
use crate::artifacts::files;
use crate::auth::Verifier;
use crate::auth::node_key::{self, NodeKeyError, Show, Told};
use crate::auth::private::{self, PrivateError};
use crate::config::{Config, Secret};
use crate::directory::Directory;
use crate::error::Exit;
use crate::scripted::{self, Scripted};
use crate::service::{Bounded, router};
use crate::telemetry::Metrics;
use crate::webhooks;
use ::projections::{self as views, Runner};
use ::tools::Registry;
use actors::bus::life::DoorError;
use actors::bus::{Bus, Local};
use actors::clock::Clock;
use actors::cluster::mandate::Mandate;
use actors::credentials::Credentials;
use actors::entropy::Entropy;
use actors::follower::FollowerError;
use actors::judge::Judge;
use actors::live::Live;
use actors::node::Node;
use actors::perform::room::Room;
use actors::perform::{run, session};
use actors::served::Served;
use actors::table::{NotStarted, Table};
use actors::task;
use events::id::Partition;
use events::quantity::Millis;
use events::record::Position;
use journal::{Clustered, Journal};
use patience::until_it_reads;
use prices::PricesError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::jetstream::ConnectError;
use store::{Faults, OpenError, Store};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// The journal's file in the data folder.
pub const JOURNAL: &str = "journal.db";
/// The read models' file.
pub const VIEWS: &str = "views.db";
/// Where `note.append` writes.
pub const NOTES: &str = "notes.txt";
/// The file without which `serve --faults` is refused.
pub const FAULTS_ALLOWED: &str = "FAULTS-ALLOWED";
/// How often what histograms gathered is folded.
const UPKEEP: Millis = Millis(5_000);

/// How a node is to start.
pub struct Start<'a> {
    /// What it was told.
    pub config: Config,
    /// The administrator's key, where the environment gives one.
    pub admin_key: Option<Secret>,
    /// Where a new administrator's key may be shown.
    pub show: Show<'a>,
    /// Whether the scripted model answers.
    pub demo: Demonstration,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// What is counted; the process has one.
    pub metrics: Metrics,
}

/// Whether the scripted model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demonstration {
    /// Nobody but real providers.
    Off,
    /// The scripted model, offline.
    On,
}

/// Why a node did not start. Each says how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The data folder or a file in it.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The table of prices.
    #[error(transparent)]
    Prices(#[from] PricesError),
    /// The journal.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The cluster's journal.
    #[error(transparent)]
    Cluster(#[from] ConnectError),
    /// The data folder of a node of a cluster.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What other nodes ask of this one.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The journal is for newer builds.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The node's own keys.
    #[error(transparent)]
    Keys(#[from] NodeKeyError),
    /// The read models.
    #[error("the read models in {path} can not be opened: they can be deleted and are built again")]
    Views {
        /// Where.
        path: PathBuf,
        /// Why.
        source: views::StartError,
    },
    /// A supervisor.
    #[error(transparent)]
    Actors(#[from] NotStarted),
    /// A tool.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// A provider's settings.
    #[error(transparent)]
    Provider(#[from] providers::ProviderError),
    /// The address.
    #[error("cannot listen on {bind}: stop whoever does, or give another --bind")]
    Bind {
        /// Where.
        bind: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The scripted model's own address.
    #[error("the scripted model can not listen on a loopback port")]
    Demo(#[source] io::Error),
    /// A drill that was not allowed.
    #[error("--faults makes this node fail on purpose: create an empty file {} to allow it", .0.display())]
    FaultsForbidden(PathBuf),
    /// The issued keys can not be read.
    #[error("the issued keys can not be read from the journal")]
    Issued(#[source] keys::KeysError),
    /// The providers' credentials.
    #[error(transparent)]
    Credentials(#[from] credentials::CredentialsError),
    /// The budgets and the durable settings.
    #[error("the budgets or the settings can not be read from the journal")]
    Followed(#[from] FollowerError),
    /// A webhook that can not be signed, or not be sent.
    #[error(transparent)]
    Webhook(#[from] webhooks::NoSecret),
    /// The note for the command line.
    #[error("{path} can not be written")]
    Note {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BootError {
    /// How the command line ends with it.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::FaultsForbidden(_)
            | Self::Provider(_)
            | Self::Prices(_)
            | Self::Tools(_)
            | Self::Webhook(_)
            | Self::Credentials(credentials::CredentialsError::Vault(_))
            | Self::Reader(ReaderError::TooOld { .. } | ReaderError::Newer(_)) => {
                Exit::Configuration
            }
            Self::Reader(ReaderError::Illegal(_)) => Exit::Integrity,
            Self::Store(OpenError::Damaged { .. }) | Self::Issued(_) => Exit::Integrity,
            Self::Store(_)
            | Self::Cluster(_)
            | Self::Folder(_)
            | Self::Reader(ReaderError::Store(_))
            | Self::Door(_)
            | Self::Credentials(credentials::CredentialsError::Streams(_))
            | Self::Followed(_)
            | Self::Private(_)
            | Self::Keys(_)
            | Self::Views { .. }
            | Self::Actors(_)
            | Self::Bind { .. }
            | Self::Demo(_)
            | Self::Note { .. } => Exit::Failure,
        }
    }
}

/// A node that serves.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Which model answers, and why, for people.
    pub answers: String,
    /// What became of the administrator's key.
    pub told: Told,
    /// The handlers' view of it.
    pub app: App,
    stop: Stop,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Running {
    /// Waits until an operator has fenced this node; for ever where the journal is its own.
    pub async fn fenced(&self) {
        match &self.app.cluster {
            Some(cluster) => cluster.fenced().await,
            None => std::future::pending().await,
        }
    }

    /// Accepts nothing more, lets what is in flight finish within the configured bound, and closes.
    pub async fn stop(self) {
        self.stop.stop(&self.app).await;
    }
}

/// Starts a node.
///
/// # Errors
///
/// [`BootError`]; nothing is left running.
pub async fn start(start: Start<'_>) -> Result<Running, BootError> {
    let Start { config, admin_key, show, demo, faults, metrics } = start;
    prepare(&config, &faults)?;
    let entropy = Entropy::System;
    let Journal { store, boot, cluster: clustered } =
        Box::pin(journal::open(&config, &entropy, faults)).await?;
    until_it_reads(async || reader::check(&store).await).await?;
    let mut draw = || keys::drawn(&entropy);
    let own = node_key::open(&config.data_dir, admin_key.as_ref(), show, &mut draw)?;
    let verifier = Verifier::new(&own);
    let found = providers::find(&config, start_demo(demo).await?).await?;
    let node = node_over(&store, &entropy, clustered.as_ref());
    let (tools, way) = tools::open(&config)?;
    let (live, at_work) = (Arc::new(Live::default()), run::AtWork::default());
    let opened = Box::pin(credentials::open(&config, &store, &found, clustered.as_ref())).await?;
    let (budgets, settings, following) = settings::follow(&store).await?;
    let world = World { found: &found, tools: &tools, live: &live, at_work: &at_work };
    let tables =
        Box::pin(tables((&node, &config), world, &opened.credentials, clustered.as_ref())).await?;
    let (projections, runner) = read_models::start(&config, &store).await?;
    let read = keys::load(&store, &projections, &verifier).await.map_err(BootError::Issued)?;
    let (listener, address) = listen(config.bind).await?;
    let (stopping, watch) = watch::channel(false);
    let out = outside::open(clustered.as_ref()).await?;
    let ends = (&tables.directory, &tables.bus);
    let (part, view, served) =
        cluster::part(clustered, boot, &node, ends, config.limits.drain).await?;
    let app = App::new(Parts {
        node,
        bus: tables.bus,
        directory: tables.directory,
        live,
        answering: found.answering,
        credentials: Arc::clone(&opened.credentials),
        budgets,
        settings,
        judge: tables.judge,
        tools,
        verifier,
        projections,
        at_work,
        room: Arc::new(Semaphore::new(config.limits.max_concurrent_runs)),
        fallbacks: tables.fallbacks,
        approvers: tables.approvers,
        metrics,
        stopping: watch,
        served,
        cluster: view,
        config,
    });
    way.lead_to(&app);
    let mut stop = Stop::new(stopping, part);
    serve(&app, listener, &mut stop);
    background(&app, runner, &mut stop);
    begin(&app, (read, following), &mut stop);
    credentials::begin(&app, opened, &mut stop);
    outside::tell(&app, out, &mut stop);
    note::leave(&app, address)?;
    Ok(Running { address, answers: found.answers, told: own.told, app, stop })
}

/// Wakes what is owed where the journal is this node's alone; in a cluster, what it has leases of, and keys that other
/// nodes issue are learned.
fn begin(app: &App, (read, following): (Vec<Position>, Vec<JoinHandle<()>>), stop: &mut Stop) {
    following.into_iter().for_each(|task| stop.helper(task));
    if app.cluster.is_none() {
        files::keep(app).into_iter().for_each(|task| stop.helper(task));
        return app.node.agenda.start(Partition::all());
    }
    for at in read {
        stop.helper(task::spawn(task::Kind::Follow, keys::keep(app.clone(), at)));
    }
}

async fn listen(bind: SocketAddr) -> Result<(TcpListener, SocketAddr), BootError> {
    let failed = |source| BootError::Bind { bind, source };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// A node that may act for ever where the journal is its own, else as long as its leases hold.
fn node_over(store: &Store, entropy: &Entropy, clustered: Option<&Clustered>) -> Node {
    let node = Node::new(store.clone(), Clock::System, entropy.clone());
    let mandate = clustered.map_or_else(Mandate::alone, |_| Mandate::leased());
    Node { mandate, ..node }
}

/// Makes the folder and takes what stands in it for the whole process. A drill is allowed by a file, so that no flag
/// that slipped in can make a node fail.
fn prepare(config: &Config, faults: &Faults) -> Result<(), BootError> {
    private::folder(&config.data_dir)?;
    webhooks::check(config)?;
    // Before the first price is asked for; a node of this process that started earlier keeps its table.
    let _first = ::providers::pricing::install(prices::read(&config.data_dir)?);
    let marker = config.data_dir.join(FAULTS_ALLOWED);
    if faults.armed() && !marker.exists() {
        return Err(BootError::FaultsForbidden(marker));
    }
    Ok(())
}

async fn start_demo(demo: Demonstration) -> Result<Option<Scripted>, BootError> {
    match demo {
        Demonstration::Off => Ok(None),
        Demonstration::On => scripted::talk().await.map(Some).map_err(BootError::Demo),
    }
}

struct Tables {
    judge: Judge,
    fallbacks: Arc<run::Fallbacks>,
    approvers: run::Approvers,
    bus: Bus<Directory>,
    directory: Arc<Directory>,
}

/// What runs need of the node.
struct World<'a> {
    found: &'a providers::Found,
    tools: &'a Arc<Registry>,
    live: &'a Arc<Live>,
    at_work: &'a run::AtWork,
}

/// Runs first, for sessions drive them; each then knows the other.
async fn tables(
    (node, config): (&Node, &Config),
    World { found, tools, live, at_work }: World<'_>,
    credentials: &Arc<Credentials>,
    clustered: Option<&Clustered>,
) -> Result<Tables, BootError> {
    // A node of a cluster serves nothing before it has a lease of it.
    let served = if clustered.is_some() { Served::NONE } else { Served::ALL };
    let (fallbacks, approvers) = (Arc::default(), run::Approvers::default());
    let judge = Judge::new(Arc::clone(tools));
    let world = Arc::new(run::World {
        client: found.client.clone(),
        endpoints: found.endpoints.clone(),
        lent: found.answering.lent().clone(),
        credentials: Some(Arc::clone(credentials)),
        tools: Arc::clone(tools),
        judge: judge.clone(),
        live: Arc::clone(live),
        sessions: OnceLock::new(),
        budgets: OnceLock::new(),
        at_work: at_work.clone(),
        fallbacks: Arc::clone(&fallbacks),
        approvers: approvers.clone(),
        calls: Room::for_calls(run::MODEL_CALLS_MAX),
        in_flight: run::InFlight::default(),
        clock: node.clock.clone(),
        entropy: node.entropy.clone(),
    });
    let runs = Table::open_for(node.clone(), Arc::clone(&world), served).await?;
    let (clock, entropy) = (node.clock.clone(), node.entropy.clone());
    let driver = session::World { runs: Arc::clone(&runs), clock, entropy };
    let sessions = Table::open_for(node.clone(), Arc::new(driver), served).await?;
    world.sessions.get_or_init(|| Arc::downgrade(&sessions));
    let keys = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let settings = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let refreshing = credentials::world(node, found, credentials);
    let credentials = Table::open_for(node.clone(), Arc::new(refreshing), served).await?;
    let budgets = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let grants = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let gates = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let artifacts = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let abouts = Table::open_for(node.clone(), Arc::new(()), served).await?;
    let directory = Arc::new(Directory {
        sessions,
        runs,
        keys,
        settings,
        credentials,
        budgets,
        grants,
        gates,
        artifacts,
        abouts,
    });
    let local = Local::new();
    local.lead_to(&directory);
    let bus = match clustered {
        None => Bus::Local(local),
        Some(clustered) => {
            let bus = bus::between(clustered, local, node, &directory).await?;
            bus.carry(live);
            Bus::Nats(bus)
        }
    };
    let way = bus.clone();
    world.budgets.get_or_init(|| budgets::way(way));
    judge.precede(preconditions::of(config, &bus, &node.clock));
    Ok(Tables { fallbacks, approvers, judge, bus, directory })
}

fn serve(app: &App, listener: TcpListener, stop: &mut Stop) {
    let bounded = Bounded::new(listener, app.config.limits.max_connections);
    let service = router(app.clone());
    let mut stopping = app.stopping.clone();
    stop.server(task::spawn(task::Kind::Serve, async move {
        let told = async move {
            // The sender lives as long as the node.
            let _stop = stopping.wait_for(|stopping| *stopping).await;
        };
        axum::serve(bounded, service).with_graceful_shutdown(told).await
    }));
}

fn background(app: &App, runner: Runner, stop: &mut Stop) {
    stop.views(task::spawn(task::Kind::Follow, runner.run()));
    desk::begin(app, stop);
    let (metrics, clock) = (app.metrics.clone(), app.clock().clone());
    let known = Arc::clone(&app.credentials);
    stop.helper(task::spawn(task::Kind::Sweep, async move {
        loop {
            clock.pause(UPKEEP).await;
            metrics.upkeep();
            credentials::measure(&known);
        }
    }));
    drill::remind(app, stop);
}

/// The bound on a stop, as the configuration says.
#[must_use]
pub fn drain(config: &Config) -> Duration {
    Duration::from_millis(config.limits.drain.0)
}
