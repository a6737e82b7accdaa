//! A Messages request as its provider reads it.

use crate::play::{Heard, Unheard, hears, string, texts, words};
use events::message::{Part, Role, ToolCall};
use events::quantity::Tokens;
use serde_json::Value;

pub(crate) fn hear(root: &Value) -> Result<Heard, Unheard> {
    let mut heard = hears(root)?;
    let messages = root.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or(Unheard { field: "messages", rule: "must be a list" })?;
    let system = words(root.get("system"));
    if !system.is_empty() {
        heard.say(Role::System, system);
    }
    for message in messages {
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |kind: &'static str| {
            blocks.iter().filter(move |block| block.get("type").is_some_and(|said| said == kind))
        };
        for result in of("tool_result") {
            heard.result(&string(result, "tool_use_id"), words(result.get("content")));
        }
        let is_assistant = message.get("role").is_some_and(|role| role == "assistant");
        let said = texts(content).into_iter().map(|text| Part::Text { text });
        let calls = of("tool_use").map(|call| {
            let arguments = call.get("input").unwrap_or(&Value::Null).to_string();
            Part::ToolCall(ToolCall {
                id: string(call, "id"),
                name: string(call, "name"),
                arguments,
            })
        });
        let parts: Vec<Part> = said.chain(calls).collect();
        if is_assistant {
            heard.parts(Role::Assistant, parts);
        } else if !parts.is_empty() || of("tool_result").next().is_none() {
            heard.parts(Role::User, parts);
        }
    }
    let tools = root.get("tools").and_then(Value::as_array).into_iter().flatten();
    heard.tools = tools.map(|tool| string(tool, "name")).collect();
    heard.output_max = root.get("max_tokens").and_then(Value::as_u64).map(Tokens);
    let choice = root.get("tool_choice").unwrap_or(&Value::Null);
    heard.may_call = string(choice, "type") != "none";
    heard.may_call_many = choice.get("disable_parallel_tool_use") != Some(&Value::Bool(true));
    Ok(heard)
}
