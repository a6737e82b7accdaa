//! `search_tools`: looks through all tools for those that a run was not offered.
//!
//! What it reports is pinned: the run reads the names out of the stored answer and offers them from the next step on, so
//! that a model is never told of a tool that it then can not call. It is built over the finished registry, itself not
//! included, and never changes.

use crate::registry::Entry;
use crate::tool::{Call, ReplayClass, Tool, ToolError, Working};
use events::json::Json;
use events::run::chosen::PINNED;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Its own name.
pub const RAW_NAME: &str = "search_tools";
/// Matches of one search: a model reads a few, and each is offered from then on.
const MATCHES_MAX: usize = 10;
/// Matches unless the model says how many.
const MATCHES: usize = 5;
/// Characters of a description in an answer; the offer has all of it.
const DESCRIPTION_CHARS: usize = 240;
/// The schema of the arguments.
const PARAMETERS: &[u8] = br#"{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, in a few words.","minLength":1,"maxLength":200},"limit":{"type":"integer","description":"How many to find at most.","minimum":1,"maximum":10}},"required":["query"],"additionalProperties":false}"#;

/// A tool as it can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    name: String,
    origin: String,
    description: String,
    /// The words of name and description, in lower case.
    of_name: BTreeSet<String>,
    of_description: BTreeSet<String>,
}

/// The tool.
#[derive(Debug)]
pub struct SearchTools {
    lines: Arc<[Found]>,
    parameters: Json,
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
    limit: Option<usize>,
}

impl Found {
    pub(crate) fn of(entry: &Entry) -> Self {
        let of_name = words(&format!("{} {}", entry.raw_name(), entry.name()));
        Self {
            name: entry.name().to_owned(),
            origin: entry.origin().word().to_owned(),
            description: entry.description().to_owned(),
            of_name,
            of_description: words(entry.description()),
        }
    }

    /// How well it fits: a word in the name counts for three in the description, a part of a word for less.
    fn fits(&self, wanted: &BTreeSet<String>) -> u32 {
        let one = |word: &String| {
            let part = |of: &BTreeSet<String>| of.iter().any(|one| one.contains(word.as_str()));
            if self.of_name.contains(word) {
                6
            } else if part(&self.of_name) {
                4
            } else if self.of_description.contains(word) {
                2
            } else {
                u32::from(part(&self.of_description))
            }
        };
        wanted.iter().map(one).sum()
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .map(str::to_owned)
        .collect()
}

impl SearchTools {
    /// A search through these.
    #[must_use]
    pub fn new(lines: Vec<Found>) -> Self {
        Self { lines: lines.into(), parameters: Json::from_bytes(PARAMETERS) }
    }
}

/// The best of the lines, the best first; equal ones by name.
fn matches<'a>(lines: &'a [Found], query: &str, limit: usize) -> Vec<&'a Found> {
    let wanted = words(query);
    let mut found: Vec<(u32, &Found)> =
        lines.iter().map(|line| (line.fits(&wanted), line)).filter(|(fits, _)| *fits > 0).collect();
    found.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.name.cmp(&b.name)));
    found.into_iter().take(limit).map(|(_, line)| line).collect()
}

fn answer(lines: &[Found], query: &str, limit: usize) -> String {
    let found = matches(lines, query, limit);
    let tools: Vec<Value> = found
        .iter()
        .map(|line| {
            let description: String = line.description.chars().take(DESCRIPTION_CHARS).collect();
            json!({ "name": line.name, "origin": line.origin, "description": description })
        })
        .collect();
    let pinned: Vec<&str> = found.iter().map(|line| line.name.as_str()).collect();
    let hint = if pinned.is_empty() {
        "nothing fits; try other words"
    } else {
        "these can be called from the next step on"
    };
    json!({ "status": "ok", "count": tools.len(), "tools": tools, PINNED: pinned, "hint": hint })
        .to_string()
}

impl Tool for SearchTools {
    fn name(&self) -> &'static str {
        RAW_NAME
    }

    fn description(&self) -> &'static str {
        "Searches all tools by what they do, those that are not offered here included. What it finds can be called from the next step on."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    fn class(&self) -> ReplayClass {
        ReplayClass::ReadOnly
    }

    fn call(&self, call: Call) -> Working {
        let lines = Arc::clone(&self.lines);
        Box::pin(async move {
            let Arguments { query, limit } = serde_json::from_slice(call.arguments.as_bytes())
                .map_err(|error| ToolError::Failed(error.to_string()))?;
            Ok(answer(&lines, &query, limit.unwrap_or(MATCHES).min(MATCHES_MAX)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::run::chosen::pins_of;

    fn line(name: &str, description: &str) -> Found {
        Found {
            name: name.to_owned(),
            origin: "cad".to_owned(),
            description: description.to_owned(),
            of_name: words(name),
            of_description: words(description),
        }
    }

    fn lines() -> Vec<Found> {
        vec![
            line("mcp_cad_part_open", "Opens a part."),
            line("mcp_cad_sketch_pad", "Turns a sketch into a part."),
            line("mcp_web_fetch", "Fetches a page."),
        ]
    }

    #[test]
    fn what_is_named_so_comes_first_and_what_does_not_fit_not_at_all() {
        let found = |query: &str, limit: usize| -> Vec<String> {
            matches(&lines(), query, limit).iter().map(|line| line.name.clone()).collect()
        };
        assert_eq!(found("part", 5), ["mcp_cad_part_open", "mcp_cad_sketch_pad"]);
        assert_eq!(found("Sketch into part", 5)[0], "mcp_cad_sketch_pad");
        assert_eq!(found("part", 1), ["mcp_cad_part_open"]);
        assert_eq!(found("fetc", 5), ["mcp_web_fetch"]);
        assert_eq!(found("weather", 5), [] as [String; 0]);
    }

    #[test]
    fn a_run_reads_out_of_the_answer_what_was_found() {
        assert_eq!(
            pins_of(&answer(&lines(), "part", 5)),
            ["mcp_cad_part_open", "mcp_cad_sketch_pad"]
        );
        assert_eq!(pins_of(&answer(&lines(), "weather", 5)), [] as [String; 0]);
    }
}
