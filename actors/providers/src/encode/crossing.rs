//! A conversation that one family led and another goes on with: every call stays paired with its result, what was
//! said is said, and no signed byte reaches anybody but the one who signed it.

use crate::decode::shredder;
use crate::family::{Family, Mode};
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params, Request};
use serde_json::json;

/// A stream of a family, and a piece of what it signed.
const LED: [(Family, &str, &str); 3] = [
    (Family::AnthropicMessages, include_str!("../anthropic/decode/text.sse"), "c2ln+/="),
    (Family::OpenaiResponses, include_str!("../openai_responses/decode/text.sse"), "gAAA-_x=="),
    (Family::Gemini, GEMINI, "c2lnbmVk"),
];

const GEMINI: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"h\u{e9}llo \u{65e5}\u{672c}\u{1f980}\"}]}}]}\n\n",
    "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"get_weather\",\"args\":{\"city\":\"T\u{14d}ky\u{14d}\"}},\"thoughtSignature\":\"c2lnbmVk\"},{\"functionCall\":{\"name\":\"clock_now\",\"args\":{}}}]},\"finishReason\":\"STOP\"}]}\n\n",
);

fn sent(by: Family, model: &str, answer: &Message) -> String {
    let results =
        answer.calls().map(|call| Message::tool_result(&call.id, format!("of {}", call.name)));
    let said = [Message::text(Role::User, "q"), answer.clone()].into_iter().chain(results);
    let request = Request {
        model: model.to_owned(),
        tools: Catalogue::default(),
        messages: said.map(|message| message.body()).collect(),
        params: Params::default(),
    };
    let body = by.encode(&shredder::endpoint(by), &request, Mode::Whole).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn every_family_goes_on_with_what_another_led() {
    for (led, stream, signed) in LED {
        let answer = shredder::whole(led, stream).result.unwrap().message;
        assert_eq!(answer.calls().count(), 2, "{led:?}");
        for by in Family::ALL {
            let body = sent(by, "m", &answer);
            for words in ["héllo 日本🦀", "of get_weather", "of clock_now", "Tōkyō"] {
                assert!(body.contains(words), "{led:?} to {by:?} lacks {words}: {body}");
            }
            assert_eq!(body.contains(signed), by == led, "{led:?} to {by:?}: {body}");
            let shown = body.contains("über") && by != led;
            assert!(!shown, "thoughts are never made into text: {led:?} to {by:?}");
        }
        assert!(!sent(led, "another", &answer).contains(signed), "{led:?}, another model");
    }
}

/// Thoughts between calls, and a signature that comes in three pieces.
fn between() -> String {
    let event = |data: serde_json::Value| {
        format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
    };
    let begin = |index: u64, block: serde_json::Value| {
        event(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let more = |index: u64, delta: serde_json::Value| {
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let end = |index: u64| event(json!({"type": "content_block_stop", "index": index}));
    let mut stream = event(
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1}}}),
    );
    for (at, (thought, signature)) in
        [("one", ["a", "b+", "c=="]), ("two", ["d", "", "e"])].iter().enumerate()
    {
        let index = 2 * u64::try_from(at).unwrap();
        stream += &begin(index, json!({"type": "thinking", "thinking": "", "signature": ""}));
        stream += &more(index, json!({"type": "thinking_delta", "thinking": thought}));
        for piece in signature {
            stream += &more(index, json!({"type": "signature_delta", "signature": piece}));
        }
        stream += &end(index);
        let call =
            json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": "f", "input": {}});
        stream += &(begin(index + 1, call) + &end(index + 1));
    }
    stream += &event(
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
    );
    stream + &event(json!({"type": "message_stop"}))
}

#[test]
fn thoughts_between_calls_go_back_where_they_stood_and_byte_for_byte() {
    let family = Family::AnthropicMessages;
    let answer = shredder::whole(family, &between()).result.unwrap().message;
    let blocks = concat!(
        r#"[{"type":"thinking","thinking":"one","signature":"ab+c=="},"#,
        r#"{"type":"tool_use","id":"toolu_0","name":"f","input":{}},"#,
        r#"{"type":"thinking","thinking":"two","signature":"de"},"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]"#,
    );
    let body = sent(family, "m", &answer);
    assert!(body.contains(blocks), "{body}");
    assert!(!sent(family, "other", &answer).contains("thinking"), "another model signed nothing");
}
