//! A `generateContent` request as its provider reads it.

use crate::family::Mode;
use crate::play::{Heard, Unheard, last_segment, string, texts};
use events::message::{Part, Role, ToolCall};
use events::quantity::Tokens;
use serde_json::Value;

pub(crate) fn hear(path: &str, root: &Value) -> Result<Heard, Unheard> {
    let mode = if path.ends_with(":streamGenerateContent") { Mode::Stream } else { Mode::Whole };
    let mut heard = Heard::new(last_segment(path, "odels/", ":"), mode);
    let contents = root.get("contents").and_then(Value::as_array);
    let contents = contents.ok_or(Unheard { field: "contents", rule: "must be a list" })?;
    let nothing = Value::Null;
    let parts_of = |content: &Value| content.get("parts").cloned().unwrap_or_default();
    let system = root.get("systemInstruction").map(|one| texts(&parts_of(one)).concat());
    if let Some(system) = system.filter(|text| !text.is_empty()) {
        heard.say(Role::System, system);
    }
    for content in contents {
        let parts = parts_of(content);
        let list = parts.as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |name: &'static str| list.iter().filter_map(move |part| part.get(name));
        for result in of("functionResponse") {
            heard.result(&string(result, "id"), outcome(result.get("response")));
        }
        let is_model = content.get("role").is_some_and(|role| role == "model");
        let said = texts(&parts).into_iter().map(|text| Part::Text { text });
        let calls = of("functionCall").map(|call| {
            let arguments = call.get("args").unwrap_or(&nothing).to_string();
            Part::ToolCall(ToolCall {
                id: string(call, "id"),
                name: string(call, "name"),
                arguments,
            })
        });
        let said: Vec<Part> = said.chain(calls).collect();
        if is_model {
            heard.parts(Role::Assistant, said);
        } else if !said.is_empty() || of("functionResponse").next().is_none() {
            heard.parts(Role::User, said);
        }
    }
    let tools = root.get("tools").and_then(Value::as_array).into_iter().flatten();
    let offered = tools.filter_map(|tool| tool.get("functionDeclarations")?.as_array());
    heard.tools = offered.flatten().map(|tool| string(tool, "name")).collect();
    let most = root.pointer("/generationConfig/maxOutputTokens");
    heard.output_max = most.and_then(Value::as_u64).map(Tokens);
    let mode = root.pointer("/toolConfig/functionCallingConfig/mode");
    heard.may_call = mode.is_none_or(|mode| mode != "NONE");
    Ok(heard)
}

/// A result is an object of its own, or stands as the only field of one.
fn outcome(response: Option<&Value>) -> String {
    let Some(response) = response else { return String::new() };
    let only = response.as_object().filter(|fields| fields.len() == 1);
    let said = only.and_then(|fields| fields.get("result").or_else(|| fields.get("error")));
    match said.unwrap_or(response) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
