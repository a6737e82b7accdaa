//! A node whose tools look outside, at a site that the story plays; and what the stories of the broker ask of it.

use crate::process::{answer, json as body, wait_for};
use crate::{Node, site::Site};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

/// What one look outside is called.
pub const FETCH: &str = "http_fetch";

/// A node, its folder and the site.
pub struct Brokered {
    /// The node.
    pub node: Node,
    /// What its tools look at.
    pub site: Site,
    /// The node's folder.
    pub folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Brokered {
    /// With the web open as far as the site, and nothing ruled about single tools.
    pub async fn start() -> Self {
        Self::over_web("").await
    }

    /// The same with more of `piton.toml`.
    pub async fn over_web(rules: &str) -> Self {
        let site = Site::start().await;
        let search =
            format!("[tools.web_search]\nbackend = \"searxng\"\nbase_url = \"{}\"\n", site.url);
        let open = "[tools.outbound]\nallow = [\"127.0.0.1\"]\nallow_private = [\"127.0.0.1\"]\n";
        Self::of(site, &format!("{open}{search}{rules}"), &[]).await
    }

    /// With the web closed, this `piton.toml` and this environment.
    pub async fn ruled(rules: &str, variables: &[(&str, &str)]) -> Self {
        Self::of(Site::start().await, rules, variables).await
    }

    /// A file in `drill` of the data folder holds what comes to the point that it is named after.
    async fn of(site: Site, rules: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("piton.toml"), rules).expect("a file");
        std::fs::write(folder.path().join("FAULTS-ALLOWED"), "").expect("a file");
        std::fs::create_dir(folder.path().join("drill")).expect("a folder");
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let node = Self::begin(&folder, &variables).await;
        Self { node, site, folder, variables }
    }

    async fn begin(folder: &TempDir, variables: &[(String, String)]) -> Node {
        let drill = folder.path().join("drill").display().to_string();
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Node::start(folder.path(), &["--demo", "--faults", &drill], &variables).await
    }

    /// SIGKILL. Nothing is held any more when it starts again.
    pub fn kill(&mut self) {
        self.node.kill();
        for file in std::fs::read_dir(self.folder.path().join("drill")).expect("a folder") {
            std::fs::remove_file(file.expect("a file").path()).expect("a file that goes");
        }
    }

    /// A new life in the same folder. No command is sent.
    pub async fn rise(&mut self) {
        self.node = Self::begin(&self.folder, &self.variables).await;
    }

    fn drill(&self, file: &str) -> PathBuf {
        self.folder.path().join("drill").join(file)
    }

    /// Holds tools that come to a point.
    pub fn hold(&self, point: &str) {
        std::fs::write(self.drill(point), "tool").expect("a file");
    }

    /// Lets go.
    pub fn release(&self, point: &str) {
        std::fs::remove_file(self.drill(point)).expect("a file that goes");
    }

    /// Waits until a tool of this run is held there.
    pub async fn reached(&self, point: &str, run: &str) {
        let file = self.drill(&format!("{point}.reached"));
        wait_for(&format!("a tool of {run} is at {point}"), || async {
            std::fs::read_to_string(&file).ok().filter(|text| text.contains(run))
        })
        .await;
    }

    /// Lines of the notes: what `note.append` really did, each with its correlation id.
    pub fn notes(&self) -> Vec<String> {
        let text =
            std::fs::read_to_string(self.folder.path().join("notes.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// PUT, and the JSON of the answer with its status.
    pub async fn put(&self, path: &str, put: &Value) -> (u16, Value) {
        answer(body(self.node.ask(Method::PUT, path), put)).await
    }

    /// Replaces the tool policy; what is not named stays as it is by itself.
    pub async fn policy(&self, changed: &Value) -> Value {
        let mut policy = policy();
        policy
            .as_object_mut()
            .expect("an object")
            .extend(changed.as_object().expect("an object").clone());
        let (status, told) = self.put("/v1/tools/policy", &policy).await;
        assert_eq!(status, 200, "{told}");
        told
    }

    /// The arguments of a look at a path of the site.
    pub fn at(&self, path: &str) -> Value {
        json!({ "url": format!("{}/{path}", self.site.url) })
    }

    /// A run whose model looks at a path, and then says what came of it.
    pub async fn looking(&self, path: &str) -> String {
        self.node.start_run(&json!({ "input": format!("tool {FETCH} {}", self.at(path)) })).await
    }

    /// A run whose model counts to so many, twenty words a second, while others call in its name.
    pub async fn counting(&self, words: usize) -> String {
        let run = self.node.start_run(&json!({ "input": format!("slow {words}") })).await;
        wait_for("the model is at work", || async {
            self.node.events(&run).await.contains(&"model_asked".to_owned()).then_some(())
        })
        .await;
        run
    }

    /// A call from outside, under an id of 32 digits.
    pub async fn invoke(&self, run: &str, id: &str, tool: &str, arguments: &Value) -> (u16, Value) {
        let asked = json!({"tool": tool, "arguments": arguments, "correlation_id": id});
        self.node.post(&format!("/v1/runs/{run}/tool-invocations"), &asked).await
    }

    /// The same for a look at a path that is admitted, and what came of it.
    pub async fn looked(&self, run: &str, id: &str, path: &str) -> Value {
        let (status, told) = self.invoke(run, id, FETCH, &self.at(path)).await;
        assert_eq!(status, 202, "{told}");
        self.settled(run, id).await
    }

    /// A run's invocations with its budget.
    pub async fn invocations(&self, run: &str) -> Value {
        let (status, list) = self.node.get(&format!("/v1/runs/{run}/tool-invocations")).await;
        assert_eq!(status, 200, "{list}");
        list
    }

    /// One of them, by either of its ids, once it is settled or unknown.
    pub async fn settled(&self, run: &str, id: &str) -> Value {
        wait_for(&format!("{id} of {run} is settled"), || async {
            let list = self.invocations(run).await;
            let has = |one: &&Value| one["correlation_id"] == id || one["invocation_id"] == id;
            let found = list["data"].as_array()?.iter().find(has)?.clone();
            (found["state"] != "pending").then_some(found)
        })
        .await
    }

    /// The one invocation of a run, once it is settled or unknown.
    pub async fn only(&self, run: &str) -> Value {
        wait_for(&format!("the invocation of {run} is settled"), || async {
            let list = self.invocations(run).await;
            let found = list["data"].get(0)?.clone();
            (list["count"] == 1 && found["state"] != "pending").then_some(found)
        })
        .await
    }

    /// Waits until a run shows this word.
    pub async fn shows(&self, run: &str, status: &str) -> Value {
        wait_for(&format!("{run} is {status}"), || async {
            let (_, found) = self.node.get(&format!("/v1/runs/{run}")).await;
            (found["status"] == status).then_some(found)
        })
        .await
    }

    /// Decides to give an invocation up.
    pub async fn reconcile(&self, run: &str, id: &str, request: &str) -> (u16, Value) {
        let path = format!("/v1/runs/{run}/tool-invocations/{id}/reconcile");
        self.node.post(&path, &json!({ "request_id": request })).await
    }

    /// The same, as often as its lease refuses it.
    pub async fn abandoned(&self, run: &str, id: &str, request: &str) -> Value {
        wait_for("the lease has ended", || async {
            let (status, told) = self.reconcile(run, id, request).await;
            let leased =
                told["error"]["message"].as_str().is_some_and(|text| text.contains("lease"));
            assert!(status == 200 || leased, "{status} {told}");
            (status == 200).then_some(told)
        })
        .await
    }

    /// Lets a halted run go on.
    pub async fn resume(&self, run: &str) -> (u16, Value) {
        self.node.post(&format!("/v1/runs/{run}/resume"), &json!({})).await
    }

    /// What a journal says is what it decided, and nobody changed it since.
    pub async fn is_true(&self, run: &str) {
        let (status, verified) = self.node.get(&format!("/v1/runs/{run}/verify")).await;
        assert_eq!((status, &verified["ok"]), (200, &json!(true)), "{verified}");
        let (status, replayed) =
            self.node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
        assert_eq!((status, &replayed["ok"]), (200, &json!(true)), "{replayed}");
    }
}

/// The policy that nobody set.
pub fn policy() -> Value {
    json!({"calls_limit": 30, "per_tool_limit": 10, "timeout_seconds": 30, "max_result_bytes": 256_000})
}

/// An id of 32 digits.
pub fn id(number: u32) -> String {
    format!("{number:032x}")
}

/// The entries of a journal, in order.
pub fn entries(journal: &[Value]) -> Vec<&Value> {
    journal.iter().flat_map(|commit| commit["entries"].as_array().expect("entries")).collect()
}

/// The stored names of one commit.
pub fn names(commit: &Value) -> Vec<&str> {
    let entries = commit["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

/// The data of the entries of this name.
pub fn named<'a>(journal: &'a [Value], name: &str) -> Vec<&'a Value> {
    let of = entries(journal).into_iter().filter(|entry| entry["name"] == name);
    of.map(|entry| &entry["data"]).collect()
}
