//! What a provider's credentials owe the world: the token of a login, refreshed once for all who wait for it.
//!
//! Looks into the vault, asks the issuer, and writes the vault, in one go that nothing cuts off but the end of the
//! process: most refresh tokens are taken once, so between the issuer's answer and the write a login can be lost. What
//! is lost is found out by the next try and told.

use crate::clock::Clock;
use crate::departure::Dispatch;
use crate::host::Hosted;
use crate::task;
use events::credential::{
    Command, Credential, Death, Fault, Health, LOST_MAX, LoginLost, Outcome, Owed, ProviderId,
    RefreshId, State, Told,
};
use events::quantity::Millis;
use providers::login::{Issuer, NotRefreshed, Tokens};
use providers::{Client, transport};
use std::collections::BTreeMap;
use std::{fmt, sync::Arc, time::Duration};
use store::vault::{Alone, Name, Plain, Revision, Vault, VaultError};
use tokio::sync::Mutex;

/// How often a token that was given is offered to a vault that does not answer.
const KEEPS_MAX: u64 = 20;
/// The pause between two such offers (500 ms).
const KEEP_PAUSE: Millis = Millis(500);
/// The longest that a vault takes for one offer (10 s): a bucket that is out is given up after that.
const OFFER_MAX: Millis = Millis(10_000);
/// How often another process is looked at that refreshes (100): ten seconds with the pauses.
const ALONE_MAX: u32 = 100;
/// The pause between two such looks (100 ms).
const ALONE_PAUSE: Millis = Millis(100);
/// The longest that a refresh can go on after its first byte: the issuer's answer and the offers to the vault.
const LASTS: Millis =
    Millis(transport::PLAIN.as_secs() * 1_000 + KEEPS_MAX * (KEEP_PAUSE.0 + OFFER_MAX.0));

/// What refreshes need.
pub struct World {
    /// Asks issuers.
    pub client: Client,
    /// Where tokens are kept; none in a cluster without a cluster key.
    pub vault: Option<Vault>,
    /// Who gives out the tokens of a provider.
    pub issuers: BTreeMap<ProviderId, Issuer>,
    /// What time it is.
    pub clock: Clock,
    /// One refresh of this process at a time: a host that fell leaves its refresh to end, and the next one looks first.
    pub one: Arc<Mutex<()>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("issuers", &self.issuers).finish_non_exhaustive()
    }
}

impl Hosted for Credential {
    type World = World;
    /// What all nodes see of a provider in one burst: each is one of very few that change anything.
    const INBOX: usize = 256;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(_effect: &RefreshId) -> &'static str {
        "refresh"
    }

    /// A token that a former owner was given is in the vault by then, or lost.
    fn lasts(_world: &World, _what: &Owed) -> Option<Millis> {
        Some(LASTS)
    }

    fn noted(_world: &World, provider: &ProviderId, before: &State, after: &State) {
        for (name, profile) in &after.profiles {
            let was = before.profiles.get(name).map(|profile| profile.health);
            if let Health::Dead { reason: Death::NeedsLogin(why), .. } = profile.health
                && was != Some(profile.health)
            {
                let (reason, mend) = (why.name(), format!("piton auth login {provider} {name}"));
                tracing::warn!(%provider, profile = name, reason, mend, "credential_needs_login");
            }
        }
    }

    async fn perform(
        world: &Arc<World>,
        provider: ProviderId,
        effect: RefreshId,
        what: Owed,
        dispatch: Dispatch,
    ) -> Command {
        let RefreshId { profile, attempt } = effect;
        let (own, name) = (Arc::clone(world), profile.clone());
        // A task of its own: a host that ends drops its effects, and a token that was just given would go with them.
        let refresh = task::spawn(task::Kind::Refresh, async move {
            refresh(&own, provider, &name, &what, dispatch).await
        });
        let outcome = refresh.await.unwrap_or(Outcome::Lost);
        match &outcome {
            Outcome::Done { .. } => {
                tracing::info!(%provider, profile, "credential_refreshed");
            }
            Outcome::Again { why, .. } => {
                tracing::warn!(%provider, profile, why = why.name(), "credential_not_refreshed");
            }
            // The first is said once it is recorded.
            Outcome::NeedsLogin(_) | Outcome::Lost => {}
        }
        Command::Told(Told { profile, attempt, outcome })
    }
}

const fn again(why: Fault) -> Outcome {
    Outcome::Again { why, hint: None }
}

async fn refresh(
    world: &World,
    provider: ProviderId,
    profile: &str,
    what: &Owed,
    dispatch: Dispatch,
) -> Outcome {
    let untold = |error: &(dyn std::error::Error + 'static)| {
        tracing::warn!(%provider, profile, error, "credential_vault_fails");
        again(Fault::Vault)
    };
    let (Some(vault), Ok(name)) = (&world.vault, Name::of_credential(provider.as_str(), profile))
    else {
        return again(Fault::Vault);
    };
    let Ok(_one) = world.one.try_lock() else { return again(Fault::Busy) };
    let _alone = match alone(world, vault, &name).await {
        Ok(Some(alone)) => alone,
        Ok(None) => return again(Fault::Busy),
        Err(error) => return untold(&error),
    };
    let (revision, tokens) = match look(vault, &name).await {
        Ok(found) => found,
        Err(error) => return untold(&error),
    };
    if revision.0 > what.revision {
        return Outcome::Done { revision: revision.0, expires: tokens.expires };
    }
    if what.lost >= LOST_MAX {
        return Outcome::NeedsLogin(LoginLost::Unknown);
    }
    let Some(issuer) = world.issuers.get(&provider) else { return again(Fault::Vault) };
    let connect = Millis(transport::CONNECT.as_secs() * 1_000);
    let (client, now, old) = (&world.client, world.clock.now(), &tokens);
    let ask = move |leave| async move { client.refresh(issuer, old, now, &leave).await };
    let answer = match dispatch.begin(connect, ask).await {
        Ok(answer) => answer,
        Err(why) => Err(NotRefreshed::NotSent(why)),
    };
    match answer {
        Ok(fresh) => keep(world, vault, &name, revision, &fresh).await,
        Err(NotRefreshed::NotSent(_)) => again(Fault::Busy),
        Err(NotRefreshed::NeedsLogin(why)) => {
            let found = look(vault, &name).await;
            refused(found, revision, why).unwrap_or_else(|error| untold(&error))
        }
        Err(NotRefreshed::Again { why, hint, words }) => {
            tracing::debug!(%provider, profile, why = why.name(), words, "refresh failed");
            Outcome::Again { why, hint }
        }
    }
}

/// What a refusal of the issuer means, by what the vault holds then. Somebody else may have been given the next token:
/// then that is ours too. Who can not look does not know.
fn refused(
    found: Result<(Revision, Tokens), Unread>,
    before: Revision,
    why: LoginLost,
) -> Result<Outcome, Unread> {
    let (revision, tokens) = found?;
    Ok(if revision > before {
        Outcome::Done { revision: revision.0, expires: tokens.expires }
    } else {
        Outcome::NeedsLogin(why)
    })
}

/// The only one of all processes with these credentials; whoever refreshes now is waited for, and what it was given is
/// found then. None when it takes too long.
async fn alone(world: &World, vault: &Vault, name: &Name) -> Result<Option<Alone>, VaultError> {
    for _ in 0..ALONE_MAX {
        if let Some(alone) = vault.alone(name)? {
            return Ok(Some(alone));
        }
        world.clock.pause(ALONE_PAUSE).await;
    }
    Ok(None)
}

#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the vault has no login under {0}: log in again")]
    None(Name),
}

async fn look(vault: &Vault, name: &Name) -> Result<(Revision, Tokens), Unread> {
    let kept = vault.get(name).await?;
    let found = kept.and_then(|kept| Some((kept.revision, Tokens::read(kept.value.expose())?)));
    found.ok_or_else(|| Unread::None(name.clone()))
}

/// Writes what was given, and does not give up at once: nobody will give it again.
async fn keep(
    world: &World,
    vault: &Vault,
    name: &Name,
    stands: Revision,
    fresh: &Tokens,
) -> Outcome {
    let value = Plain::new(fresh.write());
    for _ in 0..KEEPS_MAX {
        match vault.put(name, &value, stands).await {
            Ok(revision) => {
                return Outcome::Done { revision: revision.0, expires: fresh.expires };
            }
            // Our own write, whose answer was lost; or somebody has logged in meanwhile, and that login counts.
            Err(VaultError::Conflict { .. }) => match look(vault, name).await {
                Ok((revision, tokens)) => {
                    return Outcome::Done { revision: revision.0, expires: tokens.expires };
                }
                Err(Unread::None(_)) => return again(Fault::Vault),
                Err(Unread::Vault(error)) => {
                    tracing::warn!(%name, %error, "credential_not_kept yet");
                }
            },
            Err(error) => tracing::warn!(%name, %error, "credential_not_kept yet"),
        }
        world.clock.pause(KEEP_PAUSE).await;
    }
    again(Fault::Vault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_lost_only_when_the_vault_says_that_there_is_no_newer_token() {
        let tokens = || Tokens::new("access".into(), "refresh".into(), None).unwrap();
        let refused = |found| refused(found, Revision(4), LoginLost::Reused);
        let lost = refused(Ok((Revision(4), tokens()))).unwrap();
        assert_eq!(lost, Outcome::NeedsLogin(LoginLost::Reused));
        let newer = refused(Ok((Revision(5), tokens()))).unwrap();
        assert_eq!(newer, Outcome::Done { revision: 5, expires: None });
        let name = Name::of_credential("openai-codex", "main").unwrap();
        refused(Err(Unread::None(name))).unwrap_err();
    }
}
