//! The tables of this node, by kind of stream.

use actors::bus::Nats;
use actors::clock::Clock;
use actors::directory::Serves;
use actors::host::Hosted;
use actors::table::{Drained, Table};
use events::about::About;
use events::artifact::Artifacts;
use events::budget::Budget;
use events::credential::Credential;
use events::gate::Gates;
use events::grant::Grant;
use events::id::Partition;
use events::key::Key;
use events::quantity::{Instant, Millis};
use events::run::Run;
use events::session::Session;
use events::settings::Settings;
use std::fmt;
use std::sync::Arc;

/// How long sessions get to take in the ends of the runs that came to rest.
const SESSIONS: Millis = Millis(1_000);

/// Where streams are served in this process.
pub struct Directory {
    /// The sessions.
    pub sessions: Arc<Table<Session>>,
    /// The runs.
    pub runs: Arc<Table<Run>>,
    /// The keys.
    pub keys: Arc<Table<Key>>,
    /// The journal's settings.
    pub settings: Arc<Table<Settings>>,
    /// The providers' credentials.
    pub credentials: Arc<Table<Credential>>,
    /// The budgets.
    pub budgets: Arc<Table<Budget>>,
    /// The projects' standing grants.
    pub grants: Arc<Table<Grant>>,
    /// The projects' gates.
    pub gates: Arc<Table<Gates>>,
    /// The artifacts of projects.
    pub artifacts: Arc<Table<Artifacts>>,
    /// What projects say of themselves.
    pub abouts: Arc<Table<About>>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Directory {
    /// The streams that are left alone because their host fell too often.
    #[must_use]
    pub fn parked(&self) -> Vec<String> {
        fn of<A: Hosted>(table: &Table<A>) -> impl Iterator<Item = String> {
            table.parked().into_iter().map(|(id, _until)| A::stream(&id).to_string())
        }
        of(&self.sessions)
            .chain(of(&self.runs))
            .chain(of(&self.keys))
            .chain(of(&self.settings))
            .chain(of(&self.credentials))
            .chain(of(&self.budgets))
            .chain(of(&self.grants))
            .chain(of(&self.gates))
            .chain(of(&self.artifacts))
            .chain(of(&self.abouts))
            .collect()
    }

    /// Comes to rest: runs first, whose ends the sessions take in.
    pub async fn drain(&self, clock: &Clock, deadline: Instant) -> usize {
        let cut = |drained| match drained {
            Drained::Quiet => 0,
            Drained::Cut { hosts } => hosts,
        };
        let runs = cut(self.runs.drain(deadline).await);
        // What they drive is at rest; those of held runs would wait for it until the deadline.
        let soon = clock.now().after(SESSIONS).min(deadline);
        let _driving = self.sessions.drain(soon).await;
        let keys = cut(self.keys.drain(deadline).await);
        let settings = cut(self.settings.drain(deadline).await);
        let credentials = cut(self.credentials.drain(deadline).await);
        let budgets = cut(self.budgets.drain(deadline).await);
        let ruled = cut(self.grants.drain(deadline).await) + cut(self.gates.drain(deadline).await);
        let artifacts = cut(self.artifacts.drain(deadline).await);
        let abouts = cut(self.abouts.drain(deadline).await);
        runs + keys + settings + credentials + budgets + ruled + artifacts + abouts
    }
}

impl Directory {
    /// Answers other nodes for every kind of stream here.
    pub fn answer_on(&self, bus: &Nats<Self>) {
        bus.answer_for(&self.sessions);
        bus.answer_for(&self.runs);
        bus.answer_for(&self.keys);
        bus.answer_for(&self.settings);
        bus.answer_for(&self.credentials);
        bus.answer_for(&self.budgets);
        bus.answer_for(&self.grants);
        bus.answer_for(&self.gates);
        bus.answer_for(&self.artifacts);
        bus.answer_for(&self.abouts);
    }

    /// Lets the streams of a partition in.
    pub fn serve(&self, partition: Partition) {
        self.sessions.serve(partition);
        self.runs.serve(partition);
        self.keys.serve(partition);
        self.settings.serve(partition);
        self.credentials.serve(partition);
        self.budgets.serve(partition);
        self.grants.serve(partition);
        self.gates.serve(partition);
        self.artifacts.serve(partition);
        self.abouts.serve(partition);
    }

    /// Comes to rest in one partition, as [`Self::drain`] does in all.
    pub async fn hand_over(&self, partition: Partition, clock: &Clock, deadline: Instant) {
        let runs = self.runs.hand_over(partition, deadline).await;
        let soon = clock.now().after(SESSIONS).min(deadline);
        let sessions = self.sessions.hand_over(partition, soon).await;
        let keys = self.keys.hand_over(partition, deadline).await;
        let settings = self.settings.hand_over(partition, deadline).await;
        let credentials = self.credentials.hand_over(partition, deadline).await;
        let budgets = self.budgets.hand_over(partition, deadline).await;
        let grants = self.grants.hand_over(partition, deadline).await;
        let gates = self.gates.hand_over(partition, deadline).await;
        let artifacts = self.artifacts.hand_over(partition, deadline).await;
        let abouts = self.abouts.hand_over(partition, deadline).await;
        let named = (keys, settings, credentials, budgets);
        let of_projects = (grants, gates, artifacts, abouts);
        let partition = partition.number();
        tracing::debug!(partition, ?runs, ?sessions, ?named, ?of_projects, "at rest");
    }

    /// Ends the hosts of a partition at once, and their effects: no kind waits for another's to be gone.
    pub async fn lose(&self, partition: Partition) {
        tokio::join!(
            self.runs.lose(partition),
            self.sessions.lose(partition),
            self.keys.lose(partition),
            self.settings.lose(partition),
            self.credentials.lose(partition),
            self.budgets.lose(partition),
            self.grants.lose(partition),
            self.gates.lose(partition),
            self.artifacts.lose(partition),
            self.abouts.lose(partition)
        );
    }
}

impl Serves<Session> for Directory {
    fn table(&self) -> Option<&Arc<Table<Session>>> {
        Some(&self.sessions)
    }
}

impl Serves<Run> for Directory {
    fn table(&self) -> Option<&Arc<Table<Run>>> {
        Some(&self.runs)
    }
}

impl Serves<Key> for Directory {
    fn table(&self) -> Option<&Arc<Table<Key>>> {
        Some(&self.keys)
    }
}

impl Serves<Settings> for Directory {
    fn table(&self) -> Option<&Arc<Table<Settings>>> {
        Some(&self.settings)
    }
}

impl Serves<Credential> for Directory {
    fn table(&self) -> Option<&Arc<Table<Credential>>> {
        Some(&self.credentials)
    }
}

impl Serves<Budget> for Directory {
    fn table(&self) -> Option<&Arc<Table<Budget>>> {
        Some(&self.budgets)
    }
}

impl Serves<Grant> for Directory {
    fn table(&self) -> Option<&Arc<Table<Grant>>> {
        Some(&self.grants)
    }
}

impl Serves<Gates> for Directory {
    fn table(&self) -> Option<&Arc<Table<Gates>>> {
        Some(&self.gates)
    }
}

impl Serves<Artifacts> for Directory {
    fn table(&self) -> Option<&Arc<Table<Artifacts>>> {
        Some(&self.artifacts)
    }
}

impl Serves<About> for Directory {
    fn table(&self) -> Option<&Arc<Table<About>>> {
        Some(&self.abouts)
    }
}
