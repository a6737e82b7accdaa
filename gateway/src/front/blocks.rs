//! An answer as blocks that come one after another, for APIs whose streams open and close each of them.
//!
//! A provider may write two calls at once, their pieces mixed. Here a block waits until the one before it is complete,
//! so that nobody glues the arguments of two calls; what waits is no more than the answer itself.

use events::message::{Message, Part, Seal};
use providers::Delta;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of text in one frame: 32 KiB. Longer text goes out as several, because a reader holds a whole frame.
const PIECE_BYTES_MAX: usize = 32 * 1024;

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Text of the answer.
    Text,
    /// Words of a refusal.
    Refusal,
    /// Reasoning that may be shown.
    Thought,
    /// What the model must get back, and nobody else can read.
    Unread(Sealed),
    /// A call; its text is its arguments.
    Call {
        /// Its id.
        id: String,
        /// The model-facing name.
        name: String,
    },
}

/// What makes reasoning fit to be sent to its model again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Who may see it.
    pub seal: Seal,
    /// The family's own JSON, byte for byte, where it signs its reasoning.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sealed: Option<String>,
}

impl Sealed {
    /// That of a part of reasoning.
    pub(super) fn of(seal: &Seal, sealed: Option<&String>) -> Self {
        Self { seal: seal.clone(), sealed: sealed.cloned() }
    }
}

/// The next thing to tell a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A block begins; the one before it has closed.
    Opened(Kind),
    /// More of it.
    More(String),
    /// What must come back with this thought. Known only once the answer is whole.
    Sealed(Sealed),
    /// It is complete.
    Closed,
}

/// The blocks of one answer.
#[derive(Debug, Default)]
pub struct Blocks {
    live: Option<Block>,
    waiting: VecDeque<Block>,
}

#[derive(Debug)]
struct Block {
    kind: Kind,
    /// The provider's place of a call.
    call: Option<usize>,
    /// What has come while it waits.
    text: String,
    depth: Depth,
}

impl Block {
    fn new(kind: Kind, call: Option<usize>) -> Self {
        Self { kind, call, text: String::new(), depth: Depth::default() }
    }

    /// Whether nothing more can come of it.
    fn is_complete(&self) -> bool {
        self.call.is_none() || self.depth.is_closed()
    }
}

impl Blocks {
    /// Takes a piece in.
    pub fn push(&mut self, piece: &Delta) -> Vec<Step> {
        let mut steps = vec![];
        match piece {
            Delta::Text(text) => self.say(Kind::Text, text, &mut steps),
            Delta::Refusal(text) => self.say(Kind::Refusal, text, &mut steps),
            Delta::Reasoning(text) => self.say(Kind::Thought, text, &mut steps),
            Delta::ToolCallStarted { index, id, name } => {
                let kind = Kind::Call { id: id.clone(), name: name.clone() };
                self.begin(Block::new(kind, Some(*index)), &mut steps);
            }
            Delta::ToolCallArguments { index, fragment } => {
                let is_it = |block: &&mut Block| block.call == Some(*index);
                // Nothing but blanks can come of a call that has closed.
                if let Some(block) = self.live.as_mut().filter(is_it) {
                    block.depth.feed(fragment);
                    steps.push(Step::More(fragment.clone()));
                } else if let Some(block) = self.waiting.iter_mut().find(is_it) {
                    block.depth.feed(fragment);
                    block.text.push_str(fragment);
                }
            }
        }
        self.advance(&mut steps);
        steps
    }

    /// All blocks of a finished message, for a reader who saw none of its pieces.
    #[must_use]
    pub fn said(message: &Message) -> Vec<Step> {
        let mut steps = vec![];
        let mut whole = |kind: Kind, text: &str, seal: Option<Sealed>| {
            steps.push(Step::Opened(kind));
            steps.extend(
                Some(text).filter(|text| !text.is_empty()).map(|text| Step::More(text.to_owned())),
            );
            steps.extend(seal.map(Step::Sealed));
            steps.push(Step::Closed);
        };
        for part in &message.parts {
            match part {
                Part::Text { text } if !text.is_empty() => whole(Kind::Text, text, None),
                Part::Refusal { text } if !text.is_empty() => whole(Kind::Refusal, text, None),
                Part::Reasoning { text, seal, sealed } => {
                    let sealed = Sealed::of(seal, sealed.as_ref());
                    if text.is_empty() {
                        whole(Kind::Unread(sealed), "", None);
                    } else {
                        whole(Kind::Thought, text, Some(sealed));
                    }
                }
                Part::ToolCall(call) => {
                    let kind = Kind::Call { id: call.id.clone(), name: call.name.clone() };
                    whole(kind, &call.arguments, None);
                }
                // No decoder makes the others for an assistant; there is nothing to show of them.
                Part::Text { .. }
                | Part::Refusal { .. }
                | Part::Image { .. }
                | Part::ToolResult(_)
                | Part::Opaque(_) => (),
            }
        }
        steps
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> Vec<Step> {
        let mut steps = vec![];
        while let Some(_closed) = self.live.take() {
            steps.push(Step::Closed);
            self.next(&mut steps);
        }
        steps
    }

    fn say(&mut self, kind: Kind, text: &str, steps: &mut Vec<Step>) {
        if text.is_empty() {
            return;
        }
        match (self.waiting.back_mut(), &self.live) {
            (Some(newest), _) if newest.kind == kind => return newest.text.push_str(text),
            (None, Some(live)) if live.kind == kind => {
                return steps.push(Step::More(text.to_owned()));
            }
            (Some(_), _) | (None, Some(_) | None) => (),
        }
        let mut block = Block::new(kind, None);
        text.clone_into(&mut block.text);
        self.begin(block, steps);
    }

    fn begin(&mut self, block: Block, steps: &mut Vec<Step>) {
        self.waiting.push_back(block);
        if self.live.is_none() {
            self.next(steps);
        }
    }

    /// Goes on to what waits, as long as what is open is complete.
    fn advance(&mut self, steps: &mut Vec<Step>) {
        while !self.waiting.is_empty() && self.live.as_ref().is_some_and(Block::is_complete) {
            steps.push(Step::Closed);
            self.next(steps);
        }
    }

    fn next(&mut self, steps: &mut Vec<Step>) {
        self.live = self.waiting.pop_front();
        if let Some(block) = &mut self.live {
            steps.push(Step::Opened(block.kind.clone()));
            let text = std::mem::take(&mut block.text);
            steps.extend(Some(text).filter(|text| !text.is_empty()).map(Step::More));
        }
    }
}

/// Text in pieces of whole characters that fit a frame; none of an empty one.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let cut = rest.floor_char_boundary(PIECE_BYTES_MAX);
        let (piece, tail) = rest.split_at_checked(cut).filter(|(piece, _)| !piece.is_empty())?;
        rest = tail;
        Some(piece)
    })
}

/// How deep in JSON a text has come, to see where an object of it closes.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    open: u32,
    closed: bool,
    in_text: bool,
    escaped: bool,
}

impl Depth {
    fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            match (byte, self.in_text, self.escaped) {
                (_, true, true) => self.escaped = false,
                (b'\\', true, false) => self.escaped = true,
                (b'"', _, _) => self.in_text = !self.in_text,
                (b'{' | b'[', false, _) => self.open = self.open.saturating_add(1),
                (b'}' | b']', false, _) => {
                    self.open = self.open.saturating_sub(1);
                    self.closed |= self.open == 0;
                }
                _ => (),
            }
        }
    }

    const fn is_closed(self) -> bool {
        self.closed && self.open == 0 && !self.in_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text(text.into())
    }

    fn call(index: usize) -> Delta {
        Delta::ToolCallStarted { index, id: format!("c{index}"), name: format!("f{index}") }
    }

    fn more(index: usize, fragment: &str) -> Delta {
        Delta::ToolCallArguments { index, fragment: fragment.into() }
    }

    /// Each step in a few characters; what each push gave is set off by a blank.
    #[track_caller]
    fn check(pieces: &[Delta], then: &str) {
        let mut blocks = Blocks::default();
        let mut said: Vec<String> = pieces.iter().map(|piece| show(&blocks.push(piece))).collect();
        said.push(show(&blocks.finish()));
        assert_eq!(said.join(" "), then);
    }

    fn show(steps: &[Step]) -> String {
        let one = |step: &Step| match step {
            Step::Opened(Kind::Text) => "T(".to_owned(),
            Step::Opened(Kind::Refusal) => "R(".to_owned(),
            Step::Opened(Kind::Thought) => "?(".to_owned(),
            Step::Opened(Kind::Unread(_)) => "#(".to_owned(),
            Step::Opened(Kind::Call { id, .. }) => format!("{id}("),
            Step::More(text) => text.clone(),
            Step::Sealed(_) => "!".to_owned(),
            Step::Closed => ")".to_owned(),
        };
        steps.iter().map(one).collect()
    }

    #[test]
    fn a_block_closes_where_another_begins() {
        check(&[text("a"), text("b"), text("")], "T(a b  )");
        let thought = Delta::Reasoning("h".into());
        check(&[thought, text("a"), Delta::Refusal("no".into())], "?(h )T(a )R(no )");
        check(&[], "");
    }

    #[test]
    fn calls_that_come_one_after_another_go_out_as_they_come() {
        check(
            &[
                text("a"),
                call(0),
                more(0, "{\"x"),
                more(0, "\":1}"),
                call(1),
                more(1, "[{}]"),
                text("b"),
            ],
            "T(a )c0( {\"x \":1} )c1( [{}] )T(b )",
        );
    }

    #[test]
    fn pieces_of_two_calls_that_come_mixed_go_out_apart() {
        check(
            &[
                call(0),
                call(1),
                more(1, "{\"b\""),
                more(0, "{\"}"),
                more(0, "\\\"\":1}"),
                more(1, ":2}"),
            ],
            "c0(   {\"} \\\"\":1})c1({\"b\" :2} )",
        );
        // A call without arguments is complete at the end only.
        check(&[call(0), call(1), more(1, "{}"), text("a")], "c0(    )c1({})T(a)");
    }

    #[test]
    fn a_finished_message_gives_each_part_whole_with_its_seal() {
        use events::message::{Role, ToolCall};
        let seal = Seal {
            family: "f".into(),
            endpoint: "e".into(),
            profile: "p".into(),
            model: "m".into(),
        };
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into() };
        let parts = vec![
            Part::Reasoning { text: "h".into(), seal: seal.clone(), sealed: None },
            Part::Reasoning { text: String::new(), seal, sealed: Some("{}".into()) },
            Part::Text { text: String::new() },
            Part::Text { text: "a".into() },
            Part::ToolCall(call),
        ];
        let message = Message { role: Role::Assistant, name: None, parts };
        assert_eq!(show(&Blocks::said(&message)), "?(h!)#()T(a)c({})");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let long = "é".repeat(PIECE_BYTES_MAX / 2 + 1) + "x";
        let cut: Vec<&str> = pieces(&long).collect();
        assert_eq!((cut.len(), cut.concat()), (2, long));
        assert_eq!(pieces("").count(), 0);
    }
}
