//! Which providers this node can reach: those with a key or an address in its configuration, else the runtimes that
//! answer on this machine. Says who answers when nobody is named, and why.

use crate::config::{Config, Model};
use crate::scripted::{self, Scripted};
use actors::clock::Clock;
use actors::credentials::Credentials;
use actors::follower::Follower;
use actors::routing::{Default, Independence, Names, Problem, Routing, Target};
use events::credential::ProviderId;
use events::settings::{Settings, SettingsId};
use providers::login::Issuer;
use providers::registry::{self, EndpointError, KeyNeed, Provider};
use providers::{Client, ClientError, Endpoint, Family, Quirks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use url::Url;

/// The id under which the scripted model is reached.
pub(super) const DEMO: &str = "demo";
/// The ids under which it is reached by each family's wire.
const DEMOS: [(&str, Family); 5] = [
    (DEMO, Family::OpenaiChat),
    ("demo-anthropic", Family::AnthropicMessages),
    ("demo-gemini", Family::Gemini),
    ("demo-bedrock", Family::Bedrock),
    ("demo-responses", Family::OpenaiResponses),
];
/// The model of a provider that answers when nobody is named, as of 2026-11-30.
const DATED_DEFAULTS: [(&str, &str); 5] = [
    ("openai", "gpt-6-luna"),
    ("anthropic", "claude-sonnet-5-5"),
    ("openai-codex", "gpt-6.1-sol"),
    ("gemini", "gemini-3.8-flash"),
    (DEMO, DEMO),
];
/// How long a runtime on this machine gets to say what it serves.
const PROBE: Duration = Duration::from_millis(500);
/// Models of one provider that are listed.
const MODELS_MAX: usize = 200;

/// A provider's settings do not make sense.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Its endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The routes of roles.
    #[error("routing_config_error: {0}")]
    Routes(Problem),
    /// The default.
    #[error("default_model {model}: {why}")]
    Default {
        /// What was configured.
        model: String,
        /// Why not.
        why: String,
    },
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Speaks to them.
    pub client: Client,
    /// Where they are.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Who is asked for what.
    pub answering: Answering,
    /// Who gives out the tokens of those that a person logs in to.
    pub issuers: BTreeMap<ProviderId, Issuer>,
    /// Which model answers, and why, for people.
    pub answers: String,
}

/// Who answers by what the node was told, and who could besides: a profile that is added while it runs opens its provider,
/// and a selection that is stored says who serves what has no route.
#[derive(Debug)]
pub struct Answering {
    routing: Routing,
    /// `provider:model` of what is known by name.
    models: Vec<String>,
    /// Providers that lack nothing but a key.
    lent: BTreeMap<String, Endpoint>,
    /// Speaks to them.
    client: Client,
    /// Providers that are configured.
    endpoints: BTreeMap<String, Endpoint>,
    /// What was worked out last.
    newest: Newest<Routing>,
}

/// How much was known of credentials and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    credentials: u64,
    settings: u64,
}

/// What follows from all that is known, kept until more is known. Held over no await.
#[derive(Debug)]
struct Newest<T>(RwLock<Option<(Seen, Arc<T>)>>);

impl<T> std::default::Default for Newest<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T> Newest<T> {
    fn at(&self, seen: Seen, make: impl FnOnce() -> T) -> Arc<T> {
        let newest = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, known)) = newest.filter(|(at, _)| *at == seen) {
            return known;
        }
        let made = Arc::new(make());
        let mut newest = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *newest = Some((seen, Arc::clone(&made)));
        made
    }
}

impl Answering {
    /// Where a provider is that is configured or lacks nothing but a key.
    #[must_use]
    pub fn endpoint(&self, provider: &str) -> Option<&Endpoint> {
        self.endpoints.get(provider).or_else(|| self.lent.get(provider))
    }

    /// What speaks to them.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Providers that lack nothing but a key.
    #[must_use]
    pub const fn lent(&self) -> &BTreeMap<String, Endpoint> {
        &self.lent
    }

    /// Those of them that have a profile now.
    fn opened<'a>(&'a self, credentials: &'a Credentials) -> impl Iterator<Item = &'a String> {
        self.lent.keys().filter(|id| id.parse().is_ok_and(|id| credentials.has_profile(id)))
    }

    /// Who is asked for what, now. Every request asks: it is worked out anew only when a credential or the selection
    /// changed.
    #[must_use]
    pub fn routing(
        &self,
        credentials: &Credentials,
        settings: &Follower<Settings>,
    ) -> Arc<Routing> {
        // Read before what it counts: a change that comes between is met by the next request.
        let (of_credentials, of_settings) = (credentials.follower().known(), settings.known());
        let seen = Seen { credentials: of_credentials, settings: of_settings };
        self.newest.at(seen, || {
            let opened: Vec<String> = self.opened(credentials).cloned().collect();
            let default = opened.first();
            let default = default.map(|id| of(id, None, "because it has a credential".to_owned()));
            let selection = settings.get(&SettingsId::Harness).state.selection.clone();
            let selection = selection.map(|one| Target::new(&one.provider, &one.model));
            self.routing.opened(opened, default).selected(selection)
        })
    }

    /// `provider:model` of what is known by name, now.
    #[must_use]
    pub fn models(&self, credentials: &Credentials) -> Vec<String> {
        let opened: BTreeSet<&str> = self.opened(credentials).map(String::as_str).collect();
        let priced = providers::pricing::models().filter(|(id, _)| opened.contains(id));
        let more = priced.map(|(provider, model)| format!("{provider}:{model}"));
        self.models.iter().cloned().chain(more).collect()
    }
}

/// Looks round. `demo` is the scripted model, when it was asked for.
///
/// # Errors
///
/// [`ProviderError`] for settings that do not make sense.
pub(super) async fn find(config: &Config, demo: Option<Scripted>) -> Result<Found, ProviderError> {
    let client = Client::new()?.with_clock(|| Clock::System.now());
    let mut endpoints = BTreeMap::new();
    let mut models = vec![];
    let mut default = None;
    let mut elsewhere = vec![];
    if let Some(demo) = demo {
        for (id, family) in DEMOS {
            let Ok(url) = demo.base_url(family).parse::<Url>() else { continue };
            let endpoint = Endpoint::new(id, family, url, None, Quirks::STANDARD);
            endpoints.insert(id.to_owned(), endpoint);
            models.extend(scripted::MODELS.map(|model| format!("{id}:{model}")));
        }
        default = Some(of(DEMO, None, "because --demo was given (a script, no model)".to_owned()));
    }
    for provider in registry::providers() {
        let Some((endpoint, why)) = configured(config, provider)? else { continue };
        // At an address of the operator's own, whoever is there says what it serves.
        if config.providers.get(provider.id).is_some_and(|set| set.base_url.is_some()) {
            elsewhere.push(provider.id);
            let said = served(&client, &endpoint).await;
            models.extend(said.into_iter().map(|model| format!("{}:{model}", provider.id)));
        }
        endpoints.insert(provider.id.to_owned(), endpoint);
        default = default.or_else(|| Some(of(provider.id, None, why)));
    }
    if endpoints.is_empty() {
        for (provider, endpoint, served) in runtimes(&client).await {
            let why = format!("because it answers at {}", endpoint.base_url);
            default = default.or_else(|| Some(of(provider.id, served.first().cloned(), why)));
            models.extend(served.iter().map(|model| format!("{}:{model}", provider.id)));
            endpoints.insert(provider.id.to_owned(), endpoint);
        }
    }
    let lent = lent(config, &endpoints);
    if let Some(wanted) = &config.default_model {
        default = Some(chosen(wanted, &endpoints, &lent)?);
    }
    models.extend(known(&endpoints, &elsewhere));
    let answers = describe(default.as_ref());
    let family = |(id, one): (&String, &Endpoint)| (id.clone(), one.family.name().to_owned());
    let routing = Routing::new(endpoints.keys().cloned(), default)
        .speaking(endpoints.iter().chain(&lent).map(family))
        .routed_by(config.routes.clone());
    check(&routing)?;
    let (newest, client_too) = (Newest::default(), client.clone());
    let answering = Answering {
        routing,
        models,
        lent,
        client: client_too,
        endpoints: endpoints.clone(),
        newest,
    };
    let issuers = issuers(config);
    Ok(Found { client, endpoints, answering, issuers, answers })
}

/// Says what is doubtful about the routes, and refuses an evaluator that would judge its own provider where that is
/// forbidden.
fn check(routing: &Routing) -> Result<(), ProviderError> {
    for problem in routing.problems() {
        match &problem {
            Problem::Unconfigured { role, target, variable } => {
                let (provider, model) = (target.provider.as_str(), target.model.as_str());
                tracing::warn!(
                    role,
                    provider,
                    model,
                    variable,
                    "model_route_provider_unconfigured"
                );
            }
            Problem::Dependent { .. } if routing.independence() == Independence::Require => {
                return Err(ProviderError::Routes(problem));
            }
            Problem::FallbackUnconfigured { .. }
            | Problem::SelectionUnconfigured { .. }
            | Problem::SelectionIgnored(_)
            | Problem::Mismatch(_)
            | Problem::Dependent { .. } => tracing::warn!(%problem, "model_route_problem"),
        }
    }
    Ok(())
}

fn of(provider: &str, model: Option<String>, why: String) -> Default {
    let dated =
        DATED_DEFAULTS.iter().find(|(id, _)| *id == provider).map(|(_, model)| (*model).to_owned());
    let names = if provider == DEMO {
        Names::These(scripted::MODELS.map(str::to_owned).into())
    } else {
        Names::Any
    };
    Default { provider: provider.to_owned(), model: model.or(dated), names, why }
}

fn chosen(
    wanted: &Model,
    endpoints: &BTreeMap<String, Endpoint>,
    lent: &BTreeMap<String, Endpoint>,
) -> Result<Default, ProviderError> {
    let spelled = format!("{}:{}", wanted.provider, wanted.name);
    // One that lacks a key may have a profile, now or later.
    if !endpoints.contains_key(&wanted.provider) && !lent.contains_key(&wanted.provider) {
        let why =
            format!("provider {} is not configured: set its key or base URL", wanted.provider);
        return Err(ProviderError::Default { model: spelled, why });
    }
    let (provider, model) = (wanted.provider.clone(), Some(wanted.name.clone()));
    Ok(Default {
        provider,
        model,
        names: Names::Any,
        why: "because default_model says so".to_owned(),
    })
}

/// The providers that are not configured and lack nothing but a key, with what else was said of them.
fn lent(config: &Config, endpoints: &BTreeMap<String, Endpoint>) -> BTreeMap<String, Endpoint> {
    let others = registry::providers().filter(|provider| {
        provider.key == KeyNeed::Required && !endpoints.contains_key(provider.id)
    });
    let found = others.filter_map(|provider| {
        // Any text stands for the key that a call will have.
        let set = config.providers.get(provider.id);
        let known = |name: &str| {
            let region = set.and_then(|set| set.region.clone());
            let key = (name == provider.key_name()).then(|| "profile".to_owned());
            key.or_else(|| region.filter(|_| name == provider.region_name()))
        };
        let family = set.and_then(|set| set.family).unwrap_or(provider.family);
        let mut endpoint = provider.endpoint_as(family, &known).ok()?;
        endpoint.key = None;
        if let Some(set) = set {
            dress(&mut endpoint, set);
        }
        Some((provider.id.to_owned(), endpoint))
    });
    found.collect()
}

/// The issuers of those that a person logs in to.
fn issuers(config: &Config) -> BTreeMap<ProviderId, Issuer> {
    let own = |id: &str| config.providers.get(id).and_then(|set| set.issuer_url.clone());
    registry::providers()
        .filter_map(|provider| {
            let issuer = registry::issuer(provider.id)?;
            Some((provider.id.parse().ok()?, own(provider.id).unwrap_or(issuer)))
        })
        .collect()
}

fn dress(endpoint: &mut Endpoint, set: &crate::config::Provider) {
    endpoint.total = Duration::from_millis(set.timeout.0);
    let header = |(name, value): (&String, &crate::config::Secret)| {
        (name.clone(), value.expose().to_owned())
    };
    endpoint.headers = set.headers.iter().map(header).collect();
}

/// A provider with a key or an address in the configuration, and which of them it was.
fn configured(
    config: &Config,
    provider: &'static Provider,
) -> Result<Option<(Endpoint, String)>, ProviderError> {
    let Some(set) = config.providers.get(provider.id) else { return Ok(None) };
    let why = match (&set.key, &set.base_url) {
        (Some(key), _) => format!("because {} is set", key.variable),
        // A variable or a line of the file: `piton config show --origin` says which.
        (None, Some(_)) => format!("because providers.{}.base_url is set", provider.id),
        (None, None) => return Ok(None),
    };
    let environment = |name: &str| {
        if name == provider.base_url_name() {
            return set.base_url.as_ref().map(Url::to_string);
        }
        if name == provider.key_name() {
            return set.key.as_ref().map(|key| key.secret.expose().to_owned());
        }
        set.region.clone().filter(|_| name == provider.region_name())
    };
    let family = set.family.unwrap_or(provider.family);
    let mut endpoint = match provider.endpoint_as(family, &environment) {
        Ok(endpoint) => endpoint,
        // A key of the cloud may be here for other work: without a region nobody meant this.
        Err(error @ EndpointError::NoRegion { .. }) => {
            tracing::warn!(provider = provider.id, %error, "provider_not_configured");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    dress(&mut endpoint, set);
    Ok(Some((endpoint, why)))
}

/// The runtimes of this machine that answer, with what they serve.
async fn runtimes(client: &Client) -> Vec<(&'static Provider, Endpoint, Vec<String>)> {
    let local =
        registry::providers().filter(|one| one.key == KeyNeed::Optional && one.base_url.is_some());
    let asked = local.filter_map(|provider| {
        let endpoint = provider.endpoint(&|_name| None).ok()?;
        Some(async move {
            let served = tokio::time::timeout(PROBE, client.models(&endpoint)).await.ok()?.ok()?;
            Some((provider, endpoint, served.into_iter().take(MODELS_MAX).collect()))
        })
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

/// What a server says it serves; nothing when it does not answer in time.
async fn served(client: &Client, endpoint: &Endpoint) -> Vec<String> {
    match tokio::time::timeout(PROBE, client.models(endpoint)).await {
        Ok(Ok(models)) => models.into_iter().take(MODELS_MAX).collect(),
        Ok(Err(_)) | Err(_) => vec![],
    }
}

/// The models of the price table whose provider is configured at its own address.
fn known(endpoints: &BTreeMap<String, Endpoint>, elsewhere: &[&str]) -> Vec<String> {
    let at_home =
        |provider: &str| endpoints.contains_key(provider) && !elsewhere.contains(&provider);
    let priced = providers::pricing::models().filter(|(provider, _)| at_home(provider));
    priced.map(|(provider, model)| format!("{provider}:{model}")).collect()
}

fn describe(default: Option<&Default>) -> String {
    match default {
        None => "no model answers yet: set OPENAI_API_KEY, ANTHROPIC_API_KEY or PITON_OPENAI_BASE_URL, or start with --demo".to_owned(),
        Some(Default { provider, model: Some(model), why, .. }) => format!("using {provider}:{model} {why}"),
        Some(Default { provider, model: None, why, .. }) => {
            format!("using {provider} {why}; requests must name a model, or set default_model")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_worked_out_anew_only_when_something_changed() {
        let newest = Newest::<u32>::default();
        let at = |credentials, settings| Seen { credentials, settings };
        let first = newest.at(at(1, 1), || 1);
        let again = newest.at(at(1, 1), || panic!("nothing changed"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*newest.at(at(2, 1), || 2), 2);
        assert_eq!(*newest.at(at(2, 2), || 3), 3);
        assert_eq!(*newest.at(at(2, 2), || 4), 3);
    }
}
