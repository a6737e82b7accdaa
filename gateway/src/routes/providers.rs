//! Who can be asked here: the providers with what they can do and how their profiles fare, their models with prices, and a
//! look at one of them that costs nothing.

use crate::app::App;
use crate::config::variable;
use crate::error::{ApiError, Code};
use crate::extract::{Json as Body, Query};
use crate::wire;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use events::credential::ProviderId;
use futures_util::future::join_all;
use projections::credentials::Row;
use projections::usage::{By, Key, Line};
use providers::{Endpoint, pricing, registry};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/harness/providers", get(list))
        .route("/v1/harness/providers/{id}/test", post(test))
        .route("/v1/harness/models", get(models))
}

/// Every provider that has a profile or is configured, what it can do, and how its profiles fare, as this node knows it.
async fn list(State(app): State<App>) -> Json<Value> {
    let routing = app.routing();
    let standing = routing.standing().map(|(provider, _, _)| provider);
    let follower = app.credentials.follower();
    let mut ids: BTreeSet<String> = routing.configured().map(str::to_owned).collect();
    ids.extend(follower.all().into_iter().map(|(id, _)| id.to_string()));
    let kept = Kept::of(&app).await;
    let rows = ids.into_iter().map(|id| {
        let endpoint = app.answering.endpoint(&id);
        json!({
            "id": id,
            "object": "provider",
            "configured": routing.is_configured(&id),
            "default": standing == Some(id.as_str()),
            "capabilities": endpoint.map(wire::provider::capabilities),
            "profiles": profiles(&app, &id, &kept),
        })
    });
    let rows: Vec<Value> = rows.collect();
    let lag = u64::try_from(follower.lag().as_millis()).unwrap_or(u64::MAX);
    let last = app.fallbacks.last().map(|last| {
        json!({
            "role": last.role, "primary": last.primary, "fallback": last.fallback, "reason": last.reason,
            "at": wire::time::rfc3339(last.at),
        })
    });
    // The read model is behind for moments and may be out; the node's own count is neither.
    let known = app.projections.fallbacks().await.ok();
    let total = known.as_ref().map(|all| all.iter().map(|one| one.count).sum::<u64>());
    let fallbacks = known.unwrap_or_default().iter().map(wire::list::fallback).collect::<Value>();
    Json(json!({
        "object": "list", "count": rows.len(), "lag_ms": lag, "data": rows,
        "last_fallback": last, "fallback_count": app.fallbacks.count(), "fallback_total": total,
        "fallbacks": fallbacks, "problems": super::harness::problems(&routing),
    }))
}

/// What the read models keep of profiles; they are behind for moments and may be out.
struct Kept {
    histories: Vec<Row>,
    used: Vec<Line>,
}

impl Kept {
    async fn of(app: &App) -> Self {
        let histories = app.projections.credentials().await.map(|page| page.rows);
        let used = app.projections.usage(By::Profile).await.map(|totals| totals.lines);
        Self { histories: histories.unwrap_or_default(), used: used.unwrap_or_default() }
    }

    fn history(&self, id: &str, name: &str) -> Option<Value> {
        let is_it = |row: &&Row| row.provider.as_str() == id && row.name == name;
        let row = self.histories.iter().find(is_it)?;
        let mut used = self.used.iter();
        let used = used.find(|line| {
            matches!(&line.key, Key::Profile { provider, profile } if provider == id && profile == name)
        });
        Some(wire::credential::history(row, used.map(|line| &line.total)))
    }
}

fn profiles(app: &App, id: &str, kept: &Kept) -> Vec<Value> {
    let now = app.clock().now();
    let Ok(provider) = id.parse::<ProviderId>() else { return vec![] };
    let profiles = app.credentials.profiles(provider);
    let shown = profiles.iter().map(|(name, one)| {
        let mut shown = wire::credential::profile(provider, name, one, now);
        if let Some(map) = shown.as_object_mut() {
            map.insert("history".to_owned(), kept.history(id, name).unwrap_or_default());
        }
        shown
    });
    shown.collect()
}

/// Which models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    provider: Option<String>,
}

/// The models that are known by name, each under its resolved id with what the table of prices says of it and as of when.
/// Any other name of a configured provider is passed on to it.
///
/// # Errors
///
/// 400 for a provider that is none.
async fn models(
    State(app): State<App>,
    Query(Of { provider }): Query<Of>,
) -> Result<Json<Value>, ApiError> {
    let wanted = provider.map(|text| resolved(&app, &text)).transpose()?;
    let names = app.models();
    let named = names.iter().filter_map(|name| name.split_once(':'));
    let of = named.filter(|(id, _)| wanted.as_ref().is_none_or(|wanted| wanted == id));
    let rows: Vec<Value> = of.map(|(id, model)| wire::provider::model(id, model)).collect();
    let routing = app.routing();
    let standing = routing.standing();
    let (as_of, source) = pricing::source();
    Ok(Json(json!({
        "object": "list", "count": rows.len(), "data": rows,
        "default_provider": standing.map(|(provider, _, _)| provider),
        "default_model": standing.and_then(|(_, model, _)| model),
        "prices_as_of": as_of, "prices_source": source,
    })))
}

/// The id of a provider that this build or this node knows, by id or alias.
fn resolved(app: &App, text: &str) -> Result<String, ApiError> {
    if app.answering.endpoint(text).is_some() {
        return Ok(text.to_owned());
    }
    let known = registry::provider(text);
    known
        .map(|known| known.id.to_owned())
        .map_err(|error| ApiError::new(Code::InvalidRequest, error.to_string()).param("provider"))
}

/// What to look at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Looked {
    profile: Option<String>,
}

/// Asks a provider for its models with each of its profiles, or with one: whether address and key are right, and how long
/// it takes. It asks no model, costs nothing, and changes nothing of what is known of the profiles.
///
/// # Errors
///
/// 400 for a provider that is none, 404 for a profile that is not there, 503 for a provider without an address here.
async fn test(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(Looked { profile }): Body<Looked>,
) -> Result<Json<Value>, ApiError> {
    let id = resolved(&app, &id)?;
    let Some(endpoint) = app.answering.endpoint(&id) else {
        let variable = variable(&format!("providers.{id}.base_url"));
        let why = format!("provider {id} has no address here: set {variable}");
        return Err(ApiError::new(Code::RouteUnconfigured, why));
    };
    let known = id.parse::<ProviderId>().ok();
    let names: Vec<String> =
        known.map(|id| app.credentials.profiles(id).into_keys().collect()).unwrap_or_default();
    let rows = match (profile, known) {
        (Some(name), Some(known)) if names.contains(&name) => {
            vec![look_with(&app, endpoint, known, &name).await]
        }
        (Some(name), _) => {
            let why = format!(
                "provider {id} has no profile {name}: `piton auth ls` lists those there are"
            );
            return Err(ApiError::new(Code::NotFound, why));
        }
        (None, Some(known)) if !names.is_empty() => {
            join_all(names.iter().map(|name| look_with(&app, endpoint, known, name))).await
        }
        (None, _) => vec![look(&app, endpoint, None).await],
    };
    Ok(Json(json!({"object": "list", "provider": id, "count": rows.len(), "data": rows})))
}

/// Of whom nobody can tell without a model call: the address is not asked, and the key not either.
fn unlisted(endpoint: &Endpoint, profile: Option<&str>) -> Value {
    let provider = &endpoint.provider;
    let why = format!(
        "it lists no models, so nothing was asked: `piton providers test {provider} --call MODEL` makes one real call"
    );
    looked(endpoint, profile, &json!({"message": why}))
}

async fn look_with(app: &App, endpoint: &Endpoint, provider: ProviderId, name: &str) -> Value {
    match app.credentials.key(provider, name).await {
        Ok(key) => {
            let endpoint = Endpoint { key: Some(key), ..endpoint.clone() };
            look(app, &endpoint, Some(name)).await
        }
        Err(why) => looked(endpoint, Some(name), &json!({"ok": false, "message": why.to_string()})),
    }
}

async fn look(app: &App, endpoint: &Endpoint, profile: Option<&str>) -> Value {
    if !endpoint.lists_models() {
        return unlisted(endpoint, profile);
    }
    let began = app.clock().now();
    let found = app.answering.client().models(endpoint).await;
    let latency = app.clock().now().since(began).0;
    let said = match found {
        Ok(models) => json!({"ok": true, "latency_ms": latency, "models": models.len()}),
        Err(failure) => json!({
            "ok": false, "latency_ms": latency, "class": failure.class.name(), "status": failure.status,
            "message": failure.message,
        }),
    };
    looked(endpoint, profile, &said)
}

fn looked(endpoint: &Endpoint, profile: Option<&str>, said: &Value) -> Value {
    let of = |name: &str| said.get(name).cloned().unwrap_or_default();
    json!({
        "provider": endpoint.provider, "profile": profile, "asked": "models", "ok": of("ok"),
        "latency_ms": of("latency_ms"), "models": of("models"), "class": of("class"), "status": of("status"),
        "message": of("message"),
    })
}
