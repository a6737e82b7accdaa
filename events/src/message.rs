//! The neutral message model, carried as JSON bytes, so that a part that an older build does not know costs that
//! part and not the whole event.
//!
//! A message is stored once and named by the hash of its bytes from then on. Byte-stable: the same message always
//! gives the same bytes (struct order, no floats of ours).

use crate::journal;
use crate::json::Json;
use crate::record::Hash;
use serde::{Deserialize, Serialize};

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The operator's instructions (`system` and `developer` of the wires).
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// A tool that ran.
    Tool,
}

/// A call that a model wants made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, or one that the decoder made where it gave none.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// The arguments exactly as the model wrote them; not necessarily JSON.
    pub arguments: String,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call: String,
    /// Text, or JSON as text.
    pub content: String,
    /// Whether its caller says that the tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_error: bool,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image by address (`https:` or `data:`).
    Image {
        /// Where it is, or what it is.
        url: String,
        /// `low`, `high` or `auto`, where the caller said so.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        detail: Option<String>,
    },
    /// A call that the model wants made.
    ToolCall(ToolCall),
    /// The answer to one.
    ToolResult(ToolResult),
    /// What the model must get back unchanged, from the same family, endpoint, profile and model only.
    ///
    /// A signature that belongs to another part (a tool call, a text) is a reasoning part of its own with an empty
    /// text, right before the part it belongs to. So is a block that nobody but its own family can read.
    Reasoning {
        /// What may be shown; empty where nothing may.
        text: String,
        /// Who may see it again; dropped when any of it differs.
        seal: Seal,
        /// The family's own JSON, byte for byte as it came, for the families that sign it. It is text here, because
        /// a parsed number or a sorted key would break the signature.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        sealed: Option<String>,
    },
    /// The model's refusal.
    Refusal {
        /// Its words.
        text: String,
    },
    /// A part that this build does not know, kept as it came.
    #[serde(untagged)]
    Opaque(serde_json::Value),
}

/// Whom a reasoning part belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// API family.
    pub family: String,
    /// Base address.
    pub endpoint: String,
    /// Organisation or credential profile.
    pub profile: String,
    /// Model.
    pub model: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// The speaker's name, where the wire carries one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// What is said; empty for a message without content.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    #[must_use]
    pub fn text(role: Role, text: &str) -> Self {
        Self { role, name: None, parts: vec![Part::Text { text: text.to_owned() }] }
    }

    /// The answer to a tool call.
    #[must_use]
    pub fn tool_result(call: &str, content: String) -> Self {
        let result = ToolResult { call: call.to_owned(), content, is_error: false };
        Self { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] }
    }

    /// The stored form of [`Message::tool_result`], without making the message first.
    #[must_use]
    pub fn tool_result_body(call: &str, content: &str) -> Body {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Result<'a> {
            ToolResult { call: &'a str, content: &'a str },
        }
        #[derive(Serialize)]
        struct Message<'a> {
            role: Role,
            parts: [Result<'a>; 1],
        }
        let parts = [Result::ToolResult { call, content }];
        let mut bytes = Vec::with_capacity(96 + call.len() + content.len() + content.len() / 8);
        // Strings only; serialising them can not fail.
        let _written = serde_json::to_writer(&mut bytes, &Message { role: Role::Tool, parts });
        Body::new(Json::from(bytes))
    }

    /// All its text, parts joined without a separator.
    #[must_use]
    pub fn plain(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// The calls it asks for, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::ToolResult(_)
            | Part::Reasoning { .. }
            | Part::Refusal { .. }
            | Part::Opaque(_) => None,
        })
    }

    /// The calls it answers, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::ToolCall(_)
            | Part::Reasoning { .. }
            | Part::Refusal { .. }
            | Part::Opaque(_) => None,
        })
    }

    /// Its stored form.
    #[must_use]
    pub fn body(&self) -> Body {
        // A message is maps, lists and strings only; serialising one can not fail.
        Body::new(Json::from(serde_json::to_vec(self).unwrap_or_default()))
    }
}

impl Part {
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } | Self::Refusal { text } => Some(text),
            Self::Image { .. }
            | Self::ToolCall(_)
            | Self::ToolResult(_)
            | Self::Reasoning { .. }
            | Self::Opaque(_) => None,
        }
    }
}

/// A message as stored: its JSON bytes. Cheap to clone; its hash is its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body(Json);

/// The stored bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stored message does not read: {0}")]
pub struct NotAMessage(String);

impl Body {
    /// Wraps stored bytes.
    #[must_use]
    pub const fn new(json: Json) -> Self {
        Self(json)
    }

    /// SHA-256 of the stored bytes.
    #[must_use]
    pub fn hash(&self) -> Hash {
        journal::hash(self.0.as_bytes())
    }

    /// The stored bytes.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// Who speaks, for whoever lays a conversation out and reads none of it. What brings the result of a tool is the
    /// tool's, whoever says it, for it must stay behind its call; what does not read at all is taken for the asker's.
    #[must_use]
    pub fn speaker(&self) -> Role {
        // Our own bytes begin with the role, so that the long ones are not parsed for it.
        const ROLES: [(&[u8], Role); 4] = [
            (br#"{"role":"user","#, Role::User),
            (br#"{"role":"assistant","#, Role::Assistant),
            (br#"{"role":"tool","#, Role::Tool),
            (br#"{"role":"system","#, Role::System),
        ];
        let bytes = self.0.as_bytes();
        let begins = ROLES.iter().find(|(begins, _)| bytes.starts_with(begins));
        match begins.map(|(_, role)| *role) {
            Some(role @ (Role::Assistant | Role::Tool | Role::System)) => return role,
            Some(Role::User) if !self.0.as_str().contains(r#""tool_result""#) => {
                return Role::User;
            }
            Some(Role::User) | None => {}
        }
        let Ok(message) = self.message() else { return Role::User };
        let answers = message.role == Role::User && message.results().next().is_some();
        if answers { Role::Tool } else { message.role }
    }

    /// The message.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message at all; unknown parts are kept opaque.
    pub fn message(&self) -> Result<Message, NotAMessage> {
        serde_json::from_slice(self.0.as_bytes()).map_err(|error| NotAMessage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Message {
        let call =
            ToolCall { id: "call_1".into(), name: "clock_now".into(), arguments: "{}".into() };
        Message {
            role: Role::Assistant,
            name: None,
            parts: vec![Part::Text { text: "so".into() }, Part::ToolCall(call)],
        }
    }

    #[test]
    fn the_bytes_of_a_message_do_not_change() {
        assert_eq!(
            call().body().json().as_str(),
            r#"{"role":"assistant","parts":[{"type":"text","text":"so"},{"type":"tool_call","id":"call_1","name":"clock_now","arguments":"{}"}]}"#
        );
        assert_eq!(call().body().message(), Ok(call()));
    }

    #[test]
    fn a_sealed_block_is_kept_byte_for_byte_and_costs_no_byte_where_there_is_none() {
        let block = r#"{ "signature":"s","n":1.0e2,"a":0 }"#;
        let seal = Seal {
            family: "f".into(),
            endpoint: "e".into(),
            profile: String::new(),
            model: "m".into(),
        };
        let thought = |sealed: Option<&str>| Message {
            role: Role::Assistant,
            name: None,
            parts: vec![Part::Reasoning {
                text: "t".into(),
                seal: seal.clone(),
                sealed: sealed.map(str::to_owned),
            }],
        };
        assert_eq!(thought(Some(block)).body().message(), Ok(thought(Some(block))));
        assert_eq!(
            thought(None).body().json().as_str(),
            r#"{"role":"assistant","parts":[{"type":"reasoning","text":"t","seal":{"family":"f","endpoint":"e","profile":"","model":"m"}}]}"#
        );
    }

    #[test]
    fn a_tool_result_has_the_same_bytes_however_it_is_made() {
        for content in ["", r#"{"now":"\u00e9\n"}"#, "\u{1F9D7} \"quoted\"\n"] {
            let made = Message::tool_result("call_1", content.to_owned()).body();
            assert_eq!(Message::tool_result_body("call_1", content), made);
        }
    }

    #[test]
    fn a_result_says_that_the_tool_failed_and_an_older_one_reads_as_one_that_did_not() {
        let result = ToolResult { call: "c".into(), content: "no".into(), is_error: true };
        let parts = vec![Part::ToolResult(result)];
        let message = Message { role: Role::Tool, name: None, parts };
        let text = r#"{"role":"tool","parts":[{"type":"tool_result","call":"c","content":"no","is_error":true}]}"#;
        assert_eq!(message.body().json().as_str(), text);
        assert_eq!(message.body().message(), Ok(message));
        let older = Message::tool_result("c", "yes".into());
        assert!(!older.body().json().as_str().contains("is_error"));
        assert_eq!(older.body().message(), Ok(older));
    }

    #[test]
    fn an_unknown_part_is_kept_and_written_back() {
        let text = r#"{"role":"user","parts":[{"type":"hologram","depth":3}]}"#;
        let message = Body::new(Json::from_bytes(text.as_bytes())).message().unwrap();
        assert!(matches!(message.parts.as_slice(), [Part::Opaque(_)]));
        assert_eq!(
            message.body().json().as_str(),
            r#"{"role":"user","parts":[{"depth":3,"type":"hologram"}]}"#
        );
    }

    #[test]
    fn who_speaks_is_told_without_reading_and_a_result_is_the_tools_whoever_brings_it() {
        for role in [Role::System, Role::User, Role::Assistant] {
            assert_eq!(Message::text(role, r#"a "tool_result""#).body().speaker(), role);
        }
        let result = Message::tool_result("c", "r".into());
        assert_eq!(result.body().speaker(), Role::Tool);
        let brought = Message { role: Role::User, ..result };
        assert_eq!(brought.body().speaker(), Role::Tool);
        let spaced = Body::new(Json::from_bytes(br#"{ "parts":[], "role":"system"}"#));
        assert_eq!(spaced.speaker(), Role::System);
        assert_eq!(Body::new(Json::from_bytes(b"no")).speaker(), Role::User);
    }

    #[test]
    fn text_and_calls_are_found_in_order() {
        assert_eq!(call().plain(), "so");
        assert_eq!(call().calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_1"]);
    }
}
