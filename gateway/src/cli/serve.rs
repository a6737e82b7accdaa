//! `piton serve`: starts a node, says where it is and who answers, and stops it when it is told to.

use super::arguments::Serve;
use super::context::Context;
use super::failure::CliError;
use crate::auth::node_key::{self, Show, Told};
use crate::boot::{self, Demonstration, Running};
use crate::config::{self, Config, Environment, Flags};
use crate::error::{Exit, chain};
use crate::telemetry::redact::Redactor;
use crate::telemetry::{self, Colour, Metrics};
use std::path::Path;
use store::Faults;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) fn serve(ctx: &mut Context<'_>, serve: Serve) -> Result<Exit, CliError> {
    let flags = settings(ctx.flags(), &serve);
    let Serve { demo, faults, .. } = serve;
    let loaded = ctx.load_with(&flags)?;
    let faults = on_purpose(faults.as_deref().unwrap_or_default())?;
    let admin_key = node_key::given(&ctx.environment).map_err(fell)?;
    let redactor = redactor(&loaded.config, &ctx.environment);
    let plain = ctx.global.no_color || ctx.environment.get("NO_COLOR").is_some();
    let colour = if plain { Colour::Off } else { Colour::On };
    telemetry::start(&loaded.config.log, &redactor, colour).map_err(fell)?;
    let metrics = Metrics::install().map_err(fell)?;
    let demo = if demo { Demonstration::On } else { Demonstration::Off };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(fell)?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(fell)?;
        let show = if ctx.out_is_terminal { Show::Terminal(&mut *ctx.out) } else { Show::File };
        let start = boot::Start { config: loaded.config, admin_key, show, demo, faults, metrics };
        let running = tokio::select! {
            running = Box::pin(boot::start(start)) => running.map_err(|error| CliError::Boot(Box::new(error)))?,
            // Nothing was acknowledged yet, and a start may wait long for its journal.
            () = signals.next() => return Err(CliError::Node("stopped by a signal before it served".to_owned())),
        };
        greet(ctx, &running)?;
        tokio::select! {
            () = signals.next() => {}
            () = running.fenced() => {
                tracing::error!("fenced: an operator ended this life of the node, its leases are lost and it stops");
                Box::pin(running.stop()).await;
                return Err(CliError::Fenced);
            }
        }
        tracing::info!("stopping: what is in flight gets limits.drain_seconds, a second signal ends at once");
        tokio::select! {
            () = Box::pin(running.stop()) => Ok(Exit::Ok),
            // Nothing acknowledged is lost: the next start goes on where the log ends.
            () = signals.next() => Err(CliError::Node("stopped at once by a second signal".to_owned())),
        }
    })
}

/// What is to go wrong: files of a folder, or a plan.
fn on_purpose(text: &str) -> Result<Faults, CliError> {
    let folder = Path::new(text);
    if folder.is_dir() {
        return Ok(Faults::held_in(folder.to_owned()));
    }
    text.parse().map_err(|error| CliError::Usage(format!("--faults: {}", chain(&error))))
}

/// The flags that set a key of the configuration.
fn settings(mut flags: Flags, serve: &Serve) -> Flags {
    let texts = [
        ("bind", "--bind", &serve.bind),
        ("nats.url", "--nats", &serve.nats),
        ("nats.namespace", "--namespace", &serve.namespace),
        ("nats.node", "--node", &serve.node),
        ("nats.monitor", "--nats-monitor", &serve.nats_monitor),
        ("nats.cluster_key", "--cluster-key", &serve.cluster_key),
    ];
    for (key, flag, text) in texts {
        if let Some(text) = text {
            flags = flags.with(key, flag, text.clone());
        }
    }
    let switches = [
        ("behind_proxy", "--behind-proxy", serve.behind_proxy),
        ("nats.allow_lazy_fsync", "--allow-lazy-fsync", serve.allow_lazy_fsync),
    ];
    for (key, flag, on) in switches {
        if on {
            flags = flags.with(key, flag, "true".to_owned());
        }
    }
    flags
}

fn fell(error: impl std::error::Error + 'static) -> CliError {
    CliError::Node(chain(&error))
}

/// Knows every secret that the configuration and the environment give.
fn redactor(config: &Config, environment: &Environment) -> Redactor {
    let redactor = Redactor::default();
    let named = [config::ADMIN_KEY, config::API_KEY, config::nats::PASSWORD]
        .into_iter()
        .filter_map(|name| environment.secret(name));
    let keys = config
        .providers
        .values()
        .filter_map(|provider| provider.key.as_ref())
        .map(|key| key.secret.clone());
    let headers = config.providers.values().flat_map(|provider| provider.headers.values().cloned());
    for secret in named.chain(keys).chain(headers) {
        redactor.learn(&secret);
    }
    redactor
}

/// Where the node is, which model answers and why, where the key is, and what to try next.
fn greet(ctx: &mut Context<'_>, running: &Running) -> std::io::Result<()> {
    let Running { address, answers, told, .. } = running;
    writeln!(ctx.out, "piton {} serves http://{address}", env!("CARGO_PKG_VERSION"))?;
    if let Some(cluster) = &running.app.cluster {
        writeln!(ctx.out, "it is node {} of a cluster; its journal is on NATS", cluster.node)?;
    }
    writeln!(ctx.out, "{answers}")?;
    match told {
        Told::Written(path) => {
            writeln!(
                ctx.out,
                "the administrator's key is in {}: keep it elsewhere and remove the file",
                path.display()
            )?;
        }
        Told::Given => {
            writeln!(ctx.out, "the administrator's key is the one that the environment gives")?;
        }
        Told::Kept | Told::Printed => (),
    }
    writeln!(ctx.out, "try: piton chat --once \"Say hello\"")?;
    ctx.out.flush()
}

/// What tells a process to stop.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
        }
    }
}
