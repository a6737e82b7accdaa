//! Which model answers a request, and why: a pure choice over what the node was configured with.
//!
//! Highest first: what the call names, the model of the running phase, the project's routes, the environment, the table
//! file, the durable selection, the default. A role with a discipline is looked for before the role without it, at each
//! of these places. Behind the primary stands the role's own chain of fallbacks, and behind that the one for all roles.
//!
//! The choice is frozen into the run when it is queued, with the price of that moment, so that a later change of
//! configuration changes no run. A route to a provider that is not configured is refused and never skipped; a model that
//! is plainly another vendor's is dropped openly.

mod table;

pub use table::{Independence, Problem, Table, Target};

use events::quantity::Tokens;
use events::role::{Mismatch, Role, family_check};
use events::run::spec::{Candidate, Dropped, Unfit};
use providers::{pricing, registry};
use std::collections::BTreeSet;

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

/// Who said which model is the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The call itself.
    Call,
    /// The running phase of a flow.
    Phase,
    /// The project's routes in the table file.
    Project,
    /// `PITON_ROUTE_<ROLE>`.
    Env,
    /// The routes of the table file.
    Table,
    /// The durable selection.
    Selection,
    /// Nobody: the default.
    Default,
}

impl Source {
    /// Its word in events, logs and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Phase => "phase",
            Self::Project => "project",
            Self::Env => "env",
            Self::Table => "table",
            Self::Selection => "selection",
            Self::Default => "default",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The model that the call names: `provider:model`, `provider/model` or a bare name.
    pub model: Option<&'a str>,
    /// What it is asked for.
    pub role: &'a Role,
    /// The model of the running phase.
    pub phase: Option<&'a Target>,
    /// Whose routes count.
    pub project: &'a str,
}

impl<'a> Wanted<'a> {
    /// This model, or the default, of a role in no project that has routes.
    #[must_use]
    pub const fn model(model: Option<&'a str>, role: &'a Role) -> Self {
        Self { model, role, phase: None, project: "" }
    }
}

/// What a request is routed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Who may serve it, in order; never empty.
    pub route: Vec<Candidate>,
    /// Who was meant to and can not.
    pub dropped: Vec<Dropped>,
    /// Where the primary comes from.
    pub source: Source,
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
    /// A route leads to a provider that has no key or address here.
    #[error(
        "role {role} is routed to {target} (source: {}), but provider {} is not configured on this node: set {variable}, \
         or change the route", .by.name(), .target.provider
    )]
    Unconfigured {
        /// Whose route.
        role: Role,
        /// Where it leads.
        target: Target,
        /// Who says so.
        by: Source,
        /// What to set.
        variable: String,
    },
    /// Every model of the route is plainly another vendor's.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
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

/// The providers of this node, the routes of its roles, and who is asked when nobody is named.
#[derive(Debug, Clone, PartialEq, Eq, std::default::Default)]
pub struct Routing {
    /// Ids of providers with an endpoint here.
    configured: BTreeSet<String>,
    default: Option<Default>,
    table: Table,
}

impl Routing {
    /// Over these providers, without routes for roles.
    #[must_use]
    pub fn new(configured: impl IntoIterator<Item = String>, default: Option<Default>) -> Self {
        Self { configured: configured.into_iter().collect(), default, table: Table::default() }
    }

    /// With routes for roles.
    #[must_use]
    pub fn routed_by(mut self, table: Table) -> Self {
        self.table = table;
        self
    }

    /// The same with providers that can be asked besides; `default` answers where nobody did.
    #[must_use]
    pub fn opened(&self, more: impl IntoIterator<Item = String>, default: Option<Default>) -> Self {
        let mut routing = self.clone();
        routing.configured.extend(more);
        routing.default = routing.default.or(default);
        routing
    }

    /// Who is asked when nobody is named.
    #[must_use]
    pub const fn default(&self) -> Option<&Default> {
        self.default.as_ref()
    }

    /// The routes of roles.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// The providers, by id.
    pub fn configured(&self) -> impl Iterator<Item = &str> {
        self.configured.iter().map(String::as_str)
    }

    /// Whether a provider has an endpoint here.
    #[must_use]
    pub fn is_configured(&self, provider: &str) -> bool {
        self.configured.contains(provider)
    }

    /// Who serves what is wanted, in order.
    ///
    /// # Errors
    ///
    /// [`RouteError`], which says what to set or to ask for.
    pub fn route(&self, wanted: &Wanted<'_>) -> Result<Routed, RouteError> {
        let (primary, source) = self.primary(wanted)?;
        self.behind(primary, source, wanted.role)
    }

    /// What each place says of a role, the strongest first; those of the call and the phase are not known beforehand.
    #[must_use]
    pub fn explain(&self, role: &Role, project: &str) -> Vec<(Source, Option<&Target>)> {
        self.table.places(role, project).into()
    }

    fn primary(&self, wanted: &Wanted<'_>) -> Result<(Target, Source), RouteError> {
        let asked = wanted.model.map(str::trim).filter(|asked| !asked.is_empty());
        if let Some(asked) = asked {
            return self.named(asked);
        }
        let phase = wanted.phase.map(|target| (target, Source::Phase));
        let found = phase.or_else(|| self.table.find(wanted.role, wanted.project));
        if let Some((target, source)) = found {
            if !self.is_configured(&target.provider) {
                let (role, target) = (wanted.role.clone(), target.clone());
                let variable = variable(&target.provider);
                return Err(RouteError::Unconfigured { role, target, by: source, variable });
            }
            return Ok((target.clone(), source));
        }
        let default = self.default.as_ref().ok_or(RouteError::Nobody)?;
        let provider = default.provider.clone();
        match &default.model {
            Some(model) => Ok((Target { provider, model: model.clone() }, Source::Default)),
            None => Err(RouteError::NoModel { provider }),
        }
    }

    /// What `provider:model`, `provider/model` or a bare name means here.
    fn named(&self, asked: &str) -> Result<(Target, Source), RouteError> {
        // A name that the demo made up is not in the registry.
        if let Some((provider, model)) = asked.split_once([':', '/'])
            && self.is_configured(provider)
            && !model.is_empty()
        {
            return Ok((Target::new(provider, model), Source::Call));
        }
        match registry::resolve(asked)? {
            registry::Route::Named { provider, model } if self.is_configured(provider.id) => {
                Ok((Target::new(provider.id, model), Source::Call))
            }
            registry::Route::Named { provider, .. } => Err(self.not_configured(provider.id)),
            registry::Route::Bare { model } => {
                Ok(bare(self.default.as_ref().ok_or(RouteError::Nobody)?, model))
            }
        }
    }

    /// The primary with the chains behind it, each model once, those of another vendor dropped.
    fn behind(&self, primary: Target, source: Source, role: &Role) -> Result<Routed, RouteError> {
        let chain = self.table.chain(role).filter(|target| self.is_configured(&target.provider));
        let mut seen = BTreeSet::new();
        let (mut route, mut dropped, mut first) = (vec![], vec![], None);
        for target in std::iter::once(&primary).chain(chain) {
            if !seen.insert(target) {
                continue;
            }
            match family_check(&target.provider, &target.model) {
                Ok(()) => route.push(candidate(target)),
                Err(mismatch) => {
                    // Only those before the first that serves were meant to serve in its place.
                    if route.is_empty() {
                        let Target { provider, model } = target.clone();
                        dropped.push(Dropped { provider, model, unfit: Unfit::ModelMismatch });
                    }
                    first.get_or_insert(mismatch);
                }
            }
        }
        match first {
            Some(mismatch) if route.is_empty() => Err(mismatch.into()),
            Some(_) | None => Ok(Routed { route, dropped, source }),
        }
    }

    fn not_configured(&self, provider: &str) -> RouteError {
        if self.configured.is_empty() {
            return RouteError::Nobody;
        }
        let configured = self.configured().collect::<Vec<_>>().join(", ");
        let variable = variable(provider);
        RouteError::NotConfigured { provider: provider.to_owned(), variable, configured }
    }
}

/// The variable that would configure a provider.
fn variable(provider: &str) -> String {
    match registry::provider(provider) {
        Ok(known) => match (known.key_env.first(), known.key) {
            (Some(name), registry::KeyNeed::Required) => (*name).to_owned(),
            (None, registry::KeyNeed::Required) | (_, registry::KeyNeed::Optional) => {
                known.base_url_name()
            }
        },
        Err(_) => "its key".to_owned(),
    }
}

fn bare(default: &Default, name: &str) -> (Target, Source) {
    let is_its = match &default.names {
        Names::Any => true,
        Names::These(names) => names.iter().any(|one| one == name),
    };
    match &default.model {
        Some(model) if !is_its => (Target::new(&default.provider, model), Source::Default),
        Some(_) | None => (Target::new(&default.provider, name), Source::Call),
    }
}

fn candidate(target: &Target) -> Candidate {
    let Target { provider, model } = target;
    let facts = pricing::facts(provider, model);
    Candidate {
        provider: provider.clone(),
        model: model.clone(),
        price: pricing::price(provider, model),
        billing: registry::billing(provider),
        output_max: facts.and_then(|facts| facts.output_max).unwrap_or(OUTPUT_MAX),
        // What is not in the registry is its own kind of thing.
        family: registry::provider(provider)
            .map_or_else(|_| provider.clone(), |known| known.family.name().to_owned()),
        context_max: facts.and_then(|facts| facts.context_max),
    }
}

#[cfg(test)]
mod tests;
