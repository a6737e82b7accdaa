//! A node as a process: started on a folder of its own and a port that the system gives, killed without a word.

use reqwest::{Client, Method, RequestBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The administrator's key of every node of the stories.
pub const ADMIN_KEY: &str = "test-admin-key-0123456789";
/// How long a story waits for a state before it fails.
const PATIENCE: u64 = 30;

/// How long a story waits for what it waits for; `PITON_TEST_PATIENCE_SECONDS` overrides it, for a lane of hours on a
/// machine that does other work too.
///
/// # Panics
///
/// When the variable is no number.
#[must_use]
pub fn patience() -> Duration {
    let said = std::env::var("PITON_TEST_PATIENCE_SECONDS");
    Duration::from_secs(said.map_or(PATIENCE, |seconds| seconds.parse().expect("seconds")))
}
/// Between two looks at a state.
const LOOK: Duration = Duration::from_millis(20);

/// A node that runs, until it is killed or dropped.
pub struct Node {
    child: Child,
    /// Its folder.
    pub data: PathBuf,
    /// Where it answers.
    pub url: String,
    client: Client,
}

/// The binary: `PITON_BIN`, else the one that was built with the tests.
pub fn binary() -> PathBuf {
    std::env::var_os("PITON_BIN").map_or_else(built, PathBuf::from)
}

fn built() -> PathBuf {
    let mut folder = std::env::current_exe().expect("the test's own path");
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    folder.join("node")
}

/// The command with the environment of a stranger's shell: no keys, no settings.
pub fn command(data: &Path) -> Command {
    let mut command = Command::new(binary());
    command.env_clear().env("HOME", data).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PITON_ADMIN_KEY", ADMIN_KEY).env("PITON_DATA_DIR", data);
    command
}

impl Node {
    /// Starts `serve --demo` and waits until it is ready.
    pub async fn demo(data: &Path) -> Self {
        Self::start(data, &["--demo"], &[]).await
    }

    /// Starts `serve` with more arguments and variables, and waits until it is ready.
    pub async fn start(data: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let note = data.join("node.json");
        let _old = std::fs::remove_file(&note);
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(data.join("log.txt"))
            .expect("a log");
        let mut command = command(data);
        command
            .args(["serve", "--bind", "127.0.0.1:0"])
            .args(arguments)
            .envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("the node starts");
        let asks = client();
        let mut node = Self { child, data: data.to_owned(), url: String::new(), client: asks };
        let what = "the node is ready";
        let ready = wait_for(what, || async {
            let text = std::fs::read_to_string(&note).ok()?;
            let url = serde_json::from_str::<Value>(&text).ok()?["url"].as_str()?.to_owned();
            let ready = client().get(format!("{url}/health/ready")).send().await.ok()?;
            ready.status().is_success().then_some(url)
        });
        tokio::select! {
            url = ready => node.url = url,
            status = gone(&mut node.child) => panic!("the node ended ({status}): {}", node.log()),
        }
        node
    }

    /// Starts `serve`, expects that it ends by itself, and returns how and what it said.
    pub async fn refused(data: &Path, arguments: &[&str]) -> (ExitStatus, String) {
        let mut command = command(data);
        command.args(["serve", "--bind", "127.0.0.1:0"]).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().expect("it runs"))
            .await
            .expect("it ends");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// SIGKILL, and gone.
    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// SIGTERM; waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.died().await
    }

    /// SIGSTOP: it stands still, whatever it is at.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT: it goes on where it stood.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a signal");
    }

    /// Waits until it has died by itself.
    pub async fn died(&mut self) -> ExitStatus {
        tokio::time::timeout(patience(), gone(&mut self.child))
            .await
            .unwrap_or_else(|_| panic!("it still runs: {}", self.log()))
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to its streams.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.data.join("log.txt")).unwrap_or_default()
    }

    /// A request with the administrator's key.
    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(ADMIN_KEY)
    }

    /// GET, and the JSON of the answer with its status.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.ask(Method::GET, path)).await
    }

    /// POST, and the JSON of the answer with its status.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(json(self.ask(Method::POST, path), body)).await
    }

    /// Starts a run and returns its id.
    pub async fn start_run(&self, body: &Value) -> String {
        let (status, run) = self.post("/v1/runs", body).await;
        assert_eq!(status, 202, "{run}");
        run["run_id"].as_str().expect("an id").to_owned()
    }

    /// Waits until a run has ended.
    pub async fn ended(&self, run: &str) -> Value {
        wait_for(&format!("{run} ends"), || async {
            let (_, found) = self.get(&format!("/v1/runs/{run}")).await;
            found["outcome"].is_string().then_some(found)
        })
        .await
    }

    /// The run's commits, oldest first.
    pub async fn journal(&self, run: &str) -> Vec<Value> {
        let text = self
            .ask(Method::GET, &format!("/v1/runs/{run}/journal"))
            .send()
            .await
            .expect("an answer");
        let text = text.text().await.expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The names of a run's events, in order.
    pub async fn events(&self, run: &str) -> Vec<String> {
        let name = |entry: &Value| entry["name"].as_str().expect("a name").to_owned();
        let commits = self.journal(run).await;
        commits
            .iter()
            .flat_map(|commit| commit["entries"].as_array().expect("entries").iter().map(name))
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking()
            && let Err(why) = crate::audit::audit(&self.data)
        {
            panic!("the story is over, but its journal is not as it should be: {why}");
        }
    }
}

/// A client of HTTP that asks the node and nobody in between.
pub fn client() -> Client {
    // Set by whichever test of the process comes first.
    let _set = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().expect("a client")
}

/// A body of JSON.
pub fn json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

/// The status of an answer and its JSON; text that is none becomes a string.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn gone(child: &mut Child) -> ExitStatus {
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Looks until a state shows, or fails.
pub async fn wait_for<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let deadline = Instant::now() + patience();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {:?} and never: {what}", patience());
        tokio::time::sleep(LOOK).await;
    }
}
