//! A chat completions request as its provider reads it.

use crate::play::{Heard, Unheard, hears, string, words};
use events::message::{Part, Role, ToolCall};
use events::quantity::Tokens;
use serde_json::Value;

pub(crate) fn hear(root: &Value) -> Result<Heard, Unheard> {
    let mut heard = hears(root)?;
    let messages = root.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or(Unheard { field: "messages", rule: "must be a list" })?;
    for message in messages {
        let text = words(message.get("content"));
        match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" => heard.say(Role::System, text),
            "tool" => heard.result(&string(message, "tool_call_id"), text),
            "assistant" => {
                let calls = message.get("tool_calls").and_then(Value::as_array);
                let calls = calls.into_iter().flatten().map(|call| {
                    let function = call.get("function").unwrap_or(&Value::Null);
                    Part::ToolCall(ToolCall {
                        id: string(call, "id"),
                        name: string(function, "name"),
                        arguments: string(function, "arguments"),
                    })
                });
                let text = (!text.is_empty()).then_some(Part::Text { text });
                heard.parts(Role::Assistant, text.into_iter().chain(calls).collect());
            }
            _ => heard.say(Role::User, text),
        }
    }
    let tools = root.get("tools").and_then(Value::as_array).into_iter().flatten();
    heard.tools = tools.map(|tool| string(tool.get("function").unwrap_or(tool), "name")).collect();
    let most = ["max_completion_tokens", "max_tokens"].into_iter();
    heard.output_max = most.filter_map(|name| root.get(name)?.as_u64()).next().map(Tokens);
    heard.may_call = root.get("tool_choice").is_none_or(|choice| choice != "none");
    heard.may_call_many = root.get("parallel_tool_calls") != Some(&Value::Bool(false));
    let wish = root.get("stream_options").and_then(|options| options.get("include_usage"));
    heard.wants_usage = wish == Some(&Value::Bool(true));
    Ok(heard)
}
