//! Where the servers are, which journal on them is meant, and every bound of the store on them.

use crate::Faults;
use events::record::{Boot, JournalId};
use events::subject::Namespace;
use std::{fmt, path::PathBuf, time::Duration};

/// `JetStream` streams of one generation; partition p stands in the one of p modulo this. Never change it: a session's
/// sequences are those of its stream.
pub const SHARDS: u16 = 8;

/// How a client says who it is.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// By a user's name and password.
    Password {
        /// The user.
        user: String,
        /// A secret: not shown.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Password { user, .. } => write!(f, "user {user}"),
        }
    }
}

/// Servers of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// `nats://host:port`, at least one.
    pub urls: Vec<String>,
    /// Who we are.
    pub credentials: Credentials,
    /// Certificates that the servers' own are checked against; the system's when empty.
    pub roots: Vec<PathBuf>,
    /// An outage after which the connection is given up and made anew, so that what it still holds dies with it: a
    /// client sends what it has buffered when it is back, long after its callers were told that nothing is known. Below
    /// the lease's time to live.
    pub outage_max: Duration,
}

/// [`Servers::outage_max`] unless told otherwise: below the lease of 15 s.
pub const OUTAGE_MAX: Duration = Duration::from_secs(10);

impl Servers {
    /// At these addresses, without credentials.
    #[must_use]
    pub fn at(urls: Vec<String>) -> Self {
        Self { urls, credentials: Credentials::None, roots: vec![], outage_max: OUTAGE_MAX }
    }
}

/// What is done about servers of which it is not proved that they sync before they acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LazySync {
    /// The journal is not opened.
    #[default]
    Refuse,
    /// It is opened, and says so wherever it is asked: a power failure may lose what was acknowledged.
    Allow,
}

/// How to open a journal on NATS.
#[derive(Debug, Clone)]
pub struct Connect {
    /// Where.
    pub servers: Servers,
    /// `http://host:port` of every server's monitoring, for the proof that it syncs.
    pub monitors: Vec<String>,
    /// Which journal.
    pub namespace: Namespace,
    /// This life of the process.
    pub boot: Boot,
    /// The name that a new journal gets; an existing one has its own.
    pub fresh: JournalId,
    /// Copies of each stream: 1, or 3 where there are 3 servers. Of a new journal only.
    pub replicas: usize,
    /// Bytes of one shard's stream, of a new journal only. A full one refuses appends; it never drops the oldest.
    pub shard_bytes_max: i64,
    /// What is done when syncing is not proved.
    pub lazy_sync: LazySync,
    /// What may go wrong on purpose.
    pub faults: Faults,
}

/// [`Connect::shard_bytes_max`] unless told otherwise: a server reserves it. 8 shards of it fit a small disk.
pub const SHARD_BYTES_MAX: i64 = 8 << 30;

/// How long one request to a server may take. An answer on a healthy cluster takes milliseconds.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(2);
/// How long an append is published and looked for before it is called unknown. The caller then waits at its own gate;
/// an election takes 4 to 8 s and is waited for there.
pub(super) const APPEND_MAX: Duration = Duration::from_secs(5);
/// How long a read tries to reach a leader, and a direct get a replica that is not behind.
pub(super) const READ_MAX: Duration = Duration::from_secs(5);
/// How long opening waits for leaders: a cluster that starts takes 10 s to elect them.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(25);
/// The first wait between two tries, and the longest; each is twice the one before.
pub(super) const WAIT_FIRST: Duration = Duration::from_millis(20);
/// The longest wait between two tries.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(500);
/// Appends at a time on one connection; more wait for room.
pub(super) const IN_FLIGHT_MAX: usize = 1_024;
/// Streams whose tail is remembered, so that it is not read again before each append; about 250 bytes each.
pub(super) const TAILS_MAX: usize = 65_536;
/// How long a server remembers commit ids. Short, for they cost memory; the slot rule settles repeats without them.
pub(super) const DUPLICATES_WINDOW: Duration = Duration::from_secs(10);
/// Consumers of one stream: one for each node and a few for tools.
pub(super) const CONSUMERS_MAX: i32 = 256;
/// How often the proof of syncing is taken again.
pub(super) const PROOF_EVERY: Duration = Duration::from_secs(60);
/// How often while a server does not answer: when it is back, it may be set up otherwise.
pub(super) const PROOF_AGAIN: Duration = Duration::from_secs(5);
/// A server that its stream's leader has heard of within this time is there: three missed heartbeats and some.
pub(super) const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of one piece of a blob or snapshot, below every server's largest message.
pub(super) const PIECE_BYTES: usize = 512 << 10;
/// Bytes that a commit's headers and subject take of a message at most.
pub(super) const HEADER_BYTES: usize = 2 << 10;
