//! The configurations of `deploy/nats`, as an operator starts them: valid, enough for a node, and too little for harm.

mod local;
mod node;
mod outside;
mod three;

use crate::hosts::probe::patient;
use crate::probe::JOURNAL;
use async_nats::{Client, ConnectOptions, Event};
use events::id::Generation;
use events::record::{Boot, Epoch, StreamKey};
use events::subject::Namespace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use store::jetstream::{Credentials, LazySync, OUTAGE_MAX, SHARDS, Servers};
use store::{Connect, Faults, Store};
use tempfile::TempDir;
use tests::nats::{Nats, binary};
use tokio::sync::mpsc;

/// The passwords that the files ask for. A server reads `n1e5` as a text, and `1e5` as a number.
const PASSWORDS: [(&str, &str); 3] = [
    ("NATS_NODE_PASSWORD", "node-planted"),
    ("NATS_READER_PASSWORD", "reader-planted"),
    ("NATS_SYSTEM_PASSWORD", "system-planted"),
];

/// The configurations that a server is started with; the others are parts of them.
const STARTED: [&str; 3] = ["single.conf", "three.conf", "tls.conf"];

/// A subject that nobody may listen to.
const NOBODYS: &str = "nobodys";

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nats")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A copy of the files, which a test may change.
fn copy() -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in std::fs::read_dir(here()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

/// A copy for another namespace, made by the command that the file itself gives.
fn copy_for(namespace: &str) -> TempDir {
    let folder = copy();
    let path = folder.path().join("permissions.conf");
    let text = read(&path);
    let script = text.split('\'').find(|part| part.contains("NAMESPACE")).unwrap();
    let script = script.replace("NAMESPACE", namespace);
    let sed = Command::new("sed").args(["-i", &script]).arg(&path).output().unwrap();
    assert!(sed.status.success(), "{sed:?}");
    folder
}

/// How to open the journal as a node.
fn connect(nats: &Nats, namespace: &Namespace, boot: Boot) -> Connect {
    let [(_, password), ..] = PASSWORDS;
    let credentials =
        Credentials::Password { user: "node".to_owned(), password: password.to_owned() };
    let urls = nats.urls();
    Connect {
        replicas: urls.len(),
        servers: Servers { credentials, outage_max: OUTAGE_MAX, ..Servers::at(urls) },
        monitors: nats.monitors(),
        namespace: namespace.clone(),
        boot,
        fresh: JOURNAL,
        shard_bytes_max: 64 << 20,
        lazy_sync: LazySync::Refuse,
        faults: Faults::none(),
    }
}

async fn open(connect: Connect) -> Store {
    Store::connect(connect).await.unwrap()
}

/// Takes a stream's partition without a lease, as its first owner.
async fn own(store: &Store, stream: &StreamKey) {
    store.own(stream.partition(), Epoch::default()).await.unwrap();
}

fn piton() -> Namespace {
    "piton".parse().unwrap()
}

/// The streams of a journal, and the one of its leases.
fn streams(namespace: &Namespace) -> Vec<String> {
    let shards = (0..SHARDS).map(|shard| namespace.shard_stream(shard, Generation::FIRST));
    let beside = [namespace.blob_stream(), namespace.snapshot_stream(), namespace.meta_stream()];
    shards.chain(beside).chain([namespace.vault_stream(), namespace.lease_stream()]).collect()
}

/// A client, and what the server tells it it may not.
struct Guest {
    client: Client,
    told: mpsc::UnboundedReceiver<String>,
}

impl Guest {
    async fn node(nats: &Nats) -> Self {
        Self::open(nats, "node", "_INBOX").await
    }

    async fn reader(nats: &Nats) -> Self {
        Self::open(nats, "reader", "_INBOX_reader").await
    }

    async fn open(nats: &Nats, user: &str, inboxes: &str) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let options =
            ConnectOptions::with_user_and_password(user.into(), format!("{user}-planted"))
                .custom_inbox_prefix(inboxes)
                .event_callback(move |event| {
                    if let Event::ServerError(error) = event {
                        let _nobody_asks = tell.send(error.to_string());
                    }
                    std::future::ready(())
                });
        let client = patient(options.connect(nats.urls())).await.unwrap();
        Self { client, told }
    }

    async fn may_not_publish(&mut self, subject: &str) {
        self.client.publish(subject.to_owned(), "{}".into()).await.unwrap();
        self.is_told("Publish", subject).await;
    }

    async fn may_not_subscribe(&mut self, subject: &str) {
        let _nothing_comes = self.client.subscribe(subject.to_owned()).await.unwrap();
        self.is_told("Subscription", subject).await;
    }

    /// The next thing that it is told is this, so what it did before was not refused. Behind it comes something that
    /// nobody may: else it would wait for ever where this is allowed.
    async fn is_told(&mut self, what: &str, subject: &str) {
        let _nothing_comes = self.client.subscribe(NOBODYS).await.unwrap();
        for (what, subject) in [(what, subject), ("Subscription", NOBODYS)] {
            let wanted = format!("Permissions Violation for {what} to \"{subject}\"");
            let told = patient(self.told.recv()).await.unwrap();
            assert!(told.contains(&wanted), "{told:?}, not {wanted:?}");
        }
    }
}

/// Asks the server whether a file is valid.
fn check(file: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.arg("-t").arg("-c").arg(file).env_clear().envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn every_configuration_is_valid_and_wants_its_passwords_from_outside() {
    let made = three::certificates();
    let certificates = three::variables(&made);
    let mut all = vec![("NATS_NAME", "n2"), ("NATS_STORE", "/var/lib/nats")];
    all.extend(PASSWORDS);
    all.extend(certificates.iter().map(|(name, value)| (*name, value.as_str())));
    for file in STARTED.map(|file| here().join(file)) {
        let checked = check(&file, &all);
        assert!(checked.status.success(), "{}: {checked:?}", file.display());
        for (missing, _) in PASSWORDS {
            let rest: Vec<_> = all.iter().copied().filter(|(name, _)| *name != missing).collect();
            let checked = check(&file, &rest);
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(!checked.status.success() && said.contains(missing), "{said}");
        }
    }
}

/// Words of a configuration, without its comments.
fn words(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect()
}

#[test]
fn no_configuration_holds_a_password_and_every_one_syncs() {
    let mut asked = BTreeSet::new();
    for file in std::fs::read_dir(here()).unwrap() {
        let path = file.unwrap().path();
        let text = read(&path);
        let words = words(&text);
        for pair in words.windows(2).filter(|pair| pair[0].starts_with("password")) {
            let variable = pair[1].trim_end_matches([',', '}', ']']).strip_prefix('$');
            asked.insert(variable.expect("a variable, not a password").to_owned());
        }
        assert!(!text.contains("://") || !text.contains('@'), "a password in an address");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if STARTED.contains(&name.as_str()) {
            assert!(words.windows(2).any(|pair| pair == ["include", "\"limits.conf\""]), "{name}");
        }
    }
    let wanted: BTreeSet<String> = PASSWORDS.map(|(name, _)| name.to_owned()).into();
    assert_eq!(asked, wanted);
    assert!(
        words(&read(&here().join("limits.conf")))
            .windows(2)
            .any(|pair| pair == ["sync_interval:", "always"])
    );
}
