//! Reading server-sent events as a client does.

use futures_util::StreamExt;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its id, where it had one.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its data; a string where it is not JSON.
    pub data: Value,
}

/// A stream that is open.
pub struct Events {
    body: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl Events {
    /// Opens it; the answer must be 200.
    pub async fn open(request: RequestBuilder) -> Self {
        let answer: Response = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap_or_default());
        Self { body: Box::pin(answer.bytes_stream()), text: String::new() }
    }

    /// The next event; `None` when the stream has ended or broken off.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((one, rest)) = self.text.split_once("\n\n") {
                let event = parse(one);
                self.text = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let bytes = self.body.next().await?.ok()?;
            self.text.push_str(std::str::from_utf8(&bytes).expect("the stories speak ASCII"));
        }
    }

    /// Everything up to the end.
    pub async fn rest(mut self) -> Vec<Event> {
        let mut all = vec![];
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn parse(text: &str) -> Option<Event> {
    let (mut id, mut name, mut data) = (None, String::new(), None::<String>);
    for line in text.lines() {
        match line.split_once(':') {
            Some(("id", value)) => id = Some(value.trim().to_owned()),
            Some(("event", value)) => value.trim().clone_into(&mut name),
            Some(("data", value)) => data = Some(data.unwrap_or_default() + value.trim_start()),
            Some(_) | None => (),
        }
    }
    let data = data?;
    Some(Event { id, name, data: serde_json::from_str(&data).unwrap_or(Value::String(data)) })
}
