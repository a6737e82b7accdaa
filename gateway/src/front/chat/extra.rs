//! What a caller wants of the model besides the messages, in the words of this API, which are the neutral ones.

use crate::front::bad_request::BadRequest;
use crate::front::tree::Object;
use crate::front::wishes::{self, Takes, Wish};
use events::json::Json;
use events::prompt::Catalogue;
use events::quantity::Tokens;

/// Fields that a model or its server understands: OpenAI's own, then those that its compatibles share.
const KNOWN: [Wish; 29] = [
    ("temperature", Takes::Number, "temperature"),
    ("top_p", Takes::Number, "top_p"),
    ("presence_penalty", Takes::Number, "presence_penalty"),
    ("frequency_penalty", Takes::Number, "frequency_penalty"),
    ("seed", Takes::Integer, "seed"),
    ("stop", Takes::TextOrTexts, "stop"),
    ("logit_bias", Takes::Object, "logit_bias"),
    ("logprobs", Takes::Flag, "logprobs"),
    ("top_logprobs", Takes::Integer, "top_logprobs"),
    ("tool_choice", Takes::TextOrObject, "tool_choice"),
    ("parallel_tool_calls", Takes::Flag, "parallel_tool_calls"),
    ("response_format", Takes::Object, "response_format"),
    ("reasoning_effort", Takes::Text, "reasoning_effort"),
    ("verbosity", Takes::Text, "verbosity"),
    ("prediction", Takes::Object, "prediction"),
    ("modalities", Takes::List, "modalities"),
    ("service_tier", Takes::Text, "service_tier"),
    ("web_search_options", Takes::Object, "web_search_options"),
    ("prompt_cache_key", Takes::Text, "prompt_cache_key"),
    ("prompt_cache_retention", Takes::Text, "prompt_cache_retention"),
    ("prompt_cache_options", Takes::Object, "prompt_cache_options"),
    ("safety_identifier", Takes::Text, "safety_identifier"),
    ("user", Takes::Text, "user"),
    ("top_k", Takes::Integer, "top_k"),
    ("min_p", Takes::Number, "min_p"),
    ("repetition_penalty", Takes::Number, "repetition_penalty"),
    ("reasoning", Takes::Object, "reasoning"),
    ("thinking", Takes::Object, "thinking"),
    ("chat_template_kwargs", Takes::Object, "chat_template_kwargs"),
];

/// The most output the caller wants, under either of its two names.
pub(super) fn output_max(top: &Object<'_, '_>) -> Result<Option<Tokens>, BadRequest> {
    let tokens = |name| {
        let mend = "leave it out for no bound of yours";
        top.get(name).map(|node| wishes::tokens(&node, mend)).transpose()
    };
    let (new, old) = (tokens("max_completion_tokens")?, tokens("max_tokens")?);
    if let (Some(new), Some(old), Some(node)) = (new, old, top.get("max_tokens"))
        && new != old
    {
        let rule = format!("is {} but max_completion_tokens is {}", old.0, new.0);
        return Err(node.refuse(rule, "send max_completion_tokens alone"));
    }
    Ok(new.or(old))
}

/// The known fields as a canonical object.
pub(super) fn extra(top: &Object<'_, '_>, tools: &Catalogue) -> Result<Json, BadRequest> {
    one_answer(top)?;
    let mut kept = wishes::kept(top, &KNOWN)?;
    wishes::drop_idle(&mut kept, tools);
    text_only(top)?;
    wishes::canonical(&kept)
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
