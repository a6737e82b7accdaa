//! Which model answers a request, and why: a pure choice over what the node was configured with.
//!
//! The choice is frozen into the run when it is queued, with the price of that moment, so that a later change of
//! configuration changes no run.

use events::quantity::Tokens;
use events::run::spec::Candidate;
use providers::{pricing, registry};
use std::collections::BTreeMap;

/// The most output of a model whose table has no bound, for reservations.
const OUTPUT_MAX: Tokens = Tokens(16_384);

/// Who answers when nobody is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Default {
    /// Provider id.
    pub provider: String,
    /// Its model; `None` when only the provider is known.
    pub model: Option<String>,
    /// Which bare names are its models.
    pub names: Names,
    /// Why it is the default, for people: "because OPENAI_API_KEY is set".
    pub why: String,
}

/// Which bare names a default provider takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// Any: it knows its models itself.
    Any,
    /// These; any other bare name is answered by its default model, as the scripted demo does for clients whose model
    /// is set to something else.
    These(Vec<String>),
}

/// What a request is routed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Who may serve it, in order.
    pub route: Vec<Candidate>,
    /// Where the choice comes from: `call` or `default`.
    pub source: &'static str,
}

/// Why a request has no route. Each says how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The name means nothing.
    #[error(transparent)]
    Name(#[from] registry::ResolveError),
    /// The provider has no key or address here.
    #[error(
        "provider {provider} is not configured on this node: set {variable}, or ask for a model of {configured}"
    )]
    NotConfigured {
        /// Its id.
        provider: String,
        /// What to set.
        variable: String,
        /// Who is.
        configured: String,
    },
    /// Nobody is configured.
    #[error(
        "no model provider is configured: set OPENAI_API_KEY or PITON_OPENAI_BASE_URL, or start with --demo"
    )]
    Nobody,
    /// No model was named, and there is no default.
    #[error("no model was named and {provider} has no default: name one, or set default_model")]
    NoModel {
        /// Whose models there are.
        provider: String,
    },
}

/// The providers of this node and who is asked when nobody is named.
#[derive(Debug, Clone, PartialEq, Eq, std::default::Default)]
pub struct Routing {
    /// Ids of providers with an endpoint here, and of those whether any bare name is theirs.
    configured: BTreeMap<String, ()>,
    default: Option<Default>,
}

impl Routing {
    /// Over these providers.
    #[must_use]
    pub fn new(configured: impl IntoIterator<Item = String>, default: Option<Default>) -> Self {
        Self { configured: configured.into_iter().map(|id| (id, ())).collect(), default }
    }

    /// Who is asked when nobody is named.
    #[must_use]
    pub const fn default(&self) -> Option<&Default> {
        self.default.as_ref()
    }

    /// The providers, by id.
    pub fn configured(&self) -> impl Iterator<Item = &str> {
        self.configured.keys().map(String::as_str)
    }

    /// Routes `provider:model`, `provider/model` or a bare name; nothing at all means the default.
    ///
    /// # Errors
    ///
    /// [`RouteError`], which says what to set or to ask for.
    pub fn route(&self, asked: Option<&str>) -> Result<Routed, RouteError> {
        let default = self.default.as_ref().ok_or(RouteError::Nobody);
        let Some(asked) = asked.map(str::trim).filter(|asked| !asked.is_empty()) else {
            let default = default?;
            let model = default.model.as_deref();
            let model =
                model.ok_or_else(|| RouteError::NoModel { provider: default.provider.clone() })?;
            return Ok(Routed {
                route: vec![candidate(&default.provider, model)],
                source: "default",
            });
        };
        // A name that the demo made up is not in the registry.
        if let Some((provider, model)) = asked.split_once([':', '/'])
            && self.configured.contains_key(provider)
            && !model.is_empty()
        {
            return Ok(Routed { route: vec![candidate(provider, model)], source: "call" });
        }
        match registry::resolve(asked)? {
            registry::Route::Named { provider, model } => {
                if !self.configured.contains_key(provider.id) {
                    return Err(self.not_configured(provider));
                }
                Ok(Routed { route: vec![candidate(provider.id, model)], source: "call" })
            }
            registry::Route::Bare { model } => Ok(bare(default?, model)),
        }
    }

    fn not_configured(&self, provider: &registry::Provider) -> RouteError {
        if self.configured.is_empty() {
            return RouteError::Nobody;
        }
        let variable = match (provider.key_env.first(), provider.key) {
            (Some(name), registry::KeyNeed::Required) => (*name).to_owned(),
            (None, registry::KeyNeed::Required) | (_, registry::KeyNeed::Optional) => {
                provider.base_url_name()
            }
        };
        let configured = self.configured().collect::<Vec<_>>().join(", ");
        RouteError::NotConfigured { provider: provider.id.to_owned(), variable, configured }
    }
}

fn bare(default: &Default, name: &str) -> Routed {
    let is_its = match &default.names {
        Names::Any => true,
        Names::These(names) => names.iter().any(|one| one == name),
    };
    match &default.model {
        Some(model) if !is_its => {
            Routed { route: vec![candidate(&default.provider, model)], source: "default" }
        }
        Some(_) | None => {
            Routed { route: vec![candidate(&default.provider, name)], source: "call" }
        }
    }
}

fn candidate(provider: &str, model: &str) -> Candidate {
    Candidate {
        provider: provider.to_owned(),
        model: model.to_owned(),
        price: pricing::price(provider, model),
        output_max: pricing::facts(provider, model)
            .and_then(|facts| facts.output_max)
            .unwrap_or(OUTPUT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(configured: &[&str], default: Option<&str>) -> Routing {
        let default = configured.first().map(|provider| Default {
            provider: (*provider).to_owned(),
            model: default.map(str::to_owned),
            names: if *provider == "demo" {
                Names::These(vec!["demo".to_owned()])
            } else {
                Names::Any
            },
            why: "test".to_owned(),
        });
        Routing::new(configured.iter().map(|id| (*id).to_owned()), default)
    }

    #[track_caller]
    fn check(
        configured: &[&str],
        default: Option<&str>,
        asked: Option<&str>,
        then: Result<(&str, &str, &str), &str>,
    ) {
        let found = routing(configured, default).route(asked);
        let found = found.as_ref().map(|routed| {
            let one = routed.route.first().unwrap();
            (one.provider.as_str(), one.model.as_str(), routed.source)
        });
        match (found, then) {
            (Ok(found), Ok(then)) => assert_eq!(found, then),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, then) => panic!("{found:?}, not {then:?}"),
        }
    }

    #[test]
    fn a_named_provider_is_asked_and_a_bare_name_goes_to_the_default() {
        check(&["openai"], None, Some("openai:gpt-x"), Ok(("openai", "gpt-x", "call")));
        check(&["openai"], None, Some("openai/gpt-x"), Ok(("openai", "gpt-x", "call")));
        check(&["openai"], None, Some("gpt-x"), Ok(("openai", "gpt-x", "call")));
        check(&["ollama", "openai"], None, Some("llama3:8b"), Ok(("ollama", "llama3:8b", "call")));
        check(&["demo"], Some("demo"), None, Ok(("demo", "demo", "default")));
        check(&["demo"], Some("demo"), Some("gpt-x"), Ok(("demo", "demo", "default")));
        check(&["demo"], Some("demo"), Some("demo:demo-2"), Ok(("demo", "demo-2", "call")));
    }

    #[test]
    fn what_has_no_route_says_what_to_set() {
        check(&[], None, Some("gpt-x"), Err("--demo"));
        check(&["demo"], None, Some("openai:gpt-x"), Err("OPENAI_API_KEY"));
        check(&["openai"], None, Some("anthropic:claude-x"), Err("not supported yet"));
        check(&["openai"], None, None, Err("default_model"));
    }
}
