//! The proof that what a server acknowledges is on its disk: only each server's own monitoring says so.

use super::Sync;
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

/// A server that keeps a part of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) name: String,
    /// The others hear it, so that what it acknowledges counts.
    pub(super) heard: bool,
}

/// What the monitoring addresses said, when none of them said that its server is unfit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    /// Names of servers that sync.
    proved: BTreeSet<String>,
    /// An address that did not answer.
    pub(super) silent: Option<Unsafe>,
}

impl Said {
    /// Whether enough is proved for a commit to be on a disk whoever else acknowledges it.
    pub(super) fn most(&self, keepers: &[Keeper]) -> bool {
        let proved = keepers.iter().filter(|keeper| self.proved.contains(&keeper.name)).count();
        proved * 2 > keepers.len()
    }

    /// Whether any server was proved.
    pub(super) fn some(&self) -> bool {
        !self.proved.is_empty()
    }

    /// What follows for a journal of these servers. One that is down acknowledges nothing, and must not keep nodes
    /// from starting; one that only does not say how it syncs may acknowledge what is on no disk.
    ///
    /// # Errors
    ///
    /// What is not proved.
    pub(super) fn of(&self, keepers: &[Keeper]) -> Result<Sync, ConnectError> {
        let unproved = || keepers.iter().filter(|keeper| !self.proved.contains(&keeper.name));
        match (&self.silent, unproved().next()) {
            (None, None) => Ok(Sync::Proved),
            (None, Some(keeper)) => {
                Err(ConnectError::Unsafe(Unsafe::Unwatched(keeper.name.clone())))
            }
            (Some(silent), _) if self.most(keepers) && !unproved().any(|keeper| keeper.heard) => {
                Ok(Sync::Silent(silent.to_string()))
            }
            (Some(silent), _) => Err(ConnectError::Unsafe(silent.clone())),
        }
    }
}

/// Asks every address, one after the other.
///
/// # Errors
///
/// The first server that is not fit: it says that it does not sync, or is too old.
pub(super) async fn ask_all(monitors: &[String]) -> Result<Said, ConnectError> {
    let mut said = Said::default();
    for monitor in monitors {
        match ask(monitor).await {
            Ok(server) => {
                new_enough(&server.name, &server.version)?;
                if !server.sync_always {
                    return Err(ConnectError::Unsafe(Unsafe::Lazy(server.name)));
                }
                said.proved.insert(server.name);
            }
            Err(why) if said.silent.is_none() => {
                said.silent = Some(Unsafe::Silent { monitor: monitor.clone(), why });
            }
            Err(_) => {}
        }
    }
    Ok(said)
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

    fn keepers(named: &[(&str, bool)]) -> Vec<Keeper> {
        named
            .iter()
            .map(|(name, heard)| Keeper { name: (*name).to_owned(), heard: *heard })
            .collect()
    }

    async fn prove(monitors: &[String], named: &[(&str, bool)]) -> Result<Sync, ConnectError> {
        ask_all(monitors).await?.of(&keepers(named))
    }

    #[tokio::test]
    async fn only_what_every_keeper_says_itself_is_proved() {
        let (safe, lazy, old) = (monitor(SAFE).await, monitor(LAZY).await, monitor(OLD).await);
        let s0 = [("s0", true)];
        assert_eq!(prove(std::slice::from_ref(&safe), &s0).await, Ok(Sync::Proved));
        let lazy = prove(&[safe.clone(), lazy], &s0).await;
        assert_eq!(lazy, Err(ConnectError::Unsafe(Unsafe::Lazy("s1".to_owned()))));
        let old = prove(&[old], &s0).await;
        assert!(matches!(old, Err(ConnectError::TooOld { found, .. }) if found == "2.11.4"));
        let unwatched = prove(std::slice::from_ref(&safe), &[("s0", true), ("s9", false)]).await;
        assert_eq!(unwatched, Err(ConnectError::Unsafe(Unsafe::Unwatched("s9".to_owned()))));
        let none = prove(&[], &s0).await;
        assert!(matches!(none, Err(ConnectError::Unsafe(Unsafe::Unwatched(_)))));
        for bad in ["HTTP/1.0 404 Not Found\r\n\r\n", "noise", "HTTP/1.0 200 OK\r\n\r\n{}"] {
            let bad_one = monitor(bad).await;
            let silent = prove(&[safe.clone(), bad_one], &[("s0", true), ("s1", true)]).await;
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

    #[test]
    fn a_server_that_is_down_keeps_nobody_out_and_one_that_is_heard_does() {
        let silent = Unsafe::Silent { monitor: "m".to_owned(), why: "refused".to_owned() };
        let of = |proved: &[&str], named: &[(&str, bool)]| {
            let proved = proved.iter().map(|name| (*name).to_owned()).collect();
            Said { proved, silent: Some(silent.clone()) }.of(&keepers(named))
        };
        let three = |last| [("s0", true), ("s1", true), ("s2", last)];
        let (flagged, refused) =
            (Ok(Sync::Silent(silent.to_string())), Err(ConnectError::Unsafe(silent.clone())));
        assert_eq!(of(&["s0", "s1"], &three(false)), flagged);
        assert_eq!(of(&["s0", "s1"], &three(true)), refused, "it only does not say how it syncs");
        assert_eq!(
            of(&["s0"], &[("s0", true), ("s1", false), ("s2", false)]),
            refused,
            "one of three"
        );
        assert_eq!(of(&["s0"], &[("s0", true), ("s1", false)]), refused, "one of two");
        assert_eq!(of(&[], &[("s0", false)]), refused);
        assert_eq!(of(&["s0"], &[("s0", true)]), flagged, "who is silent keeps nothing");
    }
}
