//! A node in front of Gemini and of Bedrock, over real sockets: what leaves, what comes back, what is kept.

use serde_json::{Value, json};
use tests::Node;
use tests::upstream::{Upstream, frames, response};

const SIGNATURE: &str = "EpwICp+/kIAXLI2nxl==";

fn gemini(parts: &Value, reason: Option<&str>) -> String {
    let candidate =
        json!({ "content": { "parts": parts, "role": "model" }, "finishReason": reason });
    let usage = json!({ "promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 5, "thoughtsTokenCount": 20 });
    format!("data: {}\r\n\r\n", json!({ "candidates": [candidate], "usageMetadata": usage }))
}

fn stream(events: &[String]) -> String {
    response("200 OK", "text/event-stream", &events.concat())
}

#[tokio::test]
async fn a_run_on_gemini_sends_its_signatures_back_unchanged() {
    let call = json!([{ "functionCall": { "name": "clock_now", "args": {} }, "thoughtSignature": SIGNATURE }]);
    let script = vec![
        stream(&[
            gemini(&json!([{ "text": "Hm.", "thought": true }]), None),
            gemini(&call, None),
            gemini(&json!([{ "text": "" }]), Some("STOP")),
        ]),
        stream(&[
            gemini(&json!([{ "text": "No" }]), None),
            gemini(&json!([{ "text": "on." }]), Some("STOP")),
        ]),
    ];
    let upstream = Upstream::start(script).await;
    let folder = tempfile::tempdir().unwrap();
    let variables =
        [("GEMINI_API_KEY", "AIza-planted"), ("PITON_GEMINI_BASE_URL", upstream.url.as_str())];
    let node = Node::start(folder.path(), &[], &variables).await;
    let run = node.start_run(&json!({ "input": "what time is it?" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    let line = "post /models/gemini-3.8-flash:streamgeneratecontent?alt=sse http/1.1";
    assert!(asked[0].head.starts_with(line), "{}", asked[0].head);
    assert!(asked[0].head.contains("x-goog-api-key: aiza-planted"));
    let (first, second) = (asked[0].json(), asked[1].json());
    assert_eq!(
        (&first["tools"], &first["systemInstruction"]),
        (&second["tools"], &second["systemInstruction"])
    );
    let said = &second["contents"][1];
    assert_eq!(said["parts"][0], json!({ "text": "Hm.", "thought": true }));
    assert_eq!(said["parts"][1]["thoughtSignature"], SIGNATURE);
    let answer = &second["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(
        (&answer["name"], &answer["id"]),
        (&json!("clock_now"), &said["parts"][1]["functionCall"]["id"])
    );
    // Twice 60 fresh and 40 cached in, 25 out; at 0.75, 0.075 and 3.75 USD a million.
    let usage = &ended["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(200), &json!(50)));
    assert_eq!(usage["cost_usd"], json!(0.000_284), "{ended}");
    let (log, journal) = (node.log(), node.journal(&run).await);
    assert!(!log.contains("planted") && !format!("{journal:?}").contains("planted"));
}

#[tokio::test]
async fn a_run_on_bedrock_is_signed_and_sends_its_thoughts_back_unchanged() {
    let delta = |index: u64, delta: Value| {
        ("contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta }))
    };
    let stop = |index: u64| ("contentBlockStop", json!({ "contentBlockIndex": index }));
    let usage =
        json!({ "usage": { "inputTokens": 60, "cacheReadInputTokens": 40, "outputTokens": 25 } });
    let call = json!({ "toolUse": { "toolUseId": "tooluse_1", "name": "clock_now" } });
    let script = vec![
        frames(&[
            ("messageStart", json!({ "role": "assistant" })),
            delta(0, json!({ "reasoningContent": { "text": "The clock, then." } })),
            delta(0, json!({ "reasoningContent": { "signature": SIGNATURE } })),
            stop(0),
            ("contentBlockStart", json!({ "contentBlockIndex": 1, "start": call })),
            delta(1, json!({ "toolUse": { "input": "{}" } })),
            stop(1),
            ("messageStop", json!({ "stopReason": "tool_use" })),
            ("metadata", usage.clone()),
        ]),
        frames(&[
            delta(0, json!({ "text": "Noon." })),
            stop(0),
            ("messageStop", json!({ "stopReason": "end_turn" })),
            ("metadata", usage),
        ]),
    ];
    let upstream = Upstream::start(script).await;
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "planted/secret"),
        ("AWS_SESSION_TOKEN", "session-token"),
        ("AWS_REGION", "eu-west-1"),
        ("PITON_BEDROCK_BASE_URL", upstream.url.as_str()),
        ("PITON_DEFAULT_MODEL", "bedrock:amazon.nova-pro-v1:0"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let run = node.start_run(&json!({ "input": "what time is it?" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    let line = "post /model/amazon.nova-pro-v1%3a0/converse-stream http/1.1";
    assert!(asked[0].head.starts_with(line), "{}", asked[0].head);
    for part in [
        "aws4-hmac-sha256 credential=akidexample/",
        "/eu-west-1/bedrock/aws4_request, signedheaders=content-type;host;x-amz-date;x-amz-security-token, signature=",
        "x-amz-security-token: session-token",
    ] {
        assert!(asked[0].head.contains(part), "{part} in {}", asked[0].head);
    }
    let content = &asked[1].json()["messages"][1]["content"];
    let thought =
        json!({ "reasoningText": { "text": "The clock, then.", "signature": SIGNATURE } });
    assert_eq!(content[0]["reasoningContent"], thought);
    assert_eq!(content[1]["toolUse"]["toolUseId"], "tooluse_1");
    let usage = &ended["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(200), &json!(50)));
    // Twice 60 fresh and 40 cached in, 25 out; at 0.80, 0.20 and 3.20 USD a million.
    assert_eq!(usage["cost_usd"], json!(0.000_272), "{ended}");
    let (log, journal) = (node.log(), format!("{:?}", node.journal(&run).await));
    let secrets = ["planted/secret", "session-token"];
    assert!(secrets.iter().all(|secret| !log.contains(secret) && !journal.contains(secret)));
}

#[tokio::test]
async fn a_cloud_key_without_a_region_stops_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let variables =
        [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "")];
    let node = Node::start(folder.path(), &["--demo"], &variables).await;
    assert!(node.log().contains("AWS_REGION"), "{}", node.log());
}
