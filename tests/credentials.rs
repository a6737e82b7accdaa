//! Several profiles for one provider: added, pinned, left alone, given up and mended, on one node and on two.

use crate::keyed::Upstream;
use actors::credentials::stored;
use reqwest::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use store::vault::{CredentialFile, Name, Revision, Vault};
use tempfile::TempDir;
use tests::Node;
use tests::nats::{Nats, Sync};
use tests::process::{answer, command, json as body, wait_for};

async fn add(node: &Node, profile: &str, key: &str) {
    let asked = json!({"provider": "openai", "profile": profile, "key": key});
    let (status, told) = node.post("/v1/harness/credentials", &asked).await;
    assert_eq!(status, 201, "{told}");
    assert!(!told.to_string().contains(key), "{told}");
}

async fn act(node: &Node, action: &str, profile: &str) -> Value {
    let asked = json!({"action": action, "provider": "openai", "profile": profile});
    let (status, told) = node.post("/v1/harness/credentials", &asked).await;
    assert_eq!(status, 200, "{told}");
    told["profile"].clone()
}

/// What a node says of one profile.
async fn profile(node: &Node, name: &str) -> Option<Value> {
    let (_, list) = node.get("/v1/harness/providers").await;
    let providers = list["data"].as_array()?.clone();
    let openai = providers.into_iter().find(|one| one["id"] == "openai")?;
    openai["profiles"].as_array()?.iter().find(|one| one["name"] == name).cloned()
}

async fn until(node: &Node, name: &str, state: &str) -> Value {
    wait_for(&format!("{name} is {state}"), || async {
        profile(node, name).await.filter(|one| one["state"] == state)
    })
    .await
}

/// One turn in a session, and its status.
async fn turn(node: &Node, session: &str) -> (u16, Value) {
    let request = node.ask(Method::POST, "/v1/chat/completions");
    let request = request.header("x-piton-session-id", session);
    let asked =
        json!({"model": "openai:gpt-x", "messages": [{"role": "user", "content": "hello"}]});
    answer(body(request, &asked)).await
}

/// Nothing below a folder holds a text, but for one file.
pub fn nowhere_but(folder: &Path, text: &str, but: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            nowhere_but(&path, text, but);
        } else if !path.ends_with(but) {
            let bytes = std::fs::read(&path).unwrap();
            let holds = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!holds, "{text} stands in {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_session_keeps_its_profile_and_a_key_that_is_named_dead_is_used_no_more() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let base = [("PITON_OPENAI_BASE_URL", upstream.url())];
    let base: Vec<(&str, &str)> = base.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let mut node = Node::start(folder.path(), &[], &base).await;
    add(&node, "one", "sk-planted-one").await;
    add(&node, "two", "sk-planted-two").await;
    until(&node, "two", "healthy").await;
    let twice = json!({"provider": "openai", "profile": "one", "key": "sk-planted-other"});
    let (status, told) = node.post("/v1/harness/credentials", &twice).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("credential_conflict")));
    // Each session asks with one key, and both are used.
    let mut of_session: Vec<String> = vec![];
    for nth in 0..12 {
        assert_eq!(turn(&node, &format!("s{nth}")).await.0, 200);
        of_session.push(upstream.last_key());
    }
    assert!(of_session.contains(&"sk-planted-one".to_owned()), "{of_session:?}");
    assert!(of_session.contains(&"sk-planted-two".to_owned()), "{of_session:?}");
    let pinned = of_session.iter().position(|key| key == "sk-planted-one").unwrap();

    // The provider says that the first one is revoked.
    upstream.answer(
        "sk-planted-one",
        401,
        &[],
        r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
    );
    let (_, _told) = turn(&node, &format!("t{pinned}")).await;
    for nth in 0..12 {
        let _any = turn(&node, &format!("u{nth}")).await;
    }
    let dead = until(&node, "one", "dead").await;
    assert_eq!(dead["reason"], "named");
    for nth in 0..12 {
        assert_eq!(turn(&node, &format!("v{nth}")).await.0, 200);
        assert_eq!(upstream.last_key(), "sk-planted-two");
    }
    // It stays dead over a restart, until somebody says otherwise.
    assert!(node.stop().await.success());
    drop(node);
    let node = Node::start(folder.path(), &[], &base).await;
    until(&node, "one", "dead").await;
    assert_eq!(act(&node, "revive", "one").await["state"], "healthy");
    assert_eq!(act(&node, "mark_dead", "two").await["reason"], "by_hand");

    let file = folder.path().join("credentials.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    nowhere_but(folder.path(), "sk-planted", "credentials.json");
    let gone = node.ask(Method::DELETE, "/v1/harness/credentials?provider=openai&profile=two");
    assert_eq!(answer(gone).await.0, 204);
    wait_for("it is gone", || async { profile(&node, "two").await.is_none().then_some(()) }).await;
    assert!(!std::fs::read_to_string(&file).unwrap().contains("sk-planted-two"));
    drop(node);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let (status, said) = Node::refused(folder.path(), &[]).await;
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("chmod 600"), "{said}");
}

/// What a process leaves that died between the vault and the journal.
#[tokio::test]
async fn a_value_that_nobody_recorded_is_in_the_way_by_name_and_a_later_one_is_met_by_the_next_start()
 {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let url = upstream.url();
    let base = [("PITON_OPENAI_BASE_URL", url.as_str())];
    let mut node = Node::start(folder.path(), &[], &base).await;
    let vault = Vault::File(CredentialFile::at(&node.data.join("credentials.json")));
    let name = Name::of_credential("openai", "half").unwrap();
    vault.put(&name, &stored("sk-planted-half"), Revision::NONE).await.unwrap();
    let asked = json!({"provider": "openai", "profile": "half", "key": "sk-planted-mine"});
    let (status, told) = node.post("/v1/harness/credentials", &asked).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("credential_conflict")), "{told}");
    assert!(told.to_string().contains("piton auth rm openai half"), "{told}");
    let gone = "/v1/harness/credentials?provider=openai&profile=half";
    assert_eq!(answer(node.ask(Method::DELETE, gone)).await.0, 204);
    add(&node, "half", "sk-planted-mine").await;
    until(&node, "half", "healthy").await;
    assert_eq!((turn(&node, "s").await.0, upstream.last_key()), (200, "sk-planted-mine".into()));

    // Another key was put there, and nobody said so: the profile that the old one had made dead goes on with it.
    act(&node, "mark_dead", "half").await;
    let kept = vault.get(&name).await.unwrap().unwrap();
    let later = vault.put(&name, &stored("sk-planted-later"), kept.revision).await.unwrap();
    assert!(node.stop().await.success());
    drop(node);
    let node = Node::start(folder.path(), &[], &base).await;
    let half = until(&node, "half", "healthy").await;
    assert_eq!(half["revision"], later.0, "{half}");
    assert_eq!((turn(&node, "t").await.0, upstream.last_key()), (200, "sk-planted-later".into()));
}

#[tokio::test]
async fn a_key_comes_from_standard_input_or_a_variable_and_never_from_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let piton = |words: &[&str], input: &str| {
        use std::io::Write;
        let mut command = command(folder.path());
        command
            .args(words)
            .args(["--url", &node.url])
            .env("PITON_API_KEY", tests::process::ADMIN_KEY);
        command.env("WORK_KEY", "sk-planted-work");
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (exit, said) = piton(&["auth", "add", "openai", "main"], "sk-planted-main\n");
    assert_eq!(exit, Some(0), "{said}");
    let (exit, said) = piton(&["auth", "add", "openai", "work", "--from-env", "WORK_KEY"], "");
    assert!(exit == Some(0) && !said.contains("planted"), "{said}");
    assert_ne!(piton(&["auth", "add", "openai", "x", "--from-env", "NOT_SET"], "").0, Some(0));
    assert_eq!(piton(&["auth", "add", "openai", "main", "sk-planted-argument"], "").0, Some(2));
    let (exit, said) = piton(&["auth", "rotate", "openai", "main"], "sk-planted-second");
    assert_eq!(exit, Some(0), "{said}");
    let (exit, said) = piton(&["auth", "mark-dead", "openai", "work"], "");
    assert!(exit == Some(0) && said.contains("by_hand"), "{said}");
    let (exit, said) = piton(&["auth", "ls", "--json"], "");
    assert!(exit == Some(0) && said.contains("\"work\"") && !said.contains("planted"), "{said}");
    assert_eq!(piton(&["auth", "rm", "openai", "work"], "").0, Some(0));
    let elsewhere = folder.path().join("other.json");
    let other = r#"{"version":1,"credentials":{"xai":{"a":{"value":{"kind":"api_key","key":"sk-planted-xai"}}}}}"#;
    store::private::write(&elsewhere, other).unwrap();
    let (exit, said) = piton(&["auth", "import", elsewhere.to_str().unwrap()], "");
    assert!(exit == Some(0) && said.contains("1 added"), "{said}");
    // What was added while the node runs is served: nobody starts it anew for a login.
    let (_, models) = node.get("/v1/models").await;
    assert!(models.to_string().contains("openai:"), "{models}");
    let text = std::fs::read_to_string(folder.path().join("credentials.json")).unwrap();
    assert!(text.contains("sk-planted-second") && !text.contains("sk-planted-main"), "{text}");
}

/// A file that somebody wrote: a name that the rules refuse comes before one that they take.
#[tokio::test]
async fn a_name_that_is_refused_keeps_no_other_from_being_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a".repeat(40);
    let text = json!({"version": 1, "credentials": {"openai": {
        &long: {"value": {"key": "sk-planted-long"}}, "z": {"value": {"key": "sk-planted-z"}},
    }}});
    let file = folder.path().join("credentials.json");
    std::fs::write(&file, text.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let node = Node::start(folder.path(), &["--demo"], &[]).await;
    until(&node, "z", "healthy").await;
    assert!(profile(&node, &long).await.is_none());
    let refused = || node.log().matches("credential_not_adopted").count();
    wait_for("the refusal is told", || async { (refused() > 0).then_some(()) }).await;
    // It is passed over for good and not asked again every second.
    assert!(!node.log().contains("credentials_not_adopted yet"), "{}", node.log());
    assert_eq!(refused(), 1);
}

/// Two nodes with a vault, over one server and one provider.
pub struct Two {
    upstream: Upstream,
    _nats: Nats,
    _folders: [TempDir; 2],
    pub nodes: [Node; 2],
    keys: [std::path::PathBuf; 2],
}

impl Two {
    pub async fn new(lines: &str, more: &[(&str, &str)]) -> Self {
        let (upstream, nats) = (Upstream::start().await, Nats::one(Sync::Always).await);
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let keys = [0, 1].map(|nth: usize| {
            let path = folders[nth].path().join("cluster.key");
            store::private::write(&path, lines).unwrap();
            path
        });
        let start = async |nth: usize| {
            let (urls, monitors) = (nats.urls().join(","), nats.monitors().join(","));
            let (name, key) = (format!("n{nth}"), keys[nth].display().to_string());
            let words = [
                "--nats",
                &urls,
                "--nats-monitor",
                &monitors,
                "--node",
                &name,
                "--cluster-key",
                &key,
            ];
            let url = upstream.url();
            let told = [
                ("PITON_NATS_SHARD_BYTES_MAX", "134217728"),
                ("PITON_LIMITS_DRAIN_SECONDS", "5"),
                ("PITON_OPENAI_BASE_URL", url.as_str()),
            ];
            Node::start(folders[nth].path(), &words, &[&told[..], more].concat()).await
        };
        let nodes = [start(0).await, start(1).await];
        for node in &nodes {
            wait_for("both have their share", || async {
                let (_, list) = node.get("/v1/nodes").await;
                (list["count"] == 2 && node.get("/health/ready").await.0 == 200).then_some(())
            })
            .await;
        }
        Self { upstream, _nats: nats, _folders: folders, nodes, keys }
    }
}

#[tokio::test]
async fn a_profile_that_cools_on_one_node_is_left_alone_on_all_within_a_second() {
    let old = store::vault::keys::draw("old").unwrap();
    let two = Two::new(&old, &[]).await;
    let [first, second] = &two.nodes;
    add(first, "one", "sk-planted-one").await;
    until(second, "one", "healthy").await;
    // The other node has the secret from the vault.
    assert_eq!(turn(second, "a").await.0, 200);
    assert_eq!(two.upstream.last_key(), "sk-planted-one");
    add(second, "two", "sk-planted-two").await;
    until(first, "two", "healthy").await;

    let limit = r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#;
    two.upstream.answer("sk-planted-one", 429, &[("retry-after", "600")], limit);
    // Some session is pinned to it.
    let mut nth = 0;
    let cooled = loop {
        let _any = turn(first, &format!("b{nth}")).await;
        nth += 1;
        let seen = profile(first, "one").await.unwrap();
        if seen["cooling"].as_array().is_some_and(|all| !all.is_empty()) {
            break Instant::now();
        }
        assert!(nth < 40, "no session asked with the first key: {seen}");
    };
    let seen = wait_for("the other node knows", || async {
        let seen = profile(second, "one").await?;
        (!seen["cooling"].as_array()?.is_empty()).then_some(seen)
    })
    .await;
    let after = cooled.elapsed();
    assert!(after < Duration::from_secs(1), "{after:?}");
    let cooling = &seen["cooling"][0];
    assert_eq!((&cooling["scope"], &cooling["model"]), (&json!("model"), &json!("gpt-x")));
    assert_eq!(cooling["reason"], "rate_limited");
    assert!(cooling["next_try"].is_string(), "{cooling}");
    two.upstream.forget();
    for nth in 0..12 {
        assert_eq!(turn(second, &format!("c{nth}")).await.0, 200);
    }
    assert_eq!(two.upstream.keys(), ["sk-planted-two"], "nobody asks with the one that cools");

    // The cluster's key is rotated while both serve.
    let both = format!("{}\n{old}", store::vault::keys::draw("new").unwrap());
    for path in &two.keys {
        store::private::write(path, &both).unwrap();
    }
    let (status, done) = second.post("/v1/cluster/rotate-key", &json!({})).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!((&done["key"], &done["values"]), (&json!("new"), &json!(2)));
    assert_eq!((&done["resealed"], &done["droppable"]), (&json!(2), &json!(["old"])));
    add(first, "three", "sk-planted-three").await;
    until(second, "three", "healthy").await;
    for node in &two.nodes {
        let (_, list) = node.get("/v1/harness/providers").await;
        assert!(list["lag_ms"].as_u64().unwrap() < 1_500, "{list}");
        assert!(!node.log().contains("sk-planted"));
    }
}
