//! What a model call yields: deltas that may be shown while it runs, and the answer that is recorded.
//!
//! A delta proves nothing: only an [`Answer`] is complete, and only its tool calls may run.

use events::message::{Message, Part};
use events::usage::Usage;

/// A piece of an answer as it comes. Best effort; the answer repeats all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text of the answer.
    Text(String),
    /// Reasoning that may be shown.
    Reasoning(String),
    /// Text of a refusal.
    Refusal(String),
    /// The model begins a tool call.
    ToolCallStarted {
        /// Its place among the answer's calls, from 0.
        index: usize,
        /// Its id; made here where the provider gave none.
        id: String,
        /// The model-facing name.
        name: String,
    },
    /// More of a tool call's arguments, as the model writes them.
    ToolCallArguments {
        /// Its place among the answer's calls, from 0.
        index: usize,
        /// The next piece.
        fragment: String,
    },
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It was done.
    End,
    /// It reached the token limit.
    Length,
    /// It wants tools.
    ToolCalls,
    /// Its content was cut by a filter.
    ContentFilter,
    /// The provider's own word for something else.
    Other(String),
}

/// A whole answer, read up to its terminal event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The assistant's message; without parts when the model said nothing.
    pub message: Message,
    /// Why it stopped.
    pub stop: Stop,
    /// What was reported; what was not is `None`.
    pub usage: Usage,
    /// The model's name in the answer.
    pub served_model: Option<String>,
    /// The provider's id of the request: its header, else the id in the body.
    pub request_id: Option<String>,
}

impl Answer {
    /// The deltas that this answer would have come in, for a reader of a provider that answered whole.
    #[must_use]
    pub fn deltas(&self) -> Vec<Delta> {
        let mut deltas = Vec::with_capacity(self.message.parts.len());
        let mut index = 0;
        for part in &self.message.parts {
            match part {
                Part::Text { text } => deltas.push(Delta::Text(text.clone())),
                Part::Reasoning { text, .. } => deltas.push(Delta::Reasoning(text.clone())),
                Part::Refusal { text } => deltas.push(Delta::Refusal(text.clone())),
                Part::ToolCall(call) => {
                    let (id, name) = (call.id.clone(), call.name.clone());
                    deltas.push(Delta::ToolCallStarted { index, id, name });
                    if !call.arguments.is_empty() {
                        deltas.push(Delta::ToolCallArguments {
                            index,
                            fragment: call.arguments.clone(),
                        });
                    }
                    index += 1;
                }
                // No decoder makes these for an assistant; there is nothing to show of them.
                Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => {}
            }
        }
        deltas
    }
}
