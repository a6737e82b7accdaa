//! The tools of a node, by the names that a model knows them by.
//!
//! Built once from all of them and then never changed, so that one run sees one set. A tool that can not be used stays
//! out, with the reason, and the others do not. Whatever runs goes through [`Entry::call`], which checks the arguments
//! again: between the check that was recorded and the dispatch lie a journal, perhaps a person's edit, perhaps a restart.

mod entry;

pub use entry::Entry;

use crate::canonical;
use crate::name::{Identity, NameTaken, Names};
use crate::search::{Found, RAW_NAME, SearchTools};
use crate::settings::Settings;
use crate::tool::{Origin, Tool};
use entry::Unusable;
use events::prompt::Catalogue;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tools of a node.
#[derive(Debug, Default)]
pub struct Registry {
    /// By model-facing name.
    entries: BTreeMap<String, Entry>,
    names: Names,
    quarantined: Vec<Quarantined>,
    settings: Settings,
    /// What the search is called, where there is one.
    search: Option<String>,
}

/// A tool that can not be used: no model is offered it, and nobody can call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// What it would be called.
    pub name: String,
    /// Which one it is.
    pub tool: Identity,
    /// What is wrong with it.
    pub why: String,
}

/// The tools can not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two tools would have one name.
    #[error(transparent)]
    Name(#[from] NameTaken),
    /// Something is ruled of a tool that is not there.
    #[error("tools.{name:?} rules about a tool that is not here: the ones that came with the node are {}; one of a server is written SERVER/TOOL", known.join(", "))]
    Stranger {
        /// What is ruled about.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// No tool has this model-facing name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no tool is called {name:?}: the known ones are {}", known.join(", "))]
pub struct UnknownTool {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<String>,
}

impl Registry {
    /// Takes all tools as they are; their order changes nothing. There is no search over them.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] names the tools that can not stand side by side.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        Self::build(tools.into_iter().collect(), Settings::default(), &Names::default())
    }

    /// Takes the tools that the rules let in, under the names that were given before, and a search over them.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] for tools that can not stand side by side, and a rule about a tool that is not there.
    pub fn with(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        settings: Settings,
        recorded: &Names,
    ) -> Result<Self, RegistryError> {
        let tools: Vec<Arc<dyn Tool>> = tools.into_iter().collect();
        let mut identities: Vec<Identity> = tools.iter().map(|tool| identity(&**tool)).collect();
        identities.push(Identity::native(RAW_NAME));
        if let Some(name) = settings.strangers(&identities).first() {
            let native = identities.iter().filter(|tool| tool.origin == Origin::Native);
            let known = native.map(Identity::to_string).collect();
            return Err(RegistryError::Stranger { name: (*name).to_owned(), known });
        }
        let named = recorded.with(settings.style, &[Identity::native(RAW_NAME)])?;
        let mut registry = Self::build(tools, settings, &named)?;
        let lines: Vec<Found> = registry.entries.values().map(Found::of).collect();
        registry.add(Arc::new(SearchTools::new(lines)));
        registry.search = registry.names.get(&Identity::native(RAW_NAME)).map(str::to_owned);
        Ok(registry)
    }

    fn build(
        tools: Vec<Arc<dyn Tool>>,
        settings: Settings,
        recorded: &Names,
    ) -> Result<Self, RegistryError> {
        let identities: Vec<Identity> = tools.iter().map(|tool| identity(&**tool)).collect();
        let names = recorded.with(settings.style, &identities)?;
        let mut registry = Self { names, settings, ..Self::default() };
        for (tool, identity) in tools.into_iter().zip(identities) {
            if registry.settings.lets_in(&identity) {
                registry.add(tool);
            }
        }
        Ok(registry)
    }

    /// Takes a tool in, or puts it aside and says so.
    fn add(&mut self, tool: Arc<dyn Tool>) {
        let identity = identity(&*tool);
        let name = self.names.get(&identity).unwrap_or_default().to_owned();
        let overlay = self.settings.of(&identity);
        match Entry::new(name.clone(), tool, overlay, self.settings.observation_chars) {
            Ok(entry) => {
                self.entries.insert(name, entry);
            }
            Err(error) => {
                let why = reason(&error);
                tracing::warn!(tool = %name, origin = identity.origin.word(), why, "tool_quarantined");
                self.quarantined.push(Quarantined { name, tool: identity, why });
            }
        }
    }

    /// The tool of this model-facing name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The tool of this model-facing name, or of this name of its own (`note.append`, `cad/part.open`).
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        let own = |entry: &&Entry| entry.identity().to_string() == name;
        self.get(name).or_else(|| self.entries.values().find(own))
    }

    /// All tools, by model-facing name, the search among them.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The model-facing names of all tools but the search, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str).filter(|name| Some(*name) != self.search())
    }

    /// What the search over the tools is called; it is for a run that is not offered all of them.
    #[must_use]
    pub fn search(&self) -> Option<&str> {
        self.search.as_deref()
    }

    /// The tools that can not be used.
    #[must_use]
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Which name each tool has, to be recorded.
    #[must_use]
    pub const fn given(&self) -> &Names {
        &self.names
    }

    /// What is ruled.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What a model is offered: canonical, sorted by name, each name once.
    ///
    /// # Errors
    ///
    /// [`UnknownTool`] for a name that nobody has.
    pub fn catalogue(&self, names: &[&str]) -> Result<Catalogue, UnknownTool> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let offers = names.into_iter().map(|name| {
            self.get(name).map(|entry| entry.offer().clone()).ok_or_else(|| self.unknown(name))
        });
        let offers: Vec<Value> = offers.collect::<Result<_, _>>()?;
        // Each offer was written in a list of its own when its tool was taken in, so all of them have a form.
        Ok(canonical::write(&Value::Array(offers)).map(Catalogue::new).unwrap_or_default())
    }

    /// That nobody has this name.
    #[must_use]
    pub fn unknown(&self, name: &str) -> UnknownTool {
        let known = self.names().map(str::to_owned).collect();
        UnknownTool { name: name.chars().take(80).collect(), known }
    }
}

fn identity(tool: &dyn Tool) -> Identity {
    Identity { origin: tool.origin(), raw: tool.name().to_owned() }
}

/// An error and what is behind it, in one line.
fn reason(error: &Unusable) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        words.push_str(": ");
        words.push_str(&error.to_string());
        source = error.source();
    }
    words
}

#[cfg(test)]
mod tests;
