//! The items of a request as neutral messages. What an assistant says comes in many items here and is one message
//! there, and an item may be no more than the name of one that this server gave.
//!
//! Reasoning comes back from the journal and not from the client: its name says whose it is. It is taken when what
//! stands beside it is what was answered, so that an edited past gets none.

pub use super::items::{ItemId, NotAnItem, Sort as ItemSort};

use crate::front::asked::{MESSAGES_MAX, some_messages};
use crate::front::bad_request::BadRequest;
use crate::front::history::{self, History};
use crate::front::image;
use crate::front::tree::{Node, Object, Sort, quoted};
use events::id::RunId;
use events::message::{Message, Part, Role, ToolCall, ToolResult};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Calls of one message: 256. Providers make up to 128; each is compared with the others.
const CALLS_MAX: usize = 256;

const ROLES: &str = "use user, assistant, system or developer";
const ITEMS: &str = "use message, function_call, function_call_output, reasoning or item_reference";
const TEXT: &str = "send {\"type\": \"input_text\", \"text\": …}";
const OUTPUT: &str = "send {\"type\": \"function_call_output\", \"call_id\": …, \"output\": \"…\"}";

/// One item of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// What somebody else than the assistant says.
    Said(Message),
    /// A part of what the assistant says.
    Part(Part),
    /// Reasoning; with the run that it is of, if it is ours.
    Thought(Option<RunId>),
    /// The name of an item that this server gave.
    Named {
        /// Where it stands, for a fault.
        field: String,
        /// The name.
        item: ItemId,
    },
}

impl Item {
    /// The run whose answer it names.
    #[must_use]
    pub const fn names(&self) -> Option<RunId> {
        match self {
            Self::Named { item, .. } => Some(item.run),
            Self::Thought(run) => *run,
            Self::Said(_) | Self::Part(_) => None,
        }
    }
}

/// The items of the input.
pub(super) fn items(node: &Node<'_, '_>) -> Result<Vec<Item>, BadRequest> {
    if node.sort() == Sort::Text {
        let text = node.name("say something")?;
        return Ok(vec![Item::Said(Message::text(Role::User, &text))]);
    }
    if node.sort() != Sort::List {
        return Err(node.missorted("a string or a list of items"));
    }
    some_messages(node)?;
    let mut all = Vec::new();
    for entry in node.list()?.iter() {
        item(&entry.object()?, &mut all)?;
    }
    Ok(all)
}

fn item(object: &Object<'_, '_>, all: &mut Vec<Item>) -> Result<(), BadRequest> {
    let Some(kind) = object.get("type") else { return message(object, all) };
    match kind.word()? {
        "message" => return message(object, all),
        "function_call" => all.push(Item::Part(Part::ToolCall(call(object)?))),
        "function_call_output" => all.push(Item::Said(output(object)?)),
        "reasoning" => all.push(Item::Thought(thought(object)?)),
        "item_reference" => {
            let id = object.need("id", ITEMS)?;
            let item = id.word()?.parse().map_err(|_no: NotAnItem| stranger(&id))?;
            all.push(Item::Named { field: id.field(), item });
        }
        other => {
            return Err(kind.refuse(format!("is {}, which is no item here", quoted(other)), ITEMS));
        }
    }
    Ok(())
}

fn stranger(id: &Node<'_, '_>) -> BadRequest {
    let rule =
        format!("is {}, which this server did not give", quoted(id.word().unwrap_or_default()));
    id.refuse(rule, "send the item itself")
}

fn message(object: &Object<'_, '_>, all: &mut Vec<Item>) -> Result<(), BadRequest> {
    let role = object.need("role", ROLES)?;
    let content = object.need("content", "send a string, or a list of parts")?;
    let mut parts = Vec::new();
    let speaker = match role.word()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        other => {
            let rule = format!("is {}, which is no role here", quoted(other));
            return Err(role.refuse(rule, ROLES));
        }
    };
    each(&content, speaker, &mut parts)?;
    if speaker == Role::Assistant {
        all.extend(parts.into_iter().map(Item::Part));
    } else {
        all.push(Item::Said(Message { role: speaker, name: None, parts }));
    }
    Ok(())
}

/// The parts of what somebody says. Empty text is no part: providers refuse empty blocks.
fn each(content: &Node<'_, '_>, role: Role, parts: &mut Vec<Part>) -> Result<(), BadRequest> {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    if content.sort() == Sort::Text {
        parts.extend(some(content.text()?).map(|text| Part::Text { text }));
        return Ok(());
    }
    if content.sort() != Sort::List {
        return Err(content.missorted("a string or a list of parts"));
    }
    for entry in content.list()?.iter() {
        let object = entry.object()?;
        let kind = object.need("type", TEXT)?;
        match (kind.word()?, role) {
            ("input_text" | "output_text" | "text", _) => {
                let text = some(object.need("text", TEXT)?.text()?);
                parts.extend(text.map(|text| Part::Text { text }));
            }
            ("refusal", Role::Assistant) => {
                let text = some(object.need("refusal", TEXT)?.text()?);
                parts.extend(text.map(|text| Part::Refusal { text }));
            }
            ("input_image", Role::User) => parts.push(picture(&object)?),
            (other, _) => {
                let rule = format!("is {}, which can not stand here", quoted(other));
                return Err(kind.refuse(rule, TEXT));
            }
        }
    }
    Ok(())
}

fn picture(object: &Object<'_, '_>) -> Result<Part, BadRequest> {
    if let Some(file) = object.get("file_id") {
        return Err(file.refuse("names a file, and no files are kept here", "send image_url"));
    }
    let shape = "send {\"type\": \"input_image\", \"image_url\": \"https://…\"}";
    let url = image::address(&object.need("image_url", shape)?)?;
    let detail = object.get("detail").map(|node| node.text()).transpose()?;
    Ok(Part::Image { url, detail })
}

fn call(object: &Object<'_, '_>) -> Result<ToolCall, BadRequest> {
    let shape =
        "send {\"type\": \"function_call\", \"call_id\": …, \"name\": …, \"arguments\": \"…\"}";
    Ok(ToolCall {
        id: object.need("call_id", shape)?.name("send the call_id that the model gave")?,
        name: object.need("name", shape)?.name("name the tool that is called")?,
        arguments: object.need("arguments", shape)?.text()?,
    })
}

/// A neutral result is text.
fn output(object: &Object<'_, '_>) -> Result<Message, BadRequest> {
    let call = object.need("call_id", OUTPUT)?.name("send the call_id that this answers")?;
    let output = object.need("output", OUTPUT)?;
    let content = if output.sort() == Sort::List {
        let mut parts = Vec::new();
        each(&output, Role::Tool, &mut parts)?;
        Message { role: Role::Tool, name: None, parts }.plain()
    } else {
        output.text()?
    };
    let result = ToolResult { call, content, is_error: false };
    Ok(Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] })
}

/// The run that reasoning is of, by either of its names. That of another server is read past: nobody here knows its
/// owner, and a provider refuses what is not its own.
fn thought(object: &Object<'_, '_>) -> Result<Option<RunId>, BadRequest> {
    for field in ["encrypted_content", "id"] {
        if let Some(node) = object.get(field)
            && let Ok(item) = node.word()?.parse::<ItemId>()
            && item.sort == ItemSort::Thought
        {
            return Ok(Some(item.run));
        }
    }
    Ok(None)
}

/// What an assistant says, until somebody else does.
#[derive(Default)]
struct Turn {
    parts: Vec<Part>,
    /// The answer that its reasoning is of.
    run: Option<RunId>,
    /// Answers that were put back whole: each is once, or a small request would make a conversation of any size.
    used: BTreeSet<RunId>,
}

impl Turn {
    /// Ends it, as the answer itself where it says the same.
    fn end(
        &mut self,
        all: &mut Vec<Message>,
        answers: &BTreeMap<RunId, Message>,
    ) -> Result<(), BadRequest> {
        let (parts, run) = (std::mem::take(&mut self.parts), self.run.take());
        if parts.is_empty() {
            return Ok(());
        }
        let said = Message { role: Role::Assistant, name: None, parts };
        let mut ids = BTreeSet::new();
        if let Some(twice) = said.calls().find(|call| !ids.insert(&call.id)) {
            let rule = format!("has two calls with the call_id {}", quoted(&twice.id));
            return Err(fault(rule, "give each call an id of its own"));
        }
        if ids.len() > CALLS_MAX {
            let rule = format!("has more than {CALLS_MAX} calls in a row");
            return Err(fault(rule, "spread them over several turns"));
        }
        let fresh = run.filter(|run| !self.used.contains(run));
        let answer = fresh.and_then(|run| answers.get(&run)).filter(|answer| {
            let (answer, said) = (std::slice::from_ref(*answer), std::slice::from_ref(&said));
            matches!(history::compare(answer, said), History::Continues { .. })
        });
        if answer.is_some() {
            self.used.extend(fresh);
        }
        all.push(answer.cloned().unwrap_or(said));
        Ok(())
    }

    /// Takes in reasoning of a run; that of another one begins another turn.
    fn thought(
        &mut self,
        run: RunId,
        all: &mut Vec<Message>,
        answers: &BTreeMap<RunId, Message>,
    ) -> Result<(), BadRequest> {
        if self.run.is_some_and(|other| other != run) {
            self.end(all, answers)?;
        }
        self.run = Some(run);
        Ok(())
    }
}

/// Puts the new items behind what was said, and each result behind its call.
pub(super) fn append(
    all: &mut Vec<Message>,
    items: &[Item],
    answers: &BTreeMap<RunId, Message>,
) -> Result<(), BadRequest> {
    let (mut turn, mut names) = (Turn::default(), BTreeSet::new());
    for item in items {
        match item {
            Item::Said(message) => {
                turn.end(all, answers)?;
                all.push(message.clone());
            }
            Item::Part(part) => turn.parts.push(part.clone()),
            Item::Thought(None) => (),
            Item::Thought(Some(run)) => turn.thought(*run, all, answers)?,
            Item::Named { field, item } => {
                if !names.insert(item.to_string()) {
                    let rule = format!("names {:?} a second time", item.to_string());
                    let mend = "name each item once".to_owned();
                    return Err(BadRequest { field: field.clone(), rule, mend });
                }
                let unknown = || BadRequest {
                    field: field.clone(),
                    rule: format!(
                        "is {:?}, which you were not given or which is no more",
                        item.to_string()
                    ),
                    mend: "send the item itself".to_owned(),
                };
                let answer = answers.get(&item.run).ok_or_else(unknown)?;
                turn.thought(item.run, all, answers)?;
                if item.sort != ItemSort::Thought {
                    turn.parts.push(item.part(answer).ok_or_else(unknown)?.clone());
                }
            }
        }
    }
    turn.end(all, answers)?;
    if all.len() > MESSAGES_MAX {
        let rule = format!(
            "makes a conversation of {} messages and the most is {MESSAGES_MAX}",
            all.len()
        );
        return Err(fault(rule, "summarise the oldest ones"));
    }
    *all = paired(std::mem::take(all))?;
    Ok(())
}

/// The same with each result right behind its call, as every provider wants it. Some of them give the same id to calls
/// of different turns, so results are taken in turn.
fn paired(all: Vec<Message>) -> Result<Vec<Message>, BadRequest> {
    let (results, said): (Vec<Message>, Vec<Message>) =
        all.into_iter().partition(|message| message.role == Role::Tool);
    let mut waiting: BTreeMap<String, VecDeque<Message>> = BTreeMap::new();
    for message in results {
        let call = message.results().next().map(|result| result.call.clone()).unwrap_or_default();
        waiting.entry(call).or_default().push_back(message);
    }
    let mut together = Vec::new();
    for message in said {
        let calls: Vec<String> = message.calls().map(|call| call.id.clone()).collect();
        together.push(message);
        for call in calls {
            let result = waiting.get_mut(&call).and_then(VecDeque::pop_front);
            let missing = || fault(format!("has no output of the call {}", quoted(&call)), OUTPUT);
            together.push(result.ok_or_else(missing)?);
        }
    }
    match waiting.iter().find(|(_, left)| !left.is_empty()) {
        Some((call, _)) => {
            let rule = format!("answers {}, which no item calls, or once too often", quoted(call));
            Err(fault(rule, "send its function_call, or the previous_response_id that has it"))
        }
        None => Ok(together),
    }
}

fn fault(rule: String, mend: &str) -> BadRequest {
    BadRequest { field: "input".to_owned(), rule, mend: mend.to_owned() }
}
