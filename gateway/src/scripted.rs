//! A provider that plays a script on real sockets: the wire of every API family, streamed and whole, with the faults that
//! providers have. For a first try without a key or a network, for tests, and for drills against one's own settings.
//!
//! It says in every answer of its own that it is scripted, so that nobody takes it for a model, and it gets no other
//! treatment than any provider: what works with it has gone the whole way. The same script and the same requests in the
//! same order give the same bytes. `deploy/scripted.md` has the form of a script; without one it talks by this:
//!
#![doc = "```text"]
#![doc = include_str!("scripted/converse.txt")]
#![doc = "```"]

mod beats;
mod converse;
mod fault;
mod file;
mod gzip;
mod play;
mod schedule;
pub mod script;
mod vectors;
mod wire;

use actors::task;
pub use fault::Fault;
use providers::Family;
pub use script::{Script, ScriptError};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use wire::Stage;

/// What each message makes it do, for a person.
pub const HELP: &str = include_str!("scripted/converse.txt");
/// The models of the script that talks. `demo-2` is there to be fallen back to.
pub const MODELS: [&str; 2] = ["demo", "demo-2"];
/// Connections to one provider of a script at once: 256. More wait in the system's queue.
const CONNECTIONS_MAX: usize = 256;

/// Providers that answer. They go on when this is dropped; they end with their runtime or by [`Scripted::stop`].
#[derive(Debug)]
pub struct Scripted {
    /// In the script's order.
    pub providers: Vec<Playing>,
}

/// One provider of a script, on its socket.
#[derive(Debug)]
pub struct Playing {
    /// Its name in the script.
    pub name: String,
    /// The one family that it speaks; `None` for each at its own path.
    pub family: Option<Family>,
    /// Where it answers.
    pub address: SocketAddr,
    stage: Arc<Stage>,
    /// Where it takes connections; else the socket that nobody listens at, kept so that nobody else gets its port.
    open: Open,
}

#[derive(Debug)]
enum Open {
    Serving(JoinHandle<()>),
    Refusing(#[expect(dead_code, reason = "held for its port alone")] TcpSocket),
}

/// Starts the providers of a script. They listen when this returns.
///
/// # Errors
///
/// The system's, when an address is not to be had.
pub async fn start(script: &Script) -> io::Result<Scripted> {
    let mut providers = Vec::with_capacity(script.providers.len());
    for provider in &script.providers {
        let stage = Arc::new(Stage::new(script.seed, provider.clone()));
        let (address, open) = if provider.refuses {
            let socket = match provider.listen {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.bind(provider.listen)?;
            (socket.local_addr()?, Open::Refusing(socket))
        } else {
            let listener = TcpListener::bind(provider.listen).await?;
            let address = listener.local_addr()?;
            let serving = task::spawn(task::Kind::Serve, serve(listener, Arc::clone(&stage)));
            (address, Open::Serving(serving))
        };
        let (name, family) = (provider.name.clone(), provider.family);
        providers.push(Playing { name, family, address, stage, open });
    }
    Ok(Scripted { providers })
}

/// Starts the one provider that talks.
///
/// # Errors
///
/// The system's, when there is no port to have.
pub async fn talk() -> io::Result<Scripted> {
    start(&Script::talking()).await
}

impl Scripted {
    /// Takes no more connections. Those that are open end when their clients close them.
    pub fn stop(&self) {
        for provider in &self.providers {
            if let Open::Serving(serving) = &provider.open {
                serving.abort();
            }
        }
    }

    /// What a provider's configuration takes as its base for this family, of the first provider.
    #[must_use]
    pub fn base_url(&self, family: Family) -> String {
        self.providers.first().map(|playing| playing.base_url(family)).unwrap_or_default()
    }
}

impl Playing {
    /// What a provider's configuration takes as its base for this family. Any key will do.
    #[must_use]
    pub fn base_url(&self, family: Family) -> String {
        let under = match family {
            Family::OpenaiChat | Family::OpenaiResponses => "/v1",
            Family::Gemini => "/v1beta",
            Family::AnthropicMessages | Family::Bedrock => "",
        };
        format!("http://{}{under}", self.address)
    }

    /// The families that it speaks.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        self.family.map_or_else(|| Family::ALL.to_vec(), |family| vec![family])
    }

    /// How many requests for an answer have come so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.stage.calls()
    }

    /// How many answers are on their way: a client that goes away ends its own.
    #[must_use]
    pub fn answering(&self) -> u64 {
        self.stage.answering()
    }
}

async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                // Words are small: held back to fill a packet, they would come in bursts 40 ms apart.
                let _gone = stream.set_nodelay(true);
                let stage = Arc::clone(&stage);
                task::spawn(task::Kind::Serve, async move {
                    wire::connection(stream, stage).await;
                    drop(place);
                });
            }
            // Files or memory that others may give back.
            Err(_) => tokio::time::sleep(beats::PACE).await,
        }
    }
}

#[cfg(test)]
mod tests;
