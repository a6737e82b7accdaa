//! A run's one stream as it is stored: exported, checked, re-driven.

use super::{observe, run_id};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Query;
use crate::wire;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use events::aggregate::Aggregate;
use events::id::RunId;
use events::record::{Recorded, StreamKey, Version};
use events::run::replay::{self, Logic};
use events::run::{Event, Run, State as Folded};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Commits that are read at a time.
const PAGE: usize = 64;

async fn page(
    app: &App,
    stream: &StreamKey,
    after: Version,
) -> Result<Vec<(Recorded, Vec<Arc<[u8]>>)>, ApiError> {
    let commits = app.store().read(stream, after, PAGE).await?;
    let mut whole = Vec::with_capacity(commits.len());
    for recorded in commits {
        let mut payloads = Vec::with_capacity(recorded.commit.entries.len());
        for entry in &recorded.commit.entries {
            payloads.push(app.store().payload(entry).await?);
        }
        whole.push((recorded, payloads));
    }
    Ok(whole)
}

/// Where an export begins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// Behind this version; at the first one where nobody says.
    after: Option<u64>,
}

/// The run's commits as lines of JSON, oldest first; with `?after=VERSION`, those that end behind it.
///
/// # Errors
///
/// 404 for an unknown run; a stream that breaks off ends with a line that says so.
pub async fn export(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(from): Query<From>,
) -> Result<Response, ApiError> {
    let id = run_id(&id)?;
    observe(&app, id).await?;
    Ok(lines(app, Run::stream(&id), &from))
}

/// A stream's commits as lines of JSON.
pub fn lines(app: App, key: StreamKey, from: &From) -> Response {
    let begin = from.after.map_or(Version::EMPTY, Version);
    let lines = stream::unfold(Some(begin), move |cursor| {
        let (app, key) = (app.clone(), key.clone());
        async move {
            let after = cursor?;
            match page(&app, &key, after).await {
                Ok(found) => {
                    let (last, _) = found.last()?;
                    let next = last.commit.last_version();
                    let mut text = Vec::new();
                    for (recorded, payloads) in &found {
                        text.extend_from_slice(
                            wire::journal::commit(recorded, payloads).to_string().as_bytes(),
                        );
                        text.push(b'\n');
                    }
                    Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), Some(next)))
                }
                Err(error) => {
                    let line =
                        json!({"error": {"code": error.code().name(), "message": error.message()}});
                    Some((Ok(Bytes::from(format!("{line}\n"))), None))
                }
            }
        }
    });
    let body = Body::from_stream(lines);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// What a walk over a run's stream found.
#[derive(Debug, Default)]
struct Walk {
    commits: u64,
    entries: u64,
    head: Option<String>,
    logic: Option<Logic>,
    problem: Option<Value>,
}

/// Whether decisions are decided again, or only links and folds are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Chain,
    Decisions,
}

/// The store checks hashes and links while it reads; what is left is whether each event may follow, and whether the
/// rules decide it again.
async fn walk(app: &App, id: RunId, depth: Depth) -> Result<Walk, ApiError> {
    let mut walk = Walk::default();
    let (mut state, mut after) = (Folded::default(), Version::EMPTY);
    loop {
        let found = page(app, &Run::stream(&id), after).await?;
        let Some((last, _)) = found.last() else { return Ok(walk) };
        after = last.commit.last_version();
        for (recorded, payloads) in found {
            let problem = match re_drive(&mut state, &recorded, &payloads, depth, &mut walk.logic) {
                Ok(()) => None,
                Err(why) => Some(json!({
                    "position": recorded.position.to_string(),
                    "first_version": recorded.commit.first_version.0,
                    "what": why,
                })),
            };
            walk.commits += 1;
            walk.entries += u64::try_from(payloads.len()).unwrap_or(u64::MAX);
            walk.head = Some(recorded.hash.to_string());
            if problem.is_some() {
                walk.problem = problem;
                return Ok(walk);
            }
        }
    }
}

fn re_drive(
    state: &mut Folded,
    recorded: &Recorded,
    payloads: &[Arc<[u8]>],
    depth: Depth,
    logic: &mut Option<Logic>,
) -> Result<(), String> {
    let entries = recorded.commit.entries.iter().zip(payloads);
    let events: Vec<Event> = entries
        .map(|(entry, bytes)| {
            Event::decode(entry.kind, entry.schema, bytes).map_err(|error| error.to_string())
        })
        .collect::<Result<_, _>>()?;
    let first = events.first().ok_or("a commit without entries")?;
    let met = *logic.get_or_insert_with(|| replay::logic(first));
    let used = match depth {
        Depth::Decisions => met,
        // Structure only, whatever the number.
        Depth::Chain => Logic::Other { recorded: 0, here: 0 },
    };
    let folded = std::mem::take(state);
    *state = replay::commit(folded, &events, recorded.commit.at, used)
        .map_err(|difference| difference.to_string())?;
    Ok(())
}

fn report(id: RunId, walk: &Walk) -> Value {
    json!({
        "run_id": id.to_string(),
        "ok": walk.problem.is_none(),
        "commits": walk.commits,
        "entries": walk.entries,
        "head": walk.head,
        "problem": walk.problem,
    })
}

/// Checks the run's chain: every stored byte against its hash, every link, and that each event may follow.
///
/// # Errors
///
/// 404 for an unknown run; 500 `integrity` for stored bytes that do not read.
pub async fn verify(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = run_id(&id)?;
    observe(&app, id).await?;
    Ok(Json(report(id, &walk(&app, id, Depth::Chain).await?)))
}

/// Re-drives the run over its recorded outcomes and compares each decision and request hash.
///
/// # Errors
///
/// 404 for an unknown run; 500 `integrity` for stored bytes that do not read.
pub async fn replay(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = run_id(&id)?;
    observe(&app, id).await?;
    let walk = walk(&app, id, Depth::Decisions).await?;
    let logic = match walk.logic {
        Some(Logic::Other { recorded, here }) => {
            json!({"same": false, "recorded": recorded, "here": here})
        }
        Some(Logic::Same) | None => json!({"same": true}),
    };
    let mut report = report(id, &walk);
    if let Some(map) = report.as_object_mut() {
        map.insert("logic".to_owned(), logic);
    }
    Ok(Json(report))
}
