//! `just cluster`: three servers and three nodes on this machine, and nothing of them left afterwards.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tests::process::{binary, client, wait_for};

/// The script, and what it printed once everything ran. Interrupted when it is dropped, for it has children.
struct Cluster {
    child: Child,
    printed: String,
}

impl Cluster {
    fn start(home: &Path) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new(root.join("deploy/cluster.sh"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("TMPDIR", home).env("PITON_BIN", binary());
        command.env("PITON_TEST_NATS_SERVER", tests::nats::binary());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut cluster = Self { child, printed: String::new() };
        for line in lines.map_while(Result::ok) {
            cluster.printed += &(line.clone() + "\n");
            if line.starts_with("Stop everything") {
                return cluster;
            }
        }
        panic!("it ended: {}", cluster.printed);
    }

    /// What stands behind each of these words, up to a blank or a bracket.
    fn after(&self, word: &str) -> Vec<&str> {
        let parts = self.printed.split(word).skip(1);
        parts.map(|part| part.split([' ', ')', '\n']).next().unwrap_or_default()).collect()
    }

    fn interrupt(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        let _gone = kill_process(pid, Signal::INT);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.interrupt();
        let _ended = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_on_one_machine_answers_on_every_node_and_leaves_nothing() {
    let home = TempDir::new().unwrap();
    let folder = home.path().to_owned();
    let mut cluster = tokio::task::spawn_blocking(move || Cluster::start(&folder)).await.unwrap();
    let [key] = cluster.after("export PITON_API_KEY=")[..] else { panic!("{}", cluster.printed) };
    let lines = cluster.printed.lines().filter_map(|line| line.split_once(" (pid "));
    let nodes: Vec<&str> = lines.filter_map(|(before, _)| before.split(' ').next_back()).collect();
    assert_eq!(nodes.len(), 3, "{}", cluster.printed);
    for node in &nodes {
        wait_for("a node answers", || async {
            let ask = client().post(format!("{node}/v1/chat/completions")).bearer_auth(key);
            let body = json!({"model": "demo", "messages": [{"role": "user", "content": "hello"}]});
            let answer = ask.body(body.to_string()).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }
    let pids: Vec<i32> = cluster.after("(pid ").iter().map(|pid| pid.parse().unwrap()).collect();
    let servers: Vec<i32> =
        cluster.after("kill -9 ").iter().map(|pid| pid.parse().unwrap()).collect();
    cluster.interrupt();
    let ended = tokio::task::spawn_blocking(move || cluster.child.wait().unwrap().code()).await;
    assert_eq!(ended.unwrap(), Some(130));
    for pid in pids.into_iter().chain(servers) {
        assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err(), "{pid} still runs");
    }
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().filter_map(Result::ok).collect();
    assert!(
        left.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with("tmp.")),
        "{left:?}"
    );
}
