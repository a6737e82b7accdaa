//! What a caller wants of the model besides the messages: known fields, checked for their sort and kept in one
//! canonical object, so that the same wishes give the same request hash. Every API's wishes are kept under the names
//! of chat completions, which are the neutral ones.
//!
//! Ranges are the provider's to judge: they differ by model. A field that is in no table is tolerated and left out.

use super::bad_request::BadRequest;
use super::tree::{Node, Object, Sort};
use events::json::Json;
use events::prompt::Catalogue;
use events::quantity::Tokens;
use serde_json::{Map, Value};

/// The largest integer that each reader of JSON holds exactly: 2^53 − 1.
const INTEGER_MAX: i64 = 9_007_199_254_740_991;
/// Stop sequences of one request: 16. OpenAI takes four, local servers more.
const STOPS_MAX: usize = 16;

/// What sort of value a field takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    /// A number.
    Number,
    /// An integer that JSON carries exactly.
    Integer,
    /// True or false.
    Flag,
    /// A string.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
    /// A string or an object.
    TextOrObject,
    /// A string or a list of strings.
    TextOrTexts,
}

/// A field of an API, what it takes, and the neutral name that it is kept under.
pub(super) type Wish = (&'static str, Takes, &'static str);

/// The wishes of a table that the caller has, checked.
pub(super) fn kept(top: &Object<'_, '_>, known: &[Wish]) -> Result<Map<String, Value>, BadRequest> {
    let mut kept = Map::new();
    for (name, takes, neutral) in known {
        let Some(node) = top.get(name) else { continue };
        check(&node, *takes)?;
        kept.insert((*neutral).to_owned(), node.value());
    }
    Ok(kept)
}

/// Leaves out what says nothing without client-side tools (all of them may have been of unknown types), where OpenAI
/// refuses it. A choice that demands a call is kept: the server may offer tools of its own.
pub(super) fn drop_idle(kept: &mut Map<String, Value>, tools: &Catalogue) {
    let is_idle = |name: &str, value: &Value| match name {
        "parallel_tool_calls" => true,
        "tool_choice" => matches!(value.as_str(), Some("auto" | "none")),
        _ => false,
    };
    kept.retain(|name, value| !(tools.is_empty() && is_idle(name, value)));
}

/// The canonical form of the wishes.
pub(super) fn canonical(kept: &Map<String, Value>) -> Result<Json, BadRequest> {
    if kept.is_empty() {
        return Ok(Json::from_bytes(b"{}"));
    }
    let canonical = serde_json_canonicalizer::to_vec(kept).map_err(|error| BadRequest {
        field: "body".to_owned(),
        rule: format!("has no canonical form ({error})"),
        mend: "send plain JSON".to_owned(),
    })?;
    Ok(Json::from(canonical))
}

/// A bound on output.
pub(super) fn tokens(node: &Node<'_, '_>, mend: &str) -> Result<Tokens, BadRequest> {
    let count = node.number()?.as_u64().filter(|count| *count > 0);
    count.map(Tokens).ok_or_else(|| node.refuse("must be an integer of at least 1", mend))
}

fn check(node: &Node<'_, '_>, takes: Takes) -> Result<(), BadRequest> {
    let sort = node.sort();
    match takes {
        Takes::Number => node.number().map(drop),
        Takes::Integer => integer(node),
        Takes::Flag => node.flag().map(drop),
        Takes::Text => node.word().map(drop),
        Takes::List => node.list().map(drop),
        Takes::Object if sort == Sort::Object => Ok(()),
        Takes::Object => Err(node.missorted("an object")),
        Takes::TextOrObject if sort == Sort::Object => Ok(()),
        Takes::TextOrObject if sort == Sort::Text => Ok(()),
        Takes::TextOrObject => Err(node.missorted("a string or an object")),
        Takes::TextOrTexts if sort == Sort::Text => Ok(()),
        Takes::TextOrTexts if sort == Sort::List => texts(node),
        Takes::TextOrTexts => Err(node.missorted("a string or a list of strings")),
    }
}

/// The canonical form holds numbers as doubles: a larger integer would come out as another one.
fn integer(node: &Node<'_, '_>) -> Result<(), BadRequest> {
    let number = node.number()?.as_i64();
    let exact = number.is_some_and(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(&number));
    if exact {
        return Ok(());
    }
    let rule = format!("must be an integer from -{INTEGER_MAX} to {INTEGER_MAX}");
    Err(node.refuse(rule, "send one that JSON carries exactly"))
}

fn texts(node: &Node<'_, '_>) -> Result<(), BadRequest> {
    let list = node.list()?;
    if list.len() > STOPS_MAX {
        let rule = format!("has {} sequences and the most is {STOPS_MAX}", list.len());
        return Err(node.refuse(rule, "leave some out"));
    }
    list.iter().try_for_each(|item| item.word().map(drop))
}
