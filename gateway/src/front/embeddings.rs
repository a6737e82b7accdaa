//! OpenAI embeddings: texts to neutral, vectors to an answer.
//!
//! Each text is a message of its own, so that its place is told when it is refused. The vectors pass through as the
//! provider gave them.

use super::asked::{self, Asked};
use super::bad_request::BadRequest;
use super::door::Ending;
use super::tree::{self, Node, Sort};
use super::wishes::{self, Takes, Wish};
use bytes::Bytes;
use events::message::{Message, Part, Role};
use events::prompt::{Catalogue, Params};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Texts of one request: 2,048, as at OpenAI.
const INPUTS_MAX: usize = 2_048;
/// What is meant for the provider: OpenAI's own, then those that its compatibles share.
const KNOWN: [Wish; 6] = [
    ("dimensions", Takes::Integer, "dimensions"),
    ("encoding_format", Takes::Text, "encoding_format"),
    ("user", Takes::Text, "user"),
    ("input_type", Takes::Text, "input_type"),
    ("truncate", Takes::Text, "truncate"),
    ("truncate_prompt_tokens", Takes::Integer, "truncate_prompt_tokens"),
];

/// Reads the body of a `POST /v1/embeddings`.
///
/// # Errors
///
/// [`BadRequest`], which names the field, the rule and the mend: for the caller, as a 400.
pub fn parse(body: &[u8]) -> Result<Asked, BadRequest> {
    let tree = tree::read(body)?;
    let top = Node::top(&tree).object()?;
    let input = top.need("input", "send a string, or a list of them")?;
    let extra = wishes::canonical(&wishes::kept(&top, &KNOWN)?)?;
    Ok(Asked {
        model: asked::model(&top)?,
        messages: inputs(&input)?,
        tools: Catalogue::default(),
        params: Params { output_max: None, extra },
        metadata: std::collections::BTreeMap::new(),
    })
}

/// One text or a list of them; a list of numbers is the tokens of one.
fn inputs(node: &Node<'_, '_>) -> Result<Vec<Message>, BadRequest> {
    if node.sort() == Sort::Text {
        return Ok(vec![text(node)?]);
    }
    let list = node.list()?;
    if list.len() == 0 {
        return Err(node.refuse("must not be empty", "send at least one text"));
    }
    if list.iter().next().is_some_and(|first| first.sort() == Sort::Number) {
        return Ok(vec![tokens(node)?]);
    }
    if list.len() > INPUTS_MAX {
        let rule = format!("has {} texts and the most is {INPUTS_MAX}", list.len());
        return Err(node.refuse(rule, "send several requests"));
    }
    let one = |item: Node<'_, '_>| match item.sort() {
        Sort::List => tokens(&item),
        Sort::Text | Sort::Number | Sort::Flag | Sort::Object | Sort::Null => text(&item),
    };
    list.iter().map(one).collect()
}

fn text(node: &Node<'_, '_>) -> Result<Message, BadRequest> {
    Ok(Message::text(Role::User, &node.name("leave it out: nothing has no vector")?))
}

fn tokens(node: &Node<'_, '_>) -> Result<Message, BadRequest> {
    let list = node.list()?;
    if list.len() == 0 {
        return Err(node.refuse("must not be empty", "leave it out: nothing has no vector"));
    }
    let token = |item: Node<'_, '_>| {
        let number = item.number()?.as_u64().filter(|number| u32::try_from(*number).is_ok());
        number.ok_or_else(|| item.refuse("must be a token's number", "send integers from 0"))
    };
    let tokens = list.iter().map(token).collect::<Result<Vec<u64>, BadRequest>>()?;
    let part = Part::Opaque(json!({"type": "input_tokens", "tokens": tokens}));
    Ok(Message { role: Role::User, name: None, parts: vec![part] })
}

#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    data: Option<Box<RawValue>>,
    model: &'a str,
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// The whole answer. What is not known of its use is null, never zero.
#[must_use]
pub fn whole(model: &str, end: &Ending<'_>) -> Bytes {
    let usage = end.usage.prompt.map(|tokens| tokens.0);
    let answer = Answer {
        object: "list",
        // It was read as JSON before it was kept.
        data: RawValue::from_string(end.message.plain()).ok(),
        model,
        usage: usage.map(|tokens| Usage { prompt_tokens: tokens, total_tokens: tokens }),
    };
    // JSON as it was kept, strings and integers; serialising them can not fail.
    Bytes::from(serde_json::to_vec(&answer).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::finish::Finish;
    use events::quantity::Tokens;
    use serde_json::Value;

    fn read(input: &Value) -> Result<Asked, BadRequest> {
        parse(
            json!({"model": "m", "input": input, "dimensions": 8, "odd": 1}).to_string().as_bytes(),
        )
    }

    #[track_caller]
    fn refused(input: &Value, then: &str) {
        assert_eq!(read(input).unwrap_err().to_string(), then);
    }

    #[test]
    fn texts_and_tokens_become_a_message_each() {
        let said = |input: Value| read(&input).unwrap().messages;
        assert_eq!(said(json!("a")), [Message::text(Role::User, "a")]);
        assert_eq!(said(json!(["a", "b"])).len(), 2);
        let one = said(json!([1, 2]));
        let part = Part::Opaque(json!({"type": "input_tokens", "tokens": [1, 2]}));
        assert_eq!(one, [Message { role: Role::User, name: None, parts: vec![part] }]);
        assert_eq!(said(json!([[1, 2], [3]])).len(), 2);
        assert_eq!(said(json!(["a", [3]])).len(), 2);
        // It reads back from the journal as what it was.
        assert_eq!(one[0].body().message().unwrap(), one[0]);
        assert_eq!(read(&json!("a")).unwrap().params.extra.as_str(), r#"{"dimensions":8}"#);
    }

    #[test]
    fn what_has_no_vector_is_refused_by_its_place() {
        let mend = "leave it out: nothing has no vector";
        refused(&json!(""), &format!("input: must not be empty; {mend}"));
        refused(&json!([]), "input: must not be empty; send at least one text");
        refused(&json!(["a", ""]), &format!("input[1]: must not be empty; {mend}"));
        refused(&json!([[]]), &format!("input[0]: must not be empty; {mend}"));
        refused(&json!([1, "a"]), "input[1]: must be a number, not a string; send a number");
        refused(&json!([[-1]]), "input[0][0]: must be a token's number; send integers from 0");
        refused(&json!([{"a": 1}]), "input[0]: must be a string, not an object; send a string");
        let many = vec!["a"; INPUTS_MAX + 1];
        refused(&json!(many), "input: has 2049 texts and the most is 2048; send several requests");
    }

    #[test]
    fn vectors_pass_through_as_they_were_kept() {
        let data = r#"[{"index":0,"embedding":[0.10,-1e-9]}]"#;
        let message = Message::text(Role::Assistant, data);
        let answer = |prompt| {
            let usage = events::usage::Usage { prompt, ..events::usage::Usage::default() };
            let end = Ending { message: &message, finish: Finish::Stop, usage: &usage };
            String::from_utf8(whole("m", &end).to_vec()).unwrap()
        };
        let used = r#"{"prompt_tokens":3,"total_tokens":3}"#;
        let then = |usage: &str| {
            format!(r#"{{"object":"list","data":{data},"model":"m","usage":{usage}}}"#)
        };
        assert_eq!(answer(Some(Tokens(3))), then(used));
        assert_eq!(answer(None), then("null"));
    }
}
