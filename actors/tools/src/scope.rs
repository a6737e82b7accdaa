//! What a run may be offered, as a plan that is frozen with it: a person's list, the disciplines that somebody named, or
//! those that a project shows; with neither, everything.
//!
//! A guess that is wrong hides a tool from a model, so a guess is made only where a project shows what it is, and a
//! search still finds what is hidden. A person's list is no guess: nothing outside of it is offered or found.

use crate::registry::{Entry, Registry, UnknownTool};
use crate::settings::{Domain, Settings};
use crate::tool::Origin;
use events::run::choose::{Keep, Line, Plan};
use std::collections::{BTreeMap, BTreeSet};

/// The end of the raw name of a tool that opens a session.
const OPENER: &str = "_open_session";

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Everything.
    Whole,
    /// What a person chose, by any of its names.
    Enabled(&'a [String]),
    /// What every run needs and what these disciplines need.
    Domains(&'a BTreeSet<String>),
}

/// Nobody configured this discipline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no domain is called {name:?}: the configured ones are {}", known.join(", "))]
pub struct UnknownDomain {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<String>,
}

/// The disciplines that a project shows: those whose kinds of artifacts it has, and those whose words its description
/// uses. None when it shows none; then it is not scoped.
#[must_use]
pub fn infer(
    domains: &BTreeMap<String, Domain>,
    artifact_kinds: &BTreeSet<String>,
    description: &str,
) -> Option<BTreeSet<String>> {
    let said = format!(" {} ", spoken(description));
    let is_shown = |domain: &Domain| {
        let mut words = domain.keywords.iter().map(|word| spoken(word));
        !domain.artifact_kinds.is_disjoint(artifact_kinds)
            || words.any(|word| !word.is_empty() && said.contains(&format!(" {word} ")))
    };
    let shown: BTreeSet<String> =
        domains.iter().filter(|(_, one)| is_shown(one)).map(|(name, _)| name.clone()).collect();
    (!shown.is_empty()).then_some(shown)
}

/// Words in lower case with one space between them, so that a keyword is found as a word and not inside one.
fn spoken(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Checks the names of disciplines.
///
/// # Errors
///
/// [`UnknownDomain`] for one that is not configured.
pub fn domains(
    settings: &Settings,
    names: impl IntoIterator<Item = String>,
) -> Result<BTreeSet<String>, UnknownDomain> {
    let known = &settings.domains;
    let one = |name: String| {
        if known.contains_key(&name) {
            Ok(name)
        } else {
            let name = name.chars().take(80).collect();
            Err(UnknownDomain { name, known: known.keys().cloned().collect() })
        }
    };
    names.into_iter().map(one).collect()
}

/// Everything that a run of this scope may be offered.
///
/// # Errors
///
/// [`UnknownTool`] for a chosen one that nobody has.
pub fn plan(registry: &Registry, scope: Scope<'_>) -> Result<Plan, UnknownTool> {
    let settings = registry.settings();
    let groups = groups(registry);
    let search = registry.search();
    let line = |entry: &Entry, is_shown: bool| {
        let keep = if Some(entry.name()) == search {
            Keep::Search
        } else if is_shown {
            keep(settings, entry)
        } else {
            Keep::Hidden
        };
        let group = groups.get(entry.name()).filter(|_| is_shown).cloned();
        Line {
            name: entry.name().to_owned(),
            origin: entry.origin().word().to_owned(),
            keep,
            group,
        }
    };
    let lines = match scope {
        Scope::Whole => registry.entries().map(|entry| line(entry, true)).collect(),
        Scope::Domains(domains) => {
            registry.entries().map(|entry| line(entry, is_of(settings, entry, domains))).collect()
        }
        Scope::Enabled(names) => {
            let mut chosen = BTreeMap::new();
            for name in names {
                let entry = registry.find(name).ok_or_else(|| registry.unknown(name))?;
                chosen.insert(entry.name(), line(entry, true));
            }
            // Whoever enables the search enables what it finds.
            if search.is_some_and(|search| chosen.contains_key(search)) {
                for entry in registry.entries() {
                    chosen.entry(entry.name()).or_insert_with(|| line(entry, false));
                }
            }
            chosen.into_values().collect()
        }
    };
    Ok(Plan { lines })
}

/// Whether a tool belongs to one of these disciplines, or to none and so to every run.
fn is_of(settings: &Settings, entry: &Entry, domains: &BTreeSet<String>) -> bool {
    let Origin::Server(server) = entry.origin() else { return true };
    let mut claiming = settings.domains.iter().filter(|(_, one)| one.servers.contains(&server));
    let is_claimed = claiming.clone().next().is_some();
    !is_claimed || claiming.any(|(name, _)| domains.contains(name))
}

fn keep(settings: &Settings, entry: &Entry) -> Keep {
    let (origin, raw) = (entry.origin(), entry.raw_name());
    let verbs = &settings.keep.session_critical_verbs;
    if origin == Origin::Native {
        Keep::Native
    } else if entry.pinned() {
        Keep::Pinned
    } else if raw.ends_with(OPENER)
        || raw == OPENER.trim_start_matches('_')
        || raw.ends_with(".open_session")
    {
        Keep::Opener
    } else if verbs.iter().any(|verb| raw.ends_with(verb.as_str())) {
        Keep::Verb
    } else if settings.keep.niche_servers.contains(origin.word()) {
        Keep::Niche
    } else {
        Keep::Share
    }
}

/// The group of each tool that is in one, by model-facing name.
fn groups(registry: &Registry) -> BTreeMap<String, String> {
    let groups = &registry.settings().keep.companion_groups;
    let members =
        groups.iter().flat_map(|(group, members)| members.iter().map(move |one| (group, one)));
    members
        .filter_map(|(group, member)| {
            Some((registry.find(member)?.name().to_owned(), group.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
