//! Which tools a run is offered now, and what its model is told of those that it is not.
//!
//! The whole catalogue is frozen when the run is queued; a request offers a part of it, by [`super::choose`]. The part is
//! in the journal, so that a replay makes the same request, whatever a provider's cap is by then.

use super::choose::{Choice, Plan, TooMany, choose};
use crate::json::Json;
use crate::message::{Body, Message, Role};
use crate::prompt::Catalogue;
use crate::record::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// The field of a search's answer that names what it found.
pub const PINNED: &str = "pinned";
/// The name of the system message that is about one request only, and so stands behind all others: no family is told it,
/// and those that keep a prefix in their cache leave it out of it.
pub const NOTE: &str = "piton_note";
/// Tools that searches of one run keep offered; the oldest are forgotten.
pub const PINS_MAX: usize = 64;
/// Sets of dropped tools that a run remembers having said; one for each provider and each search is plenty.
const SAID_MAX: usize = 32;
/// Bytes of the names in the note to the model; a list of hundreds helps nobody.
const NOTE_BYTES_MAX: usize = 4_000;
/// The largest cap that is learned from words: above it they are about something else.
const CAP_MAX: usize = 4_096;

/// What the requests from here on offer. Said when it changes, and not at each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsChosen {
    /// The model-facing names, sorted.
    pub offered: Vec<String>,
    /// What did not fit, sorted.
    pub dropped: Vec<String>,
    /// How many the provider takes; none where it takes any number.
    pub cap: Option<u32>,
}

/// What a run knows of the tools that it is offered: folded from its events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Choosing {
    /// What is offered now; none before the first request.
    pub now: Option<ToolsChosen>,
    /// What searches found, the oldest first.
    pub pins: Vec<String>,
    /// The tools that it has called.
    pub used: BTreeSet<String>,
    /// The sets of dropped tools that were said before.
    said: Vec<Hash>,
}

impl Choosing {
    /// What has to be written before a request to a provider that takes `cap` tools: nothing when it is as it was.
    ///
    /// # Errors
    ///
    /// [`TooMany`]; the run can not ask this provider.
    pub fn decide(&self, plan: &Plan, cap: Option<usize>) -> Result<Option<ToolsChosen>, TooMany> {
        let Choice { offered, dropped } = choose(plan, cap, &self.pins, &self.used)?;
        let cap = cap.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX));
        let chosen = ToolsChosen { offered, dropped, cap };
        Ok((self.now.as_ref() != Some(&chosen)).then_some(chosen))
    }

    /// Whether it is the first time in this run that just these are dropped: then it is logged.
    #[must_use]
    pub fn is_news(&self, event: &ToolsChosen) -> bool {
        !event.dropped.is_empty() && !self.said.contains(&set(&event.dropped))
    }

    /// Folds an event in; none when it can not have happened: a tool both offered and dropped, a list out of order, more
    /// than the cap.
    pub fn on_chosen(&mut self, event: &ToolsChosen) -> Option<()> {
        let is_sorted = |names: &[String]| names.array_windows().all(|[one, next]| one < next);
        let offered: BTreeSet<&String> = event.offered.iter().collect();
        let fits = event.cap.is_none_or(|cap| u32::try_from(offered.len()).is_ok_and(|n| n <= cap));
        let apart = !event.dropped.iter().any(|name| offered.contains(name));
        if !(is_sorted(&event.offered) && is_sorted(&event.dropped) && fits && apart) {
            return None;
        }
        if self.is_news(event) {
            if self.said.len() >= SAID_MAX {
                self.said.remove(0);
            }
            self.said.push(set(&event.dropped));
        }
        self.now = Some(event.clone());
        Some(())
    }

    /// Folds a call in that succeeded: its tool was used.
    pub fn on_used(&mut self, name: &str) {
        self.used.insert(name.to_owned());
    }

    /// Folds the answer of a search in that succeeded: what it found is pinned.
    pub fn on_found(&mut self, content: &str) {
        for found in pins_of(content) {
            self.pins.retain(|pin| *pin != found);
            self.pins.push(found);
        }
        let over = self.pins.len().saturating_sub(PINS_MAX);
        self.pins.drain(..over);
    }

    /// What the provider is sent of the whole catalogue; all of it before anything was chosen.
    #[must_use]
    pub fn of(&self, whole: &Catalogue) -> Catalogue {
        match &self.now {
            Some(chosen) => narrowed(whole, &chosen.offered),
            None => whole.clone(),
        }
    }
}

fn set(names: &[String]) -> Hash {
    crate::journal::hash(names.join("\n").as_bytes())
}

/// The names that a search's answer says are pinned; none for an answer that is something else.
#[must_use]
pub fn pins_of(content: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(content).unwrap_or_default();
    let names = answer.get(PINNED).and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).take(PINS_MAX).collect()
}

/// The tools of these names out of a catalogue, byte for byte and in its order.
#[must_use]
pub fn narrowed(whole: &Catalogue, names: &[String]) -> Catalogue {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let all: Vec<&RawValue> = serde_json::from_slice(whole.json().as_bytes()).unwrap_or_default();
    let is_chosen = |one: &&RawValue| {
        serde_json::from_str(one.get()).is_ok_and(|Named { name }| names.contains(name.as_str()))
    };
    let chosen: Vec<&str> = all.into_iter().filter(is_chosen).map(RawValue::get).collect();
    Catalogue::new(Json::from(format!("[{}]", chosen.join(","))))
}

/// The note to the model as the last message of a request; none where everything is offered.
#[must_use]
pub fn note_body(chosen: &ToolsChosen, search: Option<&str>) -> Option<Body> {
    let mut message = Message::text(Role::System, &note(chosen, search)?);
    message.name = Some(NOTE.to_owned());
    Some(message.body())
}

/// What the model is told of the tools that it is not offered, behind everything else that the system says.
#[must_use]
pub fn note(chosen: &ToolsChosen, search: Option<&str>) -> Option<String> {
    if chosen.dropped.is_empty() {
        return None;
    }
    let (mut said, mut bytes) = (vec![], 0_usize);
    for name in &chosen.dropped {
        bytes = bytes.saturating_add(name.len()).saturating_add(2);
        if bytes > NOTE_BYTES_MAX {
            break;
        }
        said.push(name.as_str());
    }
    let more = match chosen.dropped.len().saturating_sub(said.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why =
        chosen.cap.map_or_else(String::new, |cap| format!(", because the provider takes {cap}"));
    let how = search
        .filter(|search| chosen.offered.iter().any(|name| name == search))
        .map_or_else(String::new, |search| format!(" Call {search} to have one of them offered."));
    Some(format!(
        "Not every tool is offered in this request{why}. Left out: {}{more}.{how}",
        said.join(", ")
    ))
}

/// The most tools that a provider says it takes, from the words of its refusal. A name that is too long has a maximum
/// length too, and so have lists of other things: only the list of tools itself is meant.
#[must_use]
pub fn learned_cap(message: &str) -> Option<usize> {
    let words = message.to_ascii_lowercase();
    let is_of_tools =
        ["'tools'", "\"tools\"", "`tools`", "tools:", "tools array", "too many tools"]
            .into_iter()
            .any(|said| words.contains(said));
    let is_of_length = words.contains("array") || words.contains("too many tools");
    let after = ["maximum length ", "maximum length of ", "maximum of ", "at most "];
    let numbers = after.into_iter().filter_map(|said| {
        let (_, rest) = words.split_once(said)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    let found = numbers.filter(|cap| (1..=CAP_MAX).contains(cap)).min();
    found.filter(|_| is_of_tools && is_of_length)
}

#[cfg(test)]
mod tests {
    use super::super::choose::{Keep, Line};
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn plan() -> Plan {
        let line = |name: &str, keep| Line {
            name: name.to_owned(),
            origin: "s".to_owned(),
            keep,
            group: None,
        };
        let mut lines = vec![line("a_native", Keep::Native), line("hidden", Keep::Hidden)];
        lines.push(line("search_tools", Keep::Search));
        lines.extend(["x1", "x2", "x3"].map(|name| line(name, Keep::Share)));
        Plan { lines }
    }

    #[test]
    fn it_is_said_when_it_changes_and_logged_once_for_each_set() {
        let mut choosing = Choosing::default();
        let first = choosing.decide(&plan(), Some(3)).unwrap().unwrap();
        assert_eq!(first.offered, names(&["a_native", "search_tools", "x1"]));
        assert_eq!((first.dropped.clone(), first.cap), (names(&["x2", "x3"]), Some(3)));
        assert!(choosing.is_news(&first));
        choosing.on_chosen(&first).unwrap();
        assert_eq!(choosing.decide(&plan(), Some(3)), Ok(None));
        let other = choosing.decide(&plan(), Some(4)).unwrap().unwrap();
        assert!(choosing.is_news(&other));
        choosing.on_chosen(&other).unwrap();
        // Back at the first provider: another request, the same words.
        let back = choosing.decide(&plan(), Some(3)).unwrap().unwrap();
        assert_eq!(back, first);
        assert!(!choosing.is_news(&back));
        let whole = choosing.decide(&plan(), None).unwrap().unwrap();
        assert!(!choosing.is_news(&whole) && whole.dropped.is_empty());
    }

    #[test]
    fn what_a_search_found_is_offered_at_the_next_request_always() {
        let mut choosing = Choosing::default();
        choosing.on_used("x1");
        assert_eq!((choosing.pins.len(), choosing.used.contains("x1")), (0, true), "no search");
        choosing.on_found(r#"{"pinned":["hidden","x3"]}"#);
        for cap in [None, Some(4), Some(5)] {
            let chosen = choosing.decide(&plan(), cap).unwrap().unwrap();
            for pin in &choosing.pins {
                assert!(chosen.offered.contains(pin), "{pin} under {cap:?}");
            }
        }
        choosing.on_found(r#"{"pinned":["hidden"]}"#);
        assert_eq!(choosing.pins, names(&["x3", "hidden"]), "found again, so the newest");
        for n in 0..100 {
            choosing.on_found(&format!(r#"{{"pinned":["p{n}"]}}"#));
        }
        assert_eq!(
            (choosing.pins.len(), choosing.pins.last().cloned()),
            (PINS_MAX, Some("p99".into()))
        );
    }

    #[test]
    fn what_can_not_have_been_chosen_is_illegal() {
        let good =
            ToolsChosen { offered: names(&["a", "b"]), dropped: names(&["c"]), cap: Some(2) };
        assert!(Choosing::default().on_chosen(&good).is_some());
        for bad in [
            ToolsChosen { cap: Some(1), ..good.clone() },
            ToolsChosen { dropped: names(&["b"]), ..good.clone() },
            ToolsChosen { offered: names(&["b", "a"]), ..good.clone() },
            ToolsChosen { dropped: names(&["c", "c"]), ..good },
        ] {
            assert!(Choosing::default().on_chosen(&bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_offered_part_of_a_catalogue_keeps_its_bytes() {
        let whole =
            r#"[{"description":"x","name":"a","parameters":{"n":1.0}},{"name":"b"},{"name":"c"}]"#;
        let whole = Catalogue::new(Json::from_bytes(whole.as_bytes()));
        let mut choosing = Choosing::default();
        assert_eq!(choosing.of(&whole), whole);
        let chosen =
            ToolsChosen { offered: names(&["a", "c"]), dropped: names(&["b"]), cap: Some(2) };
        choosing.on_chosen(&chosen).unwrap();
        let part = choosing.of(&whole);
        let then = r#"[{"description":"x","name":"a","parameters":{"n":1.0}},{"name":"c"}]"#;
        assert_eq!(part.json().as_str(), then);
        assert!(narrowed(&whole, &[]).is_empty());
    }

    #[test]
    fn the_model_is_told_what_is_left_out_and_how_to_have_it() {
        let chosen = ToolsChosen {
            offered: names(&["a", "search_tools"]),
            dropped: names(&["b", "c"]),
            cap: Some(2),
        };
        assert_eq!(
            note(&chosen, Some("search_tools")).unwrap(),
            "Not every tool is offered in this request, because the provider takes 2. Left out: b, c. Call search_tools to have one of them offered."
        );
        let whole = ToolsChosen { dropped: vec![], ..chosen.clone() };
        assert_eq!(note(&whole, None), None);
        let many = (0..2_000).map(|n| format!("tool_{n:04}")).collect();
        let long = note(&ToolsChosen { dropped: many, ..chosen }, None).unwrap();
        assert!(long.len() < NOTE_BYTES_MAX + 200 && long.contains(" more."), "{}", long.len());
    }

    #[test]
    fn a_cap_is_learned_from_words_about_the_list_of_tools_and_from_no_others() {
        for (message, cap) in [
            (
                "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 130 instead.",
                Some(128),
            ),
            ("Invalid 'tools': array too long. Expected an array with maximum length 64", Some(64)),
            ("too many tools: at most 20 are taken", Some(20)),
            (
                "Invalid 'tools[3].function.name': string too long. Expected a string with maximum length 64",
                None,
            ),
            (
                "Invalid 'messages': array too long. Expected an array with maximum length 2048",
                None,
            ),
            ("Invalid 'tools': array too long.", None),
            ("Invalid 'tools': array too long. Expected an array with maximum length 0", None),
            (
                "Invalid 'tools': array too long. Expected an array with maximum length 99999999999999999999",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(learned_cap(message), cap, "{message}");
        }
    }
}
