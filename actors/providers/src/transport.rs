//! The one place where a model call meets the network: one pooled client, two deadlines, bounds on everything that is
//! read, and no second try behind the caller's back.
//!
//! Dropping a call drops its connection. What had left by then may have been worked on: only what never left, or was
//! refused before any work, is free.

mod broken;
mod head;
mod incoming;
mod leaving;
mod plain;

use crate::bedrock::sign::Ask;
use crate::class::{Charge, Class, Failure};
use crate::delta::{Answer, Delta};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use crate::metric;
use crate::openai_chat::embed;
use crate::seen::Seen;
use bytes::Bytes;
use events::leave::Leave;
use events::prompt::Request;
use events::usage::Usage;
use head::{Form, form, headers, signature};
use incoming::{BODY_BYTES_MAX, Incoming, TooLong};
pub use leaving::Unanswered;
use leaving::{Leaving, Refused};
pub use plain::PLAIN;
pub(crate) use plain::Said;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The longest a connection takes to be there, name look-up and TLS included.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept. Servers close theirs after 5 to 75 s, and a call that meets such a close is
/// lost after it left, so ours goes first with most of them.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// Idle connections kept to one host: as many calls as may begin in one burst without a handshake.
const POOL_IDLE_MAX: usize = 64;
/// Silence after which the system asks whether the peer still lives.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// What we say that we are, where a provider wants to know: our own name, for another product's would be a pretence.
pub(crate) const ORIGINATOR: &str = "piton";
/// The type of every body that is sent.
const JSON: &str = "application/json";
/// Models that are kept of a provider's list; the largest aggregator has under a thousand.
const MODELS_MAX: usize = 10_000;

/// Asks providers. Cheap to clone; all clones share one pool.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    clock: Option<Clock>,
    seen: Option<Seen>,
}

/// What says the time of day to the family that signs with it. This crate reads no clock of its own.
#[derive(Clone)]
struct Clock(Arc<dyn Fn() -> events::quantity::Instant + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A request as it goes out.
struct Outgoing {
    url: Url,
    body: Bytes,
    accept: &'static str,
    /// The longest wait for its first byte.
    patience: Duration,
}

/// The client can not be built. It never can on this machine: give up at start.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No protocol version is left.
    #[error("the TLS library refuses its own settings")]
    Tls(#[from] rustls::Error),
    /// The HTTP library refuses.
    #[error("the HTTP client can not be built")]
    Http(#[from] reqwest::Error),
}

impl Client {
    /// A client with a pool: no delay on small writes, no redirects, no proxy from the environment, the roots that
    /// are compiled in.
    ///
    /// # Errors
    ///
    /// [`ClientError`] when a library refuses these settings.
    pub fn new() -> Result<Self, ClientError> {
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("piton/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .build()?;
        Ok(Self { http, clock: None, seen: None })
    }

    /// With a clock: requests that are signed carry the time, and are refused without one.
    #[must_use]
    pub fn with_clock(
        self,
        now: impl Fn() -> events::quantity::Instant + Send + Sync + 'static,
    ) -> Self {
        Self { clock: Some(Clock(Arc::new(now))), ..self }
    }

    /// The same client for one call, of whose usage `seen` is told while it runs.
    #[must_use]
    pub fn telling(&self, seen: Seen) -> Self {
        Self { seen: Some(seen), ..self.clone() }
    }

    /// Asks a model, if it may still `leave` when the request is about to be written. Pieces of the answer go to `sink` as
    /// they come; the answer repeats them all.
    ///
    /// # Errors
    ///
    /// [`Unanswered`]: one wire call was made at most, and this is what came of it.
    #[tracing::instrument(skip_all, fields(provider = %endpoint.provider, model = %request.model))]
    pub async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        mode: Mode,
        leave: &Leave,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Unanswered> {
        let (started, refused) = (Instant::now(), Refused::default());
        let leave = (leave.clone(), refused.clone());
        // Boxed, so that whoever waits for a call does not carry its kilobytes.
        let outcome = Box::pin(self.exchange(endpoint, request, mode, leave, sink)).await;
        let outcome = outcome.map_err(|failure| refused.or(failure));
        tell(endpoint, started, &outcome);
        outcome
    }

    /// Asks for the vectors of texts: each message of the request is one. The message of the answer is their list, as the
    /// provider gave it.
    ///
    /// # Errors
    ///
    /// As for [`Client::call`].
    #[tracing::instrument(skip_all, fields(provider = %endpoint.provider, model = %request.model))]
    pub async fn embed(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        leave: &Leave,
    ) -> Result<Answer, Unanswered> {
        let (started, refused) = (Instant::now(), Refused::default());
        let leave = (leave.clone(), refused.clone());
        let outcome = Box::pin(self.vectors(endpoint, request, leave)).await;
        let outcome = outcome.map_err(|failure| refused.or(failure));
        tell(endpoint, started, &outcome);
        outcome
    }

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        mode: Mode,
        leave: (Leave, Refused),
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Failure> {
        let mode = endpoint.mode(mode);
        let body = Bytes::from(endpoint.family.encode(endpoint, request, mode)?);
        let url = endpoint.family.ask_url(endpoint, &request.model, mode);
        // A whole answer is silent until it is done, so only the total bounds its wait.
        let patience = match mode {
            Mode::Stream => endpoint.idle,
            Mode::Whole => endpoint.total,
        };
        let outgoing =
            Outgoing { url, body: body.clone(), accept: endpoint.family.accept(mode), patience };
        let (incoming, first) = self.send(endpoint, outgoing, leave).await?;
        let decoder = endpoint.family.decoder(body);
        match form(incoming.headers(), &first) {
            Form::Events => {
                incoming.events(decoder, request, first, (sink, self.seen.as_ref())).await
            }
            Form::Page => {
                let words = "answered with a web page: check the provider's address";
                let failure = Failure::ours(Class::Unknown, Charge::Unknown, words);
                Err(incoming.about(failure, Usage::default()))
            }
            Form::Whole => {
                let answer = incoming.whole(decoder, request, first, TooLong::AskedAgain).await?;
                if mode == Mode::Stream {
                    answer.deltas().into_iter().for_each(sink);
                }
                Ok(answer)
            }
        }
    }

    async fn vectors(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        leave: (Leave, Refused),
    ) -> Result<Answer, Failure> {
        let body = Bytes::from(embed::encode(endpoint, request)?);
        let (url, patience) = (endpoint.url(embed::PATH), endpoint.total);
        let outgoing = Outgoing { url, body, accept: JSON, patience };
        let (incoming, first) = self.send(endpoint, outgoing, leave).await?;
        let reader = Box::new(embed::Reader::new(request.messages.len()));
        incoming.whole(reader, request, first, TooLong::AskForLess).await
    }

    /// Sends a request, and waits for the head and the first bytes of a success.
    async fn send<'a>(
        &self,
        endpoint: &'a Endpoint,
        Outgoing { url, body, accept, patience }: Outgoing,
        (leave, refused): (Leave, Refused),
    ) -> Result<(Incoming<'a>, Bytes), Failure> {
        let now = self.clock.as_ref().map(|clock| (clock.0)());
        let signed = Ask { url: &url, content_type: JSON, body: &body };
        let signature = signature(endpoint, &signed, now)?;
        let ask = self.http.post(url).headers(headers(endpoint, accept)?).headers(signature);
        let leaving = reqwest::Body::wrap(Leaving::new(body, leave, refused));
        let ask = ask.header(CONTENT_TYPE, HeaderValue::from_static(JSON)).body(leaving);
        let mut incoming = Incoming::open(endpoint, ask, patience).await?;
        let first = incoming.next(patience).await?;
        metric::first_byte(&endpoint.provider, incoming.began.elapsed());
        Ok((incoming, first.unwrap_or_default()))
    }

    /// The models that a provider lists for this key.
    ///
    /// # Errors
    ///
    /// A [`Failure`]; it costs nothing in any case.
    pub async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Failure> {
        let Some(url) = endpoint.family.models_url(endpoint) else {
            let words = "this provider does not list its models: name one by its id";
            return Err(Failure::ours(Class::InvalidRequest, Charge::NotCharged, words));
        };
        let ask = self.http.get(url).headers(headers(endpoint, JSON)?);
        let mut incoming = Incoming::open(endpoint, ask, endpoint.idle).await?;
        let body = incoming.collect(Bytes::new(), BODY_BYTES_MAX, TooLong::AskedAgain).await?;
        let odd =
            || Failure::ours(Class::Unknown, Charge::NotCharged, "the list of models is not one");
        let root: Value = serde_json::from_slice(&body).map_err(|_| odd())?;
        let list = root.get("data").or_else(|| root.get("models")).unwrap_or(&root);
        let name = |model: &Value| {
            let named = model.get("id").or_else(|| model.get("name")).unwrap_or(model).as_str()?;
            // Some list what can only be embedded or counted too, and put the folder before the name.
            let does = model.get("supportedGenerationMethods").and_then(Value::as_array);
            let answers = does.is_none_or(|does| does.iter().any(|one| one == "generateContent"));
            answers.then(|| named.strip_prefix("models/").unwrap_or(named).to_owned())
        };
        let models = list.as_array().ok_or_else(odd)?.iter().filter_map(name);
        Ok(models.take(MODELS_MAX).collect())
    }
}

/// Tells the metrics and the log what came of a call; nothing where none was made.
fn tell(endpoint: &Endpoint, started: Instant, outcome: &Result<Answer, Unanswered>) {
    let failed = match outcome {
        Ok(_) => None,
        Err(Unanswered::Failed(failure)) => Some(failure),
        Err(Unanswered::NotSent(_)) => return,
    };
    metric::called(&endpoint.provider, failed.map(|failure| failure.class), started.elapsed());
    if let Some(failure) = failed {
        tracing::debug!(
            class = failure.class.name(),
            status = failure.status,
            request_id = failure.request_id,
            "model call failed"
        );
    }
}

#[cfg(test)]
mod tests;
