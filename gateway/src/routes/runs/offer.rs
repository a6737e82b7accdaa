//! Which tools a new run is offered: a person's choice or what its disciplines need, and of those what the providers of
//! its route take.

use crate::app::App;
use crate::error::{ApiError, Code};
use events::run::choose::{self, Keep, Plan};
use events::run::spec::Spec;
use std::collections::BTreeSet;
use tools::scope::{self, Scope};

/// Disciplines that one request may name.
const DOMAINS_MAX: usize = 32;
/// So many tools any provider takes: where nothing else may come in later, there is nothing to choose with each request.
const FEW: usize = 32;
/// Tools that one request may name: more than any node has.
const NAMES_MAX: usize = 4_096;

fn bad(message: String) -> ApiError {
    ApiError::new(Code::InvalidRequest, message)
}

/// Everything that the run may be offered.
///
/// # Errors
///
/// 400 for a tool or a discipline that is not there, and for both kinds of choice at once.
pub(super) fn plan(
    app: &App,
    enabled: Option<&[String]>,
    domains: Option<Vec<String>>,
) -> Result<Plan, ApiError> {
    if enabled.is_some_and(|names| names.len() > NAMES_MAX) {
        return Err(bad(format!("enabled_tools: give at most {NAMES_MAX} names")));
    }
    let scoped = domains.filter(|names| !names.is_empty());
    if scoped.as_ref().is_some_and(|names| names.len() > DOMAINS_MAX) {
        return Err(bad(format!("domains: give at most {DOMAINS_MAX} names")));
    }
    let domains = scoped.map(|names| scope::domains(app.tools.settings(), names)).transpose();
    let domains = domains.map_err(|error| bad(format!("domains: {error}")))?;
    let scope = match (enabled, &domains) {
        (Some(_), Some(_)) => {
            return Err(bad(
                "domains: enabled_tools says already what is offered: give one of the two"
                    .to_owned(),
            ));
        }
        (Some(names), None) => Scope::Enabled(names),
        (None, Some(domains)) => Scope::Domains(domains),
        (None, None) => Scope::Whole,
    };
    scope::plan(&app.tools, scope).map_err(|error| bad(format!("enabled_tools: {error}")))
}

/// The run with all that it may be offered; what a request offers of it is chosen with each one, by what its provider takes.
///
/// # Errors
///
/// 400 when what must be kept is more than that.
pub(super) fn choose(app: &App, plan: &Plan, mut spec: Spec) -> Result<Spec, ApiError> {
    let caps = spec.route.iter().filter_map(|who| who.tools_max).min();
    let cap = caps.and_then(|cap| usize::try_from(cap).ok());
    // Nobody is asked for what no provider of the route would take.
    let choice = choose::choose(plan, cap, &[], &BTreeSet::new())
        .map_err(|error| ApiError::new(Code::ToolsTooMany, error.to_string()))?;
    let hides = plan.lines.iter().any(|line| line.keep == Keep::Hidden);
    if choice.offered.len() <= FEW && choice.dropped.is_empty() && !hides {
        let names: Vec<&str> = choice.offered.iter().map(String::as_str).collect();
        spec.tools = app.tools.catalogue(&names).map_err(|error| bad(error.to_string()))?;
        spec.server_tools = choice.offered;
        return Ok(spec);
    }
    let names: Vec<&str> = plan.lines.iter().map(|line| line.name.as_str()).collect();
    spec.tools = app.tools.catalogue(&names).map_err(|error| bad(error.to_string()))?;
    spec.server_tools = names.into_iter().map(str::to_owned).collect();
    spec.plan = plan.clone();
    Ok(spec)
}
