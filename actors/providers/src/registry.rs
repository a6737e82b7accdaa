//! Which providers there are, and what a model's name in a request means.
//!
//! Pure: the environment is passed in. A provider that is known but not served yet is said to be so, and a misspelt
//! one is named with its nearest neighbour, so that nobody's typing error is sent to another provider.

mod table;

use crate::endpoint::{Endpoint, Quirks};
use crate::family::Family;
use crate::login::Issuer;
use crate::secret::Secret;
use events::usage::Billing;
use url::Url;

/// Characters from which on a name is long enough to be a misspelling of another: `glm4` is a model, not `glm`.
const NEAR_CHARS_MIN: usize = 5;
/// Characters from which on two edits still make a misspelling: of a shorter name they make another.
const NEAR_TWICE_CHARS_MIN: usize = 9;
/// The longest name that is compared; no provider's has more than 20.
const NEAR_CHARS_MAX: usize = 32;

/// Where the region stands in an address.
const REGION: &str = "{region}";
/// The vendor's own variables for the region, in order.
pub const REGION_ENV: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
/// Characters of a region's name; the longest known has 14.
const REGION_CHARS_MAX: usize = 32;

/// A provider that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Its id: lower case, as in routes and configuration.
    pub id: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it speaks.
    pub family: Family,
    /// Its address; `None` where that depends on the account.
    pub base_url: Option<&'static str>,
    /// The vendor's own variable for another address.
    pub base_url_env: Option<&'static str>,
    /// The variables that may hold its key, in order. Names with a colon between them hold one key together: see
    /// [`read_key`].
    pub key_env: &'static [&'static str],
    /// Whether it answers without a key.
    pub key: KeyNeed,
    /// What it does in its own way.
    pub quirks: Quirks,
}

/// Whether a provider answers without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// Not at its own address.
    Required,
    /// It may: it runs on the operator's machine.
    Optional,
}

/// The key of these variables: the one's, or the values of several with colons between them. The first two of those
/// must be set; later ones only add to them.
pub fn read_key(names: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut key = String::new();
    for (place, name) in names.split(':').enumerate() {
        match read(name) {
            Some(value) if place == 0 => value.trim().clone_into(&mut key),
            Some(value) => {
                key.push(':');
                key.push_str(value.trim());
            }
            None if place < 2 => return None,
            None => break,
        }
    }
    Some(key)
}

/// Variables for people: `A or B with C`.
fn spelled(names: &[String]) -> String {
    let one = |names: &String| names.split(':').take(2).collect::<Vec<_>>().join(" with ");
    names.iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// What a model's name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    /// It names its provider.
    Named {
        /// The provider.
        provider: &'static Provider,
        /// The model's name there.
        model: &'a str,
    },
    /// It does not: whoever is the default is asked for it.
    Bare {
        /// The model's name.
        model: &'a str,
    },
}

/// The name means nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Nobody of that name, but somebody of nearly that name.
    #[error("provider {id:?} is unknown: {}; the known ones are {}", meant(*.nearest), known())]
    Unknown {
        /// What was given.
        id: String,
        /// Who may have been meant.
        nearest: Option<&'static str>,
    },
    /// The provider is known, its API family is not served yet.
    #[error(
        "provider {id} is not supported yet: it speaks {family}; the served ones are {}",
        known()
    )]
    NotSupportedYet {
        /// Its id.
        id: &'static str,
        /// What it speaks.
        family: &'static str,
    },
    /// The model's name is empty.
    #[error("{text:?} names no model: write provider:model or a model's name")]
    NoModel {
        /// What was given.
        text: String,
    },
}

/// An endpoint can not be made from what is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The address depends on the account, and nobody gave it.
    #[error("provider {id} has no address of its own: set {name}")]
    NoBaseUrl {
        /// The provider.
        id: &'static str,
        /// The variable that gives it.
        name: String,
    },
    /// The address is none.
    #[error("{name}={text:?} is no address of a provider: give http:// or https://, host and path")]
    BadBaseUrl {
        /// The variable that was read.
        name: String,
        /// What it said.
        text: String,
    },
    /// The address holds a user or a password, which would be sent in place of the key.
    #[error("{name} holds a user or a password: give the key by its own variable")]
    Userinfo {
        /// The variable that was read.
        name: String,
    },
    /// It is not known to speak the family that was asked for, and nobody gave an address where it does.
    #[error("provider {id} is not known to speak {}: set {name} to an address where it does", family.name())]
    NoTwin {
        /// The provider.
        id: &'static str,
        /// The family.
        family: Family,
        /// The variable that gives an address.
        name: String,
    },
    /// The address has the region in it, and nobody gave it.
    #[error("provider {id} has an address for each region: set {name} or AWS_REGION")]
    NoRegion {
        /// The provider.
        id: &'static str,
        /// The variable of ours that gives it.
        name: String,
    },
    /// The region is none.
    #[error("region {text:?} is no region: give small letters, digits and dashes, as in eu-west-1")]
    BadRegion {
        /// What was given.
        text: String,
    },
    /// The provider wants a key, and there is none.
    #[error("provider {id} needs a key: set {}", spelled(names))]
    NoKey {
        /// The provider.
        id: &'static str,
        /// The variables that may hold it.
        names: Vec<String>,
    },
}

impl Provider {
    /// The variable of ours that gives it another address.
    #[must_use]
    pub fn base_url_name(&self) -> String {
        format!("PITON_{}_BASE_URL", self.upper())
    }

    /// The variable of ours that gives it a key; the vendor's own are asked after it.
    #[must_use]
    pub fn key_name(&self) -> String {
        format!("PITON_{}_API_KEY", self.upper())
    }

    /// The variable of ours that gives it a region; [`REGION_ENV`] is asked after it.
    #[must_use]
    pub fn region_name(&self) -> String {
        format!("PITON_{}_REGION", self.upper())
    }

    /// Whether it has an address for each region.
    #[must_use]
    pub fn is_regional(&self) -> bool {
        self.base_url.is_some_and(|url| url.contains(REGION))
    }

    fn upper(&self) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.id.chars().map(upper).collect()
    }

    /// Its endpoint in this environment: our variable for the address first, then the vendor's, then its own; the
    /// first key that is set and not empty. At an address that somebody configured, a key is optional.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], which names the variable to set.
    pub fn endpoint(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, EndpointError> {
        self.endpoint_as(self.family, env)
    }

    /// As [`Provider::endpoint`], in another family than its usual one: at the address where it is known to speak
    /// that, or at a configured one.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], which names the variable to set.
    pub fn endpoint_as(
        &self,
        family: Family,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, EndpointError> {
        let read = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let name = self.base_url_name();
        let configured = [Some(name.as_str()), self.base_url_env]
            .into_iter()
            .flatten()
            .find_map(|name| read(name).map(|text| (name.to_owned(), text)));
        let key = read(&self.key_name())
            .or_else(|| self.key_env.iter().find_map(|of| read_key(of, &read)));
        let own = if family == self.family { self.base_url } else { self.twin(family) };
        if own.is_none() && configured.is_none() && family != self.family {
            return Err(EndpointError::NoTwin { id: self.id, family, name });
        }
        if key.is_none() && configured.is_none() && self.key == KeyNeed::Required && own.is_some() {
            let usual = self.key_env.iter().map(|name| (*name).to_owned());
            let ours = self.key_env.is_empty().then(|| self.key_name());
            return Err(EndpointError::NoKey { id: self.id, names: usual.chain(ours).collect() });
        }
        let region = self.region(&read)?;
        let own = match (own, &region) {
            (Some(_), None) if self.is_regional() && configured.is_none() => {
                return Err(EndpointError::NoRegion { id: self.id, name: self.region_name() });
            }
            (Some(url), Some(region)) => Some(url.replace(REGION, region)),
            (url, _) => url.map(str::to_owned),
        };
        let own = own.map(|url| ("base_url".to_owned(), url));
        let (name, text) =
            configured.or(own).ok_or(EndpointError::NoBaseUrl { id: self.id, name })?;
        let sound = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let base_url = text.trim().parse::<Url>().ok().filter(sound);
        let Some(base_url) = base_url else {
            // What is no address may still hold a password.
            let text = if text.contains('@') { "…".to_owned() } else { text };
            return Err(EndpointError::BadBaseUrl { name, text });
        };
        if !base_url.username().is_empty() || base_url.password().is_some() {
            return Err(EndpointError::Userinfo { name });
        }
        let key = key.map(|key| Secret::new(key.trim().to_owned()));
        Ok(Endpoint { region, ..Endpoint::new(self.id, family, base_url, key, self.quirks) })
    }

    /// The region, where it has any.
    fn region(
        &self,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>, EndpointError> {
        let ours = self.region_name();
        let mut names = std::iter::once(ours.as_str()).chain(REGION_ENV);
        let Some(text) = names.find_map(read).filter(|_| self.is_regional()) else {
            return Ok(None);
        };
        let text = text.trim();
        let is_sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.chars().all(is_sound) && text.len() <= REGION_CHARS_MAX {
            Ok(Some(text.to_owned()))
        } else {
            Err(EndpointError::BadRegion { text: text.chars().take(80).collect() })
        }
    }

    fn twin(&self, family: Family) -> Option<&'static str> {
        let is_it = |(id, spoken, _): &&(&str, Family, &str)| *id == self.id && *spoken == family;
        table::TWINS.iter().find(is_it).map(|(_, _, url)| *url)
    }
}

/// Every provider that is served, in the order in which a default is looked for.
pub fn providers() -> impl Iterator<Item = &'static Provider> {
    table::PROVIDERS.iter()
}

/// How calls of a provider are paid; of one that is not known, by what they use.
#[must_use]
pub fn billing(id: &str) -> Billing {
    if table::SUBSCRIPTIONS.contains(&id) { Billing::Subscription } else { Billing::Metered }
}

/// Who gives out the tokens of a provider that a person logs in to; none for others.
#[must_use]
pub fn issuer(id: &str) -> Option<Issuer> {
    let (_, url) = table::ISSUERS.iter().find(|(own, _)| *own == id)?;
    Issuer::at(url.parse().ok()?).ok()
}

/// The provider of this id or alias.
///
/// # Errors
///
/// [`ResolveError::NotSupportedYet`] or [`ResolveError::Unknown`].
pub fn provider(id: &str) -> Result<&'static Provider, ResolveError> {
    let lower = id.trim().to_lowercase();
    let is_it = |own: &str, aliases: &[&str]| own == lower || aliases.contains(&lower.as_str());
    if let Some(found) = table::PROVIDERS.iter().find(|one| is_it(one.id, one.aliases)) {
        return Ok(found);
    }
    if let Some((id, _, family)) = table::LATER.iter().find(|(id, aliases, _)| is_it(id, aliases)) {
        return Err(ResolveError::NotSupportedYet { id, family });
    }
    Err(ResolveError::Unknown { id: id.chars().take(80).collect(), nearest: nearest(&lower, 3) })
}

/// What a model's name means: `provider:model`, `provider/model`, or a bare name. A name before a colon or slash that
/// is no provider's belongs to the model (`llama3:8b`, `meta-llama/x`), unless it is nearly a provider's.
///
/// # Errors
///
/// [`ResolveError`] for a provider that is misspelt or not served yet, or for no model at all.
pub fn resolve(text: &str) -> Result<Route<'_>, ResolveError> {
    let text = text.trim();
    let no_model = || ResolveError::NoModel { text: text.chars().take(80).collect() };
    for separator in [':', '/'] {
        let Some((before, model)) = text.split_once(separator) else { continue };
        match provider(before) {
            Ok(_) if model.is_empty() => return Err(no_model()),
            Ok(provider) => return Ok(Route::Named { provider, model }),
            Err(error @ (ResolveError::NotSupportedYet { .. } | ResolveError::NoModel { .. })) => {
                return Err(error);
            }
            Err(ResolveError::Unknown { id, .. }) => {
                let near = nearest(
                    &before.to_lowercase(),
                    if before.len() < NEAR_TWICE_CHARS_MIN { 1 } else { 2 },
                );
                if near.is_some() && before.len() >= NEAR_CHARS_MIN {
                    return Err(ResolveError::Unknown { id, nearest: near });
                }
            }
        }
    }
    if text.is_empty() { Err(no_model()) } else { Ok(Route::Bare { model: text }) }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(|| "nothing is spelt like it".to_owned(), |id| format!("did you mean {id}"))
}

fn known() -> String {
    table::PROVIDERS.iter().map(|one| one.id).collect::<Vec<_>>().join(", ")
}

/// The id whose own name or alias is at most `edits_max` edits away.
fn nearest(name: &str, edits_max: usize) -> Option<&'static str> {
    let ours = table::PROVIDERS.iter().map(|one| (one.id, one.aliases));
    let later = table::LATER.iter().map(|(id, aliases, _)| (*id, *aliases));
    let spelt = ours.chain(later).flat_map(|(id, aliases)| {
        aliases.iter().copied().chain([id]).map(move |spelling| (id, spelling))
    });
    let long = spelt.filter(|(_, spelling)| spelling.len() >= NEAR_CHARS_MIN);
    let measured = long.map(|(id, spelling)| (edits(name, spelling), id));
    measured.filter(|(edits, _)| *edits <= edits_max).min().map(|(_, id)| id)
}

/// Insertions, deletions, substitutions and swaps of neighbours between two names.
fn edits(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().take(NEAR_CHARS_MAX).collect();
    let other: Vec<char> = other.chars().take(NEAR_CHARS_MAX).collect();
    // Rows of the usual table: two back (for swaps), one back, and the one being filled.
    let (mut older, mut above): (Vec<usize>, Vec<usize>) =
        (Vec::new(), (0..=other.len()).collect());
    let mut before: Option<char> = None;
    for (row, a) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let at =
                |line: &[usize], place: usize| line.get(place).copied().unwrap_or(usize::MAX / 2);
            let substituted = at(&above, column) + usize::from(a != b);
            let mut least =
                substituted.min(at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let previous = column.checked_sub(1).and_then(|place| other.get(place));
            if previous == Some(a) && before == Some(*b) {
                least = least.min(at(&older, column.saturating_sub(1)) + 1);
            }
            current.push(least);
        }
        older = std::mem::replace(&mut above, current);
        before = Some(*a);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
