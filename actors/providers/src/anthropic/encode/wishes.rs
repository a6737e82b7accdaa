//! What the caller wants of the model, in the family's words.
//!
//! Wishes are written as chat completions write them, or in the family's own fields, which win. What the family has
//! no word for is left out, because a request may have been made for another family first; what would change the
//! form of the answer is refused instead.

use crate::encode::{EncodeError, Fields, closed, wanted, wishes};
use crate::endpoint::{Endpoint, Temperature};
use crate::pricing;
use events::prompt::Request;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// The bound on output where neither the caller nor the table of models has one: every model of the family takes it.
const OUTPUT_MAX: u64 = 4_096;
/// Fields of the family's own that are passed on as they are.
const OWN: [&str; 7] = [
    "context_management",
    "metadata",
    "output_config",
    "speed",
    "stop_sequences",
    "thinking",
    "top_k",
];
/// The family's words for the sort of service.
const TIERS: [&str; 2] = [r#""auto""#, r#""standard_only""#];
/// Characters of a user's id that the family takes.
const USER_CHARS_MAX: usize = 256;

/// The wishes of one request.
pub(super) struct Wishes {
    /// All but the bound on output.
    pub(super) fields: Fields,
    pub(super) output_max: u64,
}

impl Wishes {
    pub(super) fn read(endpoint: &Endpoint, request: &Request) -> Result<Self, EncodeError> {
        let given = wishes(request.params.extra.as_bytes())?;
        let is_own = |name: &str, value: &RawValue| {
            OWN.contains(&name) || (name == "service_tier" && TIERS.contains(&value.get()))
        };
        let own = given.iter().filter(|(name, value)| is_own(name, value) && value.get() != "null");
        let fields = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        let known = pricing::facts(&endpoint.provider, &request.model);
        let usual = known.and_then(|facts| facts.output_max).map_or(OUTPUT_MAX, |max| max.0);
        let wanted = request.params.output_max.map(|max| max.0);
        let mut all = Self { fields, output_max: wanted.unwrap_or(usual) };
        all.thinking(&given)?;
        all.budget(wanted)?;
        all.sampling(&given, endpoint.quirks.temperature)?;
        all.stops(&given)?;
        all.format(&given)?;
        all.user(&given)?;
        if !request.tools.is_empty() {
            all.choice(&given)?;
        }
        Ok(all)
    }

    fn put(&mut self, name: &str, value: &Value) -> Result<(), EncodeError> {
        self.fields.insert(name.to_owned(), to_raw_value(value)?);
        Ok(())
    }

    fn own(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.fields.get(name)?.get()).ok()
    }

    /// Adds to `output_config`; the caller's own word wins.
    fn output_config(&mut self, name: &str, value: Value) -> Result<(), EncodeError> {
        let config = self.own("output_config");
        let mut config: Map<String, Value> =
            config.and_then(|config| config.as_object().cloned()).unwrap_or_default();
        config.entry(name).or_insert(value);
        self.put("output_config", &Value::Object(config))
    }

    /// `reasoning_effort`, or `reasoning.effort`.
    fn thinking(&mut self, given: &Fields) -> Result<(), EncodeError> {
        let nested = || value(given, "reasoning")?.get("effort").cloned();
        let effort = value(given, "reasoning_effort").or_else(nested);
        let (word, kind) = match effort.as_ref().and_then(Value::as_str) {
            None => return Ok(()),
            Some("none") => (None, "disabled"),
            Some("minimal") => (Some("low"), "adaptive"),
            Some(word) => (Some(word), "adaptive"),
        };
        if !self.fields.contains_key("thinking") {
            self.put("thinking", &json!({ "type": kind }))?;
        }
        word.map_or(Ok(()), |word| self.output_config("effort", word.into()))
    }

    /// Thinking is a part of the output, so its budget must leave room.
    fn budget(&mut self, bound: Option<u64>) -> Result<(), EncodeError> {
        let budget =
            self.own("thinking").and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
        let Some(budget) = budget.filter(|budget| *budget >= self.output_max) else {
            return Ok(());
        };
        if let Some(bound) = bound {
            let rule = format!("has budget_tokens {budget}, and max_tokens is {bound}");
            let mend = "give less to thinking than to the whole output";
            return Err(EncodeError::Param { name: "thinking", rule, mend });
        }
        self.output_max = budget.saturating_add(OUTPUT_MAX);
        Ok(())
    }

    /// Thinking with a budget demands that the turn whose calls are being answered began with a thought; where it can
    /// not go back, the family refuses the request, and does not without the budget.
    pub(super) fn think_no_longer(&mut self) {
        let thinking = self.own("thinking");
        if thinking
            .is_some_and(|thinking| thinking.get("type").is_some_and(|kind| kind == "enabled"))
        {
            self.fields.remove("thinking");
        }
    }

    fn is_thinking(&self) -> bool {
        let thinking = self.own("thinking");
        let kind = thinking.as_ref().and_then(|thinking| thinking.get("type")?.as_str());
        kind.is_some_and(|kind| kind != "disabled")
    }

    /// Temperatures go from 0 to 1 here, and a thinking model takes none.
    fn sampling(&mut self, given: &Fields, temperature: Temperature) -> Result<(), EncodeError> {
        if self.is_thinking() {
            self.fields.remove("top_k");
            return Ok(());
        }
        if let Some(raw) = given.get("temperature").filter(|_| temperature == Temperature::Sent)
            && let Some(number) = value(given, "temperature").and_then(|value| value.as_f64())
        {
            let most = || to_raw_value(&1);
            let kept = if number > 1.0 { most()? } else { raw.clone() };
            self.fields.insert("temperature".to_owned(), kept);
        }
        // Beside a temperature some models refuse it, and at 1 it says nothing.
        let top_p = given.get("top_p").filter(|raw| !matches!(raw.get(), "1" | "1.0" | "null"));
        if let Some(raw) = top_p {
            self.fields.insert("top_p".to_owned(), raw.clone());
        }
        Ok(())
    }

    /// Stops of nothing but white space are refused by the family.
    fn stops(&mut self, given: &Fields) -> Result<(), EncodeError> {
        let stops = match value(given, "stop") {
            Some(Value::String(one)) => vec![Value::String(one)],
            Some(Value::Array(several)) => several,
            None | Some(_) => return Ok(()),
        };
        let is_said = |stop: &Value| stop.as_str().is_some_and(|stop| !stop.trim().is_empty());
        let stops: Vec<Value> = stops.into_iter().filter(is_said).collect();
        if stops.is_empty() || self.fields.contains_key("stop_sequences") {
            return Ok(());
        }
        self.put("stop_sequences", &Value::Array(stops))
    }

    fn format(&mut self, given: &Fields) -> Result<(), EncodeError> {
        let Some(format) = value(given, "response_format") else { return Ok(()) };
        let odd = |rule: &str, mend| {
            Err(EncodeError::Param { name: "response_format", rule: rule.to_owned(), mend })
        };
        match format.get("type").and_then(Value::as_str) {
            None | Some("text") => Ok(()),
            Some("json_schema") => {
                let Some(wanted) = wanted(&format) else {
                    return odd("has no json_schema.schema", "give one");
                };
                match closed(&wanted.schema) {
                    Ok(schema) => self.output_config(
                        "format",
                        json!({ "type": "json_schema", "schema": schema }),
                    ),
                    Err(what) => odd(&format!("has a schema that {what}"), "describe one object"),
                }
            }
            Some("json_object") => {
                odd("is json_object, which this family does not have", "give a json_schema")
            }
            Some(_) => odd("is of a type that this family does not have", "give a json_schema"),
        }
    }

    fn user(&mut self, given: &Fields) -> Result<(), EncodeError> {
        let id = value(given, "safety_identifier").or_else(|| value(given, "user"));
        let id = id.filter(|id| {
            id.as_str().is_some_and(|id| !id.is_empty() && id.chars().count() <= USER_CHARS_MAX)
        });
        match id {
            Some(id) if !self.fields.contains_key("metadata") => {
                self.put("metadata", &json!({ "user_id": id }))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn choice(&mut self, given: &Fields) -> Result<(), EncodeError> {
        let wanted = value(given, "tool_choice");
        let odd = |rule: &str| EncodeError::Param {
            name: "tool_choice",
            rule: rule.to_owned(),
            mend: "give auto, none, required or one function",
        };
        let mut choice = match &wanted {
            None | Some(Value::Null) => None,
            Some(Value::String(word)) => Some(match word.as_str() {
                "auto" => json!({ "type": "auto" }),
                "none" => json!({ "type": "none" }),
                "required" | "any" => json!({ "type": "any" }),
                _ => return Err(odd("is a word that this family does not have")),
            }),
            Some(Value::Object(fields)) => {
                let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
                let function = fields.get("function").unwrap_or(&Value::Null);
                let name =
                    function.get("name").or_else(|| fields.get("name")).and_then(Value::as_str);
                Some(match (kind, name) {
                    ("function" | "tool", Some(name)) => json!({ "type": "tool", "name": name }),
                    ("auto" | "any" | "none", _) => wanted.clone().unwrap_or_default(),
                    _ => return Err(odd("is of a type that this family does not have")),
                })
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                return Err(odd("is neither a word nor an object"));
            }
        };
        let is_none = |choice: &Value| choice.get("type").is_some_and(|kind| kind == "none");
        if value(given, "parallel_tool_calls") == Some(Value::Bool(false))
            && !choice.as_ref().is_some_and(is_none)
        {
            let mut single = choice.unwrap_or_else(|| json!({ "type": "auto" }));
            if let Some(fields) = single.as_object_mut() {
                fields.insert("disable_parallel_tool_use".to_owned(), true.into());
            }
            choice = Some(single);
        }
        choice.map_or(Ok(()), |choice| self.put("tool_choice", &choice))
    }
}

fn value(given: &Fields, name: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(given.get(name)?.get()).ok()?;
    (!value.is_null()).then_some(value)
}
