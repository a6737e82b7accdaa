//! A scripted model on a real HTTP server, for a first try without a key or a network, and for tests without either.
//!
//! It says in every answer that it is the scripted demo, so that nobody takes it for a model. It speaks OpenAI chat
//! completions over a socket of 127.0.0.1 and gets no other treatment than any provider: what works with it has gone
//! the whole way.
//!
#![doc = "```text"]
#![doc = include_str!("demo/script.txt")]
#![doc = "```"]

mod fault;
mod script;
mod vectors;
mod wire;

use actors::task;
use axum::serve::ListenerExt as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What each message makes it do, for a person.
pub const HELP: &str = include_str!("demo/script.txt");

/// Its models. `demo-2` is there to be fallen back to.
pub const MODELS: [&str; 2] = ["demo", "demo-2"];

/// A server that answers. It goes on when this is dropped; it ends with its runtime or by [`Demo::stop`].
#[derive(Debug)]
pub struct Demo {
    address: SocketAddr,
    server: JoinHandle<()>,
}

/// Starts a server on a free port of 127.0.0.1. It listens when this returns.
///
/// # Errors
///
/// The system's, when there is no port to have.
pub async fn start() -> io::Result<Demo> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let server = task::spawn(task::Kind::Serve, serve(listener));
    Ok(Demo { address, server })
}

impl Demo {
    /// What a provider's configuration takes as its base: `http://127.0.0.1:<port>/v1`. Any key will do.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Takes no more connections. Those that are open end when their clients close them.
    pub fn stop(&self) {
        self.server.abort();
    }
}

/// Answers on a listener for as long as it is polled.
pub async fn serve(listener: TcpListener) {
    let listener = listener.tap_io(|connection| {
        // Words are small: held back to fill a packet, they would come in bursts 40 ms apart. A socket that is
        // already gone refuses; its next read says so.
        let _gone = connection.set_nodelay(true);
    });
    // Never ends by itself, and deals with a failing socket by itself.
    let _never = axum::serve(listener, wire::routes()).await;
}

#[cfg(test)]
mod tests;
