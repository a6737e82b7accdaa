//! A commit as one line of JSON: everything that its hash covers, so that a stranger can check the chain.

use super::{fact, live, time::rfc3339};
use events::catalogue::{self, Fact};
use events::record::{Payload, Recorded};
use serde_json::{Value, json};
use std::sync::Arc;

/// What the streams of events call a fact; `name` beside it is the stored kind's.
pub(super) fn event(known: &Fact) -> String {
    match known {
        Fact::Run(event) => live::name(event).to_owned(),
        Fact::Session(event) => format!("session.{}", event.name()),
        Fact::Key(event) => format!("key.{}", event.name()),
        Fact::Settings(event) => format!("settings.{}", event.name()),
        Fact::Credential(event) => format!("credential.{}", event.name()),
        Fact::Budget(event) => format!("budget.{}", event.name()),
        Fact::Grant(event) => format!("grant.{}", event.name()),
        Fact::Gates(event) => format!("gates.{}", event.name()),
        Fact::Artifact(event) => format!("artifact.{}", event.name()),
        Fact::Project(event) => format!("project.{}", event.name()),
        Fact::Probe => known.name().to_owned(),
    }
}

/// One commit; `payloads` are its entries' bytes, in order.
#[must_use]
pub fn commit(recorded: &Recorded, payloads: &[Arc<[u8]>]) -> Value {
    let commit = &recorded.commit;
    let entries = commit.entries.iter().zip(payloads).zip(commit.first_version.0..).map(
        |((entry, bytes), version)| {
            let decoded = catalogue::decode(&commit.stream, entry.kind, entry.schema, bytes);
            let (name, event, data) = match &decoded {
                Ok(known) => {
                    let mut data = fact::fact(known);
                    super::call::name_in(&commit.stream, known, &mut data);
                    (Some(known.name()), Some(event(known)), data)
                }
                Err(_) => (None, None, Value::Null),
            };
            let blob = match &entry.payload {
                Payload::Inline(_) => None,
                Payload::Blob(blob) => Some(blob.hash.to_string()),
            };
            json!({
                "version": version,
                "kind": entry.kind,
                "schema": entry.schema,
                "name": name,
                "event": event,
                "blob": blob,
                "data": data,
            })
        },
    );
    let causes = commit.causes.iter().map(|cause| {
        json!({
            "command": cause.command.to_string(),
            "correlation": format!("{:032x}", cause.correlation),
            "actor": cause.actor.to_string(),
            "entries": cause.entries,
        })
    });
    json!({
        "position": recorded.position.to_string(),
        "journal": commit.journal.to_string(),
        "stream": commit.stream.as_str(),
        "first_version": commit.first_version.0,
        "last_version": commit.last_version().0,
        "epoch": commit.epoch.0,
        "boot": format!("{:032x}", commit.boot.0),
        "commit": format!("{:032x}", commit.id.0),
        "at": rfc3339(commit.at),
        "causes": causes.collect::<Value>(),
        "prev": commit.prev.to_string(),
        "hash": recorded.hash.to_string(),
        "entries": entries.collect::<Value>(),
    })
}
