//! A node of our own, for a command that needs one where none runs. It is said, and it stops with the command; what it
//! left open is done by the next node of the folder.

use super::client::Client;
use super::context::Context;
use super::failure::CliError;
use crate::auth::node_key::{self, Show};
use crate::boot::{self, Demonstration, NODE_FILE, NodeNote, Running, Start};
use crate::config::{self, Format, Log};
use crate::error::chain;
use crate::telemetry::redact::Redactor;
use crate::telemetry::{self, Colour, Metrics};
use std::time::Duration;
use store::Faults;

/// How long a recorded node gets to answer before it counts as gone.
const PROBE: Duration = Duration::from_secs(2);

/// A node to speak to; perhaps one of our own.
pub(super) struct Reached {
    /// Speaks to it.
    pub(super) client: Client,
    own: Option<Running>,
}

impl Reached {
    /// One that runs already.
    pub(super) const fn running(client: Client) -> Self {
        Self { client, own: None }
    }

    /// Whether the node ends with this command.
    pub(super) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Stops our own node, if there is one.
    pub(super) async fn leave(self) {
        if let Some(own) = self.own {
            Box::pin(own.stop()).await;
        }
    }
}

/// The node that runs, or one of our own. Where an address was given, only that one will do.
pub(super) async fn reach(ctx: &mut Context<'_>) -> Result<Reached, CliError> {
    let loaded = ctx.load()?;
    let is_named = ctx.global.url.is_some() || ctx.environment.get(config::URL).is_some();
    if is_named || answers(&loaded.config.data_dir).await {
        return Ok(Reached { client: ctx.client()?, own: None });
    }
    let own = Box::pin(start(ctx)).await?;
    ctx.remark(&format!(
        "no node was running: this command starts one of its own, {}, and stops it at its end (`piton serve` keeps one)",
        own.answers
    ))?;
    Ok(Reached { client: ctx.client()?, own: Some(own) })
}

/// Whether the folder's recorded node is there. A note that a killed node left behind names nobody.
async fn answers(data_dir: &std::path::Path) -> bool {
    let Ok(Some(note)) = NodeNote::read(&data_dir.join(NODE_FILE)) else { return false };
    let Some(address) = note.url.strip_prefix("http://") else { return true };
    let connect = tokio::net::TcpStream::connect(address.to_owned());
    matches!(tokio::time::timeout(PROBE, connect).await, Ok(Ok(_there)))
}

async fn start(ctx: &mut Context<'_>) -> Result<Running, CliError> {
    // Any free port, and on this machine only: nobody else is meant to use it.
    let flags = ctx.flags().with("bind", "--bind", "127.0.0.1:0".to_owned());
    let loaded = ctx.load_with(&flags)?;
    let admin_key = node_key::given(&ctx.environment).map_err(fell)?;
    let quiet = Log { format: Format::Text, level: "warn".to_owned() };
    telemetry::start(&quiet, &Redactor::default(), Colour::Off).map_err(fell)?;
    let metrics = Metrics::install().map_err(fell)?;
    let start = Start {
        config: loaded.config,
        admin_key,
        show: Show::File,
        demo: Demonstration::Off,
        faults: Faults::none(),
        metrics,
    };
    Box::pin(boot::start(start)).await.map_err(|error| CliError::Boot(Box::new(error)))
}

fn fell(error: impl std::error::Error + 'static) -> CliError {
    CliError::Node(chain(&error))
}
