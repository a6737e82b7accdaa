//! What a provider of a script does with one request: the turn that it is, and what the turn makes of it.

use super::beats::PACE;
use super::converse::{self, Call, Often, Spoken};
use super::fault::{Fault, Wrong};
use super::schedule::{STRIKES, Schedule};
use super::script::{Does, How, Line, Provider, Turn};
use events::quantity::Tokens;
use events::usage::Usage;
use providers::Stop;
use providers::play::{Complaint, Heard};

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// It is answered.
    Say(Box<Line>, How),
    /// It is refused.
    Refuse(Complaint),
}

/// What the provider does with its call of this number.
pub(super) fn act(
    provider: &Provider,
    turn: Option<&Turn>,
    heard: &Heard,
    schedule: &Schedule,
) -> Act {
    let Some(Turn { does, how, .. }) = turn else {
        return talk(provider, heard, schedule, &How::default());
    };
    match does {
        Does::Talk => talk(provider, heard, schedule, how),
        Does::Refuse(complaint) => Act::Refuse(complaint.clone()),
        Does::Say(line) => {
            let mut line = line.clone();
            line.usage = line.usage.or_else(|| Some(used(&line, heard)));
            Act::Say(Box::new(line), how.clone())
        }
    }
}

fn talk(provider: &Provider, heard: &Heard, schedule: &Schedule, how: &How) -> Act {
    let say = |line: Line, how: How| {
        let line = within(line, heard.output_max);
        let usage = Some(used(&line, heard));
        Act::Say(Box::new(Line { usage, ..line }), how)
    };
    match converse::turn(heard) {
        Spoken::Say(text) => say(Line::text(&text), how.clone()),
        Spoken::SaySlowly(text) => say(Line::text(&text), How { pace: PACE, ..how.clone() }),
        Spoken::Call(calls) => {
            let calls = calls.into_iter().map(|Call { name, arguments }| (name, arguments));
            // Announced by a word that says who makes them.
            let line = Line { calls: calls.collect(), ..Line::text(converse::SIGN) };
            say(line, how.clone())
        }
        Spoken::Fail { .. } if provider.models.first().is_some_and(|own| *own != heard.model) => {
            say(Line::text(&converse::spared(&heard.model)), how.clone())
        }
        Spoken::Fail { word, wrong, often } => {
            let text = converse::last_text(heard);
            let strike = || schedule.strike(events::id::digest(&[text.as_bytes()]));
            let which = match (often, (often == Often::Strikes).then(strike).flatten()) {
                (Often::Always, _) => "failure".to_owned(),
                (Often::Strikes, Some(strike)) => format!("failure {strike} of {STRIKES}"),
                (Often::Strikes, None) => {
                    return say(Line::text(&converse::recovered(&word)), how.clone());
                }
            };
            let short: String = text.chars().take(80).collect();
            let which = format!("{} {which} for {short:?}", converse::SIGN);
            match wrong {
                Wrong::Refused(complaint) => Act::Refuse(Complaint { words: which, ..complaint }),
                Wrong::Played(fault) => {
                    let line = Line::text(&format!("{which}. {}", rest(fault)));
                    say(line, How { fault: Some(fault), ..how.clone() })
                }
            }
        }
    }
}

/// What an answer says of itself when it is played wrongly.
const fn rest(fault: Fault) -> &'static str {
    match fault {
        Fault::NoEnd => "This answer does not say that this is its end.",
        _ if fault.loses_the_answer() => {
            "This answer does not reach its end, so you never read this."
        }
        _ => "This answer reaches its end all the same.",
    }
}

/// A text as far as the request lets it go.
fn within(line: Line, most: Option<Tokens>) -> Line {
    let Some(Tokens(most)) = most else { return line };
    let (mut said, mut kept) = (0, String::new());
    for piece in line.text.split_inclusive(char::is_whitespace) {
        said += converse::words(piece);
        if said > most {
            return Line { text: kept, stop: Some(Stop::Length), calls: Vec::new(), ..line };
        }
        kept.push_str(piece);
    }
    line
}

/// What was used, a token being a word.
fn used(line: &Line, heard: &Heard) -> Usage {
    let said = [&line.thought, &line.text, &line.refusal].into_iter();
    let called = line.calls.iter().map(|(_, arguments)| arguments);
    let count = said.chain(called).map(|text| converse::words(text)).sum();
    Usage {
        prompt: Some(Tokens(converse::words_in(heard))),
        completion: Some(Tokens(count)),
        ..Usage::default()
    }
}
