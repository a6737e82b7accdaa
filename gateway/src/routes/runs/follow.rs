//! `GET /v1/runs/{id}/events`: one run's events as they come, for any number of readers.
//!
//! The journal is read from the reader's own cursor; a notice only means "look again". Deltas ride along between the
//! events and are best effort: a gap is marked, also the one that the way from another node left, and what a dead attempt had handed out is discarded openly before the
//! next one speaks. It is pulled: a slow reader slows nobody, it only finds a gap.

use super::{observe, run_id};
use crate::app::App;
use crate::error::{ApiError, Code};
use crate::extract::Query;
use crate::stream::sse;
use crate::wire::live;
use actors::live::{Found, Reader, Whole};
use actors::order::Observed;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use events::aggregate::Aggregate;
use events::id::RunId;
use events::record::{Recorded, Version};
use events::run::step::CallNo;
use events::run::{Event, Run};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::str::FromStr;
use tokio::sync::watch;

/// Commits that are read at a time.
const PAGE: usize = 64;

/// A reader's place: after this version, and within the call that is open there, after this delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Cursor {
    version: Version,
    delta: Option<(CallNo, u64)>,
}

/// The text is not a place in a run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a place in a run: give VERSION or VERSION.ATTEMPT.NUMBER as in the ids of its events"
)]
struct NotACursor(String);

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let bad = || NotACursor(text.chars().take(80).collect());
        let mut parts = text.trim().split('.');
        let version =
            parts.next().and_then(|part| part.parse().ok()).map(Version).ok_or_else(bad)?;
        let delta = match (parts.next(), parts.next(), parts.next()) {
            (None, None, None) => None,
            (Some(call), Some(number), None) => {
                let call = call.parse().map(CallNo).map_err(|_| bad())?;
                Some((call, number.parse().map_err(|_| bad())?))
            }
            (Some(_) | None, _, _) => return Err(bad()),
        };
        Ok(Self { version, delta })
    }
}

/// Where a reader begins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    from: Option<String>,
}

/// Streams a run's events. Each event's id is its version, the same for every reader; `Last-Event-ID` or `?from=`
/// resumes after it. The stream ends with the run.
///
/// # Errors
///
/// 400 for a malformed id or place, 404 for an unknown run.
pub async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<From>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = run_id(&id)?;
    let observed = observe(&app, id).await?;
    let asked = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
        .or(query.from);
    let cursor: Cursor = match asked.as_deref() {
        None | Some("") => Cursor::default(),
        Some(text) => text
            .parse()
            .map_err(|bad: NotACursor| ApiError::new(Code::InvalidRequest, bad.to_string()))?,
    };
    if cursor.version > observed.version {
        let (asked, have) = (cursor.version.0, observed.version.0);
        let why = format!(
            "run {id} has {have} events, the cursor is after number {asked}: begin again without it"
        );
        return Err(ApiError::new(Code::InvalidRequest, why));
    }
    let follow = Follow::new(app, id, (cursor, observed.version));
    let frames = stream::unfold(follow, |mut follow| async move {
        let bytes = follow.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), follow))
    });
    let headers = [(header::CONTENT_TYPE, sse::CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(frames)).into_response())
}

struct Follow {
    app: App,
    id: RunId,
    cursor: Cursor,
    /// Up to where the journal was read; it begins at the start, for a place says neither step nor call.
    read: Version,
    step: u32,
    /// The call that is open there.
    open: Option<CallNo>,
    /// Whether all of the journal was read.
    is_level: bool,
    /// How far the run was when the reader came; what was said up to there is asked for once.
    began: Version,
    has_asked: bool,
    reader: Reader,
    /// Pieces that were read and whose turn has not come.
    waiting: VecDeque<Found>,
    beliefs: Option<watch::Receiver<Observed<Run>>>,
    is_over: bool,
}

impl Follow {
    fn new(app: App, id: RunId, (cursor, began): (Cursor, Version)) -> Self {
        let reader = app.live.reader(id);
        Self {
            app,
            id,
            cursor,
            read: Version::EMPTY,
            step: 0,
            open: None,
            is_level: false,
            began,
            has_asked: false,
            reader,
            waiting: VecDeque::new(),
            beliefs: None,
            is_over: false,
        }
    }

    /// The next bytes to send; `None` when the run is over, or the node stops and the reader is to come back.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            let mut out = BytesMut::new();
            match self.look(&mut out).await {
                Ok(()) => (),
                Err(error) => {
                    self.is_over = true;
                    put(
                        &mut out,
                        None,
                        "error",
                        &json!({"code": error.code().name(), "message": error.message()}),
                    );
                }
            }
            if !out.is_empty() {
                return Some(out.freeze());
            }
            if let Some(keep_alive) = self.wait().await? {
                return Some(keep_alive);
            }
        }
    }

    async fn look(&mut self, out: &mut BytesMut) -> Result<(), ApiError> {
        // The notice is taken before the log is read: what comes in between is seen by the next look.
        if let Some(beliefs) = &mut self.beliefs {
            beliefs.mark_unchanged();
        }
        let page = self.app.store().read(&Run::stream(&self.id), self.read, PAGE).await?;
        self.is_level = page.len() < PAGE;
        // Taken after the log was read: what belongs to a call that closes later waits for its turn.
        self.waiting.extend(self.reader.take());
        for recorded in page {
            self.commit(out, &recorded).await?;
            self.read = recorded.commit.last_version();
        }
        if !self.is_over && self.is_level {
            self.deltas(out);
        }
        Ok(())
    }

    async fn commit(&mut self, out: &mut BytesMut, recorded: &Recorded) -> Result<(), ApiError> {
        for (version, entry) in (recorded.commit.first_version.0..).zip(&recorded.commit.entries) {
            let bytes = self.app.store().payload(entry).await?;
            let event =
                Event::decode(entry.kind, entry.schema, &bytes).map_err(ApiError::unreadable)?;
            let behind = version <= self.cursor.version.0;
            if event.closes().is_some() && !behind {
                let whole = self.rest(version).await;
                self.deltas(out);
                if whole == Whole::Unsure && self.open.is_some() && said_something(&event) {
                    put(out, None, "message.gap", &json!({"dropped": null}));
                }
            }
            self.now(&event);
            if behind {
                continue;
            }
            if let Some(discarded) = live::discarded(&event, self.step) {
                put(out, None, "message.discarded", &discarded);
            }
            self.cursor = Cursor { version: Version(version), delta: None };
            let data = self.data(&event).await?;
            put(out, Some(&version.to_string()), live::name(&event), &data);
        }
        Ok(())
    }

    /// Takes what was said before an event of the log; it may come later than the event, from another node.
    async fn rest(&mut self, version: u64) -> Whole {
        let is_old = version <= self.began.0;
        if is_old && self.has_asked {
            return Whole::Yes;
        }
        self.has_asked = true;
        let whole = self.reader.whole().await;
        self.waiting.extend(self.reader.take());
        // Of a call that ended before the reader came nobody may have anything left.
        if is_old { Whole::Yes } else { whole }
    }

    async fn data(&mut self, event: &Event) -> Result<Value, ApiError> {
        let data = live::data(self.id, event);
        let Event::Finished(_) = event else { return Ok(data) };
        self.is_over = true;
        let observed = self.app.observe::<Run>(self.id).await?;
        Ok(live::end(&data, &observed.state))
    }

    /// Which call is open after an event.
    fn now(&mut self, event: &Event) {
        if let Event::ModelAsked(asked) = event {
            (self.step, self.open) = (asked.step, Some(asked.call));
        }
        if event.closes().is_some() {
            self.open = None;
        }
    }

    /// Writes the pieces of the open call. Those of earlier ones are told by their own events; those of later ones
    /// wait for theirs.
    fn deltas(&mut self, out: &mut BytesMut) {
        let Some(open) = self.open else { return };
        while let Some(found) = self.waiting.pop_front() {
            match found {
                Found::Delta(delta) if delta.call > open => {
                    self.waiting.push_front(Found::Delta(delta));
                    return;
                }
                Found::Delta(delta) => {
                    let place = (delta.call, delta.number);
                    if delta.call < open || self.cursor.delta.is_some_and(|seen| place <= seen) {
                        continue;
                    }
                    let next = match self.cursor.delta {
                        Some((call, number)) if call == delta.call => number.saturating_add(1),
                        Some(_) | None => 0,
                    };
                    if delta.number > next {
                        put(out, None, "message.gap", &json!({"dropped": delta.number - next}));
                    }
                    self.cursor.delta = Some(place);
                    let id = format!("{}.{}.{}", self.cursor.version.0, delta.call.0, delta.number);
                    let (name, data) = live::delta(&delta);
                    put(out, Some(&id), name, &data);
                }
                // The number of the next piece tells it, and whether it is before the reader's own place.
                Found::Gap => (),
            }
        }
    }

    /// Waits for something new; the bytes of a keep-alive if nothing came, `None` when the node stops.
    async fn wait(&mut self) -> Option<Option<Bytes>> {
        if !self.is_level {
            return Some(None);
        }
        if self.beliefs.is_none() {
            // A host that has just been asked may already be further than the page that was read: look again.
            self.beliefs = self.app.watch::<Run>(self.id).await.ok();
            if self.beliefs.is_some() {
                return Some(None);
            }
        }
        if let Some(beliefs) = &self.beliefs {
            let newest = beliefs.borrow();
            // Whoever resumes behind the last event of a run that is over has nothing to wait for.
            if self.is_level
                && newest.state.ended().is_some()
                && self.cursor.version >= newest.version
            {
                return None;
            }
        }
        let Self { app, reader, beliefs, .. } = self;
        let mut stopping = app.stopping.clone();
        let belief = async {
            match beliefs {
                Some(beliefs) => beliefs.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = reader.changed() => (),
            lives = belief => if !lives { self.beliefs = None },
            () = tokio::time::sleep(sse::KEEP_ALIVE_EVERY) => return Some(Some(sse::keep_alive())),
            _stop = stopping.wait_for(|stopping| *stopping) => return None,
        }
        Some(None)
    }
}

/// Whether an event ends a call whose text stands, so that a piece that did not come is missed.
const fn said_something(event: &Event) -> bool {
    matches!(event, Event::ModelAnswered(_))
}

fn put(out: &mut BytesMut, id: Option<&str>, name: &str, data: &Value) {
    let text = data.to_string();
    let event = sse::Event { id, event: Some(name), data: &text };
    if let Err(error) = sse::write(out, &event) {
        // The one event that can not be shown is said to be there; the journal has it whole.
        let told = json!({"code": "event_too_large", "message": error.to_string()}).to_string();
        let _written = sse::write(out, &sse::Event { id, event: Some("error"), data: &told });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_version_or_a_delta_after_one() {
        let version = Cursor { version: Version(7), delta: None };
        assert_eq!("7".parse(), Ok(version));
        let delta = Cursor { version: Version(3), delta: Some((CallNo(1), 12)) };
        assert_eq!("3.1.12".parse(), Ok(delta));
        for bad in ["", "x", "1.2", "1.2.3.4", "1.x.3", "-1"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
