//! The credentials of a node: its vault, what all nodes know of the profiles, and the way of what it sees to their owners.

use super::journal::Clustered;
use super::patience::until_it_reads;
use super::providers::Found;
use super::{BootError, Stop};
use crate::app::App;
use crate::config::Config;
use crate::error::ApiError;
use crate::metric;
use actors::clock::Clock;
use actors::credentials::{self, Credentials, Errand, Held};
use actors::follower::{Follower, FollowerError};
use actors::node::Node;
use actors::order::{Lane, NoDecision};
use actors::perform::credential;
use actors::task;
use events::credential::{
    Added, Command, Credential, Death, ENVIRONMENT, Forbidden, Health, Kind, Profile, ProviderId,
    Removed, Rotated,
};
use events::quantity::{Instant, Millis};
use events::record::Actor;
use providers::registry;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Store;
use store::vault::{Bucket, CredentialFile, KeyFile, OpenBucket, Vault, VaultError};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Errands under way at the same time.
const AT_ONCE: usize = 64;
/// The wait before what could not be done is tried again.
const AGAIN: Millis = Millis(1_000);

/// Why a node has no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The vault. Mend the file, or give the right cluster key.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The streams.
    #[error("the profiles of the providers can not be read from the journal")]
    Streams(#[from] FollowerError),
}

/// The credentials, and what keeps them going.
pub(super) struct Opened {
    pub(super) credentials: Arc<Credentials>,
    errands: mpsc::Receiver<Errand>,
    tasks: Vec<JoinHandle<()>>,
}

pub(super) async fn open(
    config: &Config,
    store: &Store,
    found: &Found,
    clustered: Option<&Clustered>,
) -> Result<Opened, BootError> {
    Ok(until_it_reads(async || opened(config, store, found, clustered).await).await?)
}

async fn opened(
    config: &Config,
    store: &Store,
    found: &Found,
    clustered: Option<&Clustered>,
) -> Result<Opened, CredentialsError> {
    let vault = vault(config, clustered).await?;
    let known = registry::providers().filter_map(|provider| provider.id.parse().ok());
    let (follower, tasks) = Follower::start(store.clone(), known).await?;
    let key = |(id, endpoint): (&String, &providers::Endpoint)| {
        Some((id.parse::<ProviderId>().ok()?, endpoint.key.clone()?))
    };
    let environment: BTreeMap<_, _> = found.endpoints.iter().filter_map(key).collect();
    let forbidden = if config.dead_on_403 { Forbidden::Kills } else { Forbidden::Cools };
    let clock = Clock::System;
    let parts = credentials::Parts { follower, vault, environment, forbidden, clock };
    let (credentials, errands) = Credentials::new(parts);
    Ok(Opened { credentials: Arc::new(credentials), errands, tasks })
}

/// What the owners of credentials need for refreshes.
pub(super) fn world(node: &Node, found: &Found, credentials: &Credentials) -> credential::World {
    credential::World {
        client: found.client.clone(),
        vault: credentials.vault().cloned(),
        issuers: found.issuers.clone(),
        clock: node.clock.clone(),
        one: Arc::default(),
    }
}

async fn vault(
    config: &Config,
    clustered: Option<&Clustered>,
) -> Result<Option<Vault>, VaultError> {
    let Some(Clustered { nats, servers, .. }) = clustered else {
        let vault = Vault::File(CredentialFile::at(&config.credentials_path));
        // One that others may read, or that does not read, is said at the start and not at the first call.
        vault.names().await?;
        return Ok(Some(vault));
    };
    let Some(path) = &nats.cluster_key else {
        tracing::info!(
            "no_vault: without nats.cluster_key this node uses the keys of its environment only"
        );
        return Ok(None);
    };
    let open = OpenBucket {
        servers: servers.clone(),
        namespace: nats.namespace.clone(),
        replicas: nats.replicas,
        keys: KeyFile::open(path)?,
    };
    Ok(Some(Vault::Bucket(Bucket::open(open).await?)))
}

/// Keeps them going until the node stops.
pub(super) fn begin(app: &App, opened: Opened, stop: &mut Stop) {
    let Opened { credentials: _, errands, tasks } = opened;
    tasks.into_iter().for_each(|task| stop.helper(task));
    stop.helper(task::spawn(task::Kind::Serve, carry(app.clone(), errands)));
    stop.helper(task::spawn(task::Kind::Serve, adopt(app.clone())));
}

/// Carries what was seen to the owners, for as long as the node lives.
async fn carry(app: App, mut errands: mpsc::Receiver<Errand>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(errand) = errands.recv().await {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let app = app.clone();
        task::spawn(task::Kind::Serve, async move {
            one(&app, errand).await;
            drop(permit);
        });
    }
}

async fn one(app: &App, errand: Errand) {
    let Errand { provider, command, agreed } = errand;
    let order = app.order(command, Actor::Node, Lane::Data);
    let answer = loop {
        match app.ask::<Credential>(provider, order.clone()).await {
            Err(NoDecision::Busy { retry_after }) if app.clock().now() < order.deadline => {
                app.clock().pause(retry_after).await;
            }
            answer => break answer,
        }
    };
    if let Err(why) = &answer {
        tracing::warn!(%provider, %why, "credential_unseen: what was seen of a profile is not recorded");
    }
    if let Some(agreed) = agreed {
        // Whoever waited may have gone.
        let _gone = agreed.send(matches!(answer, Ok(Ok(_)))).is_err();
    }
}

/// Tells the metrics whom a person must log in again, of each provider that has profiles.
pub(super) fn measure(credentials: &Credentials) {
    for (provider, known) in credentials.follower().all() {
        let lost = known.state.profiles.values().filter(|profile| needs_login(profile)).count();
        metric::need_login(provider.to_string(), u32::try_from(lost).unwrap_or(u32::MAX));
    }
}

/// Whether nobody can use a profile before a person has logged in: here, or where the file comes from that it follows.
const fn needs_login(profile: &Profile) -> bool {
    match (profile.health, profile.kind) {
        (Health::Dead { reason: Death::NeedsLogin(_), .. }, _) => true,
        (Health::Dead { reason: Death::ByHand, .. }, _) => false,
        (Health::Dead { .. }, Kind::Login | Kind::Followed) => true,
        (Health::Dead { .. }, Kind::ApiKey | Kind::Environment) | (Health::Alive, _) => false,
    }
}

/// Makes profiles of what the vault and the environment hold and no stream knows yet: a file that somebody wrote, a
/// value whose node died before it was recorded. Tried until it is done.
async fn adopt(app: App) {
    while let Err(error) = adopted(&app).await {
        tracing::warn!(error = %error.message(), "credentials_not_adopted yet");
        app.clock().pause(AGAIN).await;
    }
}

async fn adopted(app: &App) -> Result<(), ApiError> {
    let environment: BTreeMap<ProviderId, u64> = app.credentials.environment().collect();
    for (provider, mark) in &environment {
        let there = app.observe::<Credential>(*provider).await?;
        let profile = ENVIRONMENT.to_owned();
        let command = match there.state.profiles.get(ENVIRONMENT) {
            Some(known) if known.revision == *mark => continue,
            // Another key than before, of which nothing was seen.
            Some(_) => Command::Rotate(Rotated { profile, revision: *mark, expires: None }),
            None => {
                let (kind, by) = (Kind::Environment, Actor::Node);
                Command::Add(Added { profile, kind, by, revision: *mark, expires: None })
            }
        };
        decide(app, *provider, command).await?;
    }
    if app.cluster.is_none() {
        for (provider, known) in app.credentials.follower().all() {
            let gone = known.state.profiles.contains_key(ENVIRONMENT);
            if gone && !environment.contains_key(&provider) {
                let removed = Removed { profile: ENVIRONMENT.to_owned() };
                decide(app, provider, Command::Remove(removed)).await?;
            }
        }
    }
    let Some(vault) = app.credentials.vault() else { return Ok(()) };
    for name in vault.names().await? {
        let Some((provider, profile)) = name.credential() else { continue };
        let Ok(provider) = provider.parse::<ProviderId>() else { continue };
        let there = app.observe::<Credential>(provider).await?;
        let kept = match vault.get(&name).await {
            Ok(Some(kept)) => kept,
            Ok(None) => continue,
            Err(error @ VaultError::Outage(_)) => return Err(error.into()),
            // One value that nobody can read keeps the others from nobody.
            Err(error) => {
                tracing::warn!(%name, %error, "credential_not_adopted");
                continue;
            }
        };
        // What this build can not read may be a key that somebody wrote by hand: its first use says so.
        let held = Held::kept(&kept.value);
        let (kind, expires) =
            held.as_ref().map_or((Kind::ApiKey, None), |held| (held.kind, held.expires));
        let revision = held.map_or(kept.revision.0, |held| held.revision(kept.revision));
        let known = there.state.profiles.get(profile);
        if let Some(command) = found(known, profile, (kind, revision, expires)) {
            decide(app, provider, command).await?;
        }
    }
    Ok(())
}

/// What is to be recorded of a value in the vault: that of a profile which no stream knows, and one that was put there
/// later than what the stream knows of, by a process that died before it said so. What is followed is met when it is used.
fn found(
    known: Option<&Profile>,
    name: &str,
    (kind, revision, expires): (Kind, u64, Option<Instant>),
) -> Option<Command> {
    let profile = name.to_owned();
    match known {
        None => {
            let by = Actor::Node;
            Some(Command::Add(Added { profile, kind, by, revision, expires }))
        }
        Some(known) if known.kind != kind || known.revision >= revision => None,
        Some(_) => match kind {
            Kind::ApiKey | Kind::Login => {
                Some(Command::Rotate(Rotated { profile, revision, expires }))
            }
            Kind::Environment | Kind::Followed => None,
        },
    }
}

/// A refusal is told and passed over: asked again, the rules would say the same.
async fn decide(app: &App, provider: ProviderId, command: Command) -> Result<(), ApiError> {
    let order = app.order(command, Actor::Node, Lane::Data);
    if let Err(refusal) = app.ask::<Credential>(provider, order).await? {
        tracing::warn!(%provider, %refusal, "credential_not_adopted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::credential::LoginLost;

    #[test]
    fn whoever_needs_a_login_is_counted_and_a_dead_key_is_not() {
        let (at, lost) = (Instant(9), Death::NeedsLogin(LoginLost::Reused));
        let needs = |kind, reason| {
            let health = Health::Dead { reason, at };
            needs_login(&Profile { health, ..Profile::new(kind, Actor::Admin, 1) })
        };
        assert!(needs(Kind::Login, lost) && needs(Kind::Login, Death::Strikes));
        assert!(needs(Kind::Followed, Death::Named) && !needs(Kind::Login, Death::ByHand));
        assert!(!needs(Kind::ApiKey, Death::Named));
        assert!(!needs_login(&Profile::new(Kind::Login, Actor::Admin, 1)), "it is alive");
    }

    #[test]
    fn a_value_that_was_put_and_not_recorded_is_found_by_the_next_start() {
        let of = |kind, revision| Profile::new(kind, Actor::Admin, revision);
        let seen =
            |known: Option<&Profile>, kind, revision| found(known, "main", (kind, revision, None));
        let profile = || "main".to_owned();
        for kind in [Kind::ApiKey, Kind::Login] {
            let rotated = Rotated { profile: profile(), revision: 8, expires: None };
            assert_eq!(seen(Some(&of(kind, 7)), kind, 8), Some(Command::Rotate(rotated)));
            assert_eq!(seen(Some(&of(kind, 8)), kind, 8), None, "it is recorded");
            assert_eq!(seen(Some(&of(kind, 9)), kind, 8), None);
        }
        let (kind, by) = (Kind::ApiKey, Actor::Node);
        let added = Added { profile: profile(), kind, by, revision: 8, expires: None };
        assert_eq!(seen(None, kind, 8), Some(Command::Add(added)));
        assert_eq!(seen(Some(&of(Kind::Login, 7)), kind, 8), None, "of another kind: by hand");
        // Marks have no order.
        assert_eq!(seen(Some(&of(Kind::Followed, 7)), Kind::Followed, 8), None);
    }
}
