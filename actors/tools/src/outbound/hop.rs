//! One connection to one checked address, one request on it, one answer.
//!
//! Nothing is pooled: a connection that one list allowed is not there for a caller with another. Nothing is repeated.

use super::{Broken, Reply, lost, unreached};
use bytes::Bytes;
use events::leave::{Leave, NotSent};
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tower::{Layer, Service};
use url::Url;

/// The longest a connection takes to be there, TLS included; the rest of the time is for the answer.
const CONNECT: Duration = Duration::from_secs(5);

/// The client can not be built. It never can on this machine: give up at start.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No protocol version is left.
    #[error("the TLS library refuses its own settings")]
    Tls(#[from] rustls::Error),
}

/// How a peer proves who it is: by the roots that are compiled in.
#[derive(Debug, Clone)]
pub(super) struct Tls(rustls::ClientConfig);

impl Tls {
    pub(super) fn new() -> Result<Self, ClientError> {
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(tls))
    }
}

/// One connection.
pub(super) struct Hop<'a> {
    pub(super) url: &'a Url,
    pub(super) addresses: &'a [SocketAddr],
    pub(super) ends: Instant,
    pub(super) leave: &'a Leave,
}

impl Hop<'_> {
    /// Connects, asks for leave, sends, and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        tls: &Tls,
        (method, headers, body): (&Method, &HeaderMap, &Bytes),
    ) -> Result<Response, Broken> {
        let door = Door { leave: self.leave.clone(), said: Arc::default() };
        let said = Arc::clone(&door.said);
        let client = self.client(tls, door).map_err(|error| unreached(self.url, &words(&error)))?;
        let mut ask = client.request(method.clone(), self.url.clone()).headers(headers.clone());
        if !body.is_empty() {
            ask = ask.body(body.clone());
        }
        let sent = timeout_at(self.ends, ask.send()).await;
        let words = match sent {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => words(&error),
            Err(_) => "the time was over".to_owned(),
        };
        Err(match (said.refused.get(), said.left.load(Ordering::Acquire)) {
            (Some(why), _) => Broken::NotSent(*why),
            (None, true) => lost(self.url, &words),
            (None, false) => unreached(self.url, &words),
        })
    }

    /// Reads the body up to its bound; there the stream is cut.
    pub(super) async fn read(
        &self,
        mut response: Response,
        body_max: usize,
    ) -> Result<Reply, Broken> {
        let (mut body, mut is_cut) = (Vec::new(), false);
        loop {
            let piece = timeout_at(self.ends, response.chunk()).await;
            let piece = piece.map_err(|_| lost(self.url, "the time was over"))?;
            let Some(piece) = piece.map_err(|error| lost(self.url, &words(&error)))? else { break };
            let room = body_max.saturating_sub(body.len());
            body.extend(piece.iter().take(room));
            if piece.len() > room {
                is_cut = true;
                break;
            }
        }
        let (status, url) = (response.status(), self.url.clone());
        Ok(Reply { status, headers: std::mem::take(response.headers_mut()), url, body, is_cut })
    }

    fn client(&self, tls: &Tls, door: Door) -> Result<reqwest::Client, reqwest::Error> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.0.clone())
            .user_agent(concat!("piton/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0)
            // Whatever is not pinned is not looked up at all.
            .dns_resolver(Nowhere)
            .connector_layer(door);
        match self.url.domain() {
            Some(name) => builder.resolve_to_addrs(name, self.addresses),
            None => builder,
        }
        .build()
    }
}

/// A resolver that knows nobody.
struct Nowhere;

impl reqwest::dns::Resolve for Nowhere {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async { Err("only checked addresses are connected to".into()) })
    }
}

/// Asks for leave once a connection stands, and notes what was said.
#[derive(Clone)]
struct Door {
    leave: Leave,
    said: Arc<Said>,
}

#[derive(Default)]
struct Said {
    /// A request may have been written since.
    left: AtomicBool,
    refused: OnceLock<NotSent>,
}

impl<S> Layer<S> for Door {
    type Service = Asking<S>;

    fn layer(&self, connect: S) -> Asking<S> {
        Asking { connect, door: self.clone() }
    }
}

#[derive(Clone)]
struct Asking<S> {
    connect: S,
    door: Door,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl<S, R> Service<R> for Asking<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connect.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        let (connecting, Door { leave, said }) = (self.connect.call(to), self.door.clone());
        Box::pin(async move {
            let connection = connecting.await?;
            // Between this and the first byte stands nothing that waits for the world.
            leave.ask().inspect_err(|why| {
                // The first refusal; there is no second question.
                let _first = said.refused.set(*why);
            })?;
            said.left.store(true, Ordering::Release);
            Ok(connection)
        })
    }
}

/// The causes in words, each once. The address is left out: its query may hold a key.
fn words(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let mut said: Vec<String> = Vec::new();
    for words in causes.map(ToString::to_string) {
        if !said.iter().any(|earlier| earlier.contains(&words)) {
            said.push(words);
        }
    }
    if said.is_empty() { "the connection failed".to_owned() } else { said.join(": ") }
}
