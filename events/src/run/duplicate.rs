//! Calls that a turn has made before: the same tool with the same canonical arguments is not run again, and the model
//! is given the answer that it had, marked as such.
//!
//! Only what succeeded is remembered, so that a repeat after a failure really tries again; and only within one run,
//! because in a later turn the same call means to read the world as it is then.

use super::ledger::ToolOutcome;
use crate::json::Json;
use crate::record::Hash;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Answers that a run remembers; the oldest are forgotten, and such a call is made again.
pub const ANSWERS_MAX: usize = 256;
/// Bytes of all of them together.
pub const ANSWERS_BYTES_MAX: usize = 2 << 20;

/// The answers of a run's calls that succeeded. Folded from its events, and bounded: what it forgets is only run again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answers {
    by_call: BTreeMap<Hash, String>,
    /// In the order in which they came.
    order: VecDeque<Hash>,
    bytes: usize,
}

/// What is to be done about one call of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Make it.
    New,
    /// It was made in this turn, and this is what the model is told.
    Again(String),
    /// It is the same as an earlier one of this batch, by its place in it: it shares that one's outcome.
    Twin(usize),
}

/// Names a call by what it asks: the tool and the canonical arguments.
#[must_use]
pub fn key(name: &str, arguments: &Json) -> Hash {
    let mut bytes = b"piton/same-call\0".to_vec();
    // A name has no zero byte, so nothing of the arguments can be taken for a part of it.
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(arguments.as_bytes());
    crate::journal::hash(&bytes)
}

impl Answers {
    /// Remembers what a call came to. What did not succeed is not remembered.
    pub fn settled(&mut self, name: &str, arguments: &Json, outcome: ToolOutcome, content: &str) {
        match outcome {
            ToolOutcome::Succeeded => {}
            ToolOutcome::Failed | ToolOutcome::Rejected(_) => return,
        }
        if content.len() > ANSWERS_BYTES_MAX {
            return;
        }
        let key = key(name, arguments);
        if self.by_call.insert(key, content.to_owned()).is_some() {
            return;
        }
        self.order.push_back(key);
        self.bytes = self.bytes.saturating_add(content.len());
        while self.order.len() > ANSWERS_MAX || self.bytes > ANSWERS_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            let gone = self.by_call.remove(&oldest).map_or(0, |content| content.len());
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }

    /// Judges the calls of one answer, in its order.
    #[must_use]
    pub fn judge(&self, batch: &[(&str, &Json)]) -> Vec<Verdict> {
        let mut first: BTreeMap<Hash, usize> = BTreeMap::new();
        let verdicts = batch.iter().enumerate().map(|(place, (name, arguments))| {
            let key = key(name, arguments);
            if let Some(content) = self.by_call.get(&key) {
                return Verdict::Again(cached(content));
            }
            match first.get(&key) {
                Some(of) => Verdict::Twin(*of),
                None => {
                    first.insert(key, place);
                    Verdict::New
                }
            }
        });
        verdicts.collect()
    }
}

/// What the model is told of a twin, once the call that was made is settled.
#[must_use]
pub fn shared(outcome: ToolOutcome, content: &str) -> String {
    match outcome {
        ToolOutcome::Succeeded => cached(content),
        ToolOutcome::Failed | ToolOutcome::Rejected(_) => content.to_owned(),
    }
}

/// A stored answer, marked: a field of an answer that is an object, or else an object around it.
#[must_use]
pub fn cached(content: &str) -> String {
    let mut answer: Value = serde_json::from_str(content).unwrap_or_default();
    match answer.as_object_mut() {
        Some(fields) => {
            fields.insert("cached".to_owned(), Value::Bool(true));
            answer.to_string()
        }
        None => json!({ "cached": true, "result": content }).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_bytes(text.as_bytes())
    }

    #[test]
    fn a_call_that_succeeded_is_answered_from_memory_and_a_failed_one_is_made_again() {
        let mut answers = Answers::default();
        let (one, other) = (json(r#"{"n":1}"#), json(r#"{"n":2}"#));
        answers.settled("t", &one, ToolOutcome::Succeeded, r#"{"status":"ok"}"#);
        answers.settled("t", &other, ToolOutcome::Failed, r#"{"status":"error"}"#);
        let batch = [("t", &one), ("t", &other), ("u", &one)];
        assert_eq!(
            answers.judge(&batch),
            [
                Verdict::Again(r#"{"cached":true,"status":"ok"}"#.to_owned()),
                Verdict::New,
                Verdict::New
            ]
        );
        // A later turn has a memory of its own.
        assert_eq!(Answers::default().judge(&batch)[0], Verdict::New);
    }

    #[test]
    fn identical_calls_of_one_batch_are_made_once() {
        let (one, other) = (json(r#"{"n":1}"#), json(r#"{"n":2}"#));
        let batch = [("t", &one), ("t", &other), ("t", &one), ("t", &other), ("t", &one)];
        let verdicts = Answers::default().judge(&batch);
        let then =
            [Verdict::New, Verdict::New, Verdict::Twin(0), Verdict::Twin(1), Verdict::Twin(0)];
        assert_eq!(verdicts, then);
        assert_eq!(shared(ToolOutcome::Failed, "no"), "no");
        assert_eq!(shared(ToolOutcome::Succeeded, "yes"), r#"{"cached":true,"result":"yes"}"#);
    }

    #[test]
    fn names_and_arguments_do_not_run_into_each_other() {
        assert_ne!(key("a", &json("b")), key("ab", &json("")));
        assert_eq!(key("a", &json("{}")), key("a", &json("{}")));
    }

    #[test]
    fn memory_is_bounded_in_number_and_bytes() {
        let mut answers = Answers::default();
        for n in 0..300 {
            answers.settled("t", &json(&n.to_string()), ToolOutcome::Succeeded, "x");
        }
        assert_eq!((answers.by_call.len(), answers.order.len(), answers.bytes), (256, 256, 256));
        assert_eq!(answers.judge(&[("t", &json("0"))]), [Verdict::New]);
        let large = "x".repeat(ANSWERS_BYTES_MAX - 10);
        answers.settled("t", &json("large"), ToolOutcome::Succeeded, &large);
        assert!(
            answers.bytes <= ANSWERS_BYTES_MAX && answers.by_call.len() <= 11,
            "{}",
            answers.by_call.len()
        );
        answers.settled(
            "t",
            &json("huge"),
            ToolOutcome::Succeeded,
            &"x".repeat(ANSWERS_BYTES_MAX + 1),
        );
        assert_eq!(answers.judge(&[("t", &json("huge"))]), [Verdict::New]);
        answers.settled("t", &json("large"), ToolOutcome::Succeeded, &large);
        assert_eq!(answers.order.len(), answers.by_call.len());
    }
}
