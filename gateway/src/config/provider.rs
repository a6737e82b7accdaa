//! What is said of each provider, and what the known ones default to.

use super::merge::{Problem, Reader};
use super::{Key, Known, Origin, Provider, Secret, environment, file, nearest, rule};
use axum::http::HeaderName;
use providers::registry::{self, read_key};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Every provider that is known. Faults are remembered by the reader.
pub(super) fn read(reader: &mut Reader<'_>, known: &[Known<'_>]) -> BTreeMap<String, Provider> {
    let table = |id: &str| format!("providers.{}", file::segment(id));
    let mut found = BTreeMap::new();
    for Known { id, aliases, keys, regions } in known {
        for alias in *aliases {
            reader.rename(&table(alias), &table(id));
        }
        let table = table(id);
        let family = reader.take(&format!("{table}.family"), rule::family);
        let base_url = reader.take(&format!("{table}.base_url"), rule::url);
        let api_key_env = reader.take(&format!("{table}.api_key_env"), rule::variable);
        let timeout =
            reader.take_or(&format!("{table}.timeout_seconds"), "600", rule::seconds(1, 86_400));
        let headers = reader.take_table(&format!("{table}.headers"), rule::header);
        for name in headers.keys().filter(|name| HeaderName::from_str(name).is_err()) {
            let key = format!("{table}.headers.{name}");
            let (value, rule) =
                ("(not shown)".to_owned(), "this is no name of a header".to_owned());
            let at = reader.origin(&key);
            reader.problems.push(Problem::Wrong { at, key, value, rule });
        }
        let ours = key_variable(id);
        let variables = match &api_key_env {
            Some(name) => vec![name.as_str()],
            None => std::iter::once(ours.as_str()).chain(keys.iter().copied()).collect(),
        };
        let environment = reader.environment;
        let read = |name: &str| environment.get(name).map(str::to_owned);
        let key = variables.into_iter().find_map(|variables| {
            let secret = Secret::new(read_key(variables, &read)?);
            let variable = variables.split(':').next().unwrap_or(variables).to_owned();
            Some(Key { variable, secret })
        });
        let region = regions.iter().find_map(|variable| read(variable));
        let region = match regions {
            [] => None,
            _ => reader.take(&format!("{table}.region"), rule::region).or(region),
        };
        let issuer_url = match registry::issuer(id) {
            Some(_) => reader.take(&format!("{table}.issuer_url"), rule::issuer),
            None => None,
        };
        let Some(timeout) = timeout else { continue };
        let headers = headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        let provider =
            Provider { family, base_url, api_key_env, key, region, issuer_url, timeout, headers };
        found.insert((*id).to_owned(), provider);
    }
    let is_known = |id: &String| known.iter().any(|known| known.id == id);
    for id in reader.below("providers").into_iter().filter(|id| !is_known(id)) {
        let at = reader.remove(&table(&id));
        let problem = unknown(at, &id, known);
        reader.problems.push(problem);
    }
    found
}

/// Our variable for a provider's key, which is tried before the vendor's own.
pub(super) fn key_variable(id: &str) -> String {
    environment::variable(&format!("providers.{id}.api_key"))
}

pub(super) fn unknown(at: Origin, id: &str, known: &[Known<'_>]) -> Problem {
    let names = known.iter().flat_map(|known| std::iter::once(&known.id).chain(known.aliases));
    let nearest = nearest(id, names.copied()).map(str::to_owned);
    Problem::NoProvider { at, id: id.to_owned(), nearest }
}
