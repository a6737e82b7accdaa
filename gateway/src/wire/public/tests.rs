//! The page for programs outside against what they are told.

use super::*;
use events::record::{Shard, StreamKind};
use std::collections::BTreeMap;

const MARK: &str = "<!-- table -->";
const PAGE: &str = include_str!("../../../../deploy/events.md");
/// Pinned events of each kind: stored kind, schema, name, bytes.
const PINNED: [(StreamKind, &str); 2] = [
    (StreamKind::Run, include_str!("../../../../events/src/golden/run.txt")),
    (StreamKind::Session, include_str!("../../../../events/src/golden/session.txt")),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

/// One fact of each kind and schema that this build writes.
fn facts() -> BTreeMap<(&'static str, &'static str), Fact> {
    let mut facts = BTreeMap::new();
    for (kind, pinned) in PINNED {
        let stream = StreamKey::named(kind, "a");
        for line in pinned.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [number, schema, _, payload] = words[..] else { continue };
            let (number, schema) = (number.parse().unwrap(), schema.parse().unwrap());
            let fact = events::catalogue::decode(&stream, number, schema, &bytes(payload)).unwrap();
            facts.insert((kind.name(), fact.name()), fact);
        }
    }
    facts
}

fn told(fact: &Fact) -> Value {
    let stream = StreamKey::named(StreamKind::Run, "a");
    let position = Position { shard: Shard(3), sequence: 9 };
    let at = Instant(1_700_000_000_000_000);
    let (version, fact) = (7, Some(fact));
    Public { project: "default", stream: &stream, version, position, at, fact }.body(Bodies::Named)
}

fn table() -> String {
    let mut table = "| kind | name | event | data |\n|---|---|---|---|\n".to_owned();
    for ((kind, name), fact) in facts() {
        let told = told(&fact);
        let event = told["event"].as_str().unwrap();
        // Hashes are long and say nothing here.
        let data = shortened(&told["data"]).to_string().replace('|', "\\|");
        table += &format!("| {kind} | `{name}` | `{event}` | `{data}` |\n");
    }
    table
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 64 => Value::from("…"),
        Value::Array(all) => all.iter().map(shortened).collect(),
        Value::Object(all) => {
            all.iter().map(|(key, value)| (key.clone(), shortened(value))).collect()
        }
        other => other.clone(),
    }
}

/// `PITON_BLESS=1` rewrites the table instead.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "blessing rewrites a file of the source tree; test code only"
)]
fn the_page_of_public_events_shows_what_is_told() {
    let (text, shown) = PAGE.split_once(MARK).expect("the mark");
    let found = format!("\n\n{}", table());
    if std::env::var_os("PITON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/events.md");
        std::fs::write(path, format!("{text}{MARK}{found}")).unwrap();
        return;
    }
    assert_eq!(shown, found, "PITON_BLESS=1 writes the table anew");
    let events = facts().into_values().next().map(|fact| told(&fact)).unwrap();
    for key in events.as_object().unwrap().keys() {
        assert!(text.contains(&format!("`{key}`")), "{key} is not on the page");
    }
    for header in [VERSION, PREVIOUS, POSITION] {
        assert!(text.contains(&format!("`{header}`")), "{header} is not on the page");
    }
}

#[test]
fn the_headers_chain_versions() {
    let stream = StreamKey::named(StreamKind::Run, "a");
    let position = Position { shard: Shard(3), sequence: 9 };
    let event = Public {
        project: "default",
        stream: &stream,
        version: 1,
        position,
        at: Instant(0),
        fact: None,
    };
    let headers: Vec<String> = event.headers().into_iter().map(|(_, value)| value).collect();
    assert_eq!(headers, ["1", "0", "3.9"], "as the page spells them");
    assert_eq!((event.name(), &event.body(Bodies::Whole)["data"]), ("unknown", &Value::Null));
}
