//! Artifacts, projects and their events as JSON.

use super::run::{instead_of, name};
use super::time::rfc3339;
use events::about::{self, Described};
use events::artifact::{Event, Kept, Name, Source, Written};
use events::quantity::Instant;
use events::record::{Actor, Hash};
use serde_json::{Map, Value, json};

/// Who made a version: the keys that stand beside its own.
fn made(source: &Source, by: Actor) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| keys.insert(key.to_owned(), value);
    put("source", source_word(source).into());
    put("by", by.to_string().into());
    let Source::Run(made) = source else { return keys };
    put("run_id", made.run.to_string().into());
    put("role", made.role.as_str().into());
    // One word each: who made it, and whether somebody else was meant to.
    put("generated_by", made.served_by.as_ref().map(name).into());
    put("served_by", made.served_by.as_ref().map(name).into());
    put("instead_of", made.served_by.as_ref().and_then(instead_of).into());
    keys
}

const fn source_word(source: &Source) -> &'static str {
    match source {
        Source::Run(_) => "run",
        Source::Caller => "caller",
        Source::Hand => "hand",
    }
}

fn head(of: &Name, version: u32, hash: Hash, bytes: usize, at: Instant) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| keys.insert(key.to_owned(), value);
    put("name", of.as_str().into());
    put("version", version.into());
    put("hash", hash.to_string().into());
    put("bytes", bytes.into());
    put("at", rfc3339(at).into());
    keys
}

/// A version without its text.
#[must_use]
pub fn row(of: &Name, kept: &Kept) -> Value {
    let bytes = usize::try_from(kept.bytes).unwrap_or(usize::MAX);
    let mut keys = head(of, kept.version, kept.hash, bytes, kept.at);
    keys.extend(made(&kept.source, kept.by));
    Value::Object(keys)
}

/// A version with its text.
#[must_use]
pub fn object(project: &str, written: &Written) -> Value {
    let Written { name, version, content, hash, source, by, at } = written;
    let mut keys = head(name, *version, *hash, content.len(), *at);
    keys.insert("object".to_owned(), "artifact".into());
    keys.insert("project".to_owned(), project.into());
    keys.insert("content".to_owned(), (**content).into());
    keys.extend(made(source, *by));
    Value::Object(keys)
}

/// What an event of artifacts says, with its text as it may be told.
#[must_use]
pub fn event(event: &Event, told: Value) -> Value {
    let Event::Written(Written { name, version, content: text, hash, source, by, at }) = event;
    let mut keys = head(name, *version, *hash, text.len(), *at);
    keys.extend(made(source, *by));
    keys.insert("content".to_owned(), told);
    Value::Object(keys)
}

/// A project.
#[must_use]
pub fn project(id: &str, described: Option<&Described>, artifacts: usize) -> Value {
    json!({
        "object": "project",
        "id": id,
        "name": described.map_or(id, |said| said.name.as_str()),
        "description": described.map(|said| said.description.as_str()),
        "described_by": described.map(|said| said.by.to_string()),
        "described_at": described.map(|said| rfc3339(said.at)),
        "artifacts": artifacts,
    })
}

/// What an event of a project says.
#[must_use]
pub fn of_project(event: &about::Event, description: Value) -> Value {
    let about::Event::Described(said) = event;
    json!({
        "name": said.name,
        "description": description,
        "by": said.by.to_string(),
        "at": rfc3339(said.at),
    })
}
