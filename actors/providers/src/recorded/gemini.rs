//! Gemini's streams, and what of them goes back.

use super::{answers, calls, read, responses};
use crate::decode::{Fault, shredder};
use crate::delta::Stop;
use crate::family::{Family, Mode};
use events::message::{Message, Part, Role};
use events::prompt::{Catalogue, Params, Request};
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

const SIGNED: &str = "13-gemini-stream-functioncall-thoughtsignature.json";
const PARALLEL: &str = "14-gemini-parallel-tools-stream.json";

#[test]
fn a_call_its_signature_and_the_turn_after_it() {
    let answers = answers(Family::Gemini, SIGNED);
    let [first, second] = answers.as_slice() else { return };
    assert_eq!(calls(first), [("get_country", "{}")]);
    assert_eq!(
        (&first.stop, first.served_model.as_deref()),
        (&Stop::ToolCalls, Some("gemini-3-pro-preview"))
    );
    assert_eq!(first.request_id.as_deref(), Some("QUVVadTSNJ6_qtsPvN7J8Q0"));
    let then = Usage {
        prompt: Some(Tokens(29)),
        completion: Some(Tokens(212)),
        reasoning: Some(Tokens(202)),
        ..Usage::default()
    };
    assert_eq!(first.usage, then);
    assert_eq!(
        (second.message.plain().as_str(), &second.stop),
        ("The capital of Mexico is Mexico City.", &Stop::End)
    );
    // The last report wins: the first ones did not count the thoughts that came back.
    assert_eq!(
        (second.usage.prompt, second.usage.completion),
        (Some(Tokens(257)), Some(Tokens(8)))
    );
    assert_eq!(second.usage.reasoning, None);
    goes_back(first.message.clone());
}

/// The signature goes back on the same part, byte for byte, to the same model; to another nothing of it does.
#[track_caller]
fn goes_back(said: Message) {
    let recorded = responses(SIGNED).unwrap();
    let data = recorded[0].body.lines().next().unwrap().strip_prefix("data: ").unwrap();
    let root: Value = serde_json::from_str(data).unwrap();
    let came = root["candidates"][0]["content"]["parts"][0]["thoughtSignature"].clone();
    assert!(came.as_str().unwrap().len() > 1_000);
    let call = said.calls().next().unwrap().id.clone();
    let messages = [
        Message::text(Role::User, "Where am I?"),
        said,
        Message::tool_result(&call, "Mexico".to_owned()),
    ];
    let request = |model: &str| Request {
        model: model.into(),
        tools: Catalogue::default(),
        messages: messages.iter().map(Message::body).collect(),
        params: Params::default(),
    };
    let sent = |model: &str| {
        let endpoint = shredder::endpoint(Family::Gemini);
        let bytes = Family::Gemini.encode(&endpoint, &request(model), Mode::Stream).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["contents"].clone()
    };
    // The reader of these tests seals for the model `m`.
    let contents = sent("m");
    let part = &contents[1]["parts"][0];
    assert_eq!(
        (&part["thoughtSignature"], &part["functionCall"]["name"]),
        (&came, &"get_country".into())
    );
    let answer = &contents[2]["parts"][0]["functionResponse"];
    assert_eq!((&answer["id"], &answer["response"]["result"]), (&call.into(), &"Mexico".into()));
    assert!(!sent("gemini-3-pro").to_string().contains(came.as_str().unwrap()));
}

#[test]
fn thoughts_words_and_a_call() {
    for answer in answers(Family::Gemini, PARALLEL) {
        let args = r#"{"country": "Egypt","unit": "C","city": "Cairo"}"#;
        assert_eq!(calls(&answer), [("get_weather", args)]);
        assert_eq!(answer.message.calls().next().unwrap().id, "u959pftr");
        let [thought, words, signature, _] = answer.message.parts.as_slice() else { panic!() };
        assert!(
            matches!(thought, Part::Reasoning { text, sealed: None, .. } if text.starts_with("**Defining"))
        );
        assert!(
            matches!(words, Part::Text { text } if text.ends_with("for Cairo in Celsius. \n\n"))
        );
        let sealed = |part: &Part| matches!(part, Part::Reasoning { text, sealed: Some(sealed), .. } if text.is_empty() && sealed.len() > 1_000);
        assert!(sealed(signature));
        let then = Usage {
            prompt: Some(Tokens(135)),
            completion: Some(Tokens(362)),
            reasoning: Some(Tokens(226)),
            ..Usage::default()
        };
        assert_eq!((answer.usage, answer.stop), (then, Stop::ToolCalls));
    }
}

#[test]
fn every_prefix_is_truncated_or_whole() {
    for name in [SIGNED, PARALLEL] {
        for response in responses(name).unwrap_or_default() {
            let whole = read(Family::Gemini, &response.body, usize::MAX).unwrap();
            for end in (0..response.body.len()).filter(|end| response.body.is_char_boundary(*end)) {
                match read(Family::Gemini, response.body.get(..end).unwrap(), 4_096) {
                    Ok(answer) => assert_eq!(answer.message, whole.message, "{name} at {end}"),
                    Err(Fault::Truncated) => {}
                    Err(other) => panic!("{name} at {end}: {other}"),
                }
            }
        }
    }
}
