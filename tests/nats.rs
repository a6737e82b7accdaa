//! Real NATS servers for the stories: one, or three in a cluster, on loopback, in a folder of their own, killed at the end.
//!
//! Ports are the system's; a server that was killed comes back on its own ports and its own files. The binary is
//! `PITON_TEST_NATS_SERVER`, else what `.ci/run` installs. A story that does not find it fails: it is never skipped.

use crate::process::{client, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// When a server's writes reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Before each acknowledgement.
    Always,
    /// As the server does by default: every two minutes.
    Default,
}

/// Ports of one server.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    monitor: u16,
    cluster: u16,
}

/// One server, running or not.
#[derive(Debug)]
struct Server {
    name: String,
    arguments: Vec<OsString>,
    /// Its whole environment.
    variables: Vec<(OsString, OsString)>,
    log: PathBuf,
    ports: Ports,
    child: Option<Child>,
}

/// Servers that run until they are killed or dropped.
#[derive(Debug)]
pub struct Nats {
    servers: Vec<Server>,
    folder: TempDir,
}

/// How often servers are started anew because another process took a port meanwhile.
const STARTS_MAX: usize = 5;

/// The server's binary.
pub fn binary() -> PathBuf {
    if let Some(given) = std::env::var_os("PITON_TEST_NATS_SERVER") {
        return given.into();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/nats/bin/nats-server");
    assert!(
        here.exists(),
        "no nats-server at {}: run .ci/run once, or `. .ci/need.sh; need_nats`, or set PITON_TEST_NATS_SERVER",
        here.display()
    );
    here
}

impl Nats {
    /// One server.
    pub async fn one(sync: Sync) -> Self {
        Self::start(1, sync, "").await
    }

    /// Three in a cluster, with a leader.
    pub async fn three(sync: Sync) -> Self {
        Self::start(3, sync, "").await
    }

    /// `count` servers with more lines of configuration, ready.
    pub async fn start(count: usize, sync: Sync, more: &str) -> Self {
        Self::come_up(|| Self::prepare(count, sync, more)).await
    }

    /// `count` servers as an operator starts them, ready: from a file of `deploy/nats`, with these variables and what is
    /// each server's own: its name, its folder, its addresses.
    pub async fn deployed(count: usize, file: &Path, variables: &[(&str, &str)]) -> Self {
        Self::come_up(|| Self::prepare_deployed(count, file, variables)).await
    }

    async fn come_up(prepare: impl Fn() -> Self) -> Self {
        for _ in 0..STARTS_MAX {
            let mut nats = prepare();
            nats.servers.iter_mut().for_each(Server::spawn);
            if nats.ready_or_taken().await {
                return nats;
            }
        }
        panic!("a port was taken {STARTS_MAX} times");
    }

    fn prepare(count: usize, sync: Sync, more: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let ports = free_ports(count);
        let routes: Vec<String> =
            ports.iter().map(|ports| format!("nats://127.0.0.1:{}", ports.cluster)).collect();
        let server = |(nth, ports): (usize, &Ports)| {
            let name = format!("s{nth}");
            let store = folder.path().join(&name);
            let sync = match sync {
                Sync::Always => "sync_interval: always",
                Sync::Default => "",
            };
            let cluster = format!(
                "cluster {{ name: piton, listen: \"127.0.0.1:{}\", no_advertise: true, routes: [{}] }}",
                ports.cluster,
                routes.join(", ")
            );
            let text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{}\"\nhttp: \"127.0.0.1:{}\"\n\
                 lame_duck_duration: 30s\nlame_duck_grace_period: 1s\n\
                 jetstream {{ store_dir: \"{}\", max_mem: 256MB, max_file: 8GB\n{sync} }}\n{}\n{more}\n",
                ports.client,
                ports.monitor,
                store.display(),
                if count > 1 { &cluster } else { "" },
            );
            let config = folder.path().join(format!("{name}.conf"));
            std::fs::write(&config, text).expect("a configuration");
            let log = folder.path().join(format!("{name}.log"));
            let arguments = vec!["-c".into(), config.into()];
            Server { name, arguments, variables: vec![], log, ports: *ports, child: None }
        };
        let servers = ports.iter().enumerate().map(server).collect();
        Self { servers, folder }
    }

    fn prepare_deployed(count: usize, file: &Path, variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let ports = free_ports(count);
        let routes: Vec<String> =
            ports.iter().map(|ports| format!("nats://127.0.0.1:{}", ports.cluster)).collect();
        let server = |(nth, ports): (usize, &Ports)| {
            // As the files call their three machines.
            let name = format!("n{}", nth + 1);
            let (client, monitor) = (ports.client.to_string(), ports.monitor.to_string());
            let mut arguments: Vec<OsString> = vec!["-c".into(), file.into()];
            arguments
                .extend(["-a", "127.0.0.1", "-p", &client, "-m", &monitor].map(OsString::from));
            if count > 1 {
                let (listen, routes) = (&routes[nth], routes.join(","));
                arguments.extend(["--cluster_listen", listen, "--routes", &routes].map(Into::into));
            }
            let given = variables.iter().map(|(name, value)| (name.into(), value.into()));
            let mut variables: Vec<(OsString, OsString)> = given.collect();
            variables.push(("NATS_NAME".into(), name.clone().into()));
            variables.push(("NATS_STORE".into(), folder.path().join(&name).into()));
            let log = folder.path().join(format!("{name}.log"));
            Server { name, arguments, variables, log, ports: *ports, child: None }
        };
        let servers = ports.iter().enumerate().map(server).collect();
        Self { servers, folder }
    }

    /// Waits until all are ready; false when one could not have its port.
    async fn ready_or_taken(&self) -> bool {
        let ready = self.ready();
        tokio::pin!(ready);
        loop {
            tokio::select! {
                () = &mut ready => return true,
                () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
            }
            for nth in 0..self.servers.len() {
                let log = self.log(nth);
                if log.contains("address already in use") {
                    return false;
                }
                assert!(!log.contains("[FTL]"), "s{nth} can not start: {log}");
            }
        }
    }

    /// Waits until every server that runs is healthy and, in a cluster, knows a leader.
    pub async fn ready(&self) {
        for nth in self.running() {
            let what = format!("{} is ready", self.servers[nth].name);
            wait_for(&what, || async {
                let health = client().get(format!("{}/healthz", self.monitors()[nth])).send();
                let healthy = health.await.ok()?.status().is_success();
                let led = self.servers.len() == 1 || self.leader().await.is_some();
                (healthy && led).then_some(())
            })
            .await;
        }
    }

    fn running(&self) -> Vec<usize> {
        let running = self.servers.iter().enumerate();
        running.filter(|(_, server)| server.child.is_some()).map(|(nth, _)| nth).collect()
    }

    /// Which server leads the cluster's own group, as far as one that runs knows.
    pub async fn leader(&self) -> Option<usize> {
        for nth in self.running() {
            let jsz = self.monitor(nth, "/jsz").await?;
            let name = jsz["meta_cluster"]["leader"].as_str().unwrap_or_default();
            let led = self.servers.iter().position(|server| server.name == name);
            if led.is_some() {
                return led;
            }
        }
        None
    }

    /// Which server leads a stream, as far as one that runs knows.
    pub async fn leader_of(&self, stream: &str) -> Option<usize> {
        for nth in self.running() {
            let Some(jsz) = self.monitor(nth, "/jsz?streams=true").await else { continue };
            let accounts = jsz["account_details"].as_array().cloned().unwrap_or_default();
            let details = accounts.iter().flat_map(|account| {
                account["stream_detail"].as_array().cloned().unwrap_or_default()
            });
            let mut named = details.filter(|detail| detail["name"] == stream);
            let leader = named.find_map(|detail| {
                let name = detail["cluster"]["leader"].as_str()?.to_owned();
                self.servers.iter().position(|server| server.name == name)
            });
            if leader.is_some() {
                return leader;
            }
        }
        None
    }

    /// A page of one server's monitoring, if it answers.
    pub async fn monitor(&self, nth: usize, page: &str) -> Option<Value> {
        let answer = client().get(format!("{}{page}", self.monitors()[nth])).send().await.ok()?;
        serde_json::from_str(&answer.text().await.ok()?).ok()
    }

    /// Where clients connect, one address for each server, running or not.
    pub fn urls(&self) -> Vec<String> {
        let url = |server: &Server| format!("nats://127.0.0.1:{}", server.ports.client);
        self.servers.iter().map(url).collect()
    }

    /// Where the servers' monitoring answers, one address for each.
    pub fn monitors(&self) -> Vec<String> {
        let url = |server: &Server| format!("http://127.0.0.1:{}", server.ports.monitor);
        self.servers.iter().map(url).collect()
    }

    /// Whether a server was started and not killed since.
    pub fn runs(&self, nth: usize) -> bool {
        self.servers[nth].child.is_some()
    }

    /// The process of a server that runs.
    pub fn pid(&self, nth: usize) -> u32 {
        self.servers[nth].child.as_ref().expect("a server that runs").id()
    }

    /// What a server has logged.
    pub fn log(&self, nth: usize) -> String {
        std::fs::read_to_string(&self.servers[nth].log).unwrap_or_default()
    }

    /// The folder that holds configurations, logs and the servers' files (`s0`, `s1`, `s2`).
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// SIGKILL, and gone. Its files stay.
    pub fn kill(&mut self, nth: usize) {
        self.servers[nth].kill();
    }

    /// SIGUSR2: it hands its leaderships over, lets its clients go and ends by itself.
    pub fn lame_duck(&self, nth: usize) {
        self.servers[nth].signal(Signal::USR2);
    }

    /// SIGSTOP: it hangs, its connections stay.
    pub fn pause(&self, nth: usize) {
        self.servers[nth].signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self, nth: usize) {
        self.servers[nth].signal(Signal::CONT);
    }

    /// SIGHUP: it reads its configuration again.
    pub fn reload(&self, nth: usize) {
        self.servers[nth].signal(Signal::HUP);
    }

    /// Starts a server again on the same files and ports, after killing it if it runs; waits until it is ready.
    pub async fn restart(&mut self, nth: usize) {
        self.restart_unready(nth);
        self.ready().await;
    }

    /// Starts a server again and waits for nothing.
    pub fn restart_unready(&mut self, nth: usize) {
        self.servers[nth].kill();
        self.servers[nth].spawn();
    }
}

impl Server {
    fn spawn(&mut self) {
        let log =
            std::fs::File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut command = Command::new(binary());
        command.args(&self.arguments).env_clear().envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.child = Some(command.spawn().expect("nats-server starts"));
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a server that runs");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a signal");
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
    }
}

/// Ports that were free a moment ago: all are held until the last one is known, so that none is given twice.
fn free_ports(count: usize) -> Vec<Ports> {
    let held: Vec<TcpListener> = (0..3 * count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"))
        .collect();
    let ports: Vec<u16> =
        held.iter().map(|listener| listener.local_addr().expect("an address").port()).collect();
    let ports = ports.chunks(3);
    ports.map(|p| Ports { client: p[0], monitor: p[1], cluster: p[2] }).collect()
}
