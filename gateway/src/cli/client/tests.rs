//! The client against a scripted peer on a loopback socket.

use super::*;
use crate::error::Exit;
use actors::task;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as Answer};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// What the peer was sent: method, path with query, and the headers that matter.
type Seen = Arc<Mutex<Vec<String>>>;

/// A peer that gives these answers in turn, the last one for ever.
struct Peer {
    client: Client,
    seen: Seen,
}

type Script = Arc<dyn Fn(usize) -> Answer + Send + Sync>;

async fn peer(script: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Peer {
    async fn answer(State((seen, script)): State<(Seen, Script)>, request: Request) -> Answer {
        let header = |name: &str| {
            request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let said =
            ["authorization", "idempotency-key", "last-event-id"].into_iter().filter_map(header);
        let line =
            [request.method().to_string(), request.uri().to_string()].into_iter().chain(said);
        let turn = {
            let mut seen = seen.lock().unwrap();
            seen.push(line.collect::<Vec<_>>().join(" "));
            seen.len()
        };
        script(turn)
    }
    let seen = Seen::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let state: (Seen, Script) = (seen.clone(), Arc::new(script));
    let router = Router::new().fallback(answer).with_state(state);
    task::spawn(task::Kind::Serve, async move { axum::serve(listener, router).await });
    let client = Client { http: http(&base).unwrap(), base, key: Secret::new("k") };
    Peer { client, seen }
}

impl Peer {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn busy() -> Answer {
    let headers = [("x-should-retry", "true"), ("retry-after-ms", "1")];
    let body = json!({"error": {"code": "busy", "message": "full"}}).to_string();
    (StatusCode::TOO_MANY_REQUESTS, headers, body).into_response()
}

fn fine() -> Answer {
    json!({"id": "run_1"}).to_string().into_response()
}

#[tokio::test]
async fn a_request_carries_the_key_and_an_id_can_not_leave_its_place_in_the_path() {
    let peer = peer(|_| fine()).await;
    let mut ask = Ask::at(&["v1", "runs", "../keys?x"]);
    ask.query = vec![("limit", "1&x=2".to_owned())];
    assert_eq!(peer.client.ask(Method::GET, ask).await.unwrap(), json!({"id": "run_1"}));
    assert_eq!(peer.seen(), ["GET /v1/runs/..%2Fkeys%3Fx?limit=1%26x%3D2 Bearer k"]);
}

#[tokio::test]
async fn a_busy_node_is_asked_again_where_that_does_nothing_twice() {
    let of = |key: Option<&str>| {
        let mut ask = Ask::at(&["v1", "runs"]);
        (ask.body, ask.idempotency_key) = (Some(json!({})), key.map(str::to_owned));
        ask
    };
    let once_busy = |turn| if turn == 1 { busy() } else { fine() };
    let keyed = peer(once_busy).await;
    keyed.client.ask(Method::POST, of(Some("a"))).await.unwrap();
    assert_eq!(keyed.seen(), ["POST /v1/runs Bearer k a", "POST /v1/runs Bearer k a"]);

    let unkeyed = peer(once_busy).await;
    let error = unkeyed.client.ask(Method::POST, of(None)).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), unkeyed.seen().len()), ("full", 1));

    let always = peer(|_| busy()).await;
    assert!(always.client.ask(Method::GET, of(None)).await.is_err());
    assert_eq!(always.seen().len(), 3);
}

#[tokio::test]
async fn an_error_has_the_exit_code_of_its_code_or_of_its_status() {
    let of = async |status: u16, body: &'static str| {
        let status = StatusCode::from_u16(status).unwrap();
        let peer = peer(move |_| (status, body).into_response()).await;
        peer.client.ask(Method::GET, Ask::at(&["x"])).await.unwrap_err()
    };
    let ours = of(409, r#"{"error":{"code":"history_mismatch","message":"differs at 2"}}"#).await;
    assert_eq!((ours.exit(), ours.to_string().as_str()), (Exit::Conflict, "differs at 2"));
    assert_eq!(ours.runbook().as_deref(), Some("deploy/runbooks/errors.md#history_mismatch"));
    assert_eq!(
        of(502, r#"{"error":{"code":"providers_exhausted","message":""}}"#).await.exit(),
        Exit::ProvidersExhausted
    );
    assert_eq!(of(401, "").await.exit(), Exit::Auth);
    assert_eq!(of(404, "<html>").await.exit(), Exit::NotFound);
    let redirect = of(302, "").await;
    assert_eq!((redirect.exit(), redirect.runbook()), (Exit::Failure, None));
}

#[tokio::test]
async fn an_answer_that_is_no_json_is_not_a_nodes() {
    let peer = peer(|_| "<html>".into_response()).await;
    let error = peer.client.ask(Method::GET, Ask::at(&["x"])).await.unwrap_err();
    assert!(matches!(error, CliError::Strange { .. }), "{error:?}");
}

#[tokio::test]
async fn where_nobody_listens_the_error_says_how_to_start_a_node() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let client = Client { http: http(&base).unwrap(), base, key: Secret::new("k") };
    let error = client.ask(Method::GET, Ask::at(&["x"])).await.unwrap_err();
    assert!(error.to_string().contains("start one with `piton serve`"), "{error}");
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_from_its_last_event() {
    use crate::cli::follow::{Follow, Seen as Came};
    let peer = peer(|turn| match turn {
        1 => "id: 1\nevent: run.started\ndata: {}\n\nid: 1.0.1\nevent: message.delta\ndata: {\"text\":\"a\"}\n\nid: 9".into_response(),
        _ => "id: 2\nevent: run.completed\ndata: {}\n\n".into_response(),
    })
    .await;
    let mut follow = Follow::new(&peer.client, "run_1", None);
    let mut names = Vec::new();
    while let Some(came) = follow.next().await.unwrap() {
        names.push(match came {
            Came::Text(text) => text,
            Came::Event(event) => event.name,
            Came::Discarded | Came::Gap => "other".to_owned(),
        });
    }
    assert_eq!(names, ["run.started", "a", "run.completed"]);
    assert_eq!(
        peer.seen(),
        ["GET /v1/runs/run_1/events Bearer k", "GET /v1/runs/run_1/events Bearer k 1.0.1"]
    );
}

#[test]
fn the_nodes_own_key_goes_to_this_machine_only() {
    let home = tempfile::tempdir().unwrap();
    private::write(&home.path().join(CLI_KEY), "piton_cli_planted\n").unwrap();
    let find = |url: &str, pairs: &[(&str, &str)]| {
        Client::find(Some(url), &Environment::of(pairs.iter().copied()), home.path())
    };
    for here in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
        assert_eq!(find(here, &[]).unwrap().key.expose(), "piton_cli_planted", "{here}");
    }
    for elsewhere in ["http://example.org", "http://localhost.example.org", "http://10.0.0.1"] {
        let error = find(elsewhere, &[]).unwrap_err();
        assert!(matches!(error, CliError::NoKey { .. }), "{elsewhere}: {error:?}");
        assert_eq!(error.exit(), Exit::Auth);
    }
    let named = [(config::API_KEY, "piton_key_x")];
    assert_eq!(find("http://10.0.0.1", &named).unwrap().key.expose(), "piton_key_x");
    assert!(matches!(find("ftp://10.0.0.1", &named), Err(CliError::Usage(_))));
}

#[test]
fn the_node_is_the_one_that_is_named_or_the_one_that_left_a_note() {
    let home = tempfile::tempdir().unwrap();
    let find = |pairs: &[(&str, &str)]| {
        Client::find(None, &Environment::of(pairs.iter().copied()), home.path())
    };
    let key = (config::API_KEY, "piton_key_x");
    let none = find(&[key]).unwrap_err();
    assert!(none.to_string().contains("start one with `piton serve`"), "{none}");
    NodeNote::here(([127, 0, 0, 1], 7).into()).write(&home.path().join(NODE_FILE)).unwrap();
    assert_eq!(find(&[key]).unwrap().base.as_str(), "http://127.0.0.1:7/");
    assert_eq!(
        find(&[key, (config::URL, "http://127.0.0.1:8")]).unwrap().base.as_str(),
        "http://127.0.0.1:8/"
    );
}
