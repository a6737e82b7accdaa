//! The table `[nats]`: the cluster that a node belongs to. Without `nats.url` a node keeps its journal in its own folder.

use super::merge::Reader;
use super::rule::{self, Broken, Raw};
use super::secret::Secret;
use events::subject::Namespace;
use std::path::PathBuf;
use url::Url;

/// The variable that holds the password of `nats.user`.
pub const PASSWORD: &str = "PITON_NATS_PASSWORD";
/// Servers, or monitoring addresses, that one setting may name.
const ADDRESSES_MAX: usize = 16;

/// How a node reaches its cluster.
#[derive(Debug, Clone)]
pub struct Nats {
    /// `nats://host:port` or `tls://host:port` of its servers, at least one.
    pub urls: Vec<String>,
    /// Which journal on them.
    pub namespace: Namespace,
    /// This node's name; unique among the nodes. Drawn and kept in the data folder where nobody gives one.
    pub node: Option<String>,
    /// `http://host:port` of every server's monitoring, for the proof that it syncs before it acknowledges.
    pub monitors: Vec<String>,
    /// Copies of each stream of a new journal: 1, or 3 where there are 3 servers.
    pub replicas: usize,
    /// Bytes of one of the eight streams of a new journal.
    pub shard_bytes_max: i64,
    /// Servers that are not proved to sync are used all the same.
    pub allow_lazy_fsync: bool,
    /// Whether texts that people and models wrote are told to programs outside; their hashes and sizes are.
    pub events_text: bool,
    /// Who the node is to the servers, and where its password was found.
    pub user: Option<(String, Secret)>,
    /// Certificates of authorities that the servers' own are checked against; the system's when empty.
    pub roots: Vec<PathBuf>,
    /// The file of the cluster's keys, the same on every node; without one a node has no vault.
    pub cluster_key: Option<PathBuf>,
}

impl Nats {
    /// Its keys with their values as the file would spell them, without secrets.
    pub(super) fn spoken(&self) -> Vec<(&'static str, String)> {
        let Self { urls, namespace, node, monitors, replicas, shard_bytes_max, .. } = self;
        let cluster_key = self.cluster_key.as_ref();
        let cluster_key = cluster_key.map_or_else(String::new, |path| path.display().to_string());
        let user = self.user.as_ref().map_or_else(String::new, |(user, _)| user.clone());
        let roots: Vec<_> = self.roots.iter().map(|path| path.display().to_string()).collect();
        vec![
            ("nats.url", urls.join(",")),
            ("nats.namespace", namespace.to_string()),
            ("nats.node", node.clone().unwrap_or_default()),
            ("nats.monitor", monitors.join(",")),
            ("nats.replicas", replicas.to_string()),
            ("nats.shard_bytes_max", shard_bytes_max.to_string()),
            ("nats.allow_lazy_fsync", self.allow_lazy_fsync.to_string()),
            ("nats.events_text", self.events_text.to_string()),
            ("nats.user", user),
            ("nats.ca_file", roots.join(",")),
            ("nats.cluster_key", cluster_key),
        ]
    }
}

/// Asks for every key of the table. `None` when no cluster is named, or one of them is wrong, which is remembered.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Nats> {
    let urls = reader.take("nats.url", |raw| addresses(raw, &["nats", "tls"]));
    let namespace = reader.take_or("nats.namespace", "piton", namespace);
    let node = reader.take("nats.node", node);
    let monitors = reader.take("nats.monitor", |raw| addresses(raw, &["http"])).unwrap_or_default();
    let replicas = reader.take_or("nats.replicas", "1", replicas);
    let shard_bytes_max = reader.take_or(
        "nats.shard_bytes_max",
        "8589934592",
        rule::count(64 << 20, 1 << 50, "bytes"),
    );
    let allow_lazy_fsync = reader.take_or("nats.allow_lazy_fsync", "false", rule::switch);
    let events_text = reader.take_or("nats.events_text", "false", rule::switch);
    let user = reader.take("nats.user", |raw| {
        rule::text(raw).map(str::to_owned).ok_or_else(|| broken("give a user's name"))
    });
    let roots = reader.take("nats.ca_file", |raw| {
        let file = rule::text(raw).filter(|text| !text.is_empty()).map(PathBuf::from);
        file.ok_or_else(|| broken("give the path of a PEM file"))
    });
    let cluster_key = reader.take("nats.cluster_key", |raw| {
        let file = rule::text(raw).map(PathBuf::from);
        file.ok_or_else(|| broken("give the path of the cluster key file"))
    });
    let password = reader.environment.secret(PASSWORD);
    Some(Nats {
        urls: urls?,
        namespace: namespace?,
        node,
        monitors,
        replicas: replicas?,
        shard_bytes_max: i64::try_from(shard_bytes_max?).unwrap_or(i64::MAX),
        allow_lazy_fsync: allow_lazy_fsync?,
        events_text: events_text?,
        user: user.map(|user| (user, password.unwrap_or_else(|| Secret::new(String::new())))),
        roots: roots.into_iter().collect(),
        cluster_key,
    })
}

fn broken(rule: &str) -> Broken {
    Broken::Shown(rule.to_owned())
}

/// Addresses with commas between them. They are not printed: people put passwords into addresses.
fn addresses(raw: &Raw, schemes: &[&str]) -> Result<Vec<String>, Broken> {
    let rule = || {
        let scheme = schemes.first().copied().unwrap_or_default();
        Broken::Hidden(format!(
            "give 1 to {ADDRESSES_MAX} addresses as {scheme}://HOST:PORT with commas between them, without user and \
             password (nats.user and {PASSWORD} are for those)"
        ))
    };
    let text = rule::text(raw).ok_or_else(rule)?;
    let one = |text: &str| {
        let url = Url::parse(text.trim()).ok()?;
        let plain = url.username().is_empty() && url.password().is_none();
        let bare = matches!(url.path(), "" | "/") && url.query().is_none();
        let known = schemes.contains(&url.scheme()) && url.has_host();
        (plain && bare && known).then(|| text.trim().trim_end_matches('/').to_owned())
    };
    let found: Option<Vec<String>> = text.split(',').map(one).collect();
    found.filter(|all| all.len() <= ADDRESSES_MAX).ok_or_else(rule)
}

fn namespace(raw: &Raw) -> Result<Namespace, Broken> {
    let text = rule::text(raw).unwrap_or_default();
    text.parse().map_err(|error| broken(&format!("{error}")))
}

fn node(raw: &Raw) -> Result<String, Broken> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match rule::text(raw) {
        Some(text) if (1..=32).contains(&text.len()) && text.chars().all(allowed) => {
            Ok(text.to_owned())
        }
        Some(_) | None => Err(broken("give 1 to 32 characters of a-z, 0-9 and -")),
    }
}

fn replicas(raw: &Raw) -> Result<usize, Broken> {
    let number = rule::count(1, 5, "copies")(raw)?;
    if number % 2 == 1 { Ok(number) } else { Err(broken("give 1, 3 or 5")) }
}

/// The name of a file that keeps a drawn name of this node.
pub const NODE_NAME_FILE: &str = "node-name";

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(text: &str) -> Raw {
        Raw::Spoken(text.to_owned())
    }

    #[test]
    fn addresses_are_a_list_and_carry_no_secret() {
        let two = addresses(&spoken("nats://a:4222, tls://b:4222/"), &["nats", "tls"]);
        assert_eq!(two, Ok(vec!["nats://a:4222".to_owned(), "tls://b:4222".to_owned()]));
        for bad in ["", "a:4222", "nats://", "nats://u:planted@a:1", "http://a:1", "nats://a:1/x"] {
            let Err(Broken::Hidden(rule)) = addresses(&spoken(bad), &["nats", "tls"]) else {
                panic!("{bad}")
            };
            assert!(!rule.contains("planted"), "{rule}");
        }
    }

    #[test]
    fn copies_are_odd_and_names_are_tokens() {
        assert_eq!(replicas(&spoken("3")), Ok(3));
        assert!(replicas(&spoken("2")).is_err() && replicas(&spoken("7")).is_err());
        assert_eq!(node(&spoken("node-1")), Ok("node-1".to_owned()));
        assert!(node(&spoken("Node")).is_err() && node(&spoken("a.b")).is_err());
    }
}
