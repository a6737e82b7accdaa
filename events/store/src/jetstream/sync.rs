//! The proof that what a server acknowledges is on its disk: only each server's own monitoring says so.

use super::error::{ConnectError, SERVER_NEEDED, Unsafe};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one address may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Bytes of an answer; a server's page has some thousands.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What one server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sync_always: bool,
}

#[derive(Deserialize)]
struct Varz {
    server_name: String,
    version: String,
    jetstream: JetStream,
}

#[derive(Deserialize)]
struct JetStream {
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    sync_always: bool,
}

/// Asks every address, one after the other. `keepers` are the servers that keep a part of the journal.
///
/// # Errors
///
/// The first thing that is not proved; or [`ConnectError::TooOld`].
pub(super) async fn prove(monitors: &[String], keepers: &[String]) -> Result<(), ConnectError> {
    let mut proved = BTreeSet::new();
    let mut silent = None;
    for monitor in monitors {
        match ask(monitor).await {
            Ok(server) => {
                new_enough(&server.name, &server.version)?;
                if !server.sync_always {
                    return Err(ConnectError::Unsafe(Unsafe::Lazy(server.name)));
                }
                proved.insert(server.name);
            }
            Err(why) => silent = silent.or(Some(Unsafe::Silent { monitor: monitor.clone(), why })),
        }
    }
    if let Some(silent) = silent {
        return Err(ConnectError::Unsafe(silent));
    }
    match keepers.iter().find(|keeper| !proved.contains(*keeper)) {
        Some(keeper) => Err(ConnectError::Unsafe(Unsafe::Unwatched(keeper.clone()))),
        None => Ok(()),
    }
}

/// Refuses a version below [`SERVER_NEEDED`], and one that does not read.
pub(super) fn new_enough(server: &str, version: &str) -> Result<(), ConnectError> {
    if numbers(version).is_some_and(|found| Some(found) >= numbers(SERVER_NEEDED)) {
        return Ok(());
    }
    Err(ConnectError::TooOld { server: server.to_owned(), found: version.to_owned() })
}

fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    // What stands after a dash is a preview of the version.
    let mut parts = version.trim_start_matches('v').split(['-', '+']).next()?.split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?, next()?))
}

async fn ask(monitor: &str) -> Result<Server, String> {
    let page = tokio::time::timeout(ANSWER_MAX, get(monitor)).await;
    let page = page.map_err(|_| format!("no answer within {ANSWER_MAX:?}"))??;
    let varz: Varz = serde_json::from_slice(&page).map_err(|error| error.to_string())?;
    let config = varz.jetstream.config.ok_or("JetStream is not enabled")?;
    let sync_always = config.sync_always;
    Ok(Server { name: varz.server_name, version: varz.version, sync_always })
}

/// GET /varz, by hand: one page of plain HTTP from an address that the operator gave.
async fn get(monitor: &str) -> Result<Vec<u8>, String> {
    let host =
        monitor.strip_prefix("http://").ok_or("give http://host:port")?.trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
    let ask = format!("GET /varz HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = vec![];
    let mut bounded = stream.take(ANSWER_BYTES_MAX);
    bounded.read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
    body(&answer).map(<[u8]>::to_vec)
}

fn body(answer: &[u8]) -> Result<&[u8], String> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no HTTP answer")?;
    let (head, body) = answer.split_at_checked(head).ok_or("no HTTP answer")?;
    let status = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = status.split(|byte| *byte == b' ').collect();
    match words.as_slice() {
        [_, b"200", ..] => Ok(body.get(4..).unwrap_or_default()),
        _ => Err(format!("answered {}", String::from_utf8_lossy(status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn versions_are_compared_as_numbers() {
        for good in ["2.12.0", "2.12.8", "2.15.1", "10.0.0", "v2.14.0-preview.1"] {
            assert_eq!(new_enough("s", good), Ok(()), "{good}");
        }
        for bad in ["2.11.99", "2.9.10", "1.99.0", "", "2", "2.12", "two", "2.x.1"] {
            let error = new_enough("s", bad).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("2.12.0") && text.contains(bad), "{text}");
        }
    }

    /// A monitoring address that gives this answer.
    async fn monitor(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        #[expect(
            clippy::disallowed_methods,
            reason = "a test's own server; it ends with the runtime"
        )]
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 1_024];
                let _asked = stream.read(&mut asked).await;
                let _sent = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    const SAFE: &str = "HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"server_name\":\"s0\",\"version\":\"2.15.1\",\"jetstream\":{\"config\":{\"sync_always\":true}}}";
    const LAZY: &str = "HTTP/1.1 200 OK\r\n\r\n{\"server_name\":\"s1\",\"version\":\"2.15.1\",\"jetstream\":{\"config\":{\"sync_interval\":120}}}";
    const OLD: &str = "HTTP/1.0 200 OK\r\n\r\n{\"server_name\":\"s2\",\"version\":\"2.11.4\",\"jetstream\":{\"config\":{\"sync_always\":true}}}";

    #[tokio::test]
    async fn only_what_every_keeper_says_itself_is_proved() {
        let (safe, lazy, old) = (monitor(SAFE).await, monitor(LAZY).await, monitor(OLD).await);
        let s0 = ["s0".to_owned()];
        assert_eq!(prove(std::slice::from_ref(&safe), &s0).await, Ok(()));
        let lazy = prove(&[safe.clone(), lazy], &s0).await;
        assert_eq!(lazy, Err(ConnectError::Unsafe(Unsafe::Lazy("s1".to_owned()))));
        let old = prove(&[old], &s0).await;
        assert!(matches!(old, Err(ConnectError::TooOld { found, .. }) if found == "2.11.4"));
        let unwatched =
            prove(std::slice::from_ref(&safe), &["s0".to_owned(), "s9".to_owned()]).await;
        assert_eq!(unwatched, Err(ConnectError::Unsafe(Unsafe::Unwatched("s9".to_owned()))));
        let none = prove(&[], &s0).await;
        assert!(matches!(none, Err(ConnectError::Unsafe(Unsafe::Unwatched(_)))));
        for bad in ["HTTP/1.0 404 Not Found\r\n\r\n", "noise", "HTTP/1.0 200 OK\r\n\r\n{}"] {
            let silent = prove(&[safe.clone(), monitor(bad).await], &s0).await;
            assert!(
                matches!(silent, Err(ConnectError::Unsafe(Unsafe::Silent { .. }))),
                "{bad}: {silent:?}"
            );
        }
        let nobody = prove(&["http://127.0.0.1:1".to_owned()], &s0).await;
        assert!(matches!(nobody, Err(ConnectError::Unsafe(Unsafe::Silent { .. }))));
        let https = prove(&["https://127.0.0.1:1".to_owned()], &s0).await;
        assert!(https.unwrap_err().to_string().contains("http://"));
    }
}
