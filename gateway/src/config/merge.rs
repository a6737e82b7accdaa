//! One key from four places: the strongest wins, and every place is checked, also the ones that lose.
//!
//! A key is known because it was asked for. What is left over at the end was misspelt, and is named with the nearest
//! key; ignoring it would leave a limit unset that somebody believes in.

use super::environment::{Environment, PREFIX, variable};
use super::nearest::nearest;
use super::rule::{Broken, Raw};
use super::{Flags, Origin};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) raw: Raw,
    pub(crate) origin: Origin,
}

/// One thing that is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Correct the name, or take the key out.
    #[error("{at}: {key} is not a setting{}", meant(.nearest.as_deref()))]
    Unknown {
        /// Where it stands.
        at: Origin,
        /// What was written.
        key: String,
        /// What was most likely meant.
        nearest: Option<String>,
    },
    /// Give a value that keeps the rule.
    #[error("{at}: {key} = {value}: {rule}")]
    Wrong {
        /// Where it stands.
        at: Origin,
        /// Which key.
        key: String,
        /// What was given, or that it is not shown.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// Name a file that exists, or none.
    #[error("{} does not exist, but {from} names it as the configuration", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
        /// Who named it.
        from: Origin,
    },
    /// Make the file readable.
    #[error("{} can not be read: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Mend the file.
    #[error("{}:{line}: {why}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// A loopback address, or a proxy with TLS in front.
    #[error(
        "{at}: bind = {bind} can be reached from other machines, and this node speaks plain HTTP: bind 127.0.0.1, or \
         put a proxy with TLS in front of it and say so (--behind-proxy, PITON_BEHIND_PROXY=true or behind_proxy = true)"
    )]
    Exposed {
        /// Who said so.
        at: Origin,
        /// Where it would listen.
        bind: SocketAddr,
    },
    /// Keep `data_dir` out of a file that was found through it.
    #[error(
        "{at}: data_dir names another folder than the one that this file was found in: take it out here"
    )]
    Elsewhere {
        /// Where it stands.
        at: Origin,
    },
    /// Correct the name, or call a server of your own `custom`.
    #[error("{at}: {id:?} is not a known provider{}; a server of your own is providers.custom", meant(.nearest.as_deref()))]
    NoProvider {
        /// Who named it.
        at: Origin,
        /// What it was called.
        id: String,
        /// What was most likely meant.
        nearest: Option<String>,
    },
    /// Keep one of the two.
    #[error("{at}: {key} is set twice, under two names of the same provider")]
    Twice {
        /// Where the second stands.
        at: Origin,
        /// Which key.
        key: String,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; {nearest} is the nearest that is known"))
}

/// Takes the keys one by one and remembers what was asked, what was found and what was wrong.
pub(crate) struct Reader<'a> {
    pub(crate) file: BTreeMap<String, Given>,
    pub(crate) environment: &'a Environment,
    pub(crate) flags: &'a Flags,
    pub(crate) asked: BTreeSet<String>,
    pub(crate) origins: BTreeMap<String, Origin>,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        file: BTreeMap<String, Given>,
        environment: &'a Environment,
        flags: &'a Flags,
    ) -> Self {
        let (asked, origins, problems) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Self { file, environment, flags, asked, origins, problems }
    }

    /// The value of a key that has a default. None only when some value of it is wrong, which is remembered.
    pub(crate) fn take_or<T>(
        &mut self,
        key: &str,
        default: &str,
        rule: impl Fn(&Raw) -> Result<T, Broken>,
    ) -> Option<T> {
        let default = Given { raw: Raw::Spoken(default.to_owned()), origin: Origin::Default };
        self.strongest(key, vec![default], rule)
    }

    /// The value of a key that may be absent.
    pub(crate) fn take<T>(
        &mut self,
        key: &str,
        rule: impl Fn(&Raw) -> Result<T, Broken>,
    ) -> Option<T> {
        self.strongest(key, Vec::new(), rule)
    }

    fn strongest<T>(
        &mut self,
        key: &str,
        mut given: Vec<Given>,
        rule: impl Fn(&Raw) -> Result<T, Broken>,
    ) -> Option<T> {
        given.extend(self.file.remove(key));
        let name = variable(key);
        if let Some(value) = self.environment.get(&name) {
            let origin = Origin::Environment(name);
            given.push(Given { raw: Raw::Spoken(value.to_owned()), origin });
        }
        given.extend(self.flags.given(key));
        self.asked.insert(key.to_owned());
        let mut strongest = None;
        for Given { raw, origin } in given {
            match rule(&raw) {
                Ok(value) => {
                    self.origins.insert(key.to_owned(), origin);
                    strongest = Some(value);
                }
                Err(broken) => {
                    self.problems.push(wrong(key, &raw, origin, broken));
                    strongest = None;
                }
            }
        }
        strongest
    }

    /// The keys of a table of free names, such as headers, in lower case. Only the file has such tables.
    pub(crate) fn take_table<T>(
        &mut self,
        key: &str,
        rule: impl Fn(&Raw) -> Result<T, Broken>,
    ) -> BTreeMap<String, T> {
        let prefix = format!("{key}.");
        let mut found = BTreeMap::new();
        let rest: Vec<String> =
            self.file.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
        for name in rest {
            let Some(Given { raw, origin }) = self.file.remove(&name) else { continue };
            let free = name.strip_prefix(&prefix).unwrap_or(&name).to_ascii_lowercase();
            match rule(&raw) {
                Ok(value) => {
                    self.origins.insert(format!("{prefix}{free}"), origin);
                    found.insert(free, value);
                }
                Err(broken) => self.problems.push(wrong(&name, &raw, origin, broken)),
            }
        }
        self.asked.insert(prefix);
        found
    }

    /// The names that the file still has below a table.
    pub(crate) fn below(&self, table: &str) -> BTreeSet<String> {
        let prefix = format!("{table}.");
        let below = self.file.keys().filter_map(|key| key.strip_prefix(&prefix));
        below
            .map(|rest| rest.split('.').next().unwrap_or(rest).trim_matches('"').to_owned())
            .collect()
    }

    fn inside(&self, table: &str) -> Vec<String> {
        let is_inside = |key: &str| {
            key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.file.keys().filter(|key| is_inside(key)).cloned().collect()
    }

    /// Takes a table of the file away, and says where it stood.
    pub(crate) fn remove(&mut self, table: &str) -> Origin {
        let gone: Vec<Given> =
            self.inside(table).iter().filter_map(|key| self.file.remove(key)).collect();
        gone.into_iter().next().map_or(Origin::Default, |given| given.origin)
    }

    /// Reads a table of the file under another name.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for key in self.inside(from) {
            let Some(given) = self.file.remove(&key) else { continue };
            let renamed = format!("{to}{}", key.strip_prefix(from).unwrap_or_default());
            match self.file.entry(renamed) {
                Entry::Vacant(free) => {
                    free.insert(given);
                }
                Entry::Occupied(taken) => {
                    let problem = Problem::Twice { at: given.origin, key: taken.key().clone() };
                    self.problems.push(problem);
                }
            }
        }
    }

    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// What the file still has is unknown, but for an empty table of known keys.
    pub(crate) fn refuse_the_rest(&mut self) {
        for (key, Given { raw, origin }) in std::mem::take(&mut self.file) {
            let prefix = format!("{key}.");
            let is_table = self.asked.iter().any(|asked| asked.starts_with(&prefix));
            match (is_table, &raw) {
                (true, Raw::EmptyTable) => (),
                (true, _) => {
                    let rule = Broken::Hidden(
                        "this is a table: write [table] and its keys below it".to_owned(),
                    );
                    self.problems.push(wrong(&key, &raw, origin, rule));
                }
                (false, _) => {
                    let nearest = self.nearest(&key);
                    self.problems.push(Problem::Unknown { at: origin, key, nearest });
                }
            }
        }
    }

    /// The nearest key of the same table, or else of all keys and tables.
    fn nearest(&self, key: &str) -> Option<String> {
        let keys = self.asked.iter().map(|asked| asked.trim_end_matches('.'));
        let sibling = key.rsplit_once('.').and_then(|(table, name)| {
            let names = keys.clone().filter_map(|key| key.rsplit_once('.'));
            let siblings = names.filter(|(beside, _)| *beside == table).map(|(_, name)| name);
            Some(format!("{table}.{}", nearest(name, siblings)?))
        });
        let tables = keys.clone().filter_map(|key| Some(key.rsplit_once('.')?.0));
        sibling.or_else(|| nearest(key, keys.chain(tables)).map(str::to_owned))
    }

    /// Variables of ours that set nothing but look as if they were meant to. A warning only: an orchestrator adds
    /// variables of its own for a service that is called `piton`.
    pub(crate) fn doubtful_variables(&self, others: &[&str]) -> Vec<String> {
        let known: BTreeSet<String> = self.asked.iter().map(|key| variable(key)).collect();
        let is_route = |name: &str| name.starts_with(super::routes::PREFIX);
        let unknown = self
            .environment
            .ours()
            .filter(|name| !known.contains(*name) && !others.contains(name) && !is_route(name));
        let all = known.iter().map(String::as_str).chain(others.iter().copied());
        // Compared without what they all begin with, or any two would look alike.
        let ends: Vec<&str> = all.map(own_part).collect();
        let doubtful = unknown.filter_map(|name| {
            let meant = nearest(own_part(name), ends.iter().copied())?;
            Some((name, format!("{PREFIX}{meant}")))
        });
        doubtful
            .map(|(name, meant)| {
                format!("{name} sets nothing; {meant} is the nearest variable that does")
            })
            .collect()
    }
}

fn own_part(variable: &str) -> &str {
    variable.strip_prefix(PREFIX).unwrap_or(variable)
}

fn wrong(key: &str, raw: &Raw, at: Origin, broken: Broken) -> Problem {
    let (value, rule) = match broken {
        Broken::Shown(rule) => (raw.to_string(), rule),
        Broken::Hidden(rule) => ("(not shown)".to_owned(), rule),
    };
    Problem::Wrong { at, key: key.to_owned(), value, rule }
}
