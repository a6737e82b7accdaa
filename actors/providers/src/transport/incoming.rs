//! A reply that is being read, within its two deadlines and its bounds.

use super::broken::{self, Stage};
use super::head::coding;
use crate::class::{
    Charge, Class, Failure, Reply, classify, classify_inside, request_id, server_now,
};
use crate::decode::{Decoder, Fault, Progress};
use crate::delta::{Answer, Delta};
use crate::endpoint::Endpoint;
use crate::seen::Seen;
use bytes::Bytes;
use events::prompt::Request;
use events::usage::Usage;
use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The longest deadline; a longer one is as good as none, and the sum with an instant must exist.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long the end of a body is waited for once `[DONE]` was read, so that the connection goes back to the pool.
const DRAIN: Duration = Duration::from_millis(50);
/// How long usage and `[DONE]` are waited for once a finish reason was read: some servers never send them.
const TAIL: Duration = Duration::from_secs(5);
/// Bytes of a whole answer.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;
/// Bytes of an error's body that are read; the words of interest stand at its start.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// A reply that is being read, within its deadlines.
pub(super) struct Incoming<'a> {
    endpoint: &'a Endpoint,
    response: Response,
    /// When the call began.
    pub(super) began: Instant,
    /// When it must be over.
    ends: Instant,
}

/// What an answer means that is longer than any may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum TooLong {
    /// Something broke: the next one may be another.
    AskedAgain,
    /// It is as long as what was asked for, and the next one would be too.
    AskForLess,
}

impl<'a> Incoming<'a> {
    /// Sends and waits for the head of a success.
    pub(super) async fn open(
        endpoint: &'a Endpoint,
        ask: RequestBuilder,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        let ends = began + endpoint.total.min(DEADLINE_MAX);
        let head = began + patience.min(DEADLINE_MAX);
        let sent = timeout_at(ends.min(head), ask.send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(broken::failure(&error, Stage::Asking)),
            Err(_) => return Err(late(patience.min(endpoint.total))),
        };
        let mut incoming = Self { endpoint, response, began, ends };
        if incoming.response.status().is_success() {
            let Some(coding) = coding(incoming.headers()) else { return Ok(incoming) };
            let words = format!(
                "the answer is in the coding {coding}, which was not asked for: have whatever stands in between not compress"
            );
            let failure = Failure::ours(Class::StreamError, Charge::Unknown, &words);
            return Err(incoming.about(failure, Usage::default()));
        }
        // A body that breaks off still has its status.
        let body = incoming
            .collect(Bytes::new(), ERROR_BYTES_MAX, TooLong::AskedAgain)
            .await
            .unwrap_or_default();
        Err(classify(&incoming.reply(&body), endpoint.key.as_ref()))
    }

    /// The head of the reply.
    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    fn reply<'b>(&'b self, body: &'b [u8]) -> Reply<'b> {
        let headers = self.headers();
        Reply { status: self.response.status().as_u16(), headers, body, now: server_now(headers) }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, Failure> {
        let until = self.ends.min(Instant::now() + patience.min(DEADLINE_MAX));
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => {
                Err(self.about(broken::failure(&error, Stage::Reading), Usage::default()))
            }
            Err(_) => {
                let bound = if until < self.ends { patience } else { self.endpoint.total };
                Err(self.about(late(bound), Usage::default()))
            }
        }
    }

    /// What follows `first`, up to a bound; an error's body is cut there, an answer's is refused, as `beyond` says.
    pub(super) async fn collect(
        &mut self,
        first: Bytes,
        bytes_max: usize,
        beyond: TooLong,
    ) -> Result<Vec<u8>, Failure> {
        let mut body = first.to_vec();
        while let Some(bytes) = self.next(self.endpoint.idle).await? {
            if body.len() + bytes.len() > bytes_max {
                if !self.response.status().is_success() {
                    break;
                }
                let (class, mend) = match beyond {
                    TooLong::AskedAgain => (Class::StreamError, ""),
                    TooLong::AskForLess => {
                        (Class::PayloadTooLarge, ": ask for fewer inputs at once")
                    }
                };
                let words = format!("the answer is longer than {bytes_max} bytes{mend}");
                let failure = Failure::ours(class, Charge::Unknown, &words);
                return Err(self.about(failure, Usage::default()));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    pub(super) async fn whole(
        mut self,
        mut decoder: Box<dyn Decoder>,
        request: &Request,
        first: Bytes,
        beyond: TooLong,
    ) -> Result<Answer, Failure> {
        let body = self.collect(first, BODY_BYTES_MAX, beyond).await?;
        if let Err(fault) = decoder.body(&body) {
            return Err(self.fault(&fault, decoder.usage(), Class::Unknown));
        }
        let (partial, id) = (decoder.usage(), request_id(self.headers()));
        let answer = decoder.finish(self.endpoint.seal(&request.model), id, &mut |_| ());
        answer.map_err(|fault| self.fault(&fault, partial, Class::Unknown))
    }

    pub(super) async fn events(
        mut self,
        mut decoder: Box<dyn Decoder>,
        request: &Request,
        first: Bytes,
        (sink, seen): (&mut (dyn FnMut(Delta) + Send), Option<&Seen>),
    ) -> Result<Answer, Failure> {
        let (mut bytes, mut done) = (first, Progress::More);
        while done == Progress::More {
            done = decoder
                .feed(&bytes, sink)
                .map_err(|fault| self.fault(&fault, decoder.usage(), Class::StreamError))?;
            if let Some(seen) = seen {
                seen.note(decoder.usage());
            }
            if done == Progress::Done {
                break;
            }
            let is_terminal = decoder.is_terminal();
            let patience =
                if is_terminal { self.endpoint.idle.min(TAIL) } else { self.endpoint.idle };
            bytes = match self.next(patience).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => {
                    let last = decoder.end(sink);
                    last.map_err(|fault| self.fault(&fault, decoder.usage(), Class::StreamError))?;
                    break;
                }
                // The answer is there; what broke off is what nobody needs.
                Err(_) if is_terminal => break,
                Err(failure) => return Err(Failure { partial: decoder.usage(), ..failure }),
            };
        }
        if done == Progress::Done {
            let end = async { while let Ok(Some(_)) = self.response.chunk().await {} };
            // Not in time only costs the connection.
            let _late = timeout(DRAIN, end).await;
        }
        let (partial, id) = (decoder.usage(), request_id(self.headers()));
        let answer = decoder.finish(self.endpoint.seal(&request.model), id, sink);
        answer.map_err(|fault| self.fault(&fault, partial, Class::StreamError))
    }

    /// A fault of the decoder as a failure; `nothing` is the class of an answer without a message.
    fn fault(&self, fault: &Fault, partial: Usage, nothing: Class) -> Failure {
        let ours = |class| Failure::ours(class, Charge::Unknown, &fault.to_string());
        let failure = match fault {
            Fault::Reported { error, began } => {
                classify_inside(error, &self.reply(&[]), *began, self.endpoint.key.as_ref())
            }
            Fault::Truncated => ours(Class::StreamTruncated),
            Fault::NoMessage => ours(nothing),
            Fault::NotJson(_)
            | Fault::Call(_)
            | Fault::TooLong
            | Fault::Frame(_)
            | Fault::Damaged(_) => ours(Class::StreamError),
        };
        self.about(failure, partial)
    }

    /// The failure with what is known of the reply.
    pub(super) fn about(&self, failure: Failure, partial: Usage) -> Failure {
        let headers = self.headers();
        Failure {
            status: Some(self.response.status().as_u16()),
            request_id: failure.request_id.or_else(|| request_id(headers)),
            partial,
            ..failure
        }
    }
}

/// No byte, or no end, in time. The request had left: it may be worked on still.
fn late(bound: Duration) -> Failure {
    let words = format!("no answer within {} ms", bound.as_millis());
    Failure::ours(Class::Timeout, Charge::Unknown, &words)
}
