//! How NATS subjects are spelt, and nowhere else: built from typed parts, parsed back into them.
//!
//! A token that held a dot or a wildcard would reach, or listen to, somebody else's subject; so text becomes a
//! [`Token`] once and is never checked again. Two builds that spell differently do not hear each other: the spellings
//! are golden.

use crate::id::{Generation, Partition};
use crate::journal;
use crate::record::{Boot, Hash, Shard, StreamKey};
use std::{fmt, str::FromStr};

/// Bytes of the longest token.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Bytes of the longest namespace; it stands in names of streams and buckets too.
pub const NAMESPACE_BYTES_MAX: usize = 32;

/// One part of a subject: printable ASCII without blank, dot, star and greater-than; 1 to 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(String);

/// The text can not stand in a subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can not be a part of a subject: give 1 to {TOKEN_BYTES_MAX} printable ASCII characters without blank, dot, star and greater-than"
)]
pub struct NotAToken(pub String);

impl Token {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Token {
    /// A project's part of a subject: its name, or what stands for a name that can not be one.
    #[must_use]
    pub fn of_project(name: &str) -> Self {
        name.parse().unwrap_or_else(|_| Self(format!("project-{}", journal::hash(name.as_bytes()))))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let allowed = |c: u8| c.is_ascii_graphic() && !matches!(c, b'.' | b'*' | b'>');
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(NotAToken(shown(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

fn shown(text: &str) -> String {
    text.chars().take(TOKEN_BYTES_MAX).collect()
}

/// One journal and its bus on a NATS cluster, told from others that share the cluster: `[a-z0-9_-]`, 1 to 32.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

/// The text can not name a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a namespace: give 1 to {NAMESPACE_BYTES_MAX} characters of a-z 0-9 _ -")]
pub struct NotANamespace(pub String);

impl FromStr for Namespace {
    type Err = NotANamespace;

    fn from_str(text: &str) -> Result<Self, NotANamespace> {
        let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if text.is_empty() || text.len() > NAMESPACE_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(NotANamespace(shown(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is said or asked on a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A command to the owner of a stream's partition; request and reply.
    Command(StreamKey),
    /// Drain, observe and ring requests to one node, whichever life of it.
    Node(Token),
    /// One life of a node: where nobody listens there, that life is over.
    Life(Boot),
    /// A tool server that lives on some node.
    Mcp(Token),
    /// A run's token deltas, best effort.
    Delta {
        /// The run's project.
        project: Token,
        /// The run.
        run: Token,
    },
    /// A public event, for programs outside.
    Event {
        /// The stream's project.
        project: Token,
        /// The stream it stands in.
        stream: StreamKey,
        /// The event's name.
        event: Token,
    },
    /// A commit in a journal's stream; not for outsiders.
    Journal(StreamKey),
    /// A part of a blob; not for outsiders.
    Blob(Hash, Part),
    /// A part of a stream's snapshot; never [`Part::Erased`]. Not for outsiders.
    Snapshot(StreamKey, Part),
    /// What a journal keeps about itself; not for outsiders.
    Meta(Meta),
}

/// What is kept of a large thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// That it is whole, and its size.
    Head,
    /// That it was erased.
    Erased,
    /// Its nth piece, from 0.
    Piece(u32),
}

/// What a journal keeps about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// Its name and how far its making is.
    Journal,
    /// A write that only shows that writes land.
    Probe,
    /// How far a shard has been told to programs outside.
    Told(Shard),
    /// How far a shard has been told to a webhook, which is known by a number.
    Hook(u64, Shard),
}

/// The text is not a subject of this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a subject of this build")]
pub struct NotASubject(pub String);

/// Two digits, so that subjects sort.
fn partition(partition: Partition) -> String {
    format!("{:02}", partition.number())
}

/// `pp.kind.id`.
fn place(stream: &StreamKey) -> String {
    format!("{}.{}.{}", partition(stream.partition()), stream.kind().name(), stream.id())
}

impl Namespace {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The spelling of a subject.
    #[must_use]
    pub fn spell(&self, subject: &Subject) -> String {
        match subject {
            Subject::Command(stream) => format!("piton.{self}.cmd.{}", place(stream)),
            Subject::Node(node) => format!("piton.{self}.node.{node}"),
            Subject::Life(boot) => format!("piton.{self}.life.{:032x}", boot.0),
            Subject::Mcp(server) => format!("piton.{self}.mcp.{server}"),
            Subject::Delta { project, run } => format!("piton.{self}.delta.{project}.{run}"),
            Subject::Event { project, stream, event } => {
                let (kind, id) = (stream.kind().name(), stream.id());
                format!("piton.{self}.evt.{project}.{kind}.{id}.{event}")
            }
            Subject::Journal(stream) => format!("ev.{self}.{}", place(stream)),
            Subject::Blob(hash, Part::Head) => format!("blob.{self}.head.{hash}"),
            Subject::Blob(hash, Part::Erased) => format!("blob.{self}.erased.{hash}"),
            Subject::Blob(hash, Part::Piece(nth)) => format!("blob.{self}.piece.{hash}.{nth}"),
            Subject::Snapshot(stream, Part::Head) => format!("snap.{self}.{}.head", place(stream)),
            Subject::Snapshot(stream, Part::Erased) => {
                format!("snap.{self}.{}.erased", place(stream))
            }
            Subject::Snapshot(stream, Part::Piece(nth)) => {
                format!("snap.{self}.{}.{nth}", place(stream))
            }
            Subject::Meta(Meta::Journal) => format!("meta.{self}.journal"),
            Subject::Meta(Meta::Probe) => format!("meta.{self}.probe"),
            Subject::Meta(Meta::Told(shard)) => format!("meta.{self}.told-{}", shard.0),
            Subject::Meta(Meta::Hook(hook, shard)) => {
                format!("meta.{self}.hook-{hook:016x}-{}", shard.0)
            }
        }
    }

    /// All commands to a partition's owner.
    #[must_use]
    pub fn commands_of(&self, owned: Partition) -> String {
        format!("piton.{self}.cmd.{}.>", partition(owned))
    }

    /// The bucket of leases.
    #[must_use]
    pub fn lease_bucket(&self) -> String {
        format!("LEASE_{self}")
    }

    /// The `JetStream` stream that holds the bucket of leases.
    #[must_use]
    pub fn lease_stream(&self) -> String {
        format!("KV_LEASE_{self}")
    }

    /// The subject of a partition's lease: its key in the bucket is `p.05`.
    #[must_use]
    pub fn lease_of(&self, owned: Partition) -> String {
        format!("$KV.LEASE_{self}.p.{}", partition(owned))
    }

    /// The subject of a live node's word in the bucket of leases: its key is `node.` and the node's name, a token.
    #[must_use]
    pub fn member_of(&self, node: &str) -> String {
        format!("$KV.LEASE_{self}.node.{node}")
    }

    /// The node whose word a key of the bucket is.
    #[must_use]
    pub fn member(key: &str) -> Option<&str> {
        key.strip_prefix("node.")
    }

    /// The subject of the fence of a node in the bucket of leases: its key is `fence.` and the node's name.
    #[must_use]
    pub fn fence_of(&self, node: &str) -> String {
        format!("$KV.LEASE_{self}.fence.{node}")
    }

    /// The node whose fence a key of the bucket is.
    #[must_use]
    pub fn fenced(key: &str) -> Option<&str> {
        key.strip_prefix("fence.")
    }

    /// The partition whose lease a key of the bucket is.
    #[must_use]
    pub fn leased(key: &str) -> Option<Partition> {
        let number = key.strip_prefix("p.")?;
        Partition::all().find(|owned| partition(*owned) == number)
    }

    /// The token deltas of a run, whatever its project.
    #[must_use]
    pub fn deltas_of(&self, run: &Token) -> String {
        format!("piton.{self}.delta.*.{run}")
    }

    /// The `JetStream` stream that holds the vault's bucket.
    #[must_use]
    pub fn vault_stream(&self) -> String {
        format!("KV_VAULT_{self}")
    }

    /// Everything of the vault.
    #[must_use]
    pub fn vault(&self) -> String {
        format!("$KV.VAULT_{self}.>")
    }

    /// The subject of a value in the vault; its name is made of tokens with dots between them.
    #[must_use]
    pub fn vault_of(&self, name: &str) -> String {
        format!("$KV.VAULT_{self}.{name}")
    }

    /// The name of the value in the vault whose subject this is.
    #[must_use]
    pub fn vaulted<'a>(&self, subject: &'a str) -> Option<&'a str> {
        subject.strip_prefix(&format!("$KV.VAULT_{self}."))
    }

    /// All public events of a project.
    #[must_use]
    pub fn events_of(&self, project: &Token) -> String {
        format!("piton.{self}.evt.{project}.>")
    }

    /// All public events.
    #[must_use]
    pub fn events(&self) -> String {
        format!("piton.{self}.evt.>")
    }

    /// All commits of a partition.
    #[must_use]
    pub fn journal_of(&self, owned: Partition) -> String {
        format!("ev.{self}.{}.>", partition(owned))
    }

    /// The `JetStream` stream of a shard: `EV_<namespace>_<shard>_<generation>`. Read from its end, it is unambiguous.
    #[must_use]
    pub fn shard_stream(&self, shard: u16, generation: Generation) -> String {
        format!("EV_{self}_{shard}_{}", generation.number())
    }

    /// The `JetStream` stream of the blobs.
    #[must_use]
    pub fn blob_stream(&self) -> String {
        format!("BLOB_{self}")
    }

    /// The `JetStream` stream of the snapshots.
    #[must_use]
    pub fn snapshot_stream(&self) -> String {
        format!("SNAP_{self}")
    }

    /// The `JetStream` stream of what the journal keeps about itself.
    #[must_use]
    pub fn meta_stream(&self) -> String {
        format!("META_{self}")
    }

    /// Everything of the snapshots.
    #[must_use]
    pub fn snapshots(&self) -> String {
        format!("snap.{self}.>")
    }

    /// Everything that the journal keeps about itself.
    #[must_use]
    pub fn metas(&self) -> String {
        format!("meta.{self}.*")
    }

    /// Everything of the blobs.
    #[must_use]
    pub fn blobs(&self) -> String {
        format!("blob.{self}.>")
    }

    /// The heads of blobs that are whole.
    #[must_use]
    pub fn blob_heads(&self) -> String {
        format!("blob.{self}.head.*")
    }

    /// Reads a subject of this namespace back.
    ///
    /// # Errors
    ///
    /// [`NotASubject`] when it is another namespace's, or not spelt as this build spells.
    pub fn parse(&self, text: &str) -> Result<Subject, NotASubject> {
        let subject = self.read(text).filter(|subject| self.spell(subject) == text);
        subject.ok_or_else(|| NotASubject(text.chars().take(2 * TOKEN_BYTES_MAX).collect()))
    }

    fn read(&self, text: &str) -> Option<Subject> {
        let tokens: Vec<&str> = text.split('.').collect();
        let token = |text: &str| text.parse::<Token>().ok();
        let stream = |kind: &str, id: &str| format!("{kind}/{id}").parse::<StreamKey>().ok();
        let ours = self.as_str();
        match tokens.as_slice() {
            ["piton", name, "cmd", _, kind, id] if *name == ours => {
                Some(Subject::Command(stream(kind, id)?))
            }
            ["piton", name, "node", node] if *name == ours => Some(Subject::Node(token(node)?)),
            ["piton", name, "life", boot] if *name == ours => {
                Some(Subject::Life(Boot(u128::from_str_radix(boot, 16).ok()?)))
            }
            ["piton", name, "mcp", server] if *name == ours => Some(Subject::Mcp(token(server)?)),
            ["piton", name, "delta", project, run] if *name == ours => {
                Some(Subject::Delta { project: token(project)?, run: token(run)? })
            }
            ["piton", name, "evt", project, kind, id, event] if *name == ours => {
                let (project, event) = (token(project)?, token(event)?);
                Some(Subject::Event { project, stream: stream(kind, id)?, event })
            }
            ["ev", name, _, kind, id] if *name == ours => Some(Subject::Journal(stream(kind, id)?)),
            ["blob", name, "head", hash] if *name == ours => {
                Some(Subject::Blob(read_hash(hash)?, Part::Head))
            }
            ["blob", name, "erased", hash] if *name == ours => {
                Some(Subject::Blob(read_hash(hash)?, Part::Erased))
            }
            ["blob", name, "piece", hash, nth] if *name == ours => {
                Some(Subject::Blob(read_hash(hash)?, Part::Piece(nth.parse().ok()?)))
            }
            ["snap", name, _, kind, id, part] if *name == ours => {
                let part = match *part {
                    "head" => Part::Head,
                    nth => Part::Piece(nth.parse().ok()?),
                };
                Some(Subject::Snapshot(stream(kind, id)?, part))
            }
            ["meta", name, "journal"] if *name == ours => Some(Subject::Meta(Meta::Journal)),
            ["meta", name, "probe"] if *name == ours => Some(Subject::Meta(Meta::Probe)),
            ["meta", name, hook] if *name == ours && hook.starts_with("hook-") => {
                let (hook, shard) = hook.strip_prefix("hook-")?.split_once('-')?;
                let hook = u64::from_str_radix(hook, 16).ok().filter(|_| hook.len() == 16)?;
                Some(Subject::Meta(Meta::Hook(hook, Shard(shard.parse().ok()?))))
            }
            ["meta", name, told] if *name == ours => {
                let shard = told.strip_prefix("told-")?.parse().ok()?;
                Some(Subject::Meta(Meta::Told(Shard(shard))))
            }
            _ => None,
        }
    }
}

fn read_hash(text: &str) -> Option<Hash> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = Hash::default();
    for (nth, byte) in hash.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * nth..2 * nth + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Place, RunId};
    use crate::record::StreamKind;

    fn token(text: &str) -> Token {
        text.parse().unwrap()
    }

    fn ours() -> Namespace {
        "prod".parse().unwrap()
    }

    /// One of each, with its spelling.
    fn all() -> Vec<(Subject, &'static str)> {
        let place = Place { partition: Partition::of(5), ..Place::default() };
        let run = StreamKey::rooted(StreamKind::Run, place.partition, &RunId::new(place, 7));
        let (project, event) = (token("default"), token("tool_asked"));
        let hash = Hash([0xab; 32]);
        let delta = Subject::Delta {
            project: project.clone(),
            run: token(&RunId::new(place, 7).to_string()),
        };
        vec![
            (
                Subject::Command(run.clone()),
                "piton.prod.cmd.05.run.run_050000000000000000000000000007",
            ),
            (Subject::Node(token("node-1")), "piton.prod.node.node-1"),
            (Subject::Life(Boot(0xab)), "piton.prod.life.000000000000000000000000000000ab"),
            (Subject::Mcp(token("files")), "piton.prod.mcp.files"),
            (delta, "piton.prod.delta.default.run_050000000000000000000000000007"),
            (
                Subject::Event { project, stream: run.clone(), event },
                "piton.prod.evt.default.run.run_050000000000000000000000000007.tool_asked",
            ),
            (
                Subject::Snapshot(run.clone(), Part::Head),
                "snap.prod.05.run.run_050000000000000000000000000007.head",
            ),
            (
                Subject::Snapshot(run.clone(), Part::Piece(3)),
                "snap.prod.05.run.run_050000000000000000000000000007.3",
            ),
            (Subject::Meta(Meta::Journal), "meta.prod.journal"),
            (Subject::Meta(Meta::Probe), "meta.prod.probe"),
            (Subject::Meta(Meta::Told(Shard(3))), "meta.prod.told-3"),
            (Subject::Meta(Meta::Hook(171, Shard(3))), "meta.prod.hook-00000000000000ab-3"),
            (Subject::Journal(run), "ev.prod.05.run.run_050000000000000000000000000007"),
            (
                Subject::Blob(hash, Part::Head),
                "blob.prod.head.abababababababababababababababababababababababababababababababab",
            ),
            (
                Subject::Blob(hash, Part::Erased),
                "blob.prod.erased.abababababababababababababababababababababababababababababababab",
            ),
            (
                Subject::Blob(hash, Part::Piece(12)),
                "blob.prod.piece.abababababababababababababababababababababababababababababababab.12",
            ),
        ]
    }

    #[test]
    fn a_subject_is_spelt_as_it_always_was_and_reads_back() {
        for (subject, spelling) in all() {
            assert_eq!(ours().spell(&subject), spelling);
            assert_eq!(ours().parse(spelling), Ok(subject));
        }
        let five = Partition::of(5);
        assert_eq!(ours().commands_of(five), "piton.prod.cmd.05.>");
        assert_eq!(ours().lease_of(five), "$KV.LEASE_prod.p.05");
        assert_eq!(ours().lease_stream(), format!("KV_{}", ours().lease_bucket()));
        assert_eq!(ours().vault_stream(), "KV_VAULT_prod");
        let value = ours().vault_of("credential.openai.main");
        assert_eq!(value, "$KV.VAULT_prod.credential.openai.main");
        assert_eq!(ours().vaulted(&value), Some("credential.openai.main"));
        assert_eq!(ours().vaulted("$KV.VAULT_other.a"), None);
        assert_eq!(ours().member_of("node-1"), "$KV.LEASE_prod.node.node-1");
        assert_eq!(["node.node-1", "p.05"].map(Namespace::member), [Some("node-1"), None]);
        assert_eq!(ours().fence_of("node-1"), "$KV.LEASE_prod.fence.node-1");
        assert_eq!(["fence.node-1", "node.a"].map(Namespace::fenced), [Some("node-1"), None]);
        assert_eq!(Namespace::leased("p.05"), Some(five));
        assert_eq!(["p.5", "p.64", "p.", "05", "p.05.x"].map(Namespace::leased), [None; 5]);
        assert_eq!(ours().journal_of(five), "ev.prod.05.>");
        assert_eq!(ours().events_of(&token("default")), "piton.prod.evt.default.>");
        assert_eq!(ours().events(), "piton.prod.evt.>");
        assert_eq!(ours().deltas_of(&token("run_05")), "piton.prod.delta.*.run_05");
        assert_eq!(ours().blobs(), "blob.prod.>");
        assert_eq!(ours().blob_heads(), "blob.prod.head.*");
        assert_eq!(ours().snapshots(), "snap.prod.>");
        assert_eq!(ours().metas(), "meta.prod.*");
        let names = [ours().blob_stream(), ours().snapshot_stream(), ours().meta_stream()];
        assert_eq!(names, ["BLOB_prod", "SNAP_prod", "META_prod"]);
        assert_eq!(ours().shard_stream(7, Generation::FIRST), "EV_prod_7_0");
    }

    #[test]
    fn what_this_build_does_not_spell_is_not_read() {
        let other: Namespace = "other".parse().unwrap();
        for (subject, spelling) in all() {
            assert!(other.parse(spelling).is_err(), "{subject:?} of another namespace");
            for bad in [
                format!("{spelling}.more"),
                format!(".{spelling}"),
                spelling.to_uppercase(),
                spelling.replacen("prod", "prod.prod", 1),
                spelling.rsplit_once('.').unwrap().0.to_owned(),
                spelling.replacen(".05.", ".06.", 1),
                spelling.replacen("default", "de*ault", 1),
                format!("{}.", spelling.rsplit_once('.').unwrap().0),
            ] {
                assert!(bad == spelling || ours().parse(&bad).is_err(), "{bad}");
            }
        }
        assert!(ours().parse("ev.prod.5.run.run_050000000000000000000000000007").is_err());
        let piece = "ab".repeat(32);
        assert!(ours().parse(&format!("blob.prod.piece.{piece}.01")).is_err());
        assert!(ours().parse(&format!("blob.prod.piece.{piece}.+1")).is_err());
    }

    #[test]
    fn a_token_holds_nothing_that_means_something_to_the_server() {
        for good in ["a", "~", "run_05", "A-b", &"x".repeat(TOKEN_BYTES_MAX)] {
            assert_eq!(good.parse::<Token>().unwrap().as_str(), good);
        }
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for bad in ["", "a.b", "*", ">", "a>", "a b", "a\tb", "a\n", "ä", "\0", "\u{7f}", &long] {
            assert!(bad.parse::<Token>().is_err(), "{bad:?}");
        }
        assert_eq!(Token::of_project("default"), token("default"));
        let (named, other) = (Token::of_project("a.*"), Token::of_project("a.>"));
        assert!(named != other && named.as_str().starts_with("project-"), "{named} {other}");
        for good in ["a", "prod-1", "a_b", &"x".repeat(NAMESPACE_BYTES_MAX)] {
            assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a.b", "a~b", "ä", &"x".repeat(NAMESPACE_BYTES_MAX + 1)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        }
    }
}
