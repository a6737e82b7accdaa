//! The output items of one answer, each with an id that says which answer it is of: a client that hands one back by
//! its id alone is understood at any node, from the journal.

use super::Thoughts;
use crate::front::blocks::{Blocks, Kind, Step};
use events::id::RunId;
use events::message::{Message, Part};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Words.
    Message,
    /// A call.
    Call,
    /// Reasoning.
    Thought,
}

impl Sort {
    const ALL: [Self; 3] = [Self::Message, Self::Call, Self::Thought];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Call => "fc",
            Self::Thought => "rs",
        }
    }
}

/// Names an item: the first, second … of its sort in a run's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemId {
    /// Of which run.
    pub run: RunId,
    /// Of which sort.
    pub sort: Sort,
    /// Which of them, from 0.
    pub nth: usize,
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}", self.sort.prefix(), self.run, self.nth)
    }
}

/// The text is no id of an item of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnItem;

impl FromStr for ItemId {
    type Err = NotAnItem;

    fn from_str(text: &str) -> Result<Self, NotAnItem> {
        let (prefix, rest) = text.split_once('_').ok_or(NotAnItem)?;
        let sort = Sort::ALL.into_iter().find(|sort| sort.prefix() == prefix).ok_or(NotAnItem)?;
        let (run, nth) = rest.rsplit_once('_').ok_or(NotAnItem)?;
        let run = run.parse().map_err(|_no| NotAnItem)?;
        Ok(Self { run, sort, nth: nth.parse().map_err(|_no| NotAnItem)? })
    }
}

impl ItemId {
    /// The part of an answer that it names. Reasoning goes with its whole answer and is none.
    pub(super) fn part(self, answer: &Message) -> Option<&Part> {
        let is_one = |part: &&Part| match part {
            Part::Text { text } | Part::Refusal { text } => {
                self.sort == Sort::Message && !text.is_empty()
            }
            Part::ToolCall(_) => self.sort == Sort::Call,
            Part::Reasoning { .. } | Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => {
                false
            }
        };
        answer.parts.iter().filter(is_one).nth(self.nth)
    }
}

/// Whether an item is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Begun,
    Completed,
    Incomplete,
}

impl Status {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Begun => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// An item that grows.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) text: String,
}

impl Item {
    /// What it is made of, where it is made of parts.
    pub(super) fn part(&self, text: &str) -> Option<Value> {
        match self.kind {
            Kind::Text => Some(
                json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
            ),
            Kind::Refusal => Some(json!({"type": "refusal", "refusal": text})),
            Kind::Thought => Some(json!({"type": "summary_text", "text": text})),
            Kind::Unread(_) | Kind::Call { .. } => None,
        }
    }

    /// The object of the API.
    pub(super) fn value(&self, status: Status, thoughts: Thoughts) -> Value {
        let (id, begun) = (&self.id, status == Status::Begun);
        let unsaid = begun || (self.kind == Kind::Thought && self.text.is_empty());
        let parts: Vec<Value> = self.part(&self.text).filter(|_| !unsaid).into_iter().collect();
        match &self.kind {
            Kind::Text | Kind::Refusal => json!({"type": "message", "id": id, "role": "assistant",
                "status": status.word(), "content": parts}),
            Kind::Thought | Kind::Unread(_) => {
                // Nobody else can read the model's own; the journal has it, under this name.
                if thoughts.key() {
                    json!({"type": "reasoning", "id": id, "summary": parts, "encrypted_content": id})
                } else {
                    json!({"type": "reasoning", "id": id, "summary": parts})
                }
            }
            Kind::Call { id: call, name } => json!({"type": "function_call", "id": id,
                "call_id": call, "name": name, "status": status.word(),
                "arguments": if begun { "" } else { self.arguments() }}),
        }
    }

    /// Those of a call: a client parses them, and no arguments are no JSON.
    pub(super) fn arguments(&self) -> &str {
        if self.text.trim().is_empty() { "{}" } else { &self.text }
    }
}

/// Which items an answer has so far.
#[derive(Debug)]
pub(super) struct Items {
    run: RunId,
    thoughts: Thoughts,
    counts: [usize; 3],
    open: Option<Item>,
    done: Vec<Value>,
}

impl Items {
    pub(super) const fn new(run: RunId, thoughts: Thoughts) -> Self {
        Self { run, thoughts, counts: [0; 3], open: None, done: vec![] }
    }

    /// All of a finished message.
    pub(super) fn of(run: RunId, message: &Message, thoughts: Thoughts, end: Status) -> Vec<Value> {
        let mut items = Self::new(run, thoughts);
        let steps = Blocks::said(message);
        let last = steps.len().saturating_sub(1);
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Opened(kind) => drop(items.begin(kind)),
                Step::More(text) => items.more(&text),
                Step::Sealed(_) => (),
                Step::Closed => {
                    items.end(if at == last { end } else { Status::Completed });
                }
            }
        }
        items.done
    }

    /// Begins an item; none for one that is not shown, and what comes of it is not either.
    pub(super) fn begin(&mut self, kind: Kind) -> Option<&Item> {
        let (sort, shown) = match kind {
            Kind::Text | Kind::Refusal => (Sort::Message, true),
            Kind::Call { .. } => (Sort::Call, true),
            Kind::Thought => (Sort::Thought, self.thoughts != Thoughts::Hidden),
            Kind::Unread(_) => (Sort::Thought, self.thoughts.key()),
        };
        let [messages, calls, thoughts] = &mut self.counts;
        let count = match sort {
            Sort::Message => messages,
            Sort::Call => calls,
            Sort::Thought => thoughts,
        };
        let id = ItemId { run: self.run, sort, nth: *count };
        *count += 1;
        self.open = shown.then(|| Item { id: id.to_string(), kind, text: String::new() });
        self.open.as_ref()
    }

    /// More of the open one. Of words that are not shown, nothing is kept.
    pub(super) fn more(&mut self, text: &str) {
        let words = self.thoughts.words();
        if let Some(item) = self.open.as_mut().filter(|item| item.kind != Kind::Thought || words) {
            item.text.push_str(text);
        }
    }

    /// The open one.
    pub(super) const fn open(&self) -> Option<&Item> {
        self.open.as_ref()
    }

    /// The place of the open one, or of the next.
    pub(super) const fn place(&self) -> usize {
        self.done.len()
    }

    /// Closes the open one and gives its object.
    pub(super) fn end(&mut self, status: Status) -> Option<&Value> {
        let item = self.open.take()?;
        self.done.push(item.value(status, self.thoughts));
        self.done.last()
    }

    /// All that are complete.
    pub(super) fn into_done(self) -> Vec<Value> {
        self.done
    }
}
