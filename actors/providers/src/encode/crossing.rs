//! A conversation that one family led and another goes on with: every call stays paired with its result, what was
//! said is said, and no signed byte reaches anybody but the one who signed it.

use crate::decode::shredder;
use crate::family::{Family, Mode};
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params, Request};

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
