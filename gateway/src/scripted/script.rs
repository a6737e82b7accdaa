//! A script: which providers there are, and what each answers, call by call.

use super::MODELS;
use super::fault::Fault;
use super::file;
use events::message::{Message, Part, Role, Seal, ToolCall};
use events::usage::Usage;
use providers::play::{Complaint, Pieces};
use providers::{Answer, Class, Family, Stop, play};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::time::Duration;

/// Which providers there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Goes into every id and every draw, so that two scripts that are otherwise the same can be told apart.
    pub seed: u64,
    /// At least one.
    pub providers: Vec<Provider>,
}

/// A provider of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// For people.
    pub name: String,
    /// The one family that it speaks; `None` for each at its own path.
    pub family: Option<Family>,
    /// Where it listens; port 0 for one that the system gives.
    pub listen: SocketAddr,
    /// The models that it has; empty for any.
    pub models: Vec<String>,
    /// Whether its address refuses connections.
    pub refuses: bool,
    /// What it does, call by call. The last turn goes on for ever. At least one.
    pub turns: Vec<Turn>,
}

/// What a provider does with some calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Calls that it takes, one after another.
    pub times: NonZeroU64,
    /// It strikes one call in so many, drawn by the seed; another is answered by the last turn.
    pub one_in: NonZeroU64,
    /// What is done.
    pub does: Does,
    /// How an answer is played.
    pub how: How,
}

/// What is done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// It is talked with by its last message.
    Talk,
    /// It is answered.
    Say(Line),
    /// It is refused.
    Refuse(Complaint),
}

/// An answer of a script, whatever the family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// What is thought first.
    pub thought: String,
    /// Whether the thought is signed, and with what.
    pub signature: String,
    /// What is said.
    pub text: String,
    /// A refusal in the model's words.
    pub refusal: String,
    /// The calls of tools: name and arguments.
    pub calls: Vec<(String, String)>,
    /// Why it stops; what fits where nothing is said.
    pub stop: Option<Stop>,
    /// What it used; counted in words where nothing is said.
    pub usage: Option<Usage>,
}

/// How an answer is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct How {
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Frames of the answer's content before it does; half of them where nothing is said.
    pub after: Option<usize>,
    /// The error that comes inside the answer.
    pub error: Class,
    /// Between two frames.
    pub pace: Duration,
    /// How texts are torn into frames.
    pub pieces: Pieces,
}

impl Default for How {
    fn default() -> Self {
        let (fault, after, pace, pieces) = (None, None, Duration::ZERO, Pieces::Words);
        Self { fault, after, error: Class::Overloaded, pace, pieces }
    }
}

impl Turn {
    /// One that goes on for ever, or takes one call if another follows.
    #[must_use]
    pub fn once(does: Does) -> Self {
        Self { times: NonZeroU64::MIN, one_in: NonZeroU64::MIN, does, how: How::default() }
    }

    /// An answer that goes wrong.
    #[must_use]
    pub fn wrong(line: Line, fault: Fault) -> Self {
        let how = How { fault: Some(fault), ..How::default() };
        Self { how, ..Self::once(Does::Say(line)) }
    }
}

impl Provider {
    /// One that speaks this family on a free port of 127.0.0.1 and has any model.
    #[must_use]
    pub fn new(name: &str, family: Option<Family>, turns: Vec<Turn>) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (name, models, refuses) = (name.to_owned(), Vec::new(), false);
        Self { name, family, listen, models, refuses, turns }
    }

    /// Whether some of it is talk: only then it has vectors too.
    pub(super) fn talks(&self) -> bool {
        self.turns.iter().any(|turn| turn.does == Does::Talk)
    }

    /// What is done with the call of this number, the first being 0.
    pub(super) fn turn(&self, seed: u64, call: u64) -> Option<&Turn> {
        let last = self.turns.last();
        let mut before: u64 = 0;
        let its = self.turns.iter().find(|turn| {
            before = before.saturating_add(turn.times.get());
            call < before
        });
        let strikes = |turn: &&Turn| {
            let name = self.name.as_bytes();
            let drawn = events::id::digest(&[&seed.to_be_bytes(), name, &call.to_be_bytes()]);
            drawn.is_multiple_of(u128::from(turn.one_in.get()))
        };
        its.filter(strikes).or(last)
    }
}

impl Script {
    /// The one provider that talks.
    #[must_use]
    pub fn talking() -> Self {
        let mut provider = Provider::new("demo", None, vec![Turn::once(Does::Talk)]);
        provider.models = MODELS.map(str::to_owned).into();
        Self { seed: 0, providers: vec![provider] }
    }

    /// Reads a script's text.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] names the line and the mend.
    pub fn read(text: &str) -> Result<Self, ScriptError> {
        file::read(text)
    }
}

/// A script does not make sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}; {mend}")]
pub struct ScriptError {
    /// Where, the first line being 1.
    pub line: usize,
    /// What is wrong.
    pub fault: String,
    /// What to do.
    pub mend: String,
}

impl Line {
    /// A text and nothing else.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// The answer of this family to a request with this digest.
    pub(super) fn answer(&self, family: Family, model: &str, digest: u128) -> Answer {
        // Nobody reads the seal: it does not go over the wire.
        let seal = Seal {
            family: String::new(),
            endpoint: String::new(),
            profile: String::new(),
            model: String::new(),
        };
        let mut parts = Vec::new();
        if !self.thought.is_empty() || !self.signature.is_empty() {
            let sealed = play::sealed(family, &self.thought, &self.signature);
            parts.push(Part::Reasoning { text: self.thought.clone(), seal, sealed });
        }
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text.clone() });
        }
        if !self.refusal.is_empty() {
            parts.push(Part::Refusal { text: self.refusal.clone() });
        }
        let calls = self.calls.iter().enumerate().map(|(index, (name, arguments))| {
            let id = events::id::digest(&[&digest.to_be_bytes(), index.to_string().as_bytes()]);
            let (id, name) = (format!("call_{id:032x}"), name.clone());
            Part::ToolCall(ToolCall { id, name, arguments: arguments.clone() })
        });
        parts.extend(calls);
        let usual = if self.calls.is_empty() { Stop::End } else { Stop::ToolCalls };
        Answer {
            message: Message { role: Role::Assistant, name: None, parts },
            stop: self.stop.clone().unwrap_or(usual),
            usage: self.usage.unwrap_or_default(),
            served_model: Some(model.to_owned()),
            request_id: Some(format!("scripted-{digest:032x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(turn: Option<&Turn>) -> String {
        match turn.map(|turn| &turn.does) {
            Some(Does::Say(line)) => line.text.clone(),
            other => format!("{other:?}"),
        }
    }

    fn says(text: &str, times: u64, one_in: u64) -> Turn {
        let number = |number| NonZeroU64::new(number).unwrap();
        let does = Does::Say(Line::text(text));
        Turn { times: number(times), one_in: number(one_in), ..Turn::once(does) }
    }

    #[test]
    fn turns_follow_one_another_and_the_last_goes_on() {
        let turns = vec![says("a", 2, 1), says("b", 1, 1), says("c", 1, 1)];
        let provider = Provider::new("p", None, turns);
        let said: String = (0..7).map(|call| does(provider.turn(0, call))).collect();
        assert_eq!(said, "aabcccc");
        assert_eq!(does(provider.turn(0, u64::MAX)), "c");
    }

    #[test]
    fn a_draw_is_the_same_every_time_and_another_for_another_seed() {
        let provider = Provider::new("p", None, vec![says("x", 1_000, 4), says(".", 1, 1)]);
        let said =
            |seed| (0..1_000).map(|call| does(provider.turn(seed, call))).collect::<String>();
        assert_eq!(said(1), said(1));
        assert_ne!(said(1), said(2));
        let struck = said(1).matches('x').count();
        assert!((150..350).contains(&struck), "{struck}");
    }
}
