//! Tool calls put together from their pieces.
//!
//! A piece belongs to a call by its index; where compatibles leave that out or repeat it, by id, then by name. Two
//! calls are never glued together: a piece that could belong to two is a failure of the answer, because a tool that
//! runs with another call's arguments is worse than an answer that is asked for again.

use crate::decode::{Fault, Ids, PARTS_MAX};
use crate::delta::Delta;
use bytes::Bytes;
use events::message::ToolCall;
use serde_json::Value;

/// The calls of one answer so far.
#[derive(Debug)]
pub(super) struct Calls {
    list: Vec<Call>,
    ids: Ids,
    /// Numbers the chunks, to tell pieces of one chunk from pieces of two.
    chunk: u64,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The provider's id; empty where it gave none.
    given: String,
    id: String,
    name: String,
    arguments: String,
    /// Whether the arguments are a whole object, known without parsing them again for each piece.
    extent: Extent,
    chunk: u64,
    /// Bytes of the arguments that were handed out.
    shown: usize,
}

/// How far a JSON object has come.
#[derive(Debug, Default)]
struct Extent {
    depth: usize,
    text: Text,
    opened: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

impl Extent {
    fn read(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            self.text = match (&self.text, byte) {
                (Text::Outside, b'"') | (Text::Escaped, _) => Text::Inside,
                (Text::Inside, b'"') => Text::Outside,
                (Text::Inside, b'\\') => Text::Escaped,
                (Text::Inside, _) => Text::Inside,
                (Text::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    self.opened = true;
                    Text::Outside
                }
                (Text::Outside, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    Text::Outside
                }
                (Text::Outside, _) => Text::Outside,
            };
        }
    }

    fn is_whole(&self) -> bool {
        self.opened && self.depth == 0 && self.text == Text::Outside
    }
}

/// One piece, as it came.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl<'a> Piece<'a> {
    fn read(value: &'a Value) -> Self {
        let function = value.get("function").unwrap_or(&Value::Null);
        let text = |value: Option<&'a Value>| value.and_then(Value::as_str).unwrap_or_default();
        let arguments = match function.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // Some write the object itself.
            Some(
                whole @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_)),
            ) => whole.to_string(),
        };
        let index = value
            .get("index")
            .and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok()));
        Self { index, id: text(value.get("id")), name: text(function.get("name")), arguments }
    }
}

impl Piece<'_> {
    /// Whether it is arguments alone.
    fn is_bare(&self) -> bool {
        self.id.is_empty() && self.name.is_empty()
    }
}

impl Calls {
    pub(super) fn new(request: Bytes) -> Self {
        Self { list: Vec::new(), ids: Ids::new(request), chunk: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        let kept =
            |call: &Call| call.id.len() + call.given.len() + call.name.len() + call.arguments.len();
        self.list.iter().map(kept).sum()
    }

    /// The pieces of the next chunk.
    pub(super) fn chunk(
        &mut self,
        pieces: &[Value],
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        self.chunk += 1;
        for piece in pieces {
            let piece = Piece::read(piece);
            let at = match self.home(&piece)? {
                Some(at) => at,
                None => self.open(&piece, answer)?,
            };
            self.extend(at, &piece, sink)?;
        }
        Ok(())
    }

    /// The calls of a whole message: each entry is one.
    pub(super) fn whole(&mut self, calls: &[Value], answer: &str) -> Result<(), Fault> {
        for call in calls {
            let piece = Piece::read(call);
            let at = self.open(&piece, answer)?;
            self.extend(at, &piece, &mut |_| ())?;
        }
        Ok(())
    }

    /// The finished calls, in the order in which they began.
    pub(super) fn finish(self, sink: &mut dyn FnMut(Delta)) -> Result<Vec<ToolCall>, Fault> {
        let mut done = Vec::with_capacity(self.list.len());
        for (index, mut call) in self.list.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(Fault::Call("a tool call has no name"));
            }
            call.show(index, Hold::Nothing, sink);
            done.push(ToolCall { id: call.id, name: call.name, arguments: call.arguments });
        }
        Ok(done)
    }

    /// The call that a piece continues; `None` when it begins one.
    fn home(&self, piece: &Piece<'_>) -> Result<Option<usize>, Fault> {
        let same_index = |call: &Call| {
            call.index.is_none() || piece.index.is_none() || call.index == piece.index
        };
        let same_id =
            |call: &Call| !piece.id.is_empty() && call.given == piece.id && same_index(call);
        if let Some(at) = self.list.iter().rposition(same_id) {
            // One id under two names is two calls.
            return Ok(self.list.get(at).filter(|call| call.may_be_named(piece.name)).map(|_| at));
        }
        let says_nothing = piece.arguments.trim().is_empty();
        let (at, is_more) = if piece.index.is_some() {
            let at = self.list.iter().rposition(|call| call.index == piece.index);
            // A whole call under an index that is taken is another one: some give index 0 to all.
            let is_more = |call: &Call| piece.name.is_empty() || says_nothing || !call.is_past();
            (at, at.and_then(|at| self.list.get(at)).is_some_and(is_more))
        } else {
            // Without an index, a name goes on in a later chunk only, and only while its arguments are not whole.
            let is_more = |call: &Call| {
                let goes_on = call.chunk < self.chunk && (says_nothing || !call.extent.is_whole());
                piece.is_bare() || goes_on
            };
            (self.list.len().checked_sub(1), self.list.last().is_some_and(is_more))
        };
        let is_home =
            at.and_then(|at| self.list.get(at)).is_some_and(|call| is_more && call.may_be(piece));
        match at.filter(|_| is_home) {
            Some(at) if piece.id.is_empty() && !says_nothing => self.only(at, piece).map(Some),
            Some(at) => Ok(Some(at)),
            None if piece.is_bare() && piece.index.is_none() => {
                Err(Fault::Call("a piece of a tool call names no call"))
            }
            None => Ok(None),
        }
    }

    /// The call at this place, unless an earlier one can still want the arguments and the piece does not tell them
    /// apart.
    fn only(&self, at: usize, piece: &Piece<'_>) -> Result<usize, Fault> {
        let is_rival = |call: &&Call| {
            (piece.index.is_none() || call.index == piece.index)
                && call.may_be(piece)
                && !call.extent.is_whole()
        };
        if self.list.iter().take(at).find(is_rival).is_none() {
            Ok(at)
        } else {
            Err(Fault::Call("a piece of a tool call may belong to two"))
        }
    }

    fn open(&mut self, piece: &Piece<'_>, answer: &str) -> Result<usize, Fault> {
        let at = self.list.len();
        if at >= PARTS_MAX {
            return Err(Fault::Call("more tool calls than any model makes"));
        }
        // Two calls of one answer must not share an id, or a result would answer both.
        let is_taken = piece.id.is_empty() || self.list.iter().any(|call| call.id == piece.id);
        let id = if is_taken { self.ids.make(answer, at) } else { piece.id.to_owned() };
        self.list.push(Call {
            index: piece.index,
            given: piece.id.to_owned(),
            id,
            name: String::new(),
            arguments: String::new(),
            extent: Extent::default(),
            chunk: self.chunk,
            shown: 0,
        });
        Ok(at)
    }

    fn extend(
        &mut self,
        at: usize,
        piece: &Piece<'_>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let Some(call) = self.list.get_mut(at) else { return Ok(()) };
        if call.name.is_empty() && !piece.name.is_empty() {
            piece.name.clone_into(&mut call.name);
            sink(Delta::ToolCallStarted {
                index: at,
                id: call.id.clone(),
                name: call.name.clone(),
            });
        }
        let more = piece.arguments.as_str();
        if call.is_placeholder() && !more.trim().is_empty() {
            // `{}` and then the real arguments: some open every call with an empty object.
            call.arguments.clear();
            call.extent = Extent::default();
        } else if call.extent.is_whole() && !more.trim().is_empty() {
            let is_repeat = more.trim() == call.arguments.trim();
            return if is_repeat {
                Ok(())
            } else {
                Err(Fault::Call("a tool call goes on after its end"))
            };
        }
        call.arguments.push_str(more);
        call.extent.read(more);
        call.show(at, Hold::Placeholder, sink);
        Ok(())
    }
}

/// What is not handed out yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// An empty object, which may be replaced.
    Placeholder,
    /// Nothing.
    Nothing,
}

impl Call {
    fn is_placeholder(&self) -> bool {
        self.arguments.trim() == "{}"
    }

    fn may_be_named(&self, name: &str) -> bool {
        name.is_empty() || self.name.is_empty() || self.name == name
    }

    /// Whether nothing that the piece says speaks against this call.
    fn may_be(&self, piece: &Piece<'_>) -> bool {
        let same_id = piece.id.is_empty() || self.given.is_empty() || self.given == piece.id;
        same_id && self.may_be_named(piece.name)
    }

    /// Whether no piece can continue this call.
    fn is_past(&self) -> bool {
        self.extent.is_whole() && !self.is_placeholder()
    }

    fn show(&mut self, index: usize, hold: Hold, sink: &mut dyn FnMut(Delta)) {
        if self.name.is_empty() || (hold == Hold::Placeholder && self.is_placeholder()) {
            return;
        }
        let fragment = self.arguments.get(self.shown..).unwrap_or_default();
        if !fragment.is_empty() {
            sink(Delta::ToolCallArguments { index, fragment: fragment.to_owned() });
            self.shown = self.arguments.len();
        }
    }
}
