//! The connection, and its replacement after a long outage.
//!
//! A client keeps what is published while it is disconnected and sends it once it is back, long after the caller was
//! told that nothing is known. So nothing is sent while the connection is down, and after an outage over the bound the
//! client is made to give up: what it had kept is dropped with it, and another one takes its place.

use super::error::ConnectError;
use super::settings::{Credentials, Servers};
use crate::{Outage, metric};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ReconnectToServer, ServerAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Nothing listens there. A client that was out for too long is only let try this address until it gives up, for
/// there is no other way to take back what it holds.
const NOWHERE: &str = "nats://127.0.0.1:0";
/// Tries after which a client gives up. More than an outage of a minute takes, and with [`NOWHERE`] soon done.
const TRIES_MAX: usize = 1_000;
/// Before a first try to come back to a server.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Between two tries to connect.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// How long one try may take: a server that hangs accepts the connection and says nothing.
const TRY_MAX: Duration = Duration::from_secs(2);
/// How often a quiet connection is tried; after three without an answer it counts as down.
const PING_EVERY: Duration = Duration::from_secs(2);

/// The client of the moment.
#[derive(Debug, Clone)]
pub(super) struct Life {
    /// Which one; rises.
    pub(super) number: u64,
    pub(super) client: Client,
}

#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    servers: Servers,
    life: watch::Sender<Life>,
    /// Clients that were given up.
    given_up: AtomicU64,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Link {
    /// Connects to the first server that answers.
    #[expect(
        clippy::disallowed_methods,
        reason = "no actor's task: it ends with the link that owns it"
    )]
    pub(super) async fn open(servers: Servers) -> Result<Self, ConnectError> {
        // Ring is the one provider; another part of the process may have said so before.
        let (gone, given_up) = mpsc::channel(1);
        let client = connect(&servers, gone.clone()).await?;
        let (life, _) = watch::channel(Life { number: 1, client });
        let shared = Arc::new(Shared { servers, life, given_up: AtomicU64::new(0) });
        let keeper = tokio::spawn(keep(Arc::downgrade(&shared), gone, given_up));
        Ok(Self { shared, keeper })
    }

    /// The client of the moment, connected or not.
    pub(super) fn life(&self) -> Life {
        self.shared.life.borrow().clone()
    }

    /// Clients that were given up after a long outage.
    pub(super) fn given_up(&self) -> u64 {
        self.shared.given_up.load(Ordering::Relaxed)
    }

    /// The client, if it is connected.
    pub(super) fn up(&self) -> Result<Client, Outage> {
        let Life { client, .. } = self.life();
        if client.connection_state() == State::Connected {
            Ok(client)
        } else {
            Err(Outage::Unavailable("not connected to a NATS server".to_owned()))
        }
    }
}

/// Puts another client in the place of one that gave up.
async fn keep(shared: Weak<Shared>, gone: mpsc::Sender<()>, mut given_up: mpsc::Receiver<()>) {
    while given_up.recv().await.is_some() {
        if let Some(shared) = shared.upgrade() {
            shared.given_up.fetch_add(1, Ordering::Relaxed);
            metrics::counter!(metric::GIVEN_UP).increment(1);
        }
        let client = loop {
            let Some(servers) = shared.upgrade().map(|shared| shared.servers.clone()) else {
                return;
            };
            match connect(&servers, gone.clone()).await {
                Ok(client) => break client,
                Err(error) => {
                    tracing::debug!(%error, "not connected yet");
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        shared.life.send_modify(|life| {
            life.number += 1;
            life.client = client;
        });
        tracing::warn!("the NATS client was replaced after a long outage");
    }
}

async fn connect(servers: &Servers, gone: mpsc::Sender<()>) -> Result<Client, ConnectError> {
    if servers.urls.iter().any(|url| url.contains('@')) {
        return Err(ConnectError::SecretInAddress);
    }
    let address =
        |text: &String| text.parse::<ServerAddr>().map_err(|_| ConnectError::Address(text.clone()));
    let mut pool = servers.urls.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let nowhere = address(&NOWHERE.to_owned())?;
    pool.push(nowhere.clone());
    // Since when the connection is down; a std lock, held over no await.
    let down: Arc<Mutex<Option<Instant>>> = Arc::default();
    let mut options = ConnectOptions::new()
        .max_reconnects(TRIES_MAX)
        .connection_timeout(TRY_MAX)
        .ping_interval(PING_EVERY)
        .name("piton")
        .event_callback({
            let down = Arc::clone(&down);
            move |event| {
                let (down, gone) = (Arc::clone(&down), gone.clone());
                async move { note(&event, &down, &gone) }
            }
        })
        .reconnect_to_server_callback({
            let (outage_max, turn) = (servers.outage_max, Arc::new(AtomicUsize::new(0)));
            move |pool, _| {
                let since = *down.lock().unwrap_or_else(PoisonError::into_inner);
                let too_long = since.is_some_and(|since| since.elapsed() > outage_max);
                let turn = turn.fetch_add(1, Ordering::Relaxed);
                let (mut pool, nowhere): (Vec<ServerAddr>, _) =
                    (pool.into_iter().map(|server| server.addr).collect(), nowhere.clone());
                pool.retain(|addr| *addr != nowhere);
                let next = pool.get(turn % pool.len().max(1)).cloned();
                let delay = if since.is_none() { Duration::ZERO } else { BETWEEN_TRIES };
                let target = match next {
                    Some(addr) if !too_long => ReconnectToServer { addr, delay: Some(delay) },
                    Some(_) | None => {
                        ReconnectToServer { addr: nowhere, delay: Some(Duration::ZERO) }
                    }
                };
                std::future::ready(Some(target))
            }
        });
    options = introduced(options, servers);
    first(&options, &pool, servers.urls.len()).await
}

fn introduced(mut options: ConnectOptions, servers: &Servers) -> ConnectOptions {
    if let Credentials::Password { user, password } = &servers.credentials {
        options = options.user_and_password(user.clone(), password.clone());
    }
    for root in &servers.roots {
        options = options.add_root_certificates(root.clone());
    }
    options
}

async fn first(
    options: &ConnectOptions,
    pool: &[ServerAddr],
    tries: usize,
) -> Result<Client, ConnectError> {
    let mut last = String::new();
    // The first connection is one try at one server: each has its turn.
    for _ in 0..tries {
        match options.clone().connect(pool.to_vec()).await {
            Ok(client) => return Ok(client),
            Err(error) => last = error.to_string(),
        }
    }
    Err(ConnectError::Unreachable(last))
}

/// A connection of its own, for what is not the journal: the bus, leases, live text. It comes back by itself after any
/// outage, and whoever uses it sends nothing while it is down.
///
/// # Errors
///
/// When an address is none, or nobody answers.
pub async fn client(servers: &Servers) -> Result<Client, ConnectError> {
    let address =
        |text: &String| text.parse::<ServerAddr>().map_err(|_| ConnectError::Address(text.clone()));
    let pool = servers.urls.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let options = ConnectOptions::new()
        .connection_timeout(TRY_MAX)
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback({
            let servers = pool.len();
            // Each server has a try at once: whoever waits longer looks dead to the others.
            move |tries| if tries <= servers { AT_ONCE } else { BETWEEN_TRIES }
        })
        .name("piton bus");
    first(&introduced(options, servers), &pool, servers.urls.len()).await
}

fn note(event: &Event, down: &Mutex<Option<Instant>>, gone: &mpsc::Sender<()>) {
    match event {
        Event::Connected => {
            let was_down = down.lock().unwrap_or_else(PoisonError::into_inner).take();
            if was_down.is_some() {
                metrics::counter!(metric::RECONNECTS).increment(1);
            }
        }
        Event::Disconnected => {
            *down.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            tracing::warn!("the connection to NATS is down");
        }
        Event::ClientError(async_nats::ClientError::MaxReconnects) => {
            // Full means that it was said already.
            let _said = gone.try_send(());
        }
        other => tracing::debug!(event = %other, "nats"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const INFO: &[u8] = b"INFO {\"server_id\":\"N\",\"server_name\":\"s\",\"version\":\"2.15.1\",\"max_payload\":1048576,\"headers\":true,\"proto\":1}\r\n";

    /// What a server of this many words of NATS is sent until the text comes, or for ever.
    async fn hear(stream: &mut TcpStream, until: &str) -> String {
        let mut heard = String::new();
        stream.write_all(INFO).await.unwrap();
        while !heard.contains(until) {
            let mut bytes = [0; 4_096];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "closed before {until:?}: {heard}");
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            for _ in text.matches("PING") {
                stream.write_all(b"PONG\r\n").await.unwrap();
            }
            heard.push_str(&text);
        }
        heard
    }

    /// Publishes while the server is gone; what the server is sent once it is back, up to a later publish.
    async fn sent_after_an_outage(bound: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let servers =
            Servers { outage_max: bound, ..Servers::at(vec![format!("nats://{address}")]) };
        // The one bound is soon over, the other never.
        let long = bound < Duration::from_secs(1);
        let (link, heard) = tokio::join!(Link::open(servers), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            hear(&mut stream, "PING").await;
            (stream, listener)
        });
        let link = link.unwrap();
        drop(heard);
        while link.up().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        link.life().client.publish("kept", "x".into()).await.unwrap();
        while long && link.given_up() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let listener = TcpListener::bind(address).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let later = async {
            while link.up().is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            link.life().client.publish("later", "y".into()).await.unwrap();
        };
        let (heard, ()) = tokio::join!(hear(&mut stream, "PUB later"), later);
        assert_eq!(link.life().number, if long { 2 } else { 1 });
        heard
    }

    #[tokio::test]
    async fn what_was_published_while_the_server_was_gone_dies_with_its_client() {
        let limit = Duration::from_secs(10);
        let short = sent_after_an_outage(Duration::from_secs(60));
        let heard = tokio::time::timeout(limit, short).await.unwrap();
        assert!(heard.contains("PUB kept"), "else this test shows nothing: {heard}");
        let long = sent_after_an_outage(Duration::from_millis(300));
        let heard = tokio::time::timeout(limit, long).await.unwrap();
        assert!(!heard.contains("PUB kept"), "it was sent after all: {heard}");
    }

    #[tokio::test]
    async fn an_address_with_a_password_is_refused_and_not_repeated() {
        let servers = Servers::at(vec!["nats://node:hush@127.0.0.1:1".to_owned()]);
        let error = Link::open(servers).await.unwrap_err();
        assert_eq!(error, ConnectError::SecretInAddress);
        assert!(!format!("{error} {error:?}").contains("hush"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials =
            Credentials::Password { user: "node".to_owned(), password: "hush".to_owned() };
        let servers = Servers { credentials, ..Servers::at(vec![]) };
        let shown = format!("{servers:?}");
        assert!(shown.contains("node") && !shown.contains("hush"), "{shown}");
    }
}
