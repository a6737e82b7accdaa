//! What is folded is as legal as it was whole, for every family, whatever was said and whatever it must keep to.

use super::{Family, Message, Part, Role, ToolCall, check, is_illegal, stray, words};
use events::context::{self, Bounds};
use events::message::Body;
use events::run::life::MessageRef;

/// Histories of chance.
const TRIES: usize = 1_500;

/// The same with more to say, so that there is something to fold.
fn at_length(message: &Message, times: usize) -> Message {
    let more = |text: &str| {
        if text.trim().is_empty() { text.to_owned() } else { text.repeat(times) }
    };
    let part = |part: &Part| match part {
        Part::Text { text } => Part::Text { text: more(text) },
        Part::ToolResult(result) => {
            let mut result = result.clone();
            result.content = more(&result.content);
            Part::ToolResult(result)
        }
        Part::ToolCall(call) => Part::ToolCall(ToolCall {
            arguments: format!(r#"{{"a":"{}"}}"#, "a".repeat(times)),
            ..call.clone()
        }),
        other => other.clone(),
    };
    Message { parts: message.parts.iter().map(part).collect(), ..message.clone() }
}

#[test]
fn whatever_is_folded_under_whatever_bound_is_as_legal_as_it_was_whole() {
    let words = words();
    let mut dice = 5_u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % sides
    };
    let mut kinds = [0_usize; 3];
    for _ in 0..TRIES {
        let mut history: Vec<Message> = vec![];
        for _ in 0..=roll(20) {
            let times = [1, 300, 3_000, 6_000][roll(4)];
            history.push(at_length(&words[roll(words.len())], times));
            // Now and then a whole exchange, which chance alone seldom makes.
            if roll(3) == 0 {
                history.push(at_length(&words[6], times));
                history.extend([&words[7], &words[8]].map(|result| at_length(result, times)));
            }
        }
        if stray(&history).is_some() {
            continue;
        }
        let bodies: Vec<Body> = history.iter().map(Message::body).collect();
        let refs: Vec<MessageRef> = bodies.iter().map(MessageRef::from).collect();
        let bounds = Bounds {
            history: roll(history.len() + 1),
            history_max: [None, Some(0), Some(2_000), Some(9_000)][roll(4)],
            window: [None, Some(0), Some(1_000), Some(3_000), Some(20_000)][roll(5)],
        };
        let Some(fold) = context::plan(&refs, &bounds).fold else { continue };
        let one = [fold.turns.is_some(), fold.exchanges.is_some(), fold.results.is_some()];
        kinds.iter_mut().zip(one).for_each(|(count, is)| *count += usize::from(is));
        let sent = context::render(bodies, Some(&fold));
        let sent: Vec<Message> = sent.iter().map(|body| body.message().unwrap()).collect();
        assert!(sent.iter().all(|one| one.role == Role::System || !one.parts.is_empty()));
        for family in Family::ALL.into_iter().filter(|family| !is_illegal(*family, &history)) {
            assert!(!is_illegal(family, &sent), "{family:?} {fold:?}: {history:?} as {sent:?}");
            check(family, &sent);
        }
    }
    assert!(kinds.iter().all(|count| *count > 5), "{kinds:?}");
}
