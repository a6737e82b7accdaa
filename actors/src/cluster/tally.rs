//! What becomes of leases, counted by the node that it happens to: how long it took to get one, and why one went.

use super::Uptime;
use super::lease::{Belongs, Why};
use crate::metric::{self, From};
use events::id::Partition;
use events::record::Epoch;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The partitions that belong to this node, and since when it has wanted those that it has no lease of.
#[derive(Debug, Default)]
pub(super) struct Tally {
    here: BTreeSet<Partition>,
    wanted: BTreeMap<Partition, Wanted>,
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    since: Uptime,
    from: From,
}

impl Tally {
    /// Where a partition belongs now; `owned` when this node has the lease of it.
    pub(super) fn placed(
        &mut self,
        (partition, belongs): (Partition, Belongs),
        owned: Option<Epoch>,
        now: Uptime,
    ) {
        match belongs {
            Belongs::Here => {
                self.here.insert(partition);
                if owned.is_none() {
                    self.wants(partition, now);
                }
            }
            Belongs::Elsewhere => {
                self.here.remove(&partition);
                self.wanted.remove(&partition);
            }
        }
    }

    fn wants(&mut self, partition: Partition, now: Uptime) {
        self.wanted.entry(partition).or_insert(Wanted { since: now, from: From::Free });
    }

    /// This node tries to take it over what stands there.
    pub(super) fn tries(&mut self, partition: Partition, from: From) {
        if let Some(wanted) = self.wanted.get_mut(&partition) {
            wanted.from = from;
        }
    }

    /// It has the lease, perhaps since before, under a higher epoch.
    pub(super) fn owns(&mut self, partition: Partition, now: Uptime) {
        if let Some(Wanted { since, from }) = self.wanted.remove(&partition) {
            let took = Duration::from_millis(now.0.saturating_sub(since.0));
            metric::lease_taken(from, took);
        }
    }

    /// The lease is over. The partition may belong here all the same.
    pub(super) fn loses(&mut self, partition: Partition, why: Why, now: Uptime) {
        metric::lease_lost(why);
        if self.here.contains(&partition) {
            self.wants(partition, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Belongs::{Elsewhere, Here};

    #[test]
    fn the_time_to_a_lease_counts_from_when_it_was_wanted_and_not_from_before() {
        let five = Partition::of(5);
        let mut tally = Tally::default();
        let since = |tally: &Tally| tally.wanted.get(&five).map(|wanted| wanted.since.0);
        tally.placed((five, Here), None, Uptime(100));
        tally.placed((five, Here), None, Uptime(200));
        assert_eq!(since(&tally), Some(100), "it has been wanted since then");
        tally.tries(five, From::Replaced);
        tally.owns(five, Uptime(900));
        tally.owns(five, Uptime(950));
        assert_eq!(since(&tally), None);
        tally.loses(five, Why::Taken, Uptime(1_000));
        assert_eq!(since(&tally), Some(1_000), "it belongs here still");
        tally.placed((five, Elsewhere), None, Uptime(1_100));
        tally.loses(five, Why::HandedOver, Uptime(1_200));
        assert_eq!(since(&tally), None);
        tally.placed((five, Here), Some(Epoch(1)), Uptime(1_300));
        assert_eq!(since(&tally), None, "it is owned");
    }
}
