//! A Responses request as its provider reads it.

use crate::play::{Heard, Unheard, hears, string, texts, words};
use events::message::{Part, Role, ToolCall};
use events::quantity::Tokens;
use serde_json::Value;

pub(crate) fn hear(root: &Value) -> Result<Heard, Unheard> {
    let mut heard = hears(root)?;
    let instructions = string(root, "instructions");
    if !instructions.is_empty() {
        heard.say(Role::System, instructions);
    }
    match root.get("input") {
        Some(Value::String(text)) => heard.say(Role::User, text.clone()),
        Some(Value::Array(items)) => items.iter().for_each(|one| item(&mut heard, one)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            return Err(Unheard { field: "input", rule: "must be a text or a list of items" });
        }
    }
    let tools = root.get("tools").and_then(Value::as_array).into_iter().flatten();
    heard.tools = tools.map(|tool| string(tool, "name")).collect();
    heard.output_max = root.get("max_output_tokens").and_then(Value::as_u64).map(Tokens);
    heard.may_call = root.get("tool_choice").is_none_or(|choice| choice != "none");
    heard.may_call_many = root.get("parallel_tool_calls") != Some(&Value::Bool(false));
    Ok(heard)
}

fn item(heard: &mut Heard, item: &Value) {
    match item.get("type").and_then(Value::as_str).unwrap_or("message") {
        "message" => {
            let content = item.get("content").unwrap_or(&Value::Null);
            let role = match item.get("role").and_then(Value::as_str).unwrap_or_default() {
                "assistant" => Role::Assistant,
                "system" | "developer" => Role::System,
                _ => Role::User,
            };
            let parts = texts(content).into_iter().map(|text| Part::Text { text });
            heard.parts(role, parts.collect());
        }
        "function_call" => {
            let (id, name) = (string(item, "call_id"), string(item, "name"));
            let arguments = string(item, "arguments");
            let call = Part::ToolCall(ToolCall { id, name, arguments });
            heard.parts(Role::Assistant, vec![call]);
        }
        "function_call_output" => {
            heard.result(&string(item, "call_id"), words(item.get("output")));
        }
        // Reasoning that comes back, and what nobody answers by.
        _ => {}
    }
}
