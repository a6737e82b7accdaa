//! Logins to a subscription: by a code, by a browser, from Codex's file; their tokens refreshed once for all who wait, and
//! a login that is lost told with its mend.

use crate::credentials::{Two, nowhere_but};
use crate::issuer::{ACCOUNT, Issuer, USER_CODE};
use events::aggregate::Aggregate;
use events::credential::{Credential, Event, ProviderId};
use events::record::{Boot, JournalId, Version};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use store::{Faults, Open, Store};
use tests::Node;
use tests::process::{ADMIN_KEY, answer, client, command, json as body, wait_for};
use url::Url;

async fn node(folder: &Path, issuer: &Issuer, more: &[(&str, &str)]) -> Node {
    let told = issuer.variables();
    let mut told: Vec<(&str, &str)> =
        told.iter().map(|(name, url)| (*name, url.as_str())).collect();
    told.extend(more);
    Node::start(folder, &[], &told).await
}

async fn act(node: &Node, action: &str, profile: &str, given: (&str, Value)) -> (u16, Value) {
    let (name, given) = given;
    let asked =
        json!({"action": action, "provider": "openai-codex", "profile": profile, name: given});
    node.post("/v1/harness/credentials", &asked).await
}

async fn profile(node: &Node, name: &str) -> Option<Value> {
    let (_, list) = node.get("/v1/harness/providers").await;
    let providers = list["data"].as_array()?.clone();
    let codex = providers.into_iter().find(|one| one["id"] == "openai-codex")?;
    codex["profiles"].as_array()?.iter().find(|one| one["name"] == name).cloned()
}

async fn until(node: &Node, name: &str, state: &str) -> Value {
    wait_for(&format!("{name} is {state}"), || async {
        profile(node, name).await.filter(|one| one["state"] == state)
    })
    .await
}

fn asking(node: &Node, session: &str) -> RequestBuilder {
    let request = node.ask(Method::POST, "/v1/chat/completions");
    let request = request.header("x-piton-session-id", session);
    let asked = json!({"model": "openai-codex:gpt-6.1-sol", "max_tokens": 64,
        "messages": [{"role": "user", "content": "hello"}]});
    body(request, &asked)
}

/// One turn of a session; the same one again would be answered from the journal.
async fn turn(node: &Node, session: &str) -> (u16, Value) {
    answer(asking(node, session)).await
}

/// The command line, beside a node, told of the issuer.
fn piton(node: &Node, issuer: &Issuer, words: &[&str]) -> Child {
    let mut command = command(&node.data);
    command.args(words).args(["--url", &node.url]).env("PITON_API_KEY", ADMIN_KEY);
    command.envs(issuer.variables().iter().map(|(name, url)| (*name, url.as_str())));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What it says until a line holds this, which is returned.
async fn said(child: &mut Child, what: &'static str) -> (String, BufReader<ChildStderr>) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    tokio::task::spawn_blocking(move || {
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it never said {what}");
            if line.contains(what) {
                return (line.trim().to_owned(), lines);
            }
        }
    })
    .await
    .unwrap()
}

/// How it ended, and all that it said.
async fn ended(child: Child, rest: Option<BufReader<ChildStderr>>) -> (Option<i32>, String) {
    tokio::task::spawn_blocking(move || {
        let output = child.wait_with_output().unwrap();
        let mut text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if let Some(mut rest) = rest {
            rest.read_to_string(&mut text).unwrap();
        }
        (output.status.code(), text)
    })
    .await
    .unwrap()
}

/// What happened to the provider's credentials; the node must be gone.
async fn happened(folder: &Path) -> Vec<Event> {
    let path = folder.join("journal.db");
    let (boot, fresh, faults) = (Boot(9), JournalId(9), Faults::none());
    let store = Store::open(Open { path, boot, fresh, faults }).unwrap();
    let id: ProviderId = "openai-codex".parse().unwrap();
    let commits = store.read(&Credential::stream(&id), Version::EMPTY, 256).await.unwrap();
    let mut events = vec![];
    for entry in commits.iter().flat_map(|recorded| &recorded.commit.entries) {
        let payload = store.payload(entry).await.unwrap();
        events.push(Credential::decode(entry.kind, entry.schema, &payload).unwrap());
    }
    store.close().await;
    events
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

/// The metric says that so many profiles wait for somebody to log in.
async fn waits(node: &Node, profiles: u32) {
    let line = format!("piton_credentials_need_login{{provider=\"openai-codex\"}} {profiles}");
    wait_for(&line, || async {
        let (_, text) = node.get("/metrics").await;
        text.as_str()?.lines().any(|one| one == line).then_some(())
    })
    .await;
}

/// No token that was ever given stands below the folder, but for the file of credentials.
fn secret(folder: &Path, issuer: &Issuer) {
    for token in issuer.tokens() {
        nowhere_but(folder, &token, "credentials.json");
    }
}

#[tokio::test]
async fn a_login_by_a_code_asks_a_subscription_under_our_own_name_and_costs_nothing() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let mut node = node(folder.path(), &issuer, &[]).await;
    let mut child = piton(&node, &issuer, &["auth", "login", "openai-codex", "--json"]);
    let (code, rest) = said(&mut child, USER_CODE).await;
    assert_eq!(code, USER_CODE);
    // It fails for a moment, and that is no end.
    issuer.stumble(&[503, 429]);
    issuer.enter();
    let (exit, told) = ended(child, Some(rest)).await;
    assert!(exit == Some(0) && told.contains("logged in: openai-codex main"), "{exit:?} {told}");
    let one = until(&node, "main", "healthy").await;
    assert_eq!((&one["kind"], one["expires"].is_string()), (&json!("oauth"), true), "{one}");

    let (status, told) = turn(&node, "s").await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["choices"][0]["message"]["content"], "hello from afar");
    let call = issuer.calls().pop().unwrap();
    for says in
        ["originator: piton", &format!("chatgpt-account-id: {ACCOUNT}"), "user-agent: piton/"]
    {
        assert!(call.head.contains(says), "{says}: {}", call.head);
    }
    let sent: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
    let usage = wait_for("it is counted", || async {
        let (_, usage) = node.get("/v1/runs/usage/summary?window_hours=1").await;
        (usage["calls"] == 1).then_some(usage)
    })
    .await;
    assert_eq!(usage["billing"], "subscription", "{usage}");
    assert_eq!((&usage["calls_subscription"], &usage["cost_usd"]), (&json!(1), &Value::Null));
    assert_eq!(usage["calls_unpriced"], 0, "{usage}");

    // Whether it works can not be had for nothing, and that is no failure.
    let (exit, told) =
        ended(piton(&node, &issuer, &["providers", "test", "openai-codex", "--json"]), None).await;
    assert!(exit == Some(0) && told.contains("--call MODEL"), "{exit:?} {told}");
    assert!(!told.contains("\"ok\":true") && !told.contains("\"ok\": true"), "{told}");

    // Who takes keys is not logged in to, and who is logged in to is not given a key's profile.
    let (exit, told) = ended(piton(&node, &issuer, &["auth", "login", "openai"]), None).await;
    assert!(exit == Some(2) && told.contains("piton auth add"), "{told}");
    let (status, told) = act(&node, "rotate", "main", ("key", json!("sk-x"))).await;
    assert!(status == 409 && told.to_string().contains("piton auth rm"), "{told}");
    let (exit, told) = ended(piton(&node, &issuer, &["auth", "ls"]), None).await;
    assert!(exit == Some(0) && told.contains("oauth") && told.contains("EXPIRES"), "{told}");
    // It is there after a restart.
    assert!(node.stop().await.success());
    drop(node);
    secret(folder.path(), &issuer);
    let node = self::node(folder.path(), &issuer, &[]).await;
    assert_eq!(turn(&node, "s2").await.0, 200);
    assert_eq!((issuer.refreshes(), issuer.calls().len()), (0, 2));
}

#[tokio::test]
async fn a_browser_comes_back_with_its_own_login_or_with_none() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let node = node(folder.path(), &issuer, &[]).await;
    let words = ["auth", "login", "openai-codex", "work", "--browser", "--port", "0"];
    let begun = async || {
        let mut child = piton(&node, &issuer, &words);
        let (url, rest) = said(&mut child, "/oauth/authorize").await;
        let pairs: Vec<(String, String)> =
            Url::parse(&url).unwrap().query_pairs().into_owned().collect();
        let of = |name: &str| pairs.iter().find(|(own, _)| own == name).unwrap().1.clone();
        assert!(url.starts_with(&issuer.url) && of("originator") == "piton", "{url}");
        // The name that the issuer knows; the story needs no resolver.
        let back = of("redirect_uri").replace("localhost", "127.0.0.1");
        (child, rest, back, of("state"), of("code_challenge"))
    };
    let come = async |back: &str, pairs: &[(&str, &str)]| {
        let mut url = Url::parse(back).unwrap();
        url.query_pairs_mut().extend_pairs(pairs);
        client().get(url).send().await.unwrap().status().as_u16()
    };
    let (child, rest, back, state, challenge) = begun().await;
    let code = issuer.authorize(&challenge);
    assert_eq!(come(&back, &[("code", "code-forged"), ("state", "forged")]).await, 400);
    assert_eq!(come(&back, &[("code", &code), ("state", &state)]).await, 200);
    let (exit, told) = ended(child, Some(rest)).await;
    assert!(exit == Some(0) && told.contains("logged in: openai-codex work"), "{told}");
    assert_eq!(turn(&node, "s").await.0, 200);

    let (child, rest, back, state, _) = begun().await;
    let denied = [("error", "access_denied"), ("state", state.as_str())];
    assert_eq!(come(&back, &denied).await, 200);
    let (exit, told) = ended(child, Some(rest)).await;
    assert!(exit == Some(4) && told.contains("access_denied"), "{exit:?} {told}");
    // A code of another login is of no use: the issuer wants to see what the challenge was made from.
    let (child, rest, back, state, _) = begun().await;
    let stolen = issuer.authorize("another-challenge");
    assert_eq!(come(&back, &[("code", &stolen), ("state", &state)]).await, 200);
    let (exit, told) = ended(child, Some(rest)).await;
    assert!(exit == Some(4) && told.contains("invalid_grant"), "{exit:?} {told}");
    secret(folder.path(), &issuer);
}

#[tokio::test]
async fn eight_chats_with_one_ended_token_make_one_refresh() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let mut node = node(folder.path(), &issuer, &[]).await;
    let old = issuer.login(-60);
    assert_eq!(act(&node, "add", "main", ("login", old.json())).await.0, 201);
    until(&node, "main", "healthy").await;
    let sessions: Vec<String> = (0..8).map(|nth| format!("s{nth}")).collect();
    let all = sessions.iter().map(|session| turn(&node, session));
    for (status, told) in futures_util::future::join_all(all).await {
        assert_eq!(status, 200, "{told}");
    }
    assert_eq!(issuer.refreshes(), 1);
    assert!(issuer.calls().iter().all(|call| !call.head.contains(&old.access)));

    // The provider takes the token back though it has not ended: had anew once, and told as an attempt.
    issuer.revoke();
    assert_eq!(turn(&node, "t0").await.0, 200);
    assert_eq!(issuer.refreshes(), 2);
    let (_, runs) = node.get("/v1/runs?limit=1").await;
    let run = runs["data"][0]["id"].as_str().or(runs["data"][0]["run_id"].as_str()).unwrap();
    let commits = node.journal(run).await;
    let entries = commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    let failed: Vec<&Value> = entries.filter(|entry| entry["name"] == "model_failed").collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let (_, shown) = node.get(&format!("/v1/runs/{run}")).await;
    assert!(shown.to_string().contains("auth_expired"), "{shown}");
    // A refresh that fails for a while: the profile cools and says until when, and is not dead.
    issuer.revoke();
    issuer.fail(Some((503, "{}")));
    let (status, told) = turn(&node, "t1").await;
    assert!(status >= 400 && !told.to_string().contains("planted"), "{status} {told}");
    let one = profile(&node, "main").await.unwrap();
    assert_eq!(one["refresh"]["reason"], "issuer_failed", "{one}");
    assert_ne!(one["state"], "needs_login", "{one}");
    // However often that happens, it counts against no login.
    assert_eq!((&one["state"], &one["consecutive_401"]), (&json!("cooling"), &json!(0)), "{one}");
    assert!(node.stop().await.success());
    drop(node);
    let events = happened(folder.path()).await;
    let refreshes = names(&events).into_iter().filter(|name| name.starts_with("refresh"));
    assert_eq!(
        refreshes.collect::<Vec<_>>(),
        ["refreshing", "refreshed", "refreshing", "refreshed", "refreshing", "refresh_failed"]
    );
    assert!(!format!("{events:?}").contains("planted"));
    secret(folder.path(), &issuer);
}

#[tokio::test]
async fn a_refresh_that_dies_between_its_answer_and_the_vault_is_told_as_a_lost_login() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let mut first = node(folder.path(), &issuer, &[]).await;
    let old = issuer.login(-60);
    assert_eq!(act(&first, "add", "main", ("login", old.json())).await.0, 201);
    until(&first, "main", "healthy").await;
    // The issuer has taken the refresh token, and the node dies before it keeps what it was given for it.
    issuer.hold(true);
    let chat = tokio::spawn(asking(&first, "s").send());
    wait_for("the token is used", || async { (issuer.refreshes() == 1).then_some(()) }).await;
    first.kill();
    assert!(chat.await.unwrap().is_err(), "its connection goes with the node");
    drop(first);
    issuer.hold(false);
    // Nobody asks anything: the node finds out by itself, and says what to do.
    let node = node(folder.path(), &issuer, &[]).await;
    let lost = until(&node, "main", "needs_login").await;
    assert_eq!(lost["reason"], "refresh_token_reused", "{lost}");
    assert_eq!(lost["mend"], "piton auth login openai-codex main");
    assert_eq!(issuer.refreshes(), 2);
    let (_, health) = node.get("/health/detailed").await;
    assert_eq!(
        (&health["status"], &health["credentials"]["status"]),
        (&json!("degraded"), &json!("degraded"))
    );
    assert_eq!(health["credentials"]["problems"][0]["mend"], "piton auth login openai-codex main");
    waits(&node, 1).await;
    let (exit, told) = ended(piton(&node, &issuer, &["auth", "ls"]), None).await;
    assert!(exit == Some(0) && told.contains("needs_login"), "{told}");
    assert!(told.contains("openai-codex main: piton auth login openai-codex main"), "{told}");
    let (status, told) = turn(&node, "s").await;
    assert!(
        status >= 400 && told.to_string().contains("piton auth login openai-codex main"),
        "{told}"
    );
    assert!(node.log().contains("credential_needs_login"));
    // Somebody does it.
    let (status, told) = act(&node, "rotate", "main", ("login", issuer.login(3_600).json())).await;
    assert_eq!(status, 200, "{told}");
    until(&node, "main", "healthy").await;
    assert_eq!(turn(&node, "u").await.0, 200);
    waits(&node, 0).await;
    secret(folder.path(), &issuer);
}

#[tokio::test]
async fn two_processes_with_one_file_of_credentials_refresh_once() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let shared = folder.path().join("shared.json").display().to_string();
    let more = [("PITON_CREDENTIALS_PATH", shared.as_str())];
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = node(homes[0].path(), &issuer, &more).await;
    assert_eq!(act(&first, "add", "main", ("login", issuer.login(-60).json())).await.0, 201);
    let second = node(homes[1].path(), &issuer, &more).await;
    let nodes = [&first, &second];
    for node in nodes {
        until(node, "main", "healthy").await;
    }
    let all = (0..8).map(|nth| async move { turn(nodes[nth % 2], &format!("s{nth}")).await });
    for (status, told) in futures_util::future::join_all(all).await {
        assert_eq!(status, 200, "{told}");
    }
    assert_eq!(issuer.refreshes(), 1);
}

#[tokio::test]
async fn a_followed_login_is_read_anew_and_never_refreshed() {
    let (issuer, folder) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let mut node = node(folder.path(), &issuer, &[]).await;
    let home = node.data.join(".codex");
    std::fs::create_dir(&home).unwrap();
    let file = home.join("auth.json");
    let write = |text: &str| store::private::write(&file, text).unwrap();
    write(&issuer.login(-60).codex());
    let words = ["auth", "import", "codex", "--follow"];
    let (exit, told) = ended(piton(&node, &issuer, &words), None).await;
    assert!(exit == Some(0) && told.contains("openai-codex codex follows"), "{exit:?} {told}");
    let one = wait_for("it is known", || profile(&node, "codex")).await;
    assert_eq!(one["kind"], "oauth_followed", "{one}");
    assert!(one["mend"].as_str().unwrap().contains("codex"), "{one}");
    // Its token has ended, and the one who refreshes it has not done so.
    let (status, told) = turn(&node, "s").await;
    assert!(status >= 400, "{told}");
    // Codex has.
    write(&issuer.login(3_600).codex());
    let (status, told) = turn(&node, "t").await;
    assert_eq!(status, 200, "{told}");
    // The provider takes the token back: the file is looked at once more, and there is another one.
    issuer.revoke();
    write(&issuer.login(3_600).codex());
    let (status, told) = turn(&node, "u").await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(issuer.refreshes(), 0);
    assert!(!node.log().contains("planted"));
    // A copy is refreshed here, and its file must be its owner's alone.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let copy = ["auth", "import", "codex", "--profile", "copy"];
    let (exit, told) = ended(piton(&node, &issuer, &copy), None).await;
    assert!(exit != Some(0) && told.contains("chmod 600"), "{told}");
    write(r#"{"OPENAI_API_KEY": "sk-planted", "tokens": null}"#);
    let (exit, told) = ended(piton(&node, &issuer, &copy), None).await;
    assert!(exit == Some(2) && told.contains("codex login"), "{told}");
    assert!(!told.contains("planted"), "{told}");
    let elsewhere = node.data.join("elsewhere.json");
    store::private::write(&elsewhere, &issuer.login(-60).codex()).unwrap();
    let copy = [&copy[..], &["--path", elsewhere.to_str().unwrap()]].concat();
    let (exit, told) = ended(piton(&node, &issuer, &copy), None).await;
    assert!(exit == Some(0) && told.contains("Codex must log in anew"), "{exit:?} {told}");
    assert_eq!(profile(&node, "copy").await.unwrap()["kind"], "oauth");
    assert!(node.stop().await.success());
}

#[tokio::test]
async fn two_nodes_refresh_one_token_once() {
    let issuer = Issuer::start().await;
    let told = issuer.variables();
    let told: Vec<(&str, &str)> = told.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let two = Two::new(&store::vault::keys::draw("old").unwrap(), &told).await;
    let nodes = &two.nodes;
    let added = act(&nodes[0], "add", "main", ("login", issuer.login(-60).json())).await;
    assert_eq!(added.0, 201, "{}", added.1);
    for node in nodes {
        until(node, "main", "healthy").await;
    }
    let all = (0..8).map(|nth| async move { turn(&nodes[nth % 2], &format!("s{nth}")).await });
    for (status, told) in futures_util::future::join_all(all).await {
        assert_eq!(status, 200, "{told}");
    }
    assert_eq!(issuer.refreshes(), 1);
    // Both know that there is a new one, and use it.
    let until_known = async |node: &Node| {
        wait_for("it is known", || async {
            profile(node, "main").await.filter(|one| one["revision"].as_u64() > Some(1))
        })
        .await
    };
    let (one, other) = (until_known(&nodes[0]).await, until_known(&nodes[1]).await);
    assert_eq!(one["revision"], other["revision"]);
    // A file is one machine's: no node of a cluster follows one.
    let (status, told) = act(&nodes[0], "add", "codex", ("follow", json!("/x/auth.json"))).await;
    assert!(status == 400 && told.to_string().contains("--follow"), "{told}");
    for node in nodes {
        assert!(!node.log().contains("planted"));
    }
}
