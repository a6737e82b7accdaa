//! Tokens that end: had anew before a call needs them, by one refresh for all who wait.
//!
//! Nobody here refreshes. Who needs a token asks the owner of its stream, on whatever node that is, and waits until the
//! log says that there is a new one, or why there is none. A followed token is read anew from its file instead.

use super::secret::{Found, LASTS_MIN, Renewable, SecretError};
use super::{Credentials, Errand, Used};
use events::credential::{
    Command, Health, Profile, ProviderId, Refresh, Rotated, Stale as StaleToken,
};
use events::quantity::{Instant, Millis};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant as Moment, timeout_at};

/// How long before its end a token is had anew (5 min): the old one serves meanwhile.
const AHEAD: Millis = Millis(300_000);
/// The longest that a call waits for a new token (45 s): about as long as one refresh can take.
const WAIT_MAX: Duration = Duration::from_secs(45);
/// The longest pause after a refresh that failed which a call waits out (2 s).
const PAUSE_MAX: Millis = Millis(2_000);
/// How long the word of the owner, or a change that it said was on its way, is waited for before it is asked again.
const WORD_MAX: Duration = Duration::from_secs(2);
/// How often the owner is asked in vain.
const REFUSED_MAX: u32 = 3;

impl Credentials {
    /// A secret that lasts for a call that begins now.
    pub(super) async fn fresh(
        &self,
        provider: ProviderId,
        name: &str,
        profile: &Profile,
        now: Instant,
    ) -> Result<Found, SecretError> {
        let found = self.secret(provider, name, profile).await?;
        let Some(left) = found.left(now) else { return Ok(self.noted(provider, name, found)) };
        match found.renewable {
            Renewable::No => Ok(found),
            Renewable::Followed if left == Millis(0) => Err(SecretError::Ended),
            Renewable::Followed => Ok(self.noted(provider, name, found)),
            Renewable::Refreshed if left >= AHEAD => Ok(found),
            Renewable::Refreshed if left >= LASTS_MIN => {
                self.ahead(provider, name, profile, found.revision, now);
                Ok(found)
            }
            Renewable::Refreshed => {
                match self.renew(provider, name, found.revision).await {
                    Some(renewed) => self.secret(provider, name, &renewed).await,
                    // It is still good for a moment, and the provider will say so if it is not.
                    None if left > Millis(0) => Ok(found),
                    None => Err(SecretError::Stale),
                }
            }
        }
    }

    /// A secret that takes the place of one that a provider refused as ended; none where there is none. The one seam
    /// between a model call and a refresh: called once for each refusal.
    pub async fn refresh_once(&self, used: &Used) -> Option<Used> {
        let (provider, name) = (used.provider, used.profile.as_str());
        let profile = match used.renewable {
            Renewable::No => return None,
            Renewable::Refreshed => self.renew(provider, name, used.revision).await?,
            Renewable::Followed => {
                self.forget(provider, name);
                self.known(provider, name)?
            }
        };
        let found = self.secret(provider, name, &profile).await.ok()?;
        let is_new = found.revision != used.revision && found.lasts(self.parts.clock.now());
        let found = is_new.then(|| self.noted(provider, name, found))?;
        Some(found.used(provider, used.profile.clone(), used.others))
    }

    fn known(&self, provider: ProviderId, name: &str) -> Option<Profile> {
        self.parts.follower.get(&provider).state.profiles.get(name).cloned()
    }

    /// A followed token that the stream does not know is told to it: what was seen of the one before does not count.
    fn noted(&self, provider: ProviderId, name: &str, found: Found) -> Found {
        let known = self.known(provider, name);
        let is_new = known.is_some_and(|known| known.revision != found.revision);
        if found.renewable == Renewable::Followed && is_new {
            let (profile, revision, expires) = (name.to_owned(), found.revision, found.expires);
            let command = Command::Rotate(Rotated { profile, revision, expires });
            if self.errands.try_send(Errand { provider, command, agreed: None }).is_err() {
                tracing::warn!(%provider, profile = name, "credential_unseen");
            }
        }
        found
    }

    /// Asks for a refresh and waits for nothing. Who is in vain asks again with the next call.
    fn ahead(
        &self,
        provider: ProviderId,
        name: &str,
        profile: &Profile,
        revision: u64,
        now: Instant,
    ) {
        let may = match profile.refresh {
            Refresh::Idle => true,
            Refresh::Running { .. } => false,
            Refresh::Failed { again, .. } => again <= now,
        };
        if may {
            let stale = StaleToken { profile: name.to_owned(), revision };
            let command = Command::Refresh(stale);
            let _full = self.errands.try_send(Errand { provider, command, agreed: None });
        }
    }

    /// The profile once it has a later token than this one; none when it gets none now.
    async fn renew(&self, provider: ProviderId, name: &str, revision: u64) -> Option<Profile> {
        let (ends, mut refused) = (Moment::now() + WAIT_MAX, 0);
        let mut changes = self.parts.follower.changes();
        loop {
            changes.mark_unchanged();
            let now = self.parts.clock.now();
            let known = self.known(provider, name)?;
            if known.revision > revision {
                return Some(known);
            }
            if known.health != Health::Alive || Moment::now() >= ends || refused >= REFUSED_MAX {
                return None;
            }
            match known.refresh {
                Refresh::Failed { again, .. } if again > now => {
                    let left = again.since(now);
                    if left > PAUSE_MAX {
                        return None;
                    }
                    self.parts.clock.pause(Millis(left.0.saturating_add(1))).await;
                    continue;
                }
                Refresh::Failed { .. } | Refresh::Idle => {
                    if !self.asked(provider, name, revision).await {
                        refused += 1;
                    }
                }
                Refresh::Running { .. } => {}
            }
            // A follower that is out never says anything: the owner is asked again.
            let until = ends.min(Moment::now() + WORD_MAX);
            let _late = timeout_at(until, changes.changed()).await;
        }
    }

    /// Whether the owner agrees that the token is to be refreshed, or was.
    async fn asked(&self, provider: ProviderId, name: &str, revision: u64) -> bool {
        let (agreed, answer) = oneshot::channel();
        let command = Command::Refresh(StaleToken { profile: name.to_owned(), revision });
        if self.errands.try_send(Errand { provider, command, agreed: Some(agreed) }).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(WORD_MAX, answer).await, Ok(Ok(true)))
    }
}
