//! The command line as a client of its node: finds it, presents a key, and turns its errors into exit codes.
//!
//! The key in the data folder opens everything, so it is only ever sent to this machine: an address that somebody
//! slipped into a variable must not collect it.

use super::failure::CliError;
use super::sse::{Decoder, Event};
use crate::auth::node_key::CLI_KEY;
use crate::auth::private::{self, Readers};
use crate::boot::{NODE_FILE, NodeNote};
use crate::config::{self, Environment, Secret};
use crate::error::Code;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use url::{Host, Url};

/// Longest wait for a connection (5 s): a node that takes longer is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest silence of a node that is answering (60 s): a stream says something every 10.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest wait for an answer that takes work, such as a copy of the journal (1 h).
pub(crate) const LONG: Duration = Duration::from_secs(3_600);
/// Longest wait for any other answer (60 s).
const ANSWER: Duration = Duration::from_secs(60);
/// Bytes of the largest answer that is held in memory (64 MiB): the longest list has 200 rows of some kilobytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often a request is sent that the node is too busy for (3).
const TRIES: u32 = 3;
/// Longest wait before another try (5 s), whatever the node asks for: somebody sits there.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What is asked of the node.
#[derive(Debug, Default)]
pub(crate) struct Ask<'a> {
    /// The parts of the path behind `/`, not yet escaped.
    pub(crate) path: Vec<&'a str>,
    /// The query.
    pub(crate) query: Vec<(&'static str, String)>,
    /// The JSON body.
    pub(crate) body: Option<Value>,
    /// Makes a repeat harmless.
    pub(crate) idempotency_key: Option<String>,
    /// Where a reader goes on.
    pub(crate) last_event_id: Option<String>,
    /// Longest wait for the whole answer; a stream has none.
    pub(crate) within: Option<Duration>,
}

/// A node that answers, and the key for it.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Secret,
}

impl Client {
    /// Finds the node: `url` or `PITON_URL`, else the one recorded in the data folder; and its key.
    pub(crate) fn find(
        url: Option<&str>,
        environment: &Environment,
        data_dir: &Path,
    ) -> Result<Self, CliError> {
        let base = match url.or(environment.get(config::URL)) {
            Some(named) => address(named)?,
            None => {
                let path = data_dir.join(NODE_FILE);
                let note = NodeNote::read(&path).map_err(|source| CliError::File {
                    what: "can not read",
                    path,
                    source,
                })?;
                address(&note.ok_or_else(|| CliError::NotStarted(data_dir.to_owned()))?.url)?
            }
        };
        let file = data_dir.join(CLI_KEY);
        let own = if is_here(&base) { private::read(&file, Readers::Owner)? } else { None };
        let key =
            environment.secret(config::API_KEY).or_else(|| own.map(|key| Secret::new(key.trim())));
        let key = key.ok_or_else(|| CliError::NoKey { url: base.to_string(), file })?;
        Ok(Self { http: http(&base)?, base, key })
    }

    /// Asks and reads the whole answer. A busy node is asked again, when that can do no harm.
    pub(crate) async fn ask(&self, method: Method, ask: Ask<'_>) -> Result<Value, CliError> {
        let response = self.send(&method, &ask).await?;
        let bytes = whole(response).await.map_err(|why| self.strange(why))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| self.strange(Unread::Other(error.to_string())))
    }

    /// Opens a stream of events.
    pub(crate) async fn events(&self, ask: Ask<'_>) -> Result<Events, CliError> {
        let response = self.send(&Method::GET, &ask).await?;
        Ok(Events { response, decoder: Decoder::default(), ready: VecDeque::new() })
    }

    /// Copies an answer of any length to `out`; `progress` is told the bytes so far.
    pub(crate) async fn copy(
        &self,
        ask: Ask<'_>,
        out: &mut dyn Write,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, CliError> {
        let mut response = self.send(&Method::GET, &ask).await?;
        let mut copied = 0_u64;
        while let Some(piece) = response.chunk().await.map_err(CliError::Cut)? {
            out.write_all(&piece)?;
            copied = copied.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            progress(copied);
        }
        Ok(copied)
    }

    /// Sends until the node takes it, or the tries are used up; an answer that is an error is read and named.
    async fn send(&self, method: &Method, ask: &Ask<'_>) -> Result<Response, CliError> {
        let harmless = *method == Method::GET || ask.idempotency_key.is_some();
        let mut tries = 1;
        loop {
            let sent = self.request(method, ask).send().await;
            let response = sent.map_err(|source| self.unanswered(source))?;
            if response.status().is_success() {
                return Ok(response);
            }
            match pause(&response).filter(|_| harmless && tries < TRIES) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(self.refused(response).await),
            }
            tries += 1;
        }
    }

    fn request(&self, method: &Method, ask: &Ask<'_>) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(&ask.path);
        }
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&ask.query);
        }
        let mut request = self.http.request(method.clone(), url).bearer_auth(self.key.expose());
        if let Some(body) = &ask.body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        for (name, value) in
            [("idempotency-key", &ask.idempotency_key), ("last-event-id", &ask.last_event_id)]
        {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        if let Some(within) = ask.within { request.timeout(within) } else { request }
    }

    fn unanswered(&self, source: reqwest::Error) -> CliError {
        if source.is_connect() {
            CliError::NoNode { url: self.base.to_string(), source: source.without_url() }
        } else if source.is_timeout() {
            CliError::TimedOut(format!("{} did not answer in time", self.base))
        } else if source.is_builder() {
            // An id or a key with characters that no header takes.
            CliError::Usage(format!(
                "the request can not be sent as it is: {}",
                crate::error::chain(&source)
            ))
        } else {
            CliError::Cut(source)
        }
    }

    async fn refused(&self, response: Response) -> CliError {
        let status = response.status();
        let bytes = whole(response).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |name: &str| {
            body.get("error").and_then(|error| error.get(name)?.as_str()).map(str::to_owned)
        };
        let code = text("code").as_deref().and_then(Code::named);
        let message = text("message").unwrap_or_else(|| format!("{} answered {status}", self.base));
        CliError::Api { code, status, message }
    }

    fn strange(&self, why: Unread) -> CliError {
        match why {
            Unread::Cut(error) => CliError::Cut(error),
            Unread::Other(why) => CliError::Strange { url: self.base.to_string(), why },
        }
    }
}

/// A stream of events of the node.
#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

impl Events {
    /// The next event; none when the node ended the stream. Cancel at any await loses at most the piece being read.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CliError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(piece) = self.response.chunk().await.map_err(CliError::Cut)? else {
                return Ok(None);
            };
            let fed = self.decoder.feed(&piece);
            let url = || self.response.url().to_string();
            self.ready
                .extend(fed.map_err(|why| CliError::Strange { url: url(), why: why.to_string() })?);
        }
    }
}

enum Unread {
    Cut(reqwest::Error),
    Other(String),
}

async fn whole(mut response: Response) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(Unread::Cut)? {
        if bytes.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(Unread::Other(format!("it has more than {ANSWER_BYTES_MAX} bytes")));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// How long to wait before the same request, when the node says that a repeat may be taken.
fn pause(response: &Response) -> Option<Duration> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    header("x-should-retry").filter(|said| *said == "true")?;
    let millis = header("retry-after-ms").and_then(|millis| millis.parse().ok()).unwrap_or(500);
    Some(Duration::from_millis(millis).min(PAUSE_MAX))
}

fn address(text: &str) -> Result<Url, CliError> {
    let bad =
        || CliError::Usage(format!("{text:?} is not a node's address: give http://HOST:PORT"));
    let url = Url::parse(text).map_err(|_| bad())?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() { Ok(url) } else { Err(bad()) }
}

/// Whether an address is on this machine.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn http(base: &Url) -> Result<reqwest::Client, CliError> {
    // The HTTP library wants one even where nothing is encrypted. Somebody may have been first.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none());
    if is_here(base) {
        builder = builder.no_proxy();
    }
    if base.scheme() == "http" {
        // Reading the machine's certificates takes longer than most answers, and a container may have none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|source| CliError::Strange {
        url: base.to_string(),
        why: crate::error::chain(&source),
    })
}

/// A name for a piece of work that nobody else draws.
pub(crate) fn token() -> String {
    format!("{:032x}", actors::entropy::Entropy::System.draw())
}

impl<'a> Ask<'a> {
    /// A question at a path, answered soon.
    pub(crate) fn at(path: &[&'a str]) -> Self {
        Self { path: path.to_vec(), within: Some(ANSWER), ..Self::default() }
    }

    /// A stream at a path, which ends when it likes.
    pub(crate) fn stream(path: &[&'a str]) -> Self {
        Self { path: path.to_vec(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
