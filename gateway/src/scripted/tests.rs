//! The demo over a real socket, as a client sees it.

use super::*;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// The longest that a test waits for anything: 20 s, on a machine that is busy with other builds.
const PATIENCE: Duration = Duration::from_secs(20);

struct Caller {
    client: Client,
    base_url: String,
}

impl Caller {
    async fn post(&self, body: &Value) -> Response {
        let url = format!("{}/chat/completions", self.base_url);
        self.client.post(url).body(body.to_string()).send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self.client.get(format!("{}{path}", self.base_url)).send().await.unwrap();
        (response.status(), json_of(response).await)
    }
}

async fn json_of(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

/// Runs a test against a server of its own.
async fn with_demo(test: impl AsyncFnOnce(&Caller)) {
    // This build of the client takes no TLS provider by itself; another test may have set it already.
    let _set = rustls::crypto::ring::default_provider().install_default();
    let demo = talk().await.unwrap();
    let client = Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
    test(&Caller { client, base_url: demo.base_url(Family::OpenaiChat) }).await;
    demo.stop();
}

fn ask(text: &str, fields: Value) -> Value {
    let mut body = json!({"model": "demo", "messages": [{"role": "user", "content": text}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

/// The chunks of a stream and whether it ended with `[DONE]`.
fn chunks(text: &str) -> (Vec<Value>, bool) {
    let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let done = data.last() == Some(&"[DONE]");
    let chunks = data.iter().filter(|data| **data != "[DONE]");
    (chunks.map(|data| serde_json::from_str(data).unwrap()).collect(), done)
}

fn joined(chunks: &[Value]) -> String {
    let words = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    words.collect()
}

#[tokio::test]
async fn the_demo_lists_its_models() {
    with_demo(async |demo| {
        let (status, list) = demo.get("/models").await;
        let names: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
        assert_eq!((status, names), (StatusCode::OK, vec![json!("demo"), json!("demo-2")]));
        assert_eq!(demo.get("/models/demo-2").await.1["id"], "demo-2");
        let (status, gone) = demo.get("/models/gone").await;
        assert_eq!(
            (status, &gone["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!("model_not_found"))
        );
        let (status, _) = demo.get("/chat/completions").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    })
    .await;
}

#[tokio::test]
async fn the_demo_says_a_text_back_and_what_it_is() {
    with_demo(async |demo| {
        let answer = json_of(demo.post(&ask("hello there", json!({}))).await).await;
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap();
        assert!(text.starts_with("[scripted demo] You said: hello there"), "{text}");
        assert_eq!(choice["finish_reason"], "stop");
        let words = text.split_whitespace().count();
        let usage =
            json!({"prompt_tokens": 2, "completion_tokens": words, "total_tokens": words + 2});
        assert_eq!(answer["usage"], usage);
    })
    .await;
}

#[tokio::test]
async fn the_demo_streams_word_by_word_and_the_same_each_time() {
    with_demo(async |demo| {
        let body = ask("hello", json!({"stream": true, "stream_options": {"include_usage": true}}));
        let first = demo.post(&body).await;
        assert_eq!(first.headers()["content-type"], "text/event-stream; charset=utf-8");
        let text = first.text().await.unwrap();
        assert_eq!(text, demo.post(&body).await.text().await.unwrap());
        let (chunks, done) = chunks(&text);
        assert!(done && chunks.len() > 10, "{text}");
        let whole = json_of(demo.post(&ask("hello", json!({}))).await).await;
        assert_eq!(joined(&chunks), whole["choices"][0]["message"]["content"]);
        assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    })
    .await;
}

#[tokio::test]
async fn the_demo_stops_at_the_output_that_is_allowed() {
    with_demo(async |demo| {
        let answer = json_of(demo.post(&ask("hello", json!({"max_tokens": 3}))).await).await;
        assert_eq!(answer["choices"][0]["message"]["content"], "[scripted demo] You ");
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    })
    .await;
}

#[tokio::test]
async fn both_tools_of_the_demo_make_a_round_trip() {
    with_demo(async |demo| {
        let tools = json!([tool("note_append"), tool("clock_now")]);
        let mut body = ask("both: buy é", json!({"tools": tools}));
        let answer = json_of(demo.post(&body).await).await;
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
        let message = &answer["choices"][0]["message"];
        let calls = message["tool_calls"].as_array().unwrap();
        let asked: Vec<_> = calls.iter().map(|call| &call["function"]).collect();
        let note = json!({"name": "note_append", "arguments": "{\"text\":\"buy é\"}"});
        assert_eq!(asked, [&json!({"name": "clock_now", "arguments": "{}"}), &note]);
        assert_ne!(calls[0]["id"], calls[1]["id"]);

        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(message.clone());
        for (call, result) in calls.iter().zip(["noon", "written"]) {
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
        }
        let answer = json_of(demo.post(&body).await).await;
        let expected = "[scripted demo] The tool clock_now answers: noon\nThe tool note_append answers: written";
        assert_eq!(answer["choices"][0]["message"]["content"], expected);
    })
    .await;
}

#[tokio::test]
async fn streamed_calls_of_the_demo_join_to_the_whole_ones() {
    with_demo(async |demo| {
        let tools = json!([tool("note_append"), tool("clock_now")]);
        let fields = json!({"tools": tools, "stream": true});
        let text = demo.post(&ask("both: buy é", fields)).await.text().await.unwrap();
        let (chunks, done) = chunks(&text);
        let mut joined: Vec<(String, String)> = Vec::new();
        for call in chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)) {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if let Some(name) = call["function"]["name"].as_str() {
                assert_eq!(index, joined.len());
                joined.push((name.to_owned(), String::new()));
            }
            joined[index].1.push_str(call["function"]["arguments"].as_str().unwrap());
        }
        let expected = [("clock_now", "{}"), ("note_append", "{\"text\":\"buy é\"}")];
        assert_eq!(joined, expected.map(|(name, arguments)| (name.into(), arguments.into())));
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
        assert!(done);
    })
    .await;
}

#[tokio::test]
async fn scripted_statuses_strike_twice_and_then_let_through() {
    with_demo(async |demo| {
        for (fault, status, code) in [
            ("fail 429", StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            ("fail 500", StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
            ("fail 401", StatusCode::UNAUTHORIZED, "invalid_api_key"),
        ] {
            for _ in 0..2 {
                let response = demo.post(&ask(fault, json!({}))).await;
                assert_eq!(response.status(), status);
                let waits = response.headers().get("retry-after").is_some_and(|wait| wait == "1");
                assert_eq!(waits, fault == "fail 429");
                assert_eq!(json_of(response).await["error"]["code"], code);
            }
            let answer = json_of(demo.post(&ask(fault, json!({}))).await).await;
            let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
            assert!(text.contains("this one succeeds"), "{text}");
            let spared = json_of(demo.post(&ask(fault, json!({"model": "demo-2"}))).await).await;
            let text = spared["choices"][0]["message"]["content"].as_str().unwrap();
            assert!(text.contains("never fails"), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_cut_answer_of_the_demo_breaks_off_in_its_middle() {
    with_demo(async |demo| {
        let mut streamed = demo.post(&ask("fail cut", json!({"stream": true}))).await;
        let mut seen = String::new();
        let broken = loop {
            match streamed.chunk().await {
                Ok(Some(bytes)) => seen.push_str(std::str::from_utf8(&bytes).unwrap()),
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let (chunks, done) = chunks(&seen);
        assert!(broken && !done && joined(&chunks).starts_with("[scripted demo] "), "{seen}");
        let whole = demo.post(&ask("fail cut", json!({}))).await;
        assert_eq!(whole.status(), StatusCode::OK);
        assert!(whole.text().await.is_err());
        assert_eq!(
            demo.post(&ask("fail cut", json!({}))).await.error_for_status().unwrap().status(),
            200
        );
    })
    .await;
}

#[tokio::test]
async fn a_stalled_answer_of_the_demo_begins_and_says_no_more() {
    with_demo(async |demo| {
        let mut stalled = demo.post(&ask("fail stall", json!({"stream": true}))).await;
        let mut seen = String::new();
        // Everything before the stall is there at once; what would follow it is ten minutes away.
        while !seen.contains("failure") {
            seen.push_str(std::str::from_utf8(&stalled.chunk().await.unwrap().unwrap()).unwrap());
        }
        let silence = Duration::from_millis(300);
        while let Ok(chunk) = tokio::time::timeout(silence, stalled.chunk()).await {
            seen.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
        }
        let (chunks, done) = chunks(&seen);
        let said = joined(&chunks);
        assert!(!done && said.contains("failure 1 of 2") && !said.contains("end"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_slow_answer_of_the_demo_comes_in_pieces() {
    with_demo(async |demo| {
        let begun = std::time::Instant::now();
        let mut slow = demo.post(&ask("slow 4", json!({"stream": true}))).await;
        let (mut seen, mut pieces) = (String::new(), 0);
        while let Some(bytes) = slow.chunk().await.unwrap() {
            seen.push_str(std::str::from_utf8(&bytes).unwrap());
            pieces += 1;
        }
        let (chunks, done) = chunks(&seen);
        assert_eq!((joined(&chunks).as_str(), done), ("[scripted demo] 1 2 3 4", true));
        // Six words with a pause before all but the first.
        assert!(pieces >= 5 && begun.elapsed() >= Duration::from_millis(250), "{pieces}");
    })
    .await;
}

#[tokio::test]
async fn a_stopped_demo_takes_no_more_calls() {
    with_demo(async |caller| {
        let demo = talk().await.unwrap();
        let url = format!("{}/models", demo.base_url(Family::OpenaiChat));
        let get = || async { caller.client.get(&url).send().await };
        assert_eq!(get().await.unwrap().status(), StatusCode::OK);
        demo.stop();
        // The listener goes when its task is next polled; a kept connection may serve until then.
        let refused = async {
            let fresh = || Client::builder().no_proxy().build().unwrap();
            while fresh().get(&url).send().await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_the_demo_can_not_read_is_refused_with_its_field() {
    with_demo(async |demo| {
        let response = demo.post(&json!({"model": "demo", "messages": "hi"})).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let error = json_of(response).await;
        assert_eq!(error["error"]["param"], "messages");
        let response = demo.post(&ask("hi", json!({"model": "gpt-9"}))).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let message = json_of(response).await["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("ask for demo or demo-2"), "{message}");
    })
    .await;
}
