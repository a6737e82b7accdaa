//! What was tried in one step and failed: for whoever asks why, and so that no profile is asked twice for what it refused.

use super::State;
use super::step::{ModelFailed, OpenCall};
use crate::model_call::Class;
use crate::quantity::Millis;
use serde::{Deserialize, Serialize};

/// Attempts of one step that are remembered (64), the newest ones: more than a provider has profiles.
pub const TRIED_MAX: usize = 64;

/// One wire call that failed, or was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Which candidate of the route.
    pub candidate: u32,
    /// The profile that was used on the wire.
    pub profile: Option<String>,
    /// How it failed; none for a lost outcome.
    pub class: Option<Class>,
    /// HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider took; unknown for a lost outcome.
    pub took: Option<Millis>,
    /// Whether the profile's token had ended and was had anew: then the profile is asked again.
    pub renewed: bool,
    /// How long the next try waited after it; none when it did not, or there was none.
    pub wait: Option<Millis>,
}

impl State {
    /// What was tried in the current step and failed, each with its provider and model; see [`State::tried`].
    pub fn attempts(&self) -> impl Iterator<Item = (&Tried, &super::spec::Candidate)> {
        let route = self.spec.as_deref().map_or(&[][..], |spec| &spec.route);
        self.tried.iter().filter_map(|one| {
            let place = usize::try_from(one.candidate).ok()?;
            Some((one, route.get(place)?))
        })
    }

    /// The profiles of a candidate's provider that failed in this step for what another one may not have. A rate limit
    /// is one model's, and counts until somebody waited.
    pub(super) fn failed_profiles(&self, candidate: u32) -> Vec<String> {
        let provider = |place: u32| {
            let route = &self.spec.as_ref()?.route;
            Some(route.get(usize::try_from(place).ok()?)?.provider.as_str())
        };
        let (wanted, mut waited, mut names) = (provider(candidate), false, vec![]);
        for one in self.tried.iter().rev() {
            waited |= one.wait.is_some();
            let counts = match one.class {
                Some(Class::RateLimited) => !waited && one.candidate == candidate,
                Some(_) if one.renewed => false,
                Some(class) => class.rotates() && provider(one.candidate) == wanted,
                None => false,
            };
            if let Some(name) = one.profile.as_ref().filter(|name| counts && !names.contains(*name))
            {
                names.push(name.clone());
            }
        }
        names
    }
}

fn push(state: &mut State, one: Tried) {
    if state.tried.len() >= TRIED_MAX {
        state.tried.remove(0);
    }
    state.tried.push(one);
}

pub(super) fn failed(state: &mut State, open: &OpenCall, event: &ModelFailed) {
    push(
        state,
        Tried {
            candidate: open.asked.candidate,
            profile: event.profile.clone(),
            class: Some(event.class),
            status: event.status,
            request_id: event.request_id.clone(),
            took: Some(event.took),
            renewed: event.renewed,
            wait: event.wait,
        },
    );
}

pub(super) fn unknown(state: &mut State, open: &OpenCall) {
    push(
        state,
        Tried {
            candidate: open.asked.candidate,
            profile: None,
            class: None,
            status: None,
            request_id: None,
            took: None,
            renewed: false,
            wait: None,
        },
    );
}
