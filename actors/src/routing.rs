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

pub use events::role::Independence;
pub use table::{Problem, Table, Target};

use events::quantity::Tokens;
use events::role::{Mismatch, Role, family_check};
use events::run::spec::{Candidate, Dropped, Unfit};
use providers::endpoint::Parts;
use providers::{pricing, registry};
use std::collections::{BTreeMap, BTreeSet};

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

impl Names {
    fn take(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(names) => names.iter().any(|one| one == name),
        }
    }
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

/// What a request needs of whoever serves it, beyond text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Text,
    /// It has an image.
    Images,
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
    /// What the request needs.
    pub needs: Needs,
}

impl<'a> Wanted<'a> {
    /// This model, or the default, of a role in no project that has routes.
    #[must_use]
    pub const fn model(model: Option<&'a str>, role: &'a Role) -> Self {
        Self { model, role, phase: None, project: "", needs: Needs::Text }
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
         or change the {}", .by.name(), .target.provider,
        if *.by == Source::Selection { "selection (`piton selection set`)" } else { "route" }
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
    /// Nobody of the route takes what the request has.
    #[error(
        "{0} takes text only and the request has an image: ask a model of another provider, or let one stand behind it \
         (fallback_providers)"
    )]
    TextOnly(Target),
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
    /// What providers speak here; of those that are not in it, the registry says so.
    families: BTreeMap<String, String>,
    default: Option<Default>,
    table: Table,
    /// What was selected durably and belongs to its provider's family.
    selection: Option<Target>,
    /// What was selected and is ignored, for it does not.
    ignored: Option<Mismatch>,
}

impl Routing {
    /// Over these providers, without routes for roles.
    #[must_use]
    pub fn new(configured: impl IntoIterator<Item = String>, default: Option<Default>) -> Self {
        let configured = configured.into_iter().collect();
        Self { configured, default, ..<Self as std::default::Default>::default() }
    }

    /// With what these providers speak here, which a person may have set to another family than the usual one.
    #[must_use]
    pub fn speaking(mut self, families: impl IntoIterator<Item = (String, String)>) -> Self {
        self.families.extend(families);
        self
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

    /// The same with what was selected durably. One that this build would not select is ignored, and shown as a problem.
    #[must_use]
    pub fn selected(mut self, selection: Option<Target>) -> Self {
        let checked =
            selection.map(|target| family_check(&target.provider, &target.model).map(|()| target));
        (self.selection, self.ignored) = match checked {
            Some(Ok(target)) => (Some(target), None),
            Some(Err(mismatch)) => (None, Some(mismatch)),
            None => (None, None),
        };
        self
    }

    /// Who is asked when nobody is named, by what the node found.
    #[must_use]
    pub const fn default(&self) -> Option<&Default> {
        self.default.as_ref()
    }

    /// The durable selection that is in force.
    #[must_use]
    pub const fn selection(&self) -> Option<&Target> {
        self.selection.as_ref()
    }

    /// Provider and model that serve whatever has no route, and who says so: the selection, or else the default.
    #[must_use]
    pub fn standing(&self) -> Option<(&str, Option<&str>, Source)> {
        let selected = self.selection.as_ref();
        let selected = selected.map(|one| (&*one.provider, Some(&*one.model), Source::Selection));
        selected.or_else(|| {
            let default = self.default.as_ref()?;
            Some((&*default.provider, default.model.as_deref(), Source::Default))
        })
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
        self.behind(primary, source, wanted)
    }

    /// What each place says of a role, the strongest first; those of the call and the phase are not known beforehand.
    #[must_use]
    pub fn explain(&self, role: &Role, project: &str) -> Vec<(Source, Option<&Target>)> {
        let selection = (Source::Selection, self.selection.as_ref());
        self.table.places(role, project).into_iter().chain([selection]).collect()
    }

    fn primary(&self, wanted: &Wanted<'_>) -> Result<(Target, Source), RouteError> {
        let asked = wanted.model.map(str::trim).filter(|asked| !asked.is_empty());
        if let Some(asked) = asked {
            return self.named(asked, wanted.role);
        }
        let phase = wanted.phase.map(|target| (target, Source::Phase));
        let routed = phase.or_else(|| self.table.find(wanted.role, wanted.project));
        let selected = self.selection.as_ref().map(|target| (target, Source::Selection));
        if let Some((target, source)) = routed.or(selected) {
            self.must_reach(target, source, wanted.role)?;
            return Ok((target.clone(), source));
        }
        let default = self.default.as_ref().ok_or(RouteError::Nobody)?;
        let provider = default.provider.clone();
        match &default.model {
            Some(model) => Ok((Target { provider, model: model.clone() }, Source::Default)),
            None => Err(RouteError::NoModel { provider }),
        }
    }

    fn must_reach(&self, target: &Target, by: Source, role: &Role) -> Result<(), RouteError> {
        if self.is_configured(&target.provider) {
            return Ok(());
        }
        let (role, target) = (role.clone(), target.clone());
        let variable = variable(&target.provider);
        Err(RouteError::Unconfigured { role, target, by, variable })
    }

    /// What `provider:model`, `provider/model` or a bare name means here. A bare one is asked of whoever serves what has
    /// no route.
    fn named(&self, asked: &str, role: &Role) -> Result<(Target, Source), RouteError> {
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
                let Some(selected) = &self.selection else {
                    return Ok(bare(self.default.as_ref().ok_or(RouteError::Nobody)?, model));
                };
                self.must_reach(selected, Source::Selection, role)?;
                let default = self.default.as_ref();
                let default = default.filter(|one| one.provider == selected.provider);
                let is_its = default.is_none_or(|one| one.names.take(model));
                Ok(if is_its {
                    (Target::new(&selected.provider, model), Source::Call)
                } else {
                    (selected.clone(), Source::Selection)
                })
            }
        }
    }

    /// The primary with the chains behind it, each model once, those dropped that can not serve the request.
    fn behind(
        &self,
        primary: Target,
        source: Source,
        wanted: &Wanted<'_>,
    ) -> Result<Routed, RouteError> {
        let chain = self.table.chain(wanted.role);
        let chain = chain.filter(|target| self.is_configured(&target.provider));
        let mut seen = BTreeSet::new();
        let (mut route, mut dropped, mut first) = (vec![], vec![], None);
        for target in std::iter::once(&primary).chain(chain) {
            if !seen.insert(target) {
                continue;
            }
            match fit(target, wanted.needs) {
                Ok(()) => route.push(self.candidate(target)),
                Err((unfit, why)) => {
                    // Only those before the first that serves were meant to serve in its place.
                    if route.is_empty() {
                        let Target { provider, model } = target.clone();
                        dropped.push(Dropped { provider, model, unfit });
                    }
                    first.get_or_insert(why);
                }
            }
        }
        match first {
            Some(why) if route.is_empty() => Err(why),
            Some(_) | None => Ok(Routed { route, dropped, source }),
        }
    }

    fn candidate(&self, target: &Target) -> Candidate {
        let Target { provider, model } = target;
        let facts = pricing::facts(provider, model);
        // What is not in the registry is its own kind of thing.
        let usual = || {
            let known = registry::provider(provider);
            known.map_or_else(|_| provider.clone(), |known| known.family.name().to_owned())
        };
        Candidate {
            provider: provider.clone(),
            model: model.clone(),
            price: pricing::price(provider, model),
            billing: registry::billing(provider),
            output_max: facts.and_then(|facts| facts.output_max).unwrap_or(OUTPUT_MAX),
            family: self.families.get(provider).cloned().unwrap_or_else(usual),
            context_max: facts.and_then(|facts| facts.context_max),
            tools_max: self.tools_max(provider),
        }
    }

    fn tools_max(&self, provider: &str) -> Option<u32> {
        let known = registry::provider(provider).ok()?;
        known.quirks.tools_max.and_then(|max| u32::try_from(max).ok())
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

/// Whether a model can serve a request, as far as that is known beforehand.
fn fit(target: &Target, needs: Needs) -> Result<(), (Unfit, RouteError)> {
    family_check(&target.provider, &target.model)
        .map_err(|mismatch| (Unfit::ModelMismatch, mismatch.into()))?;
    // Of a provider that the registry does not have, nothing is known.
    let known = registry::provider(&target.provider);
    match (needs, known.map(|known| known.quirks.parts)) {
        (Needs::Images, Ok(Parts::TextOnly)) => {
            Err((Unfit::CapabilityUnsupported, RouteError::TextOnly(target.clone())))
        }
        (Needs::Images, Ok(Parts::All) | Err(_)) | (Needs::Text, _) => Ok(()),
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
    match &default.model {
        Some(model) if !default.names.take(name) => {
            (Target::new(&default.provider, model), Source::Default)
        }
        Some(_) | None => (Target::new(&default.provider, name), Source::Call),
    }
}

#[cfg(test)]
mod tests;
