//! One tool, ready to be called: what it says of itself with what is ruled over it, its schema compiled, its offer
//! written.

use crate::canonical::{self, Canonical, WriteError, canonical};
use crate::name::Identity;
use crate::schema::{Schema, SchemaError};
use crate::settings::Overlay;
use crate::tool::{Call, Gate, Invalid, Origin, ReplayClass, Tier, Tool, ToolError};
use events::quantity::Millis;
use serde_json::{Value, json};
use std::sync::Arc;

/// One tool, ready to be called.
#[derive(Debug)]
pub struct Entry {
    name: String,
    tool: Arc<dyn Tool>,
    schema: Schema,
    /// `{description, name, parameters}`, as a model is offered it.
    offer: Value,
    /// What is ruled of it.
    overlay: Overlay,
    /// Its own gates and those that are ruled, each once.
    gates: Vec<Gate>,
    observation_chars: usize,
}

/// Why a tool can not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    /// Its schema is none.
    #[error("its schema can not be used")]
    Schema(#[from] SchemaError),
    /// Its schema can not be written.
    #[error("its schema can not be offered")]
    Offer(#[from] WriteError),
    /// Arguments are an object, and its schema admits none.
    #[error("its schema admits no object, and arguments are always one")]
    NoObject,
}

impl Entry {
    pub(super) fn new(
        name: String,
        tool: Arc<dyn Tool>,
        overlay: Overlay,
        observation_chars: usize,
    ) -> Result<Self, Unusable> {
        let schema = Schema::compile(tool.parameters())?;
        let declared: Value =
            serde_json::from_slice(tool.parameters().as_bytes()).unwrap_or_default();
        if is_never_an_object(&declared) {
            return Err(Unusable::NoObject);
        }
        let parameters = match &schema {
            Schema::Declared(_) => declared,
            Schema::None => json!({ "type": "object", "properties": {} }),
        };
        let offer =
            json!({ "name": name, "description": tool.description(), "parameters": parameters });
        canonical::write(&json!([offer]))?;
        let mut gates: Vec<Gate> = tool.gates().iter().chain(&overlay.gates).cloned().collect();
        gates.sort();
        gates.dedup();
        Ok(Self { name, tool, schema, offer, overlay, gates, observation_chars })
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

    /// Which tool it is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { origin: self.tool.origin(), raw: self.tool.name().to_owned() }
    }

    /// What it does, for the model.
    #[must_use]
    pub fn description(&self) -> &str {
        self.tool.description()
    }

    /// `{description, name, parameters}`, as a model is offered it.
    #[must_use]
    pub const fn offer(&self) -> &Value {
        &self.offer
    }

    /// What a restart may do with a call whose outcome was lost.
    #[must_use]
    pub fn class(&self) -> ReplayClass {
        self.overlay.class.unwrap_or_else(|| self.tool.class())
    }

    /// How long one call may take.
    #[must_use]
    pub fn timeout(&self) -> Millis {
        self.overlay.timeout.unwrap_or_else(|| self.tool.timeout())
    }

    /// Whether its calls go through the broker.
    #[must_use]
    pub fn mediated(&self) -> bool {
        self.overlay.mediated || self.tool.mediated()
    }

    /// Whose consent a call needs.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.overlay.tier.unwrap_or_else(|| self.tool.tier())
    }

    /// What must stand open before it runs, sorted.
    #[must_use]
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.tool.origin()
    }

    /// The most bytes of its result, where that is less than what the policy admits. The stricter of the two counts.
    #[must_use]
    pub fn result_max(&self) -> Option<usize> {
        match (self.overlay.result_max, self.tool.result_max()) {
            (Some(ruled), Some(own)) => Some(ruled.min(own)),
            (ruled, own) => ruled.or(own),
        }
    }

    /// Whether it is kept when a provider takes fewer tools than there are.
    #[must_use]
    pub fn pinned(&self) -> bool {
        self.overlay.pinned.unwrap_or(false)
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

    /// Names how it is declared and ruled here: another schema, class, gate, tier or origin is another revision.
    #[must_use]
    pub fn revision(&self) -> String {
        let (class, origin) = (self.class(), self.origin());
        let tier = self.tier().word();
        let said = json!([self.offer, format!("{class:?}"), origin.word(), tier, self.gates()]);
        let hash = events::journal::hash(said.to_string().as_bytes()).to_string();
        hash.chars().take(16).collect()
    }

    /// Calls the tool, once its arguments are admitted again and it may leave. A result over the call's bound is not
    /// admitted; one of a tool that is not mediated is cut to what a model is told, and the cut is said.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; all but [`ToolError::Unknown`] and [`ToolError::TooLarge`] mean that nothing happened.
    pub async fn call(&self, call: Call) -> Result<String, ToolError> {
        let arguments = self.check(call.arguments.as_str())?.json;
        if call.deadline <= call.now {
            return Err(ToolError::DeadlinePassed);
        }
        call.leave.ask()?;
        let limit = self.result_max().map_or(call.result_max, |max| max.min(call.result_max));
        let result = self.tool.call(Call { arguments, result_max: limit, ..call }).await?;
        if self.mediated() {
            return if result.len() > limit {
                Err(ToolError::TooLarge { limit })
            } else {
                Ok(result)
            };
        }
        Ok(capped(result, self.observation_chars))
    }
}

/// Whether a schema says at its root that it is of something else.
fn is_never_an_object(schema: &Value) -> bool {
    match (schema, schema.get("type")) {
        (Value::Bool(false), _) => true,
        (_, Some(Value::String(kind))) => kind != "object",
        (_, Some(Value::Array(kinds))) => !kinds.iter().any(|kind| kind == "object"),
        (_, _) => false,
    }
}

/// A result as the model is told it.
fn capped(result: String, chars: usize) -> String {
    let Some((end, _)) = result.char_indices().nth(chars) else { return result };
    let (kept, cut) = result.split_at_checked(end).unwrap_or((&result, ""));
    format!("{kept}…[truncated {} chars]", cut.chars().count())
}
