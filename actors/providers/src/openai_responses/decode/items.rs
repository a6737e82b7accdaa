//! The output items of one response, shown by their pieces and kept as they were finished.
//!
//! A piece belongs to the item of its place, else of its id: some servers give one item another id in every event. A
//! piece of a tool call that fits no item is a failure of the answer.

use crate::decode::{Fault, Ids, PARTS_MAX, text};
use crate::delta::Delta;
use bytes::Bytes;
use events::message::{Part, Seal, ToolCall};
use serde_json::Value;
use serde_json::value::RawValue;

/// Between two summaries of one reasoning item.
const BREAK: &str = "\n\n";

/// Whether an item is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More of it may come.
    Open,
    /// It is as it stays.
    Done,
}

/// The items so far, in the order in which they began.
#[derive(Debug)]
pub(super) struct Items {
    list: Vec<Item>,
    ids: Ids,
    /// Tool calls among them.
    calls: usize,
    /// Bytes that are kept.
    bytes: usize,
}

#[derive(Debug)]
struct Item {
    index: Option<u64>,
    id: String,
    end: End,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Text and refusal.
    Message(Shown, Shown),
    Reasoning {
        shown: Shown,
        /// The whole item, where it can go back.
        sealed: Option<String>,
    },
    Call(Call),
    /// What was not asked for, and what later versions add.
    Other(String),
}

/// Text that was shown as it came.
#[derive(Debug, Default)]
struct Shown(String);

#[derive(Debug)]
struct Call {
    /// Its place among the calls.
    place: usize,
    /// The provider's id of the call; empty where it gave none.
    given: String,
    id: String,
    name: String,
    arguments: Shown,
}

impl Shown {
    fn add(&mut self, more: &str, sink: impl FnOnce(String)) {
        if !more.is_empty() {
            self.0.push_str(more);
            sink(more.to_owned());
        }
    }

    /// The finished text is what is kept; what was not shown of it is shown now.
    fn finish(&mut self, whole: &str, sink: impl FnOnce(String)) {
        // An end that repeats nothing takes nothing back.
        if whole.is_empty() {
            return;
        }
        match whole.strip_prefix(self.0.as_str()) {
            Some("") => {}
            Some(rest) => sink(rest.to_owned()),
            // Nobody can take back what was shown; the record has the finished words.
            None => {}
        }
        whole.clone_into(&mut self.0);
    }
}

impl Items {
    pub(super) fn new(request: Bytes) -> Self {
        Self { list: Vec::new(), ids: Ids::new(request), calls: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An item begins, or is finished.
    pub(super) fn item(
        &mut self,
        index: Option<u64>,
        came: &RawValue,
        end: End,
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let item: Value =
            serde_json::from_str(came.get()).map_err(|_| Fault::NotJson("an item"))?;
        let id = text(&item, "id").unwrap_or_default();
        let at = match self.find(index, id) {
            Some(at) => at,
            None => self.open(index, &item, answer, sink)?,
        };
        self.bytes += came.get().len();
        let Some(found) = self.list.get_mut(at) else { return Ok(()) };
        if found.end == End::Done {
            // Said again: it stays as it was.
            return Ok(());
        }
        if end == End::Done {
            found.finish(&item, came.get(), sink)?;
        }
        Ok(())
    }

    /// The items of a finished response: those that nobody spoke of before, and the ends that were left out.
    pub(super) fn rest(
        &mut self,
        output: &[Box<RawValue>],
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let is_complete =
            !self.list.is_empty() && self.list.iter().all(|item| item.end == End::Done);
        if is_complete && output.len() <= self.list.len() {
            return Ok(());
        }
        for (index, item) in output.iter().enumerate() {
            let index = u64::try_from(index).unwrap_or(u64::MAX);
            self.item(Some(index), item, End::Done, answer, sink)?;
        }
        Ok(())
    }

    fn find(&self, index: Option<u64>, id: &str) -> Option<usize> {
        let same_place = |item: &Item| index.is_some() && item.index == index;
        let same_id = |item: &Item| !id.is_empty() && item.id == id;
        self.list.iter().position(same_place).or_else(|| {
            // Two places are two items, whatever they are called.
            let is_it = |item: &Item| same_id(item) && (index.is_none() || item.index.is_none());
            self.list.iter().position(is_it)
        })
    }

    fn open(
        &mut self,
        index: Option<u64>,
        item: &Value,
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<usize, Fault> {
        let at = self.list.len();
        if at >= PARTS_MAX {
            return Err(Fault::Call("more items than any answer has"));
        }
        let kind = match text(item, "type").unwrap_or_default() {
            "message" => Kind::Message(Shown::default(), Shown::default()),
            "reasoning" => Kind::Reasoning { shown: Shown::default(), sealed: None },
            "function_call" => Kind::Call(self.call(item, answer, sink)?),
            _ => Kind::Other(String::new()),
        };
        let id = text(item, "id").unwrap_or_default().to_owned();
        self.list.push(Item { index, id, end: End::Open, kind });
        Ok(at)
    }

    fn call(
        &mut self,
        item: &Value,
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Call, Fault> {
        let name = text(item, "name").ok_or(Fault::Call("a tool call has no name"))?.to_owned();
        let given = text(item, "call_id").unwrap_or_default().to_owned();
        let place = self.calls;
        self.calls += 1;
        // Two calls of one answer must not share an id, or a result would answer both.
        let taken = |item: &Item| matches!(&item.kind, Kind::Call(call) if call.id == given);
        let id = if given.is_empty() || self.list.iter().any(taken) {
            self.ids.make(answer, place)
        } else {
            given.clone()
        };
        sink(Delta::ToolCallStarted { index: place, id: id.clone(), name: name.clone() });
        Ok(Call { place, given, id, name, arguments: Shown::default() })
    }

    /// A piece of an item.
    pub(super) fn piece(
        &mut self,
        kind: &str,
        chunk: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let is_arguments = kind == "response.function_call_arguments.delta";
        let is_break = kind == "response.reasoning_summary_part.added"
            && chunk.get("summary_index").and_then(Value::as_u64).is_some_and(|place| place > 0);
        let more = if is_break { BREAK } else { text(chunk, "delta").unwrap_or_default() };
        let is_shown = is_break
            || is_arguments
            || matches!(
                kind,
                "response.output_text.delta"
                    | "response.refusal.delta"
                    | "response.reasoning_summary_text.delta"
                    | "response.reasoning_text.delta"
            );
        if !is_shown || more.is_empty() {
            // Their ends repeat what came, and what later versions add is of no use here.
            return Ok(());
        }
        self.bytes += more.len();
        let index = chunk.get("output_index").and_then(Value::as_u64);
        let id = text(chunk, "item_id").unwrap_or_default();
        let only = || (index.is_none() && id.is_empty() && self.list.len() == 1).then_some(0);
        let at = self.find(index, id).or_else(only);
        let found = at.and_then(|at| self.list.get_mut(at)).filter(|item| item.end == End::Open);
        match (kind, found.map(|item| &mut item.kind)) {
            ("response.output_text.delta", Some(Kind::Message(said, _))) => {
                said.add(more, |more| sink(Delta::Text(more)));
            }
            ("response.refusal.delta", Some(Kind::Message(_, refused))) => {
                refused.add(more, |more| sink(Delta::Refusal(more)));
            }
            (_, Some(Kind::Reasoning { shown, .. })) if !is_arguments => {
                shown.add(more, |more| sink(Delta::Reasoning(more)));
            }
            (_, Some(Kind::Call(call))) if is_arguments => {
                let index = call.place;
                call.arguments
                    .add(more, |fragment| sink(Delta::ToolCallArguments { index, fragment }));
            }
            (_, Some(_) | None) if is_arguments => {
                return Err(Fault::Call("a piece of a tool call fits no item of the answer"));
            }
            // A text without an item: its item says it again when it is finished.
            (_, Some(_) | None) => {}
        }
        Ok(())
    }

    /// The parts of the answer. Items of an answer that was cut short stand as far as they came; of one that was
    /// completed, a call must have been finished.
    pub(super) fn finish(
        self,
        seal: &Seal,
        end: End,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Vec<Part>, Fault> {
        let mut parts = Vec::with_capacity(self.list.len());
        for item in self.list {
            let reasoning = |text, sealed| Part::Reasoning { text, seal: seal.clone(), sealed };
            match item.kind {
                Kind::Message(said, refused) => {
                    if !said.0.is_empty() {
                        parts.push(Part::Text { text: said.0 });
                    }
                    if !refused.0.is_empty() {
                        parts.push(Part::Refusal { text: refused.0 });
                    }
                }
                Kind::Reasoning { shown, sealed } => {
                    if sealed.is_some() || !shown.0.is_empty() {
                        parts.push(reasoning(shown.0, sealed));
                    }
                }
                Kind::Call(_) if item.end == End::Open && end == End::Done => {
                    return Err(Fault::Call("a tool call was not finished"));
                }
                Kind::Call(mut call) => {
                    if call.arguments.0.is_empty() {
                        let index = call.place;
                        let show = |fragment| sink(Delta::ToolCallArguments { index, fragment });
                        call.arguments.add("{}", show);
                    }
                    let Call { id, name, arguments, .. } = call;
                    parts.push(Part::ToolCall(ToolCall { id, name, arguments: arguments.0 }));
                }
                Kind::Other(came) if came.is_empty() => {}
                Kind::Other(came) => parts.push(reasoning(String::new(), Some(came))),
            }
        }
        Ok(parts)
    }
}

impl Item {
    /// The item as it stays.
    fn finish(
        &mut self,
        item: &Value,
        came: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let kind = text(item, "type").unwrap_or_default();
        match (&mut self.kind, kind) {
            (Kind::Message(said, refused), "message") => {
                said.finish(&all(item, "content", "text", ""), |more| sink(Delta::Text(more)));
                let words = all(item, "content", "refusal", "");
                refused.finish(&words, |more| sink(Delta::Refusal(more)));
            }
            (Kind::Reasoning { shown, sealed }, "reasoning") => {
                let summary = all(item, "summary", "text", BREAK);
                let words =
                    if summary.is_empty() { all(item, "content", "text", "") } else { summary };
                shown.finish(&words, |more| sink(Delta::Reasoning(more)));
                // Without its encrypted content nobody finds it again: nothing is stored at the provider.
                *sealed = text(item, "encrypted_content").map(|_| came.to_owned());
            }
            (Kind::Call(call), "function_call") => call.finish(item, sink)?,
            (Kind::Other(kept), _) => came.clone_into(kept),
            (Kind::Message(..) | Kind::Reasoning { .. } | Kind::Call(_), _) => {
                return Err(Fault::Call("an item ends as another than it began"));
            }
        }
        self.end = End::Done;
        Ok(())
    }
}

impl Call {
    fn finish(&mut self, item: &Value, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        let is_other = |name: &str, own: &str| {
            text(item, name).is_some_and(|said| !own.is_empty() && said != own)
        };
        if is_other("call_id", &self.given) || is_other("name", &self.name) {
            return Err(Fault::Call("a tool call ends as another than it began"));
        }
        let Some(whole) = text(item, "arguments") else { return Ok(()) };
        if !whole.starts_with(self.arguments.0.as_str()) {
            return Err(Fault::Call("a tool call ends with other arguments than it began with"));
        }
        let index = self.place;
        let fragment = |fragment| sink(Delta::ToolCallArguments { index, fragment });
        self.arguments.finish(whole, fragment);
        Ok(())
    }
}

/// The texts of an item's parts.
fn all(item: &Value, list: &str, field: &str, between: &str) -> String {
    let parts = item.get(list).and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| text(part, field)).collect();
    texts.join(between)
}
