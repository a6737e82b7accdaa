//! Vectors of texts: the embeddings API that servers of this family have beside their chat.
//!
//! The vectors are kept as they came, byte for byte: a number that was read and written again may be another one.

use super::decode::usage;
use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{Decoder, Fault, LABEL_BYTES_MAX, Progress};
use crate::delta::{Answer, Delta, Stop};
use crate::encode::{EncodeError, Fields};
use crate::endpoint::Endpoint;
use crate::family::Family;
use crate::secret::cut;
use events::message::{Body, Message, Part, Role, Seal};
use events::prompt::Request;
use events::quantity::Tokens;
use events::usage::Usage;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, BTreeSet};

/// Below the base address.
pub(crate) const PATH: &str = "embeddings";
/// Where an opaque part has a text's tokens.
const TOKENS: &str = "tokens";

/// A text, or the numbers of its tokens.
#[derive(Serialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Tokens(Value),
}

/// Writes the body of a request: each of its messages is a text.
///
/// # Errors
///
/// [`EncodeError`] for a provider of another family, and for a message that is no text.
pub(crate) fn encode(endpoint: &Endpoint, request: &Request) -> Result<Vec<u8>, EncodeError> {
    if endpoint.family != Family::OpenaiChat {
        return Err(EncodeError::NoVectors(endpoint.provider.clone()));
    }
    if request.model.is_empty() {
        return Err(EncodeError::NoModel);
    }
    if request.messages.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    let extra = serde_json::from_slice::<Option<Fields>>(request.params.extra.as_bytes())?;
    let mut fields = extra.unwrap_or_default();
    let inputs: Vec<Input> = request
        .messages
        .iter()
        .enumerate()
        .map(|(position, body)| input(position, body))
        .collect::<Result<_, _>>()?;
    fields.insert("input".to_owned(), to_raw_value(&inputs)?);
    fields.insert("model".to_owned(), to_raw_value(&request.model)?);
    Ok(serde_json::to_vec(&fields)?)
}

fn input(position: usize, body: &Body) -> Result<Input, EncodeError> {
    let message = body.message().map_err(|source| EncodeError::Message { position, source })?;
    let odd = || EncodeError::Part { position, what: "more than one text, or none" };
    let [part] = <[Part; 1]>::try_from(message.parts).map_err(|_several| odd())?;
    match part {
        Part::Text { text } => Ok(Input::Text(text)),
        Part::Opaque(mut value) => {
            value.get_mut(TOKENS).map(Value::take).map(Input::Tokens).ok_or_else(odd)
        }
        Part::Image { .. }
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Reasoning { .. }
        | Part::Refusal { .. } => Err(odd()),
    }
}

/// One vector, as far as it is looked at.
#[derive(Deserialize)]
struct Item {
    index: Option<u64>,
    #[serde(rename = "embedding")]
    _embedding: IgnoredAny,
}

/// Reads the answer. Its message is the list of vectors as text.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Texts that were sent.
    count: usize,
    vectors: Option<String>,
    usage: Usage,
    served_model: Option<String>,
}

impl Reader {
    /// A reader of the answer to so many texts.
    pub(crate) fn new(count: usize) -> Self {
        Self { count, vectors: None, usage: Usage::default(), served_model: None }
    }

    fn report(&mut self, root: &BTreeMap<String, &RawValue>) {
        if let Some(model) =
            root.get("model").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
        {
            self.served_model = Some(cut(&model, LABEL_BYTES_MAX).to_owned());
        }
        let report = root.get("usage").and_then(|raw| serde_json::from_str(raw.get()).ok());
        usage::merge(&mut self.usage, &report.unwrap_or(Value::Null));
        // A vector is no output that is counted in tokens.
        self.usage.completion = Some(Tokens(0));
    }
}

impl Decoder for Reader {
    fn feed(&mut self, _: &[u8], _: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        Err(Fault::Call("vectors do not come in pieces"))
    }

    fn end(&mut self, _: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        Ok(())
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let odd = |_| Fault::NotJson("the body");
        let root: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(odd)?;
        self.report(&root);
        let failed = root.get("error").is_some_and(|error| error.get() != "null");
        let Some(data) = root.get("data").filter(|_| !failed) else {
            let error: Value = serde_json::from_slice(body).map_err(odd)?;
            return Err(if Envelope::is_error(&error) {
                Fault::Reported { error, began: Began::No }
            } else {
                Fault::NoMessage
            });
        };
        let items: Vec<Item> = serde_json::from_str(data.get())
            .map_err(|_no_list| Fault::Call("the answer has no list of vectors"))?;
        let places: BTreeSet<u64> =
            (0..).zip(&items).map(|(place, item)| item.index.unwrap_or(place)).collect();
        let last = u64::try_from(self.count).unwrap_or(u64::MAX);
        if items.len() != self.count || places.len() != self.count || places.last() >= Some(&last) {
            return Err(Fault::Call("the answer has not one vector for each text"));
        }
        self.vectors = Some(data.get().to_owned());
        Ok(())
    }

    fn is_terminal(&self) -> bool {
        self.vectors.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(
        self: Box<Self>,
        _: Seal,
        request_id: Option<String>,
        _: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        let Self { vectors, usage, served_model, .. } = *self;
        let message = Message::text(Role::Assistant, &vectors.ok_or(Fault::Truncated)?);
        Ok(Answer { message, stop: Stop::End, usage, served_model, request_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Charge, Class, Failure};
    use crate::decode::shredder;
    use events::json::Json;
    use events::prompt::{Catalogue, Params};

    fn request(messages: Vec<Message>, extra: &str) -> Request {
        let extra = Json::from_bytes(extra.as_bytes());
        Request {
            model: "m".into(),
            tools: Catalogue::default(),
            messages: messages.iter().map(Message::body).collect(),
            params: Params { output_max: None, extra },
        }
    }

    fn texts(texts: &[&str]) -> Vec<Message> {
        texts.iter().map(|text| Message::text(Role::User, text)).collect()
    }

    fn tokens() -> Message {
        let value = serde_json::json!({"type": "input_tokens", "tokens": [1, 2]});
        Message { role: Role::User, name: None, parts: vec![Part::Opaque(value)] }
    }

    #[test]
    fn the_bytes_of_a_request_do_not_change() {
        let endpoint = shredder::endpoint(Family::OpenaiChat);
        let given = request(
            [texts(&["a", "é"]), vec![tokens()]].concat(),
            r#"{"dimensions":2,"model":"evil"}"#,
        );
        let sent = String::from_utf8(encode(&endpoint, &given).unwrap()).unwrap();
        assert_eq!(sent, r#"{"dimensions":2,"input":["a","é",[1,2]],"model":"m"}"#);
    }

    #[test]
    fn what_is_no_text_and_who_has_no_such_api_is_named_before_anything_is_sent() {
        let endpoint = shredder::endpoint(Family::OpenaiChat);
        let image = Part::Image { url: "https://a/b.png".into(), detail: None };
        let image = Message { role: Role::User, name: None, parts: vec![image] };
        let nothing = Message { role: Role::User, name: None, parts: vec![] };
        for (given, about) in [
            (request(vec![], "{}"), "no message"),
            (request(vec![image], "{}"), "message 0 has more than one text"),
            (request([texts(&["a"]), vec![nothing]].concat(), "{}"), "message 1 has"),
            (Request { model: String::new(), ..request(texts(&["a"]), "{}") }, "no model"),
        ] {
            let failure = Failure::from(encode(&endpoint, &given).unwrap_err());
            assert!(failure.message.contains(about), "{}", failure.message);
        }
        for family in Family::ALL.into_iter().filter(|family| *family != Family::OpenaiChat) {
            let refused = encode(&shredder::endpoint(family), &request(texts(&["a"]), "{}"));
            let failure = Failure::from(refused.unwrap_err());
            assert_eq!(
                (failure.class, failure.charge),
                (Class::InvalidRequest, Charge::NotCharged)
            );
            assert!(failure.message.contains("test has no embeddings"), "{}", failure.message);
        }
    }

    fn read(count: usize, body: &str) -> Result<Answer, Fault> {
        let mut reader = Box::new(Reader::new(count));
        reader.body(body.as_bytes())?;
        let seal = shredder::endpoint(Family::OpenaiChat).seal("m");
        reader.finish(seal, None, &mut |_| ())
    }

    #[test]
    fn vectors_are_kept_byte_for_byte_with_what_they_used() {
        let data = r#"[{"object":"embedding","index":1,"embedding":[0.10, -1e-9]},{"index":0,"embedding":"AAAA"}]"#;
        let body = format!(
            r#"{{"object":"list","data":{data},"model":"m-1","usage":{{"prompt_tokens":3,"total_tokens":3}}}}"#
        );
        let answer = read(2, &body).unwrap();
        assert_eq!(answer.message.plain(), data);
        assert_eq!(answer.served_model.as_deref(), Some("m-1"));
        assert_eq!(
            (answer.usage.prompt, answer.usage.completion),
            (Some(Tokens(3)), Some(Tokens(0)))
        );
        // Who counts nothing is not said to have used nothing.
        let silent = read(2, &format!(r#"{{"data":{data}}}"#)).unwrap();
        assert_eq!(silent.usage.prompt, None);
    }

    #[test]
    fn an_answer_that_has_not_one_vector_for_each_text_is_none() {
        let one = r#"{"index":0,"embedding":[1]}"#;
        let list = |items: &[&str]| format!(r#"{{"data":[{}]}}"#, items.join(","));
        assert!(read(1, &list(&[one])).is_ok());
        for (count, body) in [
            (2, list(&[one])),
            (1, list(&[one, one])),
            (2, list(&[one, one])),
            (1, list(&[r#"{"index":7,"embedding":[1]}"#])),
            (1, list(&[r#"{"index":0}"#])),
            (1, r#"{"data":{}}"#.to_owned()),
        ] {
            assert!(matches!(read(count, &body), Err(Fault::Call(_))), "{body}");
        }
        assert_eq!(read(1, "{}"), Err(Fault::NoMessage));
        assert!(matches!(read(1, "<html>"), Err(Fault::NotJson(_))));
        let told = r#"{"error":{"message":"no","type":"server_error"}}"#;
        assert!(matches!(read(1, told), Err(Fault::Reported { .. })));
    }
}
