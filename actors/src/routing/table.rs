//! The routes of roles, as configured: from the environment, the table file and its projects, and the chains of
//! fallbacks.

use super::{Routing, Source};
use events::role::{Independence, Role, family_check};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A model at a provider, as a route names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
}

impl Target {
    /// A model at a provider.
    #[must_use]
    pub fn new(provider: &str, model: &str) -> Self {
        Self { provider: provider.to_owned(), model: model.to_owned() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

/// The routes of roles and what stands behind them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// By project, from the table file.
    pub projects: BTreeMap<String, BTreeMap<Role, Target>>,
    /// By [`Role::variable`], from the environment.
    pub environment: BTreeMap<String, Target>,
    /// From the table file.
    pub file: BTreeMap<Role, Target>,
    /// Fallbacks of every role, in order.
    pub fallbacks: Vec<Target>,
    /// Fallbacks of a role, before those.
    pub role_fallbacks: BTreeMap<Role, Vec<Target>>,
    /// Whether the evaluator must be independent of the generator; see [`Routing::independence`].
    pub independence: Option<Independence>,
}

/// Something about the routes that an operator should see; each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A route leads to a provider that has no key or address here.
    #[error("role {role} is routed to {target}, whose provider is not configured: set {variable}")]
    Unconfigured {
        /// Whose route.
        role: String,
        /// Where it leads.
        target: Target,
        /// What to set.
        variable: String,
    },
    /// A fallback leads to such a provider, and is skipped.
    #[error("fallback {target} is skipped, for its provider is not configured: set {variable}")]
    FallbackUnconfigured {
        /// Where it leads.
        target: Target,
        /// What to set.
        variable: String,
    },
    /// The selection leads to such a provider.
    #[error(
        "what has no route is routed to {target} by the selection, whose provider is not configured: set {variable}, or \
         `piton selection clear`"
    )]
    SelectionUnconfigured {
        /// Where it leads.
        target: Target,
        /// What to set.
        variable: String,
    },
    /// What was selected is plainly another vendor's model.
    #[error(
        "the stored selection is ignored: {0}; `piton selection set` another, or `piton selection clear`"
    )]
    SelectionIgnored(events::role::Mismatch),
    /// A model is plainly another vendor's than its provider's.
    #[error("{0}")]
    Mismatch(events::role::Mismatch),
    /// The evaluator is served by whom it is to judge.
    #[error(
        "the evaluator and the generator are both served by {provider}: route one of them to another provider, or set \
         evaluator_independence = \"off\""
    )]
    Dependent {
        /// By whom.
        provider: String,
    },
}

impl Table {
    /// The route of a role for a project, and who says so.
    pub(super) fn find(&self, role: &Role, project: &str) -> Option<(&Target, Source)> {
        self.places(role, project).into_iter().find_map(|(source, target)| Some((target?, source)))
    }

    /// What each place says of a role for a project, the strongest first.
    pub(super) fn places(&self, role: &Role, project: &str) -> [(Source, Option<&Target>); 3] {
        let roles: Vec<Role> = std::iter::once(role.clone()).chain(role.general()).collect();
        let project = self.projects.get(project);
        let by_project = project.and_then(|routes| roles.iter().find_map(|role| routes.get(role)));
        let by_env = roles.iter().find_map(|role| self.environment.get(&role.variable()));
        let by_file = roles.iter().find_map(|role| self.file.get(role));
        [(Source::Project, by_project), (Source::Env, by_env), (Source::Table, by_file)]
    }

    /// The fallbacks of a role, in order: its own, or its general role's, then those of every role.
    pub(super) fn chain(&self, role: &Role) -> impl Iterator<Item = &Target> {
        let own = self.role_fallbacks.get(role);
        let own = own.or_else(|| self.role_fallbacks.get(&role.general()?));
        own.into_iter().flatten().chain(&self.fallbacks)
    }

    /// The roles that something is said of, by name; those of the environment in its spelling.
    fn routes(&self) -> impl Iterator<Item = (String, &Target)> {
        let own = |(role, target)| -> (String, &Target) { (Role::to_string(role), target) };
        let projects = self.projects.iter().flat_map(|(project, routes)| {
            routes
                .iter()
                .map(move |(role, target)| (format!("{role} of project {project}"), target))
        });
        let environment = self.environment.iter().map(|(name, target)| (name.clone(), target));
        self.file.iter().map(own).chain(environment).chain(projects)
    }
}

impl Routing {
    /// Whether the evaluator must be independent of the generator: as configured, else required as soon as there are
    /// two providers to choose from.
    #[must_use]
    pub fn independence(&self) -> Independence {
        let usual =
            if self.configured.len() > 1 { Independence::Require } else { Independence::Warn };
        self.table.independence.unwrap_or(usual)
    }

    /// What an operator should see about the routes, in a stable order.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = vec![];
        let mut seen = BTreeSet::new();
        for (role, target) in self.table.routes() {
            if !self.is_configured(&target.provider) {
                let (variable, target) = (super::variable(&target.provider), target.clone());
                problems.push(Problem::Unconfigured { role, target, variable });
            }
        }
        let chains = self.table.role_fallbacks.values().flatten().chain(&self.table.fallbacks);
        for target in chains.filter(|target| seen.insert(*target)) {
            if !self.is_configured(&target.provider) {
                let (variable, target) = (super::variable(&target.provider), target.clone());
                problems.push(Problem::FallbackUnconfigured { target, variable });
            }
            if let Err(mismatch) = family_check(&target.provider, &target.model) {
                problems.push(Problem::Mismatch(mismatch));
            }
        }
        problems.extend(self.selection_problem());
        problems.extend(self.dependence());
        problems
    }

    /// What an operator should see about the durable selection.
    #[must_use]
    pub fn selection_problem(&self) -> Option<Problem> {
        if let Some(mismatch) = &self.ignored {
            return Some(Problem::SelectionIgnored(mismatch.clone()));
        }
        let target = self.selection.as_ref()?;
        let unconfigured = !self.is_configured(&target.provider);
        unconfigured.then(|| Problem::SelectionUnconfigured {
            target: target.clone(),
            variable: super::variable(&target.provider),
        })
    }

    /// That the evaluator is served by whom it is to judge, in no project or in one that has routes. Only where somebody
    /// routed one of the two: without a route everybody is served by the default, and that is what was wanted.
    #[must_use]
    pub fn dependence(&self) -> Option<Problem> {
        if self.independence() == Independence::Off {
            return None;
        }
        let projects = self.table.projects.keys().map(String::as_str);
        std::iter::once("").chain(projects).find_map(|project| self.dependence_in(project))
    }

    fn dependence_in(&self, project: &str) -> Option<Problem> {
        let role = |name: &str| name.parse::<Role>().ok();
        let (evaluator, generator) = (role("evaluator")?, role("generator")?);
        let is_routed = |role| self.table.find(role, project).is_some();
        if !is_routed(&evaluator) && !is_routed(&generator) {
            return None;
        }
        let of = |role| {
            let wanted = super::Wanted { project, ..super::Wanted::model(None, role) };
            self.route(&wanted).ok()?.route.into_iter().next()
        };
        let (evaluator, generator) = (of(&evaluator)?, of(&generator)?);
        (evaluator.provider == generator.provider)
            .then_some(Problem::Dependent { provider: evaluator.provider })
    }
}
