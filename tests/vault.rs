//! The vault of a cluster over a real server: sealed, compared and set, opened by nobody without the key, and rotated
//! while nodes go on with it.

use crate::hosts::probe::patient;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use events::subject::Namespace;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use store::jetstream::{Credentials, OUTAGE_MAX, Servers};
use store::private;
use store::vault::{Bucket, KeyFile, Name, OpenBucket, Plain, Revision, Vault, VaultError, keys};
use tempfile::TempDir;
use tests::nats::{Nats, Sync};
use tests::process::wait_for;

/// A server, and a folder for the key files of nodes.
struct Arena {
    server: Nats,
    folder: TempDir,
    old: String,
    new: String,
}

impl Arena {
    async fn new() -> Self {
        let (old, new) = (keys::draw("old").unwrap(), keys::draw("new").unwrap());
        let folder = tempfile::tempdir().unwrap();
        Self { server: Nats::one(Sync::Default).await, folder, old, new }
    }

    /// Writes a node's key file.
    fn key_file(&self, node: &str, lines: &[&str]) -> PathBuf {
        let path = self.folder.path().join(node);
        private::write(&path, &lines.join("\n")).unwrap();
        path
    }

    async fn open(&self, keys: &Path) -> Result<Bucket, VaultError> {
        let servers = Servers {
            urls: self.server.urls(),
            credentials: Credentials::None,
            roots: vec![],
            outage_max: OUTAGE_MAX,
        };
        let keys = KeyFile::open(keys)?;
        patient(Bucket::open(OpenBucket { servers, namespace: namespace(), replicas: 1, keys }))
            .await
    }

    async fn node(&self, name: &str, lines: &[&str]) -> (Vault, Bucket) {
        let bucket = self.open(&self.key_file(name, lines)).await.unwrap();
        (Vault::Bucket(bucket.clone()), bucket)
    }

    /// Somebody who may write to the server and has no key.
    async fn stranger(&self) -> Stranger {
        let client = patient(async_nats::connect(self.server.urls())).await.unwrap();
        Stranger(async_nats::jetstream::new(client))
    }
}

struct Stranger(async_nats::jetstream::Context);

impl Stranger {
    async fn read(&self, name: &Name) -> Vec<u8> {
        let stream = self.0.get_stream(namespace().vault_stream()).await.unwrap();
        let subject = namespace().vault_of(name.as_str());
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message.payload.to_vec(),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => vec![],
            Err(error) => panic!("{error}"),
        }
    }

    async fn write(&self, name: &Name, bytes: Vec<u8>) {
        let subject = namespace().vault_of(name.as_str());
        let sent = self.0.publish_with_headers(subject, HeaderMap::new(), bytes.into()).await;
        sent.unwrap().await.unwrap();
    }
}

fn namespace() -> Namespace {
    "test".parse().unwrap()
}

fn name(profile: &str) -> Name {
    Name::of_credential("openai", profile).unwrap()
}

fn value(text: &str) -> Plain {
    Plain::new(format!("{{\"key\":\"sk-planted-{text}\"}}").into_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_that_change_one_value_one_wins_and_both_read_it() {
    let arena = Arena::new().await;
    let (first, _) = arena.node("a", &[&arena.old]).await;
    let (second, _) = arena.node("b", &[&arena.old]).await;
    assert_eq!(first.get(&name("main")).await.unwrap(), None);
    let (one, two) = (value("one"), value("two"));
    let main = name("main");
    let (left, right) = tokio::join!(
        first.put(&main, &one, Revision::NONE),
        second.put(&main, &two, Revision::NONE)
    );
    let (winner, loser, wrote) =
        if let Ok(revision) = left { (revision, right, one) } else { (right.unwrap(), left, two) };
    assert!(matches!(loser, Err(VaultError::Conflict { .. })), "{loser:?}");
    for node in [&first, &second] {
        let kept = node.get(&main).await.unwrap().unwrap();
        assert_eq!((kept.revision, &kept.value), (winner, &wrote));
        assert_eq!(node.names().await.unwrap(), [name("main")]);
    }
    let next = second.put(&main, &value("three"), winner).await.unwrap();
    assert!(next > winner);
    first.remove(&main).await.unwrap();
    first.remove(&main).await.unwrap();
    assert_eq!(second.get(&main).await.unwrap(), None);
    assert_eq!(second.names().await.unwrap(), []);
    assert!(first.put(&main, &value("four"), Revision::NONE).await.unwrap() > next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_without_the_key_does_to_the_bucket_is_named() {
    let arena = Arena::new().await;
    let (node, _) = arena.node("a", &[&arena.old]).await;
    node.put(&name("main"), &value("one"), Revision::NONE).await.unwrap();
    node.put(&name("spare"), &value("two"), Revision::NONE).await.unwrap();
    let stranger = arena.stranger().await;
    let (main, spare) = (stranger.read(&name("main")).await, stranger.read(&name("spare")).await);
    assert!(!main.windows(7).any(|window| window == b"planted"));

    stranger.write(&name("main"), spare.clone()).await;
    let swapped = node.get(&name("main")).await.unwrap_err();
    assert!(matches!(swapped, VaultError::Swapped { .. }), "{swapped}");

    let mut changed = main.clone();
    *changed.last_mut().unwrap() ^= 1;
    stranger.write(&name("main"), changed).await;
    let tampered = node.get(&name("main")).await.unwrap_err();
    assert!(matches!(tampered, VaultError::Tampered { .. }), "{tampered}");
    assert!(!format!("{tampered:?}").contains("planted"));

    // It is mended by writing it again, and nothing else was touched.
    node.put(&name("main"), &value("new"), Revision::NONE).await.unwrap();
    assert_eq!(node.get(&name("main")).await.unwrap().unwrap().value, value("new"));
    assert_eq!(node.get(&name("spare")).await.unwrap().unwrap().value, value("two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_another_key_or_a_file_that_others_may_read_is_refused() {
    let arena = Arena::new().await;
    arena.node("a", &[&arena.old]).await;
    let other = keys::draw("old").unwrap();
    let wrong = arena.open(&arena.key_file("b", &[&other])).await.unwrap_err();
    assert!(matches!(&wrong, VaultError::WrongKey { id, .. } if id == "old"), "{wrong}");
    let none = arena.open(&arena.key_file("b", &[&arena.new])).await.unwrap_err();
    assert!(matches!(&none, VaultError::NoKey { id, .. } if id == "old"), "{none}");
    let wide = arena.key_file("b", &[&arena.old]);
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = arena.open(&wide).await.unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
    let missing = arena.open(&arena.folder.path().join("none")).await.unwrap_err().to_string();
    assert!(missing.contains("piton cluster init"), "{missing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_is_cut_goes_on_and_nodes_read_and_write_meanwhile() {
    const VALUES: usize = 40;
    let arena = Arena::new().await;
    let (first, rotator) = arena.node("a", &[&arena.old]).await;
    let (second, _) = arena.node("b", &[&arena.old]).await;
    for nth in 0..VALUES {
        let text = format!("v{nth}");
        first.put(&name(&text), &value(&text), Revision::NONE).await.unwrap();
    }
    let before = first.get(&name("v0")).await.unwrap().unwrap().revision;
    // The new key comes to one node after the other; nothing uses it yet.
    arena.key_file("a", &[&arena.new, &arena.old]);
    first.put(&name("early"), &value("early"), Revision::NONE).await.unwrap();
    assert_eq!(second.get(&name("early")).await.unwrap().unwrap().value, value("early"));
    arena.key_file("b", &[&arena.new, &arena.old]);

    let stranger = arena.stranger().await;
    let names: Vec<Name> = first.names().await.unwrap();
    let under_new = async || {
        let mut count = 0;
        for name in &names {
            let bytes = stranger.read(name).await;
            count += usize::from(bytes.get(5..8) == Some(b"new"));
        }
        count
    };
    let cut = tokio::spawn({
        let rotator = rotator.clone();
        async move { rotator.rotate().await }
    });
    wait_for("some are sealed anew", async || (under_new().await > 0).then_some(())).await;
    cut.abort();
    let _cut = cut.await;
    let partly = under_new().await;
    assert!(partly > 0);
    // Both nodes read what stands under either key, and write.
    for node in [&first, &second] {
        for name in &names {
            assert!(node.get(name).await.unwrap().is_some());
        }
    }
    second.put(&name("late"), &value("late"), Revision::NONE).await.unwrap();
    assert_eq!(stranger.read(&name("late")).await.get(5..8), Some(&b"new"[..]));

    let rotation = rotator.rotate().await.unwrap();
    assert_eq!(rotation.key, "new");
    assert_eq!((rotation.values, rotation.droppable), (VALUES + 2, vec!["old".to_owned()]));
    assert!(rotation.resealed <= VALUES + 1 - partly);
    assert_eq!(under_new().await, VALUES + 1);
    assert_eq!(rotator.rotate().await.unwrap().resealed, 0);
    assert_eq!(first.get(&name("v0")).await.unwrap().unwrap().revision, before);
    // The old key may go, as it said; a node that has only that one is told so.
    arena.key_file("a", &[&arena.new]);
    let (alone, _) = arena.node("a", &[&arena.new]).await;
    assert_eq!(alone.names().await.unwrap().len(), VALUES + 2);
    assert_eq!(alone.get(&name("v7")).await.unwrap().unwrap().value, value("v7"));
    let late = arena.open(&arena.key_file("c", &[&arena.old])).await.unwrap_err();
    assert!(matches!(&late, VaultError::NoKey { id, .. } if id == "new"), "{late}");
}
