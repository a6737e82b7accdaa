//! What a response object repeats of its request, read from what is frozen with the run alone: a response that is read
//! a year later says what the one that was given said.

use super::{Request, Thoughts, id};
use crate::front::asked::RESERVED;
use events::json::Json;
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params};
use events::quantity::{Instant, Tokens};
use events::run::spec::{Delivery, Plane, Spec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where a run's metadata says that it is a response. Callers can not write below `asked::RESERVED`.
const KEY: &str = "piton.response";

/// What a run keeps of being a response, besides what every run keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    model: String,
    created_at: i64,
    store: bool,
    /// Whether the first message of the input is the instructions.
    instructed: bool,
    previous: Option<String>,
    thoughts: Thoughts,
}

impl Mark {
    /// That of a request.
    #[must_use]
    pub fn of(request: &Request, now: Instant) -> Self {
        Self {
            model: request.model.clone(),
            created_at: now.0 / 1_000_000,
            store: request.store,
            instructed: request.instructions.is_some(),
            previous: request.previous.map(id),
            thoughts: request.thoughts,
        }
    }

    /// That of a run; none if it is no response.
    #[must_use]
    pub fn read(spec: &Spec) -> Option<Self> {
        if spec.plane != Plane::Model {
            return None;
        }
        serde_json::from_str(spec.metadata.get(KEY)?).ok()
    }

    /// Puts it where a run keeps it.
    pub fn keep(&self, metadata: &mut BTreeMap<String, String>) {
        // Strings, integers and flags; serialising them can not fail.
        metadata.insert(KEY.to_owned(), serde_json::to_string(self).unwrap_or_default());
    }

    /// When it was asked for, in seconds.
    pub(super) const fn created_at(&self) -> i64 {
        self.created_at
    }

    /// Whether it may be read and gone on from.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        self.store
    }

    /// What a run said, for the next response: instructions are those of one response alone.
    #[must_use]
    pub fn said(&self, mut transcript: Vec<Message>) -> Vec<Message> {
        if self.instructed && !transcript.is_empty() {
            transcript.remove(0);
        }
        transcript
    }
}

/// How the answer is to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    pub(super) mark: Mark,
    delivery: Delivery,
    instructions: Option<String>,
    output_max: Option<Tokens>,
    /// The neutral wishes.
    wishes: Map<String, Value>,
    tools: Json,
    metadata: BTreeMap<String, String>,
}

impl Style {
    /// That of a request.
    #[must_use]
    pub fn of(request: &Request, mark: Mark) -> Self {
        let instructions = request.instructions.clone();
        let Request { params, tools, metadata, delivery, .. } = request;
        Self::new(mark, *delivery, instructions, (params, tools), metadata.clone())
    }

    /// That of a run; none if it is no response.
    #[must_use]
    pub fn frozen(spec: &Spec) -> Option<Self> {
        let mark = Mark::read(spec)?;
        let first = || spec.input.first()?.message().ok();
        let instructions = first()
            .filter(|first| mark.instructed && first.role == Role::System)
            .map(|first| first.plain());
        let mut metadata = spec.metadata.clone();
        metadata.retain(|name, _| !name.starts_with(RESERVED));
        let model = (&spec.params, &spec.tools);
        Some(Self::new(mark, spec.delivery, instructions, model, metadata))
    }

    fn new(
        mark: Mark,
        delivery: Delivery,
        instructions: Option<String>,
        (params, tools): (&Params, &Catalogue),
        metadata: BTreeMap<String, String>,
    ) -> Self {
        // An object that this node made itself.
        let wishes = serde_json::from_slice(params.extra.as_bytes()).unwrap_or_default();
        let (output_max, tools) = (params.output_max, tools.json().clone());
        Self { mark, delivery, instructions, output_max, wishes, tools, metadata }
    }

    /// How the answer is read.
    #[must_use]
    pub const fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// What is given out of reasoning.
    pub(super) const fn thoughts(&self) -> Thoughts {
        self.mark.thoughts
    }

    /// The fields of the object that repeat the request.
    pub(super) fn echo(&self) -> Map<String, Value> {
        let wish = |name: &str| self.wishes.get(name).cloned().unwrap_or_default();
        let parallel = self.wishes.get("parallel_tool_calls").and_then(Value::as_bool);
        let fields = json!({
            "background": false,
            "instructions": self.instructions,
            "max_output_tokens": self.output_max.map(|most| most.0),
            "metadata": self.metadata,
            "model": self.mark.model,
            "parallel_tool_calls": parallel.unwrap_or(true),
            "previous_response_id": self.mark.previous,
            "reasoning": {"effort": wish("reasoning_effort"),
                "summary": self.mark.thoughts.words().then_some("auto")},
            "store": self.mark.store,
            "temperature": wish("temperature"),
            "text": {"format": self.format()},
            "tool_choice": self.tool_choice(),
            "tools": self.tools(),
            "top_p": wish("top_p"),
            "truncation": "disabled",
            "user": wish("user"),
        });
        match fields {
            Value::Object(fields) => fields,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        }
    }

    /// The neutral form nests what this API has side by side.
    fn format(&self) -> Value {
        let Some(format) = self.wishes.get("response_format") else {
            return json!({"type": "text"});
        };
        let Some(schema) = format.get("json_schema").and_then(Value::as_object) else {
            return format.clone();
        };
        let mut flat = schema.clone();
        flat.insert("type".to_owned(), Value::from("json_schema"));
        Value::Object(flat)
    }

    fn tool_choice(&self) -> Value {
        match self.wishes.get("tool_choice") {
            None => Value::from("auto"),
            Some(choice) => match choice.pointer("/function/name") {
                Some(name) => json!({"type": "function", "name": name}),
                None => choice.clone(),
            },
        }
    }

    fn tools(&self) -> Vec<Value> {
        let tools: Vec<Map<String, Value>> =
            serde_json::from_slice(self.tools.as_bytes()).unwrap_or_default();
        let tool = |mut tool: Map<String, Value>| {
            tool.insert("type".to_owned(), Value::from("function"));
            tool.insert("strict".to_owned(), Value::Null);
            Value::Object(tool)
        };
        tools.into_iter().map(tool).collect()
    }
}
