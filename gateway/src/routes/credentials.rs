//! Provider credentials: added, rotated, marked, removed and shown, never read back. The secret goes to the vault first;
//! what the stream says of it is its revision.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code, chain};
use crate::extract::{Query, Whole};
use crate::wire;
use actors::credentials::{Held, NotHeld};
use actors::order::Lane;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Json, Router};
use events::credential::{
    Added, Command, Credential, ENVIRONMENT, ProviderId, Refusal, Removed, Rotated, State as Folded,
};
use events::quantity::{Instant, Millis};
use events::record::Actor;
use providers::login::Tokens;
use providers::registry;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use store::vault::{Name, Revision, Vault, VaultError};

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/harness/credentials", post(change).delete(remove))
        .route("/v1/cluster/rotate-key", post(rotate_key))
}

/// The body of `POST /v1/harness/credentials`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    action: Action,
    provider: String,
    profile: String,
    /// An API key.
    key: Option<String>,
    /// The tokens of a login.
    login: Option<Login>,
    /// The file of another program that keeps a login: Codex's `auth.json`.
    follow: Option<PathBuf>,
}

/// The tokens of a login.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    access_token: String,
    refresh_token: String,
    account_id: Option<String>,
    expires_at_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Add,
    Rotate,
    MarkDead,
    Revive,
}

/// The query of `DELETE /v1/harness/credentials`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    provider: String,
    profile: String,
}

fn invalid(why: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidRequest, why)
}

/// A provider that this build knows, by id or alias.
fn known(text: &str) -> Result<ProviderId, ApiError> {
    let provider = registry::provider(text).map_err(|error| invalid(error.to_string()))?;
    provider.id.parse().map_err(|error| invalid(format!("{error}")))
}

fn vault(app: &App) -> Result<&Vault, ApiError> {
    app.credentials.vault().ok_or_else(|| {
        let why = "this node of a cluster has no vault: give it the cluster key file (nats.cluster_key, --cluster-key)";
        ApiError::new(Code::VaultUnusable, why)
    })
}

fn name(provider: ProviderId, profile: &str) -> Result<Name, ApiError> {
    if profile == ENVIRONMENT {
        return Err(invalid(
            "env is the profile of the environment's key: change the variable and start the node anew",
        ));
    }
    Name::of_credential(provider.as_str(), profile)
        .map_err(|_| invalid(Refusal::BadName.to_string()))
}

/// The body, of whose faults no message quotes a value: one of them is a key.
fn read(bytes: &[u8]) -> Result<Asked, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        invalid(format!(
            "the body is not {{action?, provider, profile, key?|login?|follow?}} at line {line}, column {column}; an action is add, rotate, mark_dead or revive"
        ))
    })
}

/// Adds a profile, puts another key into one, or says whether one is to be used.
///
/// # Errors
///
/// 400 for a provider or name that is none, 404 for a profile that is not there, 409 for one that is, 503 without a vault.
pub async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Whole(bytes): Whole,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Asked { action, provider, profile, key, login, follow } = read(&bytes)?;
    let provider = known(&provider)?;
    let secret = || match (key, login, follow) {
        (Some(key), None, None) => self::key(&key),
        (None, Some(login), None) => tokens(provider, login),
        (None, None, Some(path)) => following(&app, provider, &path),
        (None, None, None) => Err(invalid("key: give the provider's key, or login, or follow")),
        (_, _, _) => Err(invalid("give one of key, login and follow")),
    };
    let (status, state) = match action {
        Action::Add => {
            (StatusCode::CREATED, add(&app, &caller, (provider, &profile), &secret()?).await?)
        }
        Action::Rotate => {
            (StatusCode::OK, rotate(&app, &caller, (provider, &profile), &secret()?).await?)
        }
        Action::MarkDead => {
            let command = Command::MarkDead(Removed { profile: profile.clone() });
            (StatusCode::OK, decide(&app, caller.actor, provider, command).await?)
        }
        Action::Revive => {
            let command = Command::Revive(Removed { profile: profile.clone() });
            (StatusCode::OK, decide(&app, caller.actor, provider, command).await?)
        }
    };
    let shown = state.profiles.get(&profile);
    let now = app.clock().now();
    let shown = shown.map(|one| wire::credential::profile(provider, &profile, one, now));
    Ok((status, Json(json!({"provider": provider.as_str(), "profile": shown}))))
}

fn key(key: &str) -> Result<Held, ApiError> {
    match key.trim() {
        "" => Err(invalid("key: give the provider's key")),
        key if key.chars().all(|c| c.is_ascii_graphic()) => Ok(Held::key(key)),
        _ => Err(invalid("key: a key has visible ASCII characters only")),
    }
}

/// A provider that somebody can log in to.
fn has_login(provider: ProviderId) -> Result<(), ApiError> {
    let why = || invalid(format!("{provider} takes a key: nobody logs in to it"));
    registry::issuer(provider.as_str()).map(drop).ok_or_else(why)
}

fn tokens(provider: ProviderId, login: Login) -> Result<Held, ApiError> {
    has_login(provider)?;
    let Login { access_token, refresh_token, account_id, expires_at_ms } = login;
    let tokens = Tokens::new(access_token, refresh_token, account_id)
        .ok_or_else(|| invalid("login: a token has visible ASCII characters, 8192 at most"))?;
    let said = expires_at_ms.map(|millis| Instant(0).after(Millis(millis)));
    let expires = said.or(tokens.expires);
    Ok(Held::login(&Tokens { expires, ..tokens }))
}

fn following(app: &App, provider: ProviderId, path: &Path) -> Result<Held, ApiError> {
    has_login(provider)?;
    if app.cluster.is_some() {
        return Err(invalid(
            "follow: the file is one machine's, and every node of a cluster would need it: log in, or import without --follow",
        ));
    }
    Held::following(path).map_err(|error: NotHeld| invalid(chain(&error)))
}

async fn decide(
    app: &App,
    actor: Actor,
    provider: ProviderId,
    command: Command,
) -> Result<std::sync::Arc<Folded>, ApiError> {
    let order = app.order(command, actor, Lane::Data);
    Ok(app.decide::<Credential>(provider, order).await?.state)
}

/// The value first: without one a profile would be used and have no key. If this process dies in between, the next start
/// finds the value and adds its profile; whoever tries again with the same key goes on from there.
async fn add(
    app: &App,
    caller: &Caller,
    (provider, profile): (ProviderId, &str),
    secret: &Held,
) -> Result<std::sync::Arc<Folded>, ApiError> {
    let (vault, name) = (vault(app)?, name(provider, profile)?);
    let there = app.observe::<Credential>(provider).await?;
    if there.state.profiles.contains_key(profile) {
        return Err(Refusal::Exists.into());
    }
    let revision = match vault.put(&name, &secret.value, Revision::NONE).await {
        Ok(revision) => revision,
        // What an earlier try put there and nobody recorded: its caller tries again.
        Err(conflict @ VaultError::Conflict { .. }) => match vault.get(&name).await? {
            Some(kept) if kept.value == secret.value => kept.revision,
            // Not written over: it may be somebody's who adds it in this moment.
            Some(_) => {
                let why = format!(
                    "the vault holds another secret for {provider} {profile}, of which no profile was made: remove it first (`piton auth rm {provider} {profile}`), and add yours again"
                );
                return Err(ApiError::new(Code::CredentialConflict, why));
            }
            None => return Err(conflict.into()),
        },
        Err(error) => return Err(error.into()),
    };
    app.credentials.forget(provider, profile);
    let (by, kind, expires) = (caller.actor, secret.kind, secret.expires);
    let revision = secret.revision(revision);
    let added = Added { profile: profile.to_owned(), kind, by, revision, expires };
    let order = app.order(Command::Add(added), caller.actor, Lane::Data);
    match app.ask::<Credential>(provider, order).await? {
        Ok(observed) => Ok(observed.state),
        // Somebody else's try of the same; the value is in use.
        Err(refusal @ Refusal::Exists) => Err(refusal.into()),
        Err(refusal) => {
            // It never became a profile.
            vault.remove(&name).await?;
            Err(refusal.into())
        }
    }
}

async fn rotate(
    app: &App,
    caller: &Caller,
    (provider, profile): (ProviderId, &str),
    secret: &Held,
) -> Result<std::sync::Arc<Folded>, ApiError> {
    let (vault, name) = (vault(app)?, name(provider, profile)?);
    let there = app.observe::<Credential>(provider).await?;
    let known = there.state.profiles.get(profile).ok_or(Refusal::NoSuchProfile)?;
    if known.kind != secret.kind {
        let (is, given) = (wire::credential::kind(known.kind), wire::credential::kind(secret.kind));
        let why = format!(
            "profile {profile} of {provider} is of kind {is}, and what is given is of kind {given}: remove it first (`piton auth rm {provider} {profile}`), or give another name"
        );
        return Err(ApiError::new(Code::CredentialConflict, why));
    }
    let stands = match vault.get(&name).await {
        Ok(kept) => kept.map_or(Revision::NONE, |kept| kept.revision),
        // A value that nobody can read any more is written over.
        Err(
            VaultError::Tampered { .. } | VaultError::Swapped { .. } | VaultError::Strange { .. },
        ) => Revision::NONE,
        Err(error) => return Err(error.into()),
    };
    let revision = secret.revision(vault.put(&name, &secret.value, stands).await?);
    app.credentials.forget(provider, profile);
    let rotated = Rotated { profile: profile.to_owned(), revision, expires: secret.expires };
    decide(app, caller.actor, provider, Command::Rotate(rotated)).await
}

/// Forgets a profile. The value goes first: one that was left would be found by the next start and added again.
///
/// # Errors
///
/// 400 for a provider or name that is none, 503 without a vault.
pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(Which { provider, profile }): Query<Which>,
) -> Result<StatusCode, ApiError> {
    let provider = known(&provider)?;
    vault(&app)?.remove(&name(provider, &profile)?).await?;
    let removed = Removed { profile: profile.clone() };
    decide(&app, caller.actor, provider, Command::Remove(removed)).await?;
    app.credentials.forget(provider, &profile);
    Ok(StatusCode::NO_CONTENT)
}

/// Seals every value of the vault under the newest cluster key.
///
/// # Errors
///
/// 503 for a node without a vault of a cluster, or one whose key file can not be read.
pub async fn rotate_key(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let Vault::Bucket(bucket) = vault(&app)? else {
        let why = "this node keeps its credentials in a file of its own, which has no cluster key";
        return Err(ApiError::new(Code::VaultUnusable, why));
    };
    let done = bucket.rotate().await?;
    tracing::info!(
        key = done.key,
        resealed = done.resealed,
        values = done.values,
        "vault_resealed"
    );
    Ok(Json(json!({
        "object": "rotation",
        "key": done.key,
        "resealed": done.resealed,
        "values": done.values,
        "droppable": done.droppable,
    })))
}
