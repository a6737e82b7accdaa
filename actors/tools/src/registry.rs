//! The tools of a node, by the names that a model knows them by.
//!
//! Built once from all of them and then never changed, so that one run sees one set. Whatever runs goes through
//! [`Entry::call`], which checks the arguments again: between the check that was recorded and the dispatch lie a
//! journal, perhaps a person's edit, perhaps a restart.

use crate::canonical::{self, Canonical, WriteError, canonical};
use crate::name::{NameTaken, safe_names};
use crate::schema::{Schema, SchemaError};
use crate::tool::{Call, Gate, Invalid, Origin, ReplayClass, Tier, Tool, ToolError};
use events::prompt::Catalogue;
use events::quantity::Millis;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Characters of a result that a model is told; the rest is cut, and the cut is said.
pub const RESULT_CHARS_MAX: usize = 16_000;

/// The tools of a node.
#[derive(Debug, Default)]
pub struct Registry {
    /// By model-facing name.
    entries: BTreeMap<String, Entry>,
}

/// One tool, ready to be called.
#[derive(Debug)]
pub struct Entry {
    name: String,
    tool: Arc<dyn Tool>,
    schema: Schema,
    /// `{description, name, parameters}`, as a model is offered it.
    offer: Value,
}

/// A tool can not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two tools would have one name.
    #[error(transparent)]
    Name(#[from] NameTaken),
    /// Its schema is none.
    #[error("tool {name:?} can not be used")]
    Schema {
        /// Its own name.
        name: String,
        /// What is wrong.
        source: SchemaError,
    },
    /// Its schema can not be offered.
    #[error("tool {name:?} can not be offered")]
    Offer {
        /// Its own name.
        name: String,
        /// What is wrong.
        source: WriteError,
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
    /// Takes all tools; their order changes nothing.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] names the tool that can not be used.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        let tools: Vec<Arc<dyn Tool>> = tools.into_iter().collect();
        let raw: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        let names = safe_names(&raw)?;
        let mut entries = BTreeMap::new();
        for tool in &tools {
            let name = names.get(tool.name()).cloned().unwrap_or_default();
            entries.insert(name.clone(), Entry::new(name, Arc::clone(tool))?);
        }
        Ok(Self { entries })
    }

    /// The tool of this model-facing name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All model-facing names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// What a model is offered: canonical, sorted by name, each name once.
    ///
    /// # Errors
    ///
    /// [`UnknownTool`] for a name that nobody has.
    pub fn catalogue(&self, names: &[&str]) -> Result<Catalogue, UnknownTool> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let offers = names.into_iter().map(|name| {
            let unknown = || UnknownTool {
                name: name.chars().take(80).collect(),
                known: self.names().map(str::to_owned).collect(),
            };
            self.get(name).map(|entry| entry.offer.clone()).ok_or_else(unknown)
        });
        let offers: Vec<Value> = offers.collect::<Result<_, _>>()?;
        // Each offer was written in a list of its own when its tool was taken in, so all of them have a form.
        Ok(canonical::write(&Value::Array(offers)).map(Catalogue::new).unwrap_or_default())
    }
}

impl Entry {
    fn new(name: String, tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let raw = || tool.name().to_owned();
        let schema = Schema::compile(tool.parameters())
            .map_err(|source| RegistryError::Schema { name: raw(), source })?;
        let declared: Value =
            serde_json::from_slice(tool.parameters().as_bytes()).unwrap_or_default();
        let parameters = match &schema {
            Schema::Declared(_) => declared,
            Schema::None => json!({ "type": "object", "properties": {} }),
        };
        let offer =
            json!({ "name": name, "description": tool.description(), "parameters": parameters });
        canonical::write(&json!([offer]))
            .map_err(|source| RegistryError::Offer { name: raw(), source })?;
        Ok(Self { name, tool, schema, offer })
    }

    /// The model-facing name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its own name.
    #[must_use]
    pub fn raw_name(&self) -> &str {
        self.tool.name()
    }

    /// What a restart may do with a call whose outcome was lost.
    #[must_use]
    pub fn class(&self) -> ReplayClass {
        self.tool.class()
    }

    /// How long one call may take.
    #[must_use]
    pub fn timeout(&self) -> Millis {
        self.tool.timeout()
    }

    /// Whether its calls go through the broker.
    #[must_use]
    pub fn mediated(&self) -> bool {
        self.tool.mediated()
    }

    /// Whose consent a call needs.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tool.tier()
    }

    /// What must stand open before it runs.
    #[must_use]
    pub fn gates(&self) -> &[Gate] {
        self.tool.gates()
    }

    /// Names how it is declared here: another schema, class, gate or origin is another revision.
    #[must_use]
    pub fn revision(&self) -> String {
        let (class, origin) = (self.class(), self.origin());
        let said = json!([self.offer, format!("{class:?}"), origin.word(), self.gates()]);
        let hash = events::journal::hash(said.to_string().as_bytes()).to_string();
        hash.chars().take(16).collect()
    }

    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.tool.origin()
    }

    /// The most bytes of its result, where that is less than what the policy admits.
    #[must_use]
    pub fn result_max(&self) -> Option<usize> {
        self.tool.result_max()
    }

    /// Checks what a model wrote and gives its canonical form: before consent, before the intent.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: tell the model, and execute nothing.
    pub fn check(&self, arguments: &str) -> Result<Canonical, Invalid> {
        let canonical = canonical(arguments)?;
        self.schema.check(&canonical.value)?;
        Ok(canonical)
    }

    /// Calls the tool as [`Entry::send`] does. The result is cut to [`RESULT_CHARS_MAX`], and the cut is said.
    ///
    /// # Errors
    ///
    /// Those of [`Entry::send`].
    pub async fn call(&self, call: Call) -> Result<String, ToolError> {
        self.send(call).await.map(capped)
    }

    /// Calls the tool, once its arguments are admitted again and it may leave, and gives all of its result: for the broker,
    /// which admits a result as a whole or not at all.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; all but [`ToolError::Unknown`] and [`ToolError::TooLarge`] mean that nothing happened.
    pub async fn send(&self, call: Call) -> Result<String, ToolError> {
        let arguments = self.check(call.arguments.as_str())?.json;
        if call.deadline <= call.now {
            return Err(ToolError::DeadlinePassed);
        }
        call.leave.ask()?;
        self.tool.call(Call { arguments, ..call }).await
    }
}

/// A result as the model is told it.
fn capped(result: String) -> String {
    let Some((end, _)) = result.char_indices().nth(RESULT_CHARS_MAX) else { return result };
    let (kept, cut) = result.split_at_checked(end).unwrap_or((&result, ""));
    format!("{kept}…[truncated {} chars]", cut.chars().count())
}

#[cfg(test)]
mod tests;
