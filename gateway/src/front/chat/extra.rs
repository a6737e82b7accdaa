//! What a caller wants of the model besides the messages: known fields, checked for their sort and kept in one
//! canonical object, so that the same wishes give the same request hash.
//!
//! Ranges are the provider's to judge: they differ by model. A field that is in no table here is tolerated and left
//! out.

use super::problem::BadRequest;
use super::raw::{Node, Object, Sort};
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
enum Takes {
    Number,
    Integer,
    Flag,
    Text,
    List,
    Object,
    TextOrObject,
    TextOrTexts,
}

/// Fields that a model or its server understands: OpenAI's own, then those that its compatibles share.
const KNOWN: [(&str, Takes); 29] = [
    ("temperature", Takes::Number),
    ("top_p", Takes::Number),
    ("presence_penalty", Takes::Number),
    ("frequency_penalty", Takes::Number),
    ("seed", Takes::Integer),
    ("stop", Takes::TextOrTexts),
    ("logit_bias", Takes::Object),
    ("logprobs", Takes::Flag),
    ("top_logprobs", Takes::Integer),
    ("tool_choice", Takes::TextOrObject),
    ("parallel_tool_calls", Takes::Flag),
    ("response_format", Takes::Object),
    ("reasoning_effort", Takes::Text),
    ("verbosity", Takes::Text),
    ("prediction", Takes::Object),
    ("modalities", Takes::List),
    ("service_tier", Takes::Text),
    ("web_search_options", Takes::Object),
    ("prompt_cache_key", Takes::Text),
    ("prompt_cache_retention", Takes::Text),
    ("prompt_cache_options", Takes::Object),
    ("safety_identifier", Takes::Text),
    ("user", Takes::Text),
    ("top_k", Takes::Integer),
    ("min_p", Takes::Number),
    ("repetition_penalty", Takes::Number),
    ("reasoning", Takes::Object),
    ("thinking", Takes::Object),
    ("chat_template_kwargs", Takes::Object),
];

/// The most output the caller wants, under either of its two names.
pub(super) fn output_max(top: &Object<'_, '_>) -> Result<Option<Tokens>, BadRequest> {
    let new = top.get("max_completion_tokens").map(|node| tokens(&node)).transpose()?;
    let old = top.get("max_tokens").map(|node| tokens(&node)).transpose()?;
    if let (Some(new), Some(old), Some(node)) = (new, old, top.get("max_tokens"))
        && new != old
    {
        let rule = format!("is {} but max_completion_tokens is {}", old.0, new.0);
        return Err(node.refuse(rule, "send max_completion_tokens alone"));
    }
    Ok(new.or(old))
}

fn tokens(node: &Node<'_, '_>) -> Result<Tokens, BadRequest> {
    let count = node.number()?.as_u64().filter(|count| *count > 0);
    count.map(Tokens).ok_or_else(|| {
        node.refuse("must be an integer of at least 1", "leave it out for no bound of yours")
    })
}

/// The known fields as a canonical object.
pub(super) fn extra(top: &Object<'_, '_>, tools: &Catalogue) -> Result<Json, BadRequest> {
    one_answer(top)?;
    let mut kept = Map::new();
    for (name, takes) in KNOWN {
        let Some(node) = top.get(name) else { continue };
        check(&node, takes)?;
        let value = node.value();
        if !(tools.is_empty() && is_idle_without_tools(name, &value)) {
            kept.insert(name.to_owned(), value);
        }
    }
    text_only(top)?;
    if kept.is_empty() {
        return Ok(Json::from_bytes(b"{}"));
    }
    let canonical = serde_json_canonicalizer::to_vec(&kept).map_err(|error| BadRequest {
        field: "body".to_owned(),
        rule: format!("has no canonical form ({error})"),
        mend: "send plain JSON".to_owned(),
    })?;
    Ok(Json::from(canonical))
}

/// A run has one answer; several would be several runs.
fn one_answer(top: &Object<'_, '_>) -> Result<(), BadRequest> {
    let Some(node) = top.get("n") else { return Ok(()) };
    if node.number()?.as_u64() == Some(1) {
        return Ok(());
    }
    Err(node.refuse("must be 1", "send one request for each answer that you want"))
}

/// Audio out has no neutral form; asked for and not given, it would be a silent half of an answer.
fn text_only(top: &Object<'_, '_>) -> Result<(), BadRequest> {
    let Some(node) = top.get("modalities") else { return Ok(()) };
    for item in node.list()?.iter() {
        if item.word()? != "text" {
            return Err(item.refuse("must be \"text\", the only output there is", "leave it out"));
        }
    }
    Ok(())
}

/// Without client-side tools (all of them may have been of unknown types) these say nothing, and OpenAI refuses them
/// there. A choice that demands a call is kept: the server may offer tools of its own.
fn is_idle_without_tools(name: &str, value: &Value) -> bool {
    match name {
        "parallel_tool_calls" => true,
        "tool_choice" => matches!(value.as_str(), Some("auto" | "none")),
        _ => false,
    }
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
