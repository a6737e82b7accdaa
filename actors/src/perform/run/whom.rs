//! Whom a model call asks: the provider's endpoint, with the profile that the session is pinned to.
//!
//! Of a profile that is not ready nothing is sent, and nobody is blamed for a try that was not made.

use super::{World, refused};
use crate::credentials::{Credentials, Failed, NoProfile, Renewable, Used, Wanted};
use events::credential::{ENVIRONMENT, ProviderId};
use events::id::RunId;
use events::model_call::Class;
use events::quantity::{Instant, Millis};
use events::run::AskModel;
use events::run::step::{Charge, Failure, Settled};
use events::usage::Usage;
use providers::Endpoint;

/// The longest rest of a cool-down that is waited for in place: a wait that the run was told to make ends a moment
/// before it.
const PATIENCE: Millis = Millis(500);
/// Such waits of one call.
const WAITS_MAX: usize = 4;

/// Whom a call asks.
pub(super) struct Whom {
    pub(super) endpoint: Endpoint,
    /// The profile that is used, where the provider has any.
    pub(super) used: Option<Used>,
}

fn not_configured(provider: &str) -> Settled {
    let why = format!(
        "provider {provider} is not configured: add a credential (`piton auth add {provider}`), or set its key or base URL and restart"
    );
    refused(Class::AuthInvalid, why)
}

/// Whom to ask, or how the call ends without being made.
pub(super) async fn whom(world: &World, run: RunId, ask: &AskModel) -> Result<Whom, Settled> {
    let (provider, model) = (ask.candidate.provider.as_str(), ask.candidate.model.as_str());
    let own = world.endpoints.get(provider);
    let Some(mut endpoint) = own.or_else(|| world.lent.get(provider)).cloned() else {
        return Err(not_configured(provider));
    };
    let pin = ask.history.as_ref().map_or(run.unique(), |(session, _)| session.unique());
    let used = match (&world.credentials, provider.parse::<ProviderId>()) {
        (Some(credentials), Ok(id)) => {
            let wanted = Wanted { provider: id, model, pin, tried: &ask.tried };
            chosen(world, credentials, &wanted).await?
        }
        (None, _) | (_, Err(_)) => None,
    };
    match &used {
        // It lacks a key, and there is none.
        None if own.is_none() => return Err(not_configured(provider)),
        None => {}
        Some(used) => {
            endpoint.key = Some(used.key.clone());
            endpoint.account.clone_from(&used.account);
            if used.profile != ENVIRONMENT {
                endpoint.profile.clone_from(&used.profile);
            }
        }
    }
    Ok(Whom { endpoint, used })
}

async fn chosen(
    world: &World,
    credentials: &Credentials,
    wanted: &Wanted<'_>,
) -> Result<Option<Used>, Settled> {
    let mut waits = 0;
    loop {
        let now = world.clock.now();
        match credentials.choose(wanted, now).await {
            Ok(used) => return Ok(used),
            Err(NoProfile::Cooling { left, .. }) if left <= PATIENCE && waits < WAITS_MAX => {
                waits += 1;
                world.clock.pause(Millis(left.0.saturating_add(1))).await;
            }
            Err(error) => return Err(unsent(&error)),
        }
    }
}

fn unsent(error: &NoProfile) -> Settled {
    let (class, hint) = match error {
        NoProfile::Cooling { class, left, .. } => (*class, Some(*left)),
        NoProfile::Dead(_) | NoProfile::NeedsLogin { .. } | NoProfile::Tried(_) => {
            (Class::AuthInvalid, None)
        }
        NoProfile::NoSecret(_) | NoProfile::Stale(_) => (Class::ServerError, None),
    };
    Settled::Failed(Failure {
        class,
        status: None,
        request_id: None,
        hint,
        charge: Charge::Nothing,
        handed_out: 0,
        message: error.to_string(),
        profile: None,
        others: 0,
        renewed: false,
        took: Millis(0),
        partial: Usage::default(),
    })
}

/// Whether a token was refused that there is a newer one of now. It is looked for once in a step: a new one that is
/// refused too is a fault of the profile.
pub(super) async fn renewed(
    world: &World,
    whom: &Whom,
    ask: &AskModel,
    failure: Option<&providers::Failure>,
) -> bool {
    let (Some(credentials), Some(used)) = (&world.credentials, &whom.used) else { return false };
    let is_refused = |failure: &providers::Failure| {
        failure.status == Some(401) || failure.class == Class::AuthExpired
    };
    if ask.renewed || !failure.is_some_and(is_refused) {
        return false;
    }
    credentials.refresh_once(used).await.is_some()
}

/// Tells the owner of the profile what came back.
pub(super) fn tell(
    world: &World,
    whom: &Whom,
    ask: &AskModel,
    began: Instant,
    answer: Result<&providers::Answer, &providers::Failure>,
) {
    let (Some(credentials), Some(used)) = (&world.credentials, &whom.used) else { return };
    let token = if ask.renewed { Token::Renewed } else { Token::First };
    let failed = answer.err().map(|failure| counted(used.renewable, token, failure));
    credentials.saw(used, &ask.candidate.model, began, failed);
}

/// Which token of a step was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// The one that it began with.
    First,
    /// The one that was had anew in its place.
    Renewed,
}

/// What a failure says of the profile. A token that was refused and could not be had anew says nothing of the login: the
/// profile cools, its refresh goes on, and no word and no number of 401s kills it. A new one that is refused too counts.
fn counted(renewable: Renewable, token: Token, failure: &providers::Failure) -> Failed<'_> {
    let speaks = match renewable {
        Renewable::No => true,
        Renewable::Refreshed | Renewable::Followed => token == Token::Renewed,
    };
    Failed {
        class: failure.class,
        status: failure.status.filter(|status| speaks || *status != 401),
        hint: failure.hint,
        message: if speaks { &failure.message } else { "" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(renewable: Renewable, token: Token, status: u16, then: (Option<u16>, &str)) {
        let failure = providers::Failure {
            class: Class::AuthInvalid,
            status: Some(status),
            message: "token_revoked".to_owned(),
            request_id: None,
            hint: None,
            charge: providers::Charge::NotCharged,
            partial: Usage::default(),
        };
        let counted = counted(renewable, token, &failure);
        assert_eq!((counted.status, counted.message), then);
    }

    #[test]
    fn a_401_of_a_token_that_could_not_be_had_anew_says_nothing_of_the_login() {
        for renewable in [Renewable::Refreshed, Renewable::Followed] {
            check(renewable, Token::First, 401, (None, ""));
            check(renewable, Token::First, 403, (Some(403), ""));
            check(renewable, Token::Renewed, 401, (Some(401), "token_revoked"));
        }
        check(Renewable::No, Token::First, 401, (Some(401), "token_revoked"));
    }
}
