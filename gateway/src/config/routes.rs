//! Who serves which role: `PITON_ROUTE_<ROLE>`, the table file of `model_routes_path`, the chains of fallbacks.
//!
//! Everything is checked here, and a bad route stops the start: a node that quietly asked another model than the one
//! that somebody wrote down would be worse than none. Whether a provider has a key is not: a login can come later.

use super::merge::{Problem, Reader};
use super::rule::{self, Broken, Raw};
use super::{Known, Model, Origin, nearest};
use actors::routing::{Independence, Table, Target};
use events::role::{KNOWN, Role, family_check};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the variables of routes start with.
pub(super) const PREFIX: &str = "PITON_ROUTE_";
/// Bytes of the largest table file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The table file. An unknown field is an error: a misspelt role's table must not be silently without effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    routes: BTreeMap<String, String>,
    #[serde(default)]
    projects: BTreeMap<String, Project>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    #[serde(default)]
    roles: BTreeMap<String, String>,
}

/// Asks for every key about routes. Faults are remembered by the reader.
pub(super) fn read(
    reader: &mut Reader<'_>,
    known: &[Known<'_>],
    home: Option<&Path>,
) -> (Table, Option<PathBuf>) {
    let path = reader.take("model_routes_path", rule::folder(home));
    let independence = reader.take("evaluator_independence", independence);
    let mut table = Table { independence, ..Table::default() };
    if let Some(path) = path.clone() {
        let at = reader.origin("model_routes_path");
        match file(&path) {
            Ok(file) => from_file(reader, known, &mut table, file, &path),
            Err(why) => {
                reader.problems.push(Problem::Unreadable { path, why: format!("{why} ({at})") });
            }
        }
    }
    table.environment = from_environment(reader, known);
    let fallbacks = reader.take("fallback_providers", rule::models).unwrap_or_default();
    table.fallbacks = targets(reader, known, "fallback_providers", fallbacks);
    for name in reader.below("roles") {
        let key = format!("roles.{}.fallback_providers", super::file::segment(&name));
        let chain = reader.take(&key, rule::models).unwrap_or_default();
        let chain = targets(reader, known, &key, chain);
        let at = reader.origin(&key);
        match name.parse::<Role>() {
            Ok(role) => {
                table.role_fallbacks.insert(role, chain);
            }
            Err(error) => reader.problems.push(bad(at, &key, &name, error.to_string())),
        }
    }
    (table, path)
}

fn bad(at: Origin, key: &str, value: &str, rule: String) -> Problem {
    Problem::Wrong { at, key: key.to_owned(), value: format!("{value:?}"), rule }
}

fn independence(raw: &Raw) -> Result<Independence, Broken> {
    match rule::text(raw) {
        Some("require") => Ok(Independence::Require),
        Some("warn") => Ok(Independence::Warn),
        Some("off") => Ok(Independence::Off),
        _ => Err(Broken::Shown("give require, warn or off".to_owned())),
    }
}

fn file(path: &Path) -> Result<File, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| {
        format!(r#"{error}: write {{"routes": {{ROLE: "PROVIDER:MODEL"}}, "projects": {{ID: {{"roles": …}}}}}}"#)
    })
}

/// A model of a route, under its provider's own id; of another vendor than the provider's is a fault here.
fn target(known: &[Known<'_>], model: &Model) -> Result<Target, String> {
    let is_it =
        |one: &&Known<'_>| one.id == model.provider || one.aliases.contains(&&*model.provider);
    let Some(provider) = known.iter().find(is_it) else {
        let names = known.iter().flat_map(|one| std::iter::once(&one.id).chain(one.aliases));
        let meant = nearest(&model.provider, names.copied());
        let meant = meant
            .map_or_else(String::new, |meant| format!("; {meant} is the nearest that is known"));
        return Err(format!("{:?} is not a known provider{meant}", model.provider));
    };
    family_check(provider.id, &model.name).map_err(|mismatch| mismatch.to_string())?;
    Ok(Target::new(provider.id, &model.name))
}

fn targets(
    reader: &mut Reader<'_>,
    known: &[Known<'_>],
    key: &str,
    models: Vec<Model>,
) -> Vec<Target> {
    let mut found = vec![];
    for model in models {
        match target(known, &model) {
            Ok(target) => found.push(target),
            Err(rule) => {
                let at = reader.origin(key);
                reader.problems.push(bad(at, key, &model.to_string(), rule));
            }
        }
    }
    found
}

/// One route: its role by name and its model as text.
fn route(known: &[Known<'_>], text: &str) -> Result<Target, String> {
    let model: Model = text.trim().parse().map_err(|error: super::NotAModel| error.to_string())?;
    target(known, &model)
}

fn from_file(
    reader: &mut Reader<'_>,
    known: &[Known<'_>],
    table: &mut Table,
    file: File,
    path: &Path,
) {
    let mut roles = |routes: BTreeMap<String, String>, of: &str| {
        let mut found = BTreeMap::new();
        for (name, text) in routes {
            let parsed = name.parse::<Role>().map_err(|error| error.to_string());
            match parsed.and_then(|role| Ok((role, route(known, &text)?))) {
                Ok((role, target)) => {
                    found.insert(role, target);
                }
                Err(rule) => {
                    let at = Origin::Table(PathBuf::from(path));
                    reader.problems.push(bad(at, &format!("{of}.{name}"), &text, rule));
                }
            }
        }
        found
    };
    table.file = roles(file.routes, "routes");
    for (id, project) in file.projects {
        let found = roles(project.roles, &format!("projects.{id}.roles"));
        table.projects.insert(id, found);
    }
}

fn from_environment(reader: &mut Reader<'_>, known: &[Known<'_>]) -> BTreeMap<String, Target> {
    let mut found = BTreeMap::new();
    let ours: Vec<String> = reader.environment.ours().map(str::to_owned).collect();
    for name in ours {
        let Some(role) = name.strip_prefix(PREFIX) else { continue };
        let text = reader.environment.get(&name).unwrap_or_default();
        let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let at = Origin::Environment(name.clone());
        if role.is_empty() || !role.chars().all(allowed) {
            let rule =
                format!("{name} names no role: write {PREFIX}PLANNER or another role in capitals");
            reader.problems.push(bad(at, &name, text, rule));
            continue;
        }
        match route(known, text) {
            Ok(target) => {
                found.insert(role.to_owned(), target);
            }
            Err(rule) => reader.problems.push(bad(at, &name, text, rule)),
        }
    }
    found
}

/// Routes of the environment whose role nothing here asks by itself, and that look like one that something does. A
/// warning only: any role that a caller names is one.
pub(super) fn doubtful(table: &Table) -> Vec<String> {
    let known: Vec<String> = KNOWN.iter().map(|role| role.to_ascii_uppercase()).collect();
    let is_known = |name: &String| {
        let mut all = known.iter();
        all.any(|one| name == one || name.starts_with(&format!("{one}_")))
    };
    let unknown = table.environment.keys().filter(|name| !is_known(name));
    unknown
        .filter_map(|name| {
            let meant = nearest(name, known.iter().map(String::as_str))?;
            Some(format!("{PREFIX}{name} routes a role that nothing asks by itself; {PREFIX}{meant} is the nearest that does"))
        })
        .collect()
}

/// Its keys with their values as the file would spell them.
pub(super) fn spoken(table: &Table, path: Option<&Path>) -> Vec<(String, String)> {
    let list =
        |targets: &[Target]| targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",");
    let mut spoken = vec![("fallback_providers".to_owned(), list(&table.fallbacks))];
    for (role, chain) in &table.role_fallbacks {
        let name = super::file::segment(role.as_str());
        spoken.push((format!("roles.{name}.fallback_providers"), list(chain)));
    }
    let independence = table.independence.map_or("", Independence::name);
    spoken.push(("evaluator_independence".to_owned(), independence.to_owned()));
    spoken.push((
        "model_routes_path".to_owned(),
        path.map_or_else(String::new, |path| path.display().to_string()),
    ));
    spoken
}
