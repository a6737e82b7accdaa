//! A node that is stopped in the middle of an effect: what it was about to send is never sent, what it had done is
//! nowhere believed, and the one that takes over says to the model what nobody knows.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tests::Node;
use tests::nats::{Nats, Sync};
use tests::process::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The dispatch window and a little more.
const WINDOW: Duration = Duration::from_millis(events::leave::DISPATCH_WINDOW.0 + 100);

/// A door to the scripted model that counts the requests which come through it: what one node really sent.
struct Door {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Door {
    async fn to(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let inside = model.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap().to_owned();
        let requests = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let (outer, _) = listener.accept().await.unwrap();
                let inner = TcpStream::connect(&inside).await.unwrap();
                tokio::spawn(pass(outer, inner, Arc::clone(&counts)));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn pass(outer: TcpStream, inner: TcpStream, requests: Arc<AtomicUsize>) {
    let (mut from_node, mut to_node) = outer.into_split();
    let (mut from_model, mut to_model) = inner.into_split();
    let there = async {
        let mut piece = [0; 16_384];
        while let Ok(count @ 1..) = from_node.read(&mut piece).await {
            // A node writes one request at a time to a connection, and its head first.
            requests.fetch_add(usize::from(piece.starts_with(b"POST ")), Ordering::SeqCst);
            if to_model.write_all(&piece[..count]).await.is_err() {
                break;
            }
        }
    };
    let back = async { tokio::io::copy(&mut from_model, &mut to_node).await };
    tokio::select! {
        () = there => (),
        _ = back => (),
    }
}

/// Nodes over one server, each with a drill of its own and a door of its own to one scripted model.
struct Nodes {
    nodes: Vec<Node>,
    doors: Vec<Door>,
    folders: Vec<TempDir>,
    _nats: Nats,
}

impl Nodes {
    async fn of(count: usize) -> Self {
        let nats = Nats::one(Sync::Always).await;
        let model =
            gateway::scripted::talk().await.unwrap().base_url(providers::Family::OpenaiChat);
        let (urls, monitors) = (nats.urls().join(","), nats.monitors().join(","));
        let (mut nodes, mut doors, mut folders) = (vec![], vec![], vec![]);
        for nth in 0..count {
            let (folder, door) = (tempfile::tempdir().unwrap(), Door::to(&model).await);
            std::fs::write(folder.path().join("FAULTS-ALLOWED"), "").unwrap();
            let drill = folder.path().join("drill");
            std::fs::create_dir(&drill).unwrap();
            let (name, drill) = (format!("n{nth}"), drill.to_str().unwrap().to_owned());
            let words = ["--nats", &urls, "--nats-monitor", &monitors, "--node", &name];
            let words = [&words[..], &["--faults", &drill]].concat();
            let variables = [
                ("PITON_NATS_SHARD_BYTES_MAX", "134217728"),
                ("PITON_OPENAI_BASE_URL", &door.url),
                ("OPENAI_API_KEY", "dummy"),
            ];
            nodes.push(Node::start(folder.path(), &words, &variables).await);
            doors.push(door);
            folders.push(folder);
        }
        let all = Self { nodes, doors, folders, _nats: nats };
        all.settled(count).await;
        all
    }

    /// So many nodes see each other, and each serves its share.
    async fn settled(&self, count: usize) {
        for node in &self.nodes {
            wait_for("every node has its share", || async {
                let (_, list) = node.get("/v1/nodes").await;
                let (ready, _) = node.get("/health/ready").await;
                (list["count"] == count && ready == 200).then_some(())
            })
            .await;
        }
    }

    /// A run that node 0 owns: new roots live where they are asked for.
    async fn run(&self, input: &str) -> String {
        let asked = json!({"input": input, "model": "openai:demo"});
        self.nodes[0].start_run(&asked).await
    }

    fn drill(&self, file: &str) -> PathBuf {
        self.folders[0].path().join("drill").join(file)
    }

    /// Holds what comes to a point of node 0.
    fn hold(&self, point: &str, what: &str) {
        std::fs::write(self.drill(point), what).unwrap();
    }

    fn release(&self, point: &str) {
        std::fs::remove_file(self.drill(point)).unwrap();
    }

    /// Waits until this run's effect is held.
    async fn reached(&self, point: &str, what: &str, run: &str) {
        let file = self.drill(&format!("{point}.reached"));
        wait_for(&format!("{what} of {run} is at {point}"), || async {
            let text = std::fs::read_to_string(&file).ok()?;
            (text.starts_with(what) && text.contains(run)).then_some(())
        })
        .await;
    }

    /// The lines that a node's notes have.
    fn notes(&self, nth: usize) -> Vec<String> {
        let file = self.folders[nth].path().join("notes.txt");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().map(|line| line.split_once('\t').unwrap().1.to_owned()).collect()
    }
}

fn count(events: &[String], name: &str) -> usize {
    events.iter().filter(|one| *one == name).count()
}

fn output(run: &Value) -> &str {
    run["output"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_waited_longer_than_its_window_is_not_sent_and_everybody_is_told() {
    let all = Nodes::of(1).await;
    let node = &all.nodes[0];
    all.hold("before_first_byte", "model");
    let asked = all.run("hello").await;
    all.reached("before_first_byte", "model", &asked).await;
    tokio::time::sleep(WINDOW).await;
    assert_eq!(all.doors[0].requests(), 0);
    // From here on only tools are held: the call is refused, and asked again at once without anybody's doing.
    all.hold("before_first_byte", "tool");
    let ended = node.ended(&asked).await;
    assert_eq!((&ended["outcome"], &ended["model_calls"]), (&json!("completed"), &json!(1)));
    let events = node.events(&asked).await;
    let wanted = ["queued", "started", "model_asked", "model_not_sent", "model_asked"];
    assert_eq!(events[..5], wanted, "{events:?}");
    assert_eq!((events.len(), all.doors[0].requests()), (7, 1), "{events:?}");
    let (_, listed) = node.get("/v1/runs").await;
    assert_eq!(listed["data"][0]["model_calls"], 1, "{listed}");

    let noted = all.run("note: rope").await;
    all.reached("before_first_byte", "tool", &noted).await;
    tokio::time::sleep(WINDOW).await;
    all.release("before_first_byte");
    let ended = node.ended(&noted).await;
    assert!(output(&ended).contains("NOT executed"), "{ended}");
    assert_eq!((&ended["outcome"], all.notes(0)), (&json!("completed"), vec![]));
    let events = node.events(&noted).await;
    assert_eq!((count(&events, "tool_not_sent"), count(&events, "tool_unknown")), (1, 0));
    let metrics = node.ask(reqwest::Method::GET, "/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("piton_effects_not_sent_total{cause=\"too_late\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_stopped_owner_sends_nothing_when_it_goes_on_after_another_took_over() {
    let all = Nodes::of(2).await;
    let [owner, other] = &all.nodes[..] else { panic!() };
    // One has done its effect and not recorded it; one is about to call a tool, and one is about to ask the model.
    all.hold("before_outcome", "tool");
    let done = all.run("note: done").await;
    all.reached("before_outcome", "tool", &done).await;
    all.hold("before_first_byte", "tool");
    let tool = all.run("note: never").await;
    all.reached("before_first_byte", "tool", &tool).await;
    all.hold("before_first_byte", "tool model");
    let model = all.run("hello").await;
    all.reached("before_first_byte", "model", &model).await;
    assert_eq!((all.notes(0), all.doors[0].requests()), (vec!["done".to_owned()], 2));
    owner.pause();
    for run in [&model, &tool, &done] {
        wait_for("another took over and ended the run", || async {
            let (status, found) = other.get(&format!("/v1/runs/{run}")).await;
            (status == 200 && found["outcome"].is_string()).then_some(())
        })
        .await;
    }
    wait_for("the other is alone and serves all", || async {
        let (_, list) = other.get("/v1/nodes").await;
        (list["count"] == 1 && list["data"][0]["serves"] == 64).then_some(())
    })
    .await;
    let mut journals = vec![];
    for (run, unknown) in
        [(&tool, "tool_unknown"), (&done, "tool_unknown"), (&model, "model_unknown")]
    {
        let events = other.events(run).await;
        assert_eq!((count(&events, unknown), count(&events, "tool_receipt")), (1, 0), "{events:?}");
        let ended = other.ended(run).await;
        assert_eq!(ended["outcome"], "completed", "{ended}");
        assert_eq!(output(&ended).contains("outcome unknown"), run != &model, "{ended}");
        journals.push(other.journal(run).await);
    }
    assert_eq!(all.doors[1].requests(), 3, "two are told what is unknown, one is asked again");

    all.release("before_first_byte");
    all.release("before_outcome");
    owner.resume();
    wait_for("it sees that it owns nothing any more", || async {
        owner.log().contains("not owned any more").then_some(())
    })
    .await;
    // It owns its share again, and nothing came of what it had in its hands.
    all.settled(2).await;
    for (run, journal) in [&tool, &done, &model].into_iter().zip(journals) {
        assert_eq!(owner.journal(run).await, journal);
    }
    assert_eq!((all.notes(0), all.notes(1)), (vec!["done".to_owned()], vec![]));
    assert_eq!((all.doors[0].requests(), all.doors[1].requests()), (2, 3));
    for what in ["tool", "model"] {
        wait_for(&format!("the {what} call is reported as not sent"), || async {
            let (log, effect) = (owner.log(), format!("effect=\"{what}\""));
            let said = |line: &str| line.contains("effect_not_sent") && line.contains(&effect);
            log.lines().any(said).then_some(())
        })
        .await;
    }
}
