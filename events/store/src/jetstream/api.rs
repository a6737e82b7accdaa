//! Requests to `JetStream`, each with a bound, and what their refusals mean.

use super::settings::{REQUEST_MAX, WAIT_FIRST, WAIT_MAX};
use super::settle::Heard;
use crate::{Outage, StoreError};
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context, context::ContextBuilder, message::StreamMessage};
use async_nats::{Client, HeaderMap, Message, Request, RequestErrorKind, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// Messages of one batch, and their bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// A context whose requests end.
pub(crate) fn context(client: Client) -> Context {
    ContextBuilder::new().timeout(REQUEST_MAX).build(client)
}

/// A stream by name, without asking whether it is there.
pub(super) async fn stream(client: Client, name: &str) -> Result<Stream<()>, Outage> {
    context(client).get_stream_no_info(name).await.map_err(|error| unavailable(&error))
}

pub(crate) fn unavailable(error: &dyn std::error::Error) -> Outage {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    Outage::Unavailable(text)
}

#[derive(Deserialize)]
struct Ack {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<AckError>,
}

#[derive(Deserialize)]
struct AckError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Publishes to a stream and waits for its word.
pub(crate) async fn publish(
    client: &Client,
    subject: String,
    headers: HeaderMap,
    body: Bytes,
) -> Heard {
    let request = Request::new().headers(headers).payload(body).timeout(Some(REQUEST_MAX));
    match client.send_request(subject, request).await {
        Ok(message) if message.status == Some(StatusCode::NO_RESPONDERS) => Heard::NotSent,
        Ok(message) => match serde_json::from_slice::<Ack>(&message.payload) {
            Ok(ack) => meaning(ack),
            // Something answered, and it was no stream's leader.
            Err(_) => Heard::Silence,
        },
        Err(error) => match error.kind() {
            RequestErrorKind::NoResponders => Heard::NotSent,
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                Heard::Refused(unavailable(&error))
            }
            RequestErrorKind::TimedOut | RequestErrorKind::Other => Heard::Silence,
        },
    }
}

fn meaning(ack: Ack) -> Heard {
    match ack.error {
        None if ack.duplicate => Heard::Repeated(ack.seq),
        None => Heard::Stored(ack.seq),
        Some(error) => refusal(error.err_code, error.description),
    }
}

/// What an error of `JetStream` says about the commit.
fn refusal(code: u64, description: String) -> Heard {
    match code {
        10_071 => Heard::Taken,
        10_164 | 10_158 => Heard::Busy,
        // Out of space: of the server (10047, 10023), of the account (10002, 10028).
        10_047 | 10_023 | 10_002 | 10_028 => Heard::Refused(Outage::Full),
        // The stream could not store it: its own limit, or its disk.
        10_077 if description.contains("maximum") => Heard::Refused(Outage::Full),
        // Expected stream (10060), too large (10054): no repeat helps.
        10_060 | 10_054 => Heard::Refused(Outage::Unavailable(format!("{description} ({code})"))),
        // No leader now, or an error that may have come after the message was proposed.
        _ => Heard::Silence,
    }
}

/// The leader's message, or none. Never a direct get: a replica may be behind.
pub(crate) enum Ask<'a> {
    At(u64),
    Last(&'a str),
    Next(&'a str, u64),
}

pub(crate) async fn leader(
    client: Client,
    name: &str,
    ask: &Ask<'_>,
) -> Result<Option<StreamMessage>, Outage> {
    let stream = stream(client, name).await?;
    let builder = stream.raw_message_builder();
    let builder = match ask {
        Ask::At(sequence) => builder.sequence(*sequence),
        Ask::Last(subject) => builder.last_by_subject(*subject),
        Ask::Next(subject, sequence) => builder.sequence(*sequence).next_by_subject(*subject),
    };
    match builder.send().await {
        Ok(message) => Ok(Some(message)),
        Err(error) => match error.kind() {
            RawMessageErrorKind::NoMessageFound => Ok(None),
            RawMessageErrorKind::InvalidSubject
            | RawMessageErrorKind::JetStream(_)
            | RawMessageErrorKind::Other => Err(unavailable(&error)),
        },
    }
}

/// What a replica answered to a batch.
pub(super) struct Batch {
    pub(super) messages: Vec<StreamMessage>,
    /// Whether it has no more, as far as it knows.
    pub(super) done: bool,
}

/// Messages from a sequence on, of one subject or of all, from whichever replica answers: it may be behind.
pub(super) async fn batch(
    client: &Client,
    name: &str,
    subject: &str,
    from: u64,
    page: Page,
) -> Result<Batch, Outage> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|e| unavailable(&e))?;
    let body = serde_json::json!({
        "batch": page.messages, "max_bytes": page.bytes, "next_by_subj": subject, "seq": from.max(1),
    });
    let api = format!("$JS.API.DIRECT.GET.{name}");
    let sent = client.publish_with_reply(api, inbox, body.to_string().into()).await;
    sent.map_err(|e| unavailable(&e))?;
    let mut messages = vec![];
    let deadline = Instant::now() + REQUEST_MAX;
    loop {
        let answer = tokio::time::timeout_at(deadline, answers.next()).await;
        let Ok(Some(answer)) = answer else {
            return Err(Outage::Unavailable("a direct get was not answered".to_owned()));
        };
        match answer.status.map(|status| status.as_u16()) {
            None => {
                let message = StreamMessage::try_from(answer).map_err(|e| unavailable(&e))?;
                messages.push(message);
            }
            Some(204) => {
                let done = pending(&answer) == 0;
                return Ok(Batch { messages, done });
            }
            Some(404) => return Ok(Batch { messages, done: true }),
            Some(status) => {
                return Err(Outage::Unavailable(format!("a direct get was answered {status}")));
            }
        }
    }
}

fn pending(end: &Message) -> u64 {
    let header = end.headers.as_ref().and_then(|headers| headers.get("Nats-Num-Pending"));
    header.and_then(|value| value.as_str().parse().ok()).unwrap_or(0)
}

/// Waits between tries, each twice the one before, up to a deadline.
pub(super) struct Tries {
    deadline: Instant,
    wait: Duration,
}

impl Tries {
    pub(super) fn within(limit: Duration) -> Self {
        Self { deadline: Instant::now() + limit, wait: WAIT_FIRST }
    }

    /// Waits, then says whether there is time for another try.
    pub(super) async fn again(&mut self) -> bool {
        if Instant::now() + self.wait > self.deadline {
            return false;
        }
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        true
    }
}

/// Tries a question until it is answered or the time is up. For questions only: it may be asked twice.
pub(super) async fn persist<T, F: Future<Output = Result<T, Outage>>>(
    limit: Duration,
    ask: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut tries = Tries::within(limit);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(outage) => {
                if !tries.again().await {
                    return Err(StoreError::Outage(outage));
                }
            }
        }
    }
}

/// Whether an error says that a stream is not there. During an election it means that nobody leads it.
pub(super) fn not_found(error: &jetstream::Error) -> bool {
    error.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_never_taken_for_a_conflict() {
        assert_eq!(refusal(10_071, String::new()), Heard::Taken);
        for busy in [10_164, 10_158] {
            assert_eq!(refusal(busy, String::new()), Heard::Busy);
        }
        for full in [10_047, 10_023, 10_002, 10_028] {
            assert_eq!(refusal(full, String::new()), Heard::Refused(Outage::Full));
        }
        let full = refusal(10_077, "maximum bytes exceeded".to_owned());
        assert_eq!(full, Heard::Refused(Outage::Full));
        // What is not known may have been stored.
        for unknown in [0, 10_008, 10_059, 10_077, 99_999] {
            assert_eq!(refusal(unknown, "no".to_owned()), Heard::Silence);
        }
    }

    #[test]
    fn an_acknowledgement_is_read() {
        let heard = |text: &str| meaning(serde_json::from_str(text).unwrap());
        assert_eq!(heard(r#"{"stream":"S","seq":7}"#), Heard::Stored(7));
        assert_eq!(heard(r#"{"stream":"S","seq":7,"duplicate":true}"#), Heard::Repeated(7));
        let taken = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}"#;
        assert_eq!(heard(taken), Heard::Taken);
    }
}
