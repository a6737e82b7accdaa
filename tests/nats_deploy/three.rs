//! Three servers, on a network of their own and under TLS.

use super::{PASSWORDS, connect, here, open, own, piton};
use crate::probe::{all, grow, stream};
use events::record::Boot;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::path::PathBuf;
use store::jetstream::{Servers, Sync};
use store::{Connect, ConnectError, Store};
use tempfile::TempDir;
use tests::nats::Nats;

/// An authority, and a certificate of it for the servers on this machine: `ca.pem`, `cert.pem`, `key.pem`.
pub(super) fn certificates() -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    server.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap();
    let files =
        [("ca.pem", root.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What `tls.conf` wants besides.
pub(super) fn variables(certificates: &TempDir) -> [(&'static str, String); 3] {
    let names = [("NATS_CA", "ca.pem"), ("NATS_CERT", "cert.pem"), ("NATS_KEY", "key.pem")];
    names.map(|(name, file)| (name, certificates.path().join(file).display().to_string()))
}

/// Founds a journal of three copies, and writes and reads it.
async fn serves(connect: Connect) {
    let store = open(connect).await;
    assert_eq!(store.sync(), Sync::Proved);
    own(&store, &stream("a")).await;
    grow(&store, &stream("a"), &[b"one"]).await;
    assert_eq!(all(&store, &stream("a")).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_as_they_are_deployed_keep_a_journal() {
    let nats = Nats::deployed(3, &here().join("three.conf"), &PASSWORDS).await;
    serves(connect(&nats, &piton(), Boot(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_under_tls_keep_a_journal_for_who_knows_their_authority() {
    let (ours, other) = (certificates(), certificates());
    let files = variables(&ours);
    let mut all = PASSWORDS.to_vec();
    all.extend(files.iter().map(|(name, value)| (*name, value.as_str())));
    let nats = Nats::deployed(3, &here().join("tls.conf"), &all).await;
    let plain = connect(&nats, &piton(), Boot(1));
    let under = |roots: Vec<PathBuf>| {
        let urls = plain.servers.urls.iter().map(|url| url.replace("nats://", "tls://")).collect();
        Connect { servers: Servers { urls, roots, ..plain.servers.clone() }, ..plain.clone() }
    };
    for roots in [vec![], vec![other.path().join("ca.pem")]] {
        let refused = Store::connect(under(roots)).await.map(drop);
        assert!(matches!(refused, Err(ConnectError::Unreachable(_))), "{refused:?}");
    }
    serves(under(vec![ours.path().join("ca.pem")])).await;
}
