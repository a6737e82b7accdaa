//! What every host of a node shares: the store and the gate before it, time, chance, room and the agenda.

use crate::agenda::Agenda;
use crate::clock::Clock;
use crate::cluster::mandate::Mandate;
use crate::entropy::Entropy;
use crate::health::Gate;
use crate::permit::Permits;
use crate::served::Fences;
use store::Store;

/// One node of one process; clone it freely.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where events are kept.
    pub store: Store,
    /// What says what time it is.
    pub clock: Clock,
    /// Where random numbers come from.
    pub entropy: Entropy,
    /// Closed while the store is out.
    pub gate: Gate,
    /// Who wakes work.
    pub agenda: Agenda,
    /// Room for commands, over all streams.
    pub permits: Permits,
    /// Where other owners were met.
    pub fences: Fences,
    /// Until when it may act.
    pub mandate: Mandate,
}

impl Node {
    /// A node of its own over a store, with its gate open and its agenda not started.
    #[must_use]
    pub fn new(store: Store, clock: Clock, entropy: Entropy) -> Self {
        let gate = Gate::new(store.clone(), clock.clone(), entropy.clone());
        let agenda = Agenda::new(store.clone(), clock.clone(), gate.clone());
        let (permits, fences) = (Permits::of_node(), Fences::none());
        let mandate = Mandate::alone();
        Self { store, clock, entropy, gate, agenda, permits, fences, mandate }
    }
}
