//! Three machines set up as `piton cluster init` and `join` say, on this one: their servers, their nodes, a chat.

use crate::nodes::piton;
use reqwest::StatusCode;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tests::process::{answer, binary, client, json as body, wait_for};

/// Processes of a shell's command, ended with it.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a pid");
        let _gone = kill_process_group(group, Signal::KILL);
        let _reaped = self.0.wait();
    }
}

/// What an operator has: bundles, a shell with both binaries on its path, and what each machine's join said.
struct Site {
    folder: TempDir,
    joined: Vec<Value>,
}

/// So many ports that were free a moment ago.
fn ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    held.iter().map(|one| one.local_addr().expect("an address").port()).collect()
}

impl Site {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        symlink(binary(), bin.join("piton")).unwrap();
        symlink(std::path::absolute(tests::nats::binary()).unwrap(), bin.join("nats-server"))
            .unwrap();
        let ports = ports(12);
        let host = |nth: usize| {
            let own: Vec<String> = ports[4 * nth..4 * nth + 4].iter().map(u16::to_string).collect();
            format!("127.0.0.1:{}", own.join(":"))
        };
        let mut site = Self { folder, joined: vec![] };
        let servers = [host(0), host(1), host(2)].join(",");
        let (out, prefix) = (site.at("bundles"), site.at("{name}"));
        let words = ["cluster", "init", "--servers", &servers, "--out", &out, "--prefix", &prefix];
        let (code, said, told) = piton(site.folder.path(), &words).await;
        assert_eq!(code, 0, "{told}");
        site.says_no_secret(&format!("{said}{told}"));
        assert!(said.contains("piton cluster join --from n2"), "{said}");
        let (code, _, told) = piton(site.folder.path(), &words).await;
        assert_eq!(code, 6, "bundles in use are not written over: {told}");
        for name in ["n1", "n2", "n3"] {
            let from = site.at(&format!("bundles/{name}"));
            let words = ["cluster", "join", "--from", &from];
            let (code, said, told) =
                piton(site.folder.path(), &[&words[..], &["--json"]].concat()).await;
            assert_eq!(code, 0, "{told}");
            site.says_no_secret(&format!("{said}{told}"));
            let joined: Value = serde_json::from_str(&said).unwrap();
            // Again, for a person: the same commands, and nothing changes.
            let (code, said, told) = piton(site.folder.path(), &words).await;
            assert_eq!(code, 0, "{told}");
            for what in ["server", "node", "healthy", "ready"] {
                assert!(said.contains(joined["run"][what].as_str().unwrap()), "{what}: {said}");
            }
            site.joined.push(joined);
        }
        site
    }

    fn at(&self, path: &str) -> String {
        self.folder.path().join(path).display().to_string()
    }

    /// The values that must not be seen, by file.
    fn secrets(&self) -> BTreeMap<PathBuf, Vec<String>> {
        let mut secrets = BTreeMap::new();
        let key = |text: &str| text.lines().nth(1).expect("a line of PEM").to_owned();
        let bundles = PathBuf::from(self.at("bundles"));
        let text = |path: &Path| std::fs::read_to_string(path).expect("a file");
        secrets.insert(bundles.join("ca.key"), vec![key(&text(&bundles.join("ca.key")))]);
        for name in ["n1", "n2", "n3"] {
            for file in ["etc/nats/nats.env", "etc/piton/piton.env"] {
                let path = bundles.join(name).join(file);
                let text = text(&path);
                let kept = text.lines().filter(|line| !line.starts_with('#'));
                let pairs = kept.filter_map(|line| line.split_once('='));
                let secret =
                    |name: &str| name.ends_with("PASSWORD") || name.ends_with("_ADMIN_KEY");
                let values =
                    pairs.filter(|(name, _)| secret(name)).map(|(_, value)| value.to_owned());
                secrets.insert(path, values.collect());
            }
            let path = bundles.join(name).join("etc/nats/key.pem");
            secrets.insert(path.clone(), vec![key(&text(&path))]);
            let path = bundles.join(name).join("var/lib/piton/cluster.key");
            let line = text(&path).lines().last().expect("a key").to_owned();
            secrets.insert(path, vec![line.trim_start_matches("k1:").to_owned()]);
        }
        secrets
    }

    fn says_no_secret(&self, text: &str) {
        let secrets = self.secrets();
        assert_eq!(secrets.values().map(Vec::len).sum::<usize>(), 1 + 3 * 7);
        for secret in secrets.values().flatten() {
            assert!(secret.len() > 40 && !text.contains(secret), "a secret is told: {text}");
        }
    }

    /// Runs a command line as it was printed.
    fn run(&self, nth: usize, line: &str) -> Shell {
        let log = self.at(&format!("{nth}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let path = format!("{}:/usr/bin:/bin", self.at("bin"));
        let mut command = Command::new("sh");
        command.args(["-c", line]).env_clear().env("PATH", path).env("HOME", self.at("home"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        Shell(command.spawn().expect("a shell"))
    }

    fn command(&self, nth: usize, what: &str) -> String {
        self.joined[nth]["run"][what].as_str().unwrap().to_owned()
    }

    async fn answers(&self, nth: usize, what: &str) {
        let url = self.command(nth, what);
        wait_for(&format!("{url} answers"), || async {
            let got = client().get(&url).send().await.ok()?;
            (got.status() == StatusCode::OK).then_some(())
        })
        .await;
    }

    /// What every process on this machine was started with.
    fn arguments() -> String {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        lines.map(|line| String::from_utf8_lossy(&line).into_owned() + "\n").collect()
    }
}

#[tokio::test]
async fn three_machines_are_set_up_as_init_and_join_say() {
    let site = Site::new().await;
    for path in site.secrets().keys() {
        let mode = std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let valid = |nth| site.command(nth, "server").replace("nats-server -c", "nats-server -t -c");
    for nth in 0..3 {
        let mut checks = site.run(nth, &valid(nth));
        assert!(checks.0.wait().unwrap().success(), "{}", site.at(&format!("{nth}.log")));
    }
    let servers: Vec<Shell> =
        (0..3).map(|nth| site.run(nth, &site.command(nth, "server"))).collect();
    for nth in 0..3 {
        site.answers(nth, "healthy").await;
    }
    let mut nodes = vec![];
    for nth in 0..3 {
        // Nobody has a provider here.
        let line = site.command(nth, "node").replace("piton serve", "piton serve --demo");
        nodes.push(site.run(nth, &line));
        site.answers(nth, "ready").await;
    }
    let env = std::fs::read_to_string(site.at("n2/etc/piton/piton.env")).unwrap();
    let key = env.lines().find_map(|line| line.strip_prefix("PITON_ADMIN_KEY=")).unwrap();
    let url = |nth, path: &str| site.command(nth, "ready").replace("/health/ready", path);
    let said = json!({"model": "demo", "messages": [{"role": "user", "content": "hello"}]});
    let asked = body(client().post(url(1, "/v1/chat/completions")).bearer_auth(key), &said);
    let (status, got) = answer(asked).await;
    assert_eq!(status, 200, "{got}");
    // Who holds what comes to each node by a watch, a moment after it is so.
    wait_for("the third node sees three, and nothing that is nobody's", || async {
        let (_, list) = answer(client().get(url(2, "/v1/nodes")).bearer_auth(key)).await;
        (list["count"] == 3 && list["unowned"] == 0).then_some(())
    })
    .await;
    site.says_no_secret(&Site::arguments());
    // Nodes first, as they want their servers to the end.
    drop(nodes);
    drop(servers);
}

#[tokio::test]
async fn a_bundle_that_is_not_whole_or_not_for_this_machine_is_not_joined() {
    let folder = TempDir::new().unwrap();
    let at = |path: &str| folder.path().join(path).display().to_string();
    let (out, prefix) = (at("bundles"), at("{name}"));
    let init = |servers: &'static str| ["cluster", "init", "--servers", servers, "--out"];
    for (servers, why) in [
        ("a,b", "names 2 machines"),
        ("a,b,a", "names a machine twice"),
        ("a,b,c d", "is not a machine"),
    ] {
        let (code, _, told) = piton(folder.path(), &[&init(servers)[..], &[&out]].concat()).await;
        assert!(code == 2 && told.contains(why), "{told}");
    }
    // An address that is kept for documents: nobody's.
    let words = [&init("127.0.0.1,127.0.0.2,192.0.2.1")[..], &[&out, "--prefix", &prefix]].concat();
    let (code, _, told) = piton(folder.path(), &words).await;
    assert_eq!(code, 0, "{told}");
    let join = async |from: &str, more: &[&str]| {
        let from = at(from);
        let words = [&["cluster", "join", "--from", &from][..], more].concat();
        let (code, _, told) = piton(folder.path(), &words).await;
        (code, told)
    };
    let (code, told) = join("bundles", &[]).await;
    assert!(code == 2 && told.contains("the bundles of all"), "{told}");
    let (code, told) = join("bundles/n3", &[]).await;
    assert!(code == 6 && told.contains("192.0.2.1 is no address of this machine"), "{told}");
    assert!(!Path::new(&at("n3")).exists(), "nothing is written");
    assert_eq!(join("bundles/n1", &[]).await.0, 0);
    // A server runs as another user than whoever joins, and must come to what it keeps.
    for (path, mode) in
        [("n1", 0o755), ("n1/var", 0o755), ("n1/var/lib", 0o755), ("n1/var/lib/nats", 0o700)]
    {
        let about = std::fs::metadata(at(path)).unwrap();
        assert_eq!(about.mode() & 0o7777, mode, "{path}");
    }
    std::fs::write(at("n1/etc/piton/piton.toml"), "# mine\n").unwrap();
    let (code, told) = join("bundles/n1", &[]).await;
    assert!(code == 6 && told.contains("etc/piton/piton.toml exists"), "{told}");
    assert_eq!(join("bundles/n1", &["--force"]).await.0, 0);
    let broken = at("bundles/n2/etc/nats/limits.conf");
    std::fs::write(&broken, "max_payload: 1\n").unwrap();
    let (code, told) = join("bundles/n2", &[]).await;
    assert!(code == 6 && told.contains("is not as it was written"), "{told}");
}
