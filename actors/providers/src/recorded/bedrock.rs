//! Converse's binary streams, and what of them goes back.

use super::{beside, calls};
use crate::decode::{Fault, shredder};
use crate::delta::Answer;
use crate::delta::Stop;
use crate::family::{Family, Mode};
use events::message::{Message, Part, Role};
use events::prompt::{Catalogue, Params, Request};
use events::quantity::Tokens;
use serde_json::Value;

const TOOLS: &str = "17-bedrock-conversestream-two-tools.json";
const REDACTED: &str = "18-bedrock-redacted-thinking-eventstream.json";

/// The bodies of a fixture; none where the fixtures are not there.
fn bodies(name: &str) -> Vec<Vec<u8>> {
    let Some(text) = beside(&format!("fixtures/{name}")) else { return Vec::new() };
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let interactions = fixture["interactions"].as_array().unwrap();
    let body = |one: &Value| base64(one["response"]["body_base64"].as_str().unwrap());
    interactions.iter().map(body).collect()
}

fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte| digits.iter().position(|digit| *digit == byte);
    let (mut out, mut held, mut bits) = (Vec::new(), 0_usize, 0);
    for digit in text.bytes().filter_map(digit) {
        held = (held << 6 | digit) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    out
}

fn read(body: &[u8], size: usize) -> Result<Answer, Fault> {
    let pieces: Vec<&[u8]> = body.chunks(size).collect();
    shredder::read(Family::Bedrock, &pieces).result
}

pub(super) fn answers(name: &str) -> Vec<Answer> {
    let read = |body: Vec<u8>| {
        let whole = read(&body, usize::MAX).unwrap();
        for size in [1, 2, 3, 7, 61, 1_021] {
            assert_eq!(read(&body, size).unwrap(), whole, "{name}, {size} bytes at a time");
        }
        whole
    };
    bodies(name).into_iter().map(read).collect()
}

#[test]
fn two_calls_of_one_answer() {
    let answers = answers(TOOLS);
    let Some(first) = answers.first() else { return };
    assert_eq!(calls(first), [("lookup_harbor_label", "{}"), ("lookup_orchard_label", "{}")]);
    let ids: Vec<&str> = first.message.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["tooluse_REDACTED_1", "tooluse_REDACTED_2"]);
    assert_eq!(first.stop, Stop::ToolCalls);
    assert!(first.message.plain().ends_with("</thinking>\n"), "{}", first.message.plain());
    assert_eq!((first.usage.prompt, first.usage.completion), (Some(Tokens(523)), Some(Tokens(72))));
    assert_eq!((first.usage.cached_input, first.usage.reasoning), (None, None));
}

#[test]
fn what_is_redacted_goes_back_byte_for_byte() {
    for answer in answers(REDACTED) {
        assert!(answer.message.plain().starts_with("I notice you've sent"));
        assert_eq!((&answer.stop, answer.usage.prompt), (&Stop::End, Some(Tokens(92))));
        let kept = |part: &Part| match part {
            Part::Reasoning { text, sealed: Some(sealed), .. } if text.is_empty() => {
                let sealed: Value = serde_json::from_str(sealed).unwrap();
                Some(sealed["redactedContent"].as_str().unwrap().to_owned())
            }
            _ => None,
        };
        let kept: Vec<String> = answer.message.parts.iter().filter_map(kept).collect();
        assert_eq!(kept.len(), 2);
        let came = String::from_utf8_lossy(&bodies(REDACTED).remove(0)).into_owned();
        assert!(kept.iter().all(|data| data.len() > 500 && came.contains(data)));
        let user = Message::text(Role::User, "x");
        let request = Request {
            model: "m".into(),
            tools: Catalogue::default(),
            messages: [&user, &answer.message, &user].map(Message::body).into(),
            params: Params::default(),
        };
        let endpoint = shredder::endpoint(Family::Bedrock);
        let bytes = Family::Bedrock.encode(&endpoint, &request, Mode::Stream).unwrap();
        let sent: Value = serde_json::from_slice(&bytes).unwrap();
        for (at, data) in kept.iter().enumerate() {
            let block = &sent["messages"][1]["content"][at]["reasoningContent"];
            assert_eq!(block["redactedContent"], data.as_str());
        }
    }
}

#[test]
fn every_prefix_is_truncated_or_whole() {
    for name in [TOOLS, REDACTED] {
        for body in bodies(name) {
            let whole = read(&body, usize::MAX).unwrap();
            for end in 0..body.len() {
                match read(&body[..end], usize::MAX) {
                    Ok(answer) => assert_eq!(answer.message, whole.message, "{name} at {end}"),
                    Err(Fault::Truncated) => {}
                    Err(other) => panic!("{name} at {end}: {other}"),
                }
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_recording_loses_its_answer() {
    for body in bodies(REDACTED) {
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 1 << (at % 8);
            let result = read(&changed, usize::MAX);
            assert!(matches!(result, Err(Fault::Damaged(_) | Fault::Frame(_))), "byte {at}");
        }
    }
}
