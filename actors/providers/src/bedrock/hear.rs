//! A Converse request as its provider reads it.

use crate::family::Mode;
use crate::play::{Heard, Unheard, last_segment, string, texts};
use events::message::{Part, Role, ToolCall};
use events::quantity::Tokens;
use serde_json::Value;

pub(crate) fn hear(path: &str, root: &Value) -> Result<Heard, Unheard> {
    let mode = if path.ends_with("-stream") { Mode::Stream } else { Mode::Whole };
    let mut heard = Heard::new(last_segment(path, "model/", "/"), mode);
    let messages = root.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or(Unheard { field: "messages", rule: "must be a list" })?;
    let system = texts(root.get("system").unwrap_or(&Value::Null)).concat();
    if !system.is_empty() {
        heard.say(Role::System, system);
    }
    for message in messages {
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |name: &'static str| blocks.iter().filter_map(move |block| block.get(name));
        for result in of("toolResult") {
            heard.result(&string(result, "toolUseId"), outcome(result.get("content")));
        }
        let is_assistant = message.get("role").is_some_and(|role| role == "assistant");
        let said = texts(content).into_iter().map(|text| Part::Text { text });
        let calls = of("toolUse").map(|call| {
            let arguments = call.get("input").unwrap_or(&Value::Null).to_string();
            let (id, name) = (string(call, "toolUseId"), string(call, "name"));
            Part::ToolCall(ToolCall { id, name, arguments })
        });
        let said: Vec<Part> = said.chain(calls).collect();
        if is_assistant {
            heard.parts(Role::Assistant, said);
        } else if !said.is_empty() || of("toolResult").next().is_none() {
            heard.parts(Role::User, said);
        }
    }
    let tools = root.pointer("/toolConfig/tools").and_then(Value::as_array).into_iter().flatten();
    heard.tools = tools.filter_map(|tool| Some(string(tool.get("toolSpec")?, "name"))).collect();
    let most = root.pointer("/inferenceConfig/maxTokens");
    heard.output_max = most.and_then(Value::as_u64).map(Tokens);
    Ok(heard)
}

/// A result has texts or JSON.
fn outcome(content: Option<&Value>) -> String {
    let blocks = content.and_then(Value::as_array).into_iter().flatten();
    let said = blocks.filter_map(|block| {
        let text = block.get("text").and_then(Value::as_str).map(str::to_owned);
        text.or_else(|| block.get("json").map(Value::to_string))
    });
    said.collect()
}
