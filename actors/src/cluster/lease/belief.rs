//! How a node's belief follows what it sees: what a value in the bucket and the outcome of a write mean for it.

use super::{
    Action, Belongs, Draining, FENCE, FENCED_MAX, Flight, Holder, Lease, Outcome, Seen, Tenure, Why,
};
use crate::cluster::Uptime;
use events::record::{Boot, Epoch};

impl Lease {
    /// Takes in what stands in the bucket.
    pub(super) fn note(&mut self, now: Uptime, seen: Seen, actions: &mut Vec<Action>) {
        let before = self.seen.take();
        let since = before.filter(|(old, _)| *old == seen).map(|(_, since)| since);
        if let Seen::Held { holder: Some(holder), .. } = &seen {
            self.highest = self.highest.max(holder.epoch);
            // A value that moves is a sign of life.
            self.silent = self.silent.filter(|boot| since.is_some() || *boot != holder.boot);
        }
        if let Some(tenure) = self.tenure {
            match &seen {
                Seen::Held { holder: Some(holder), revision } if self.is_mine(&seen) => {
                    self.confirm(tenure, (*revision, holder.epoch), actions);
                }
                // The bucket lost it and nobody else has it yet: get it back while the lease lasts.
                Seen::Free { .. } => {
                    let met = tenure.met.max(tenure.epoch);
                    self.tenure = Some(Tenure { met, ..tenure });
                }
                Seen::Held { .. } => self.stop(Why::Taken, actions),
            }
        }
        self.seen = Some((seen, since.unwrap_or(now)));
    }

    /// A value of this life stands in the bucket.
    fn confirm(
        &mut self,
        tenure: Tenure,
        (revision, stands): (u64, Epoch),
        actions: &mut Vec<Action>,
    ) {
        let mut good = tenure.good;
        if revision > tenure.revision
            && let Some(sent) = self.doubt.take()
        {
            // One of the writes in doubt: the first of them, at worst.
            good = good.max(sent);
        }
        let epoch = tenure.epoch.max(stands);
        if epoch > tenure.epoch {
            actions.push(Action::Own(epoch));
        }
        self.tenure = Some(Tenure { epoch, revision, good, ..tenure });
    }

    /// Takes in what became of the write that was under way.
    pub(super) fn wrote(&mut self, now: Uptime, outcome: Outcome, actions: &mut Vec<Action>) {
        let Some(flight) = self.flight.take() else { return };
        match (flight, outcome) {
            (Flight::Delete, Outcome::Stored { revision }) => {
                self.seen = Some((Seen::Free { revision }, now));
            }
            // What stands there now is not known: look before anything else is written.
            (Flight::Take { .. } | Flight::Keep { .. } | Flight::Delete, Outcome::Refused)
            | (Flight::Delete, Outcome::Unknown) => self.seen = None,
            (Flight::Take { sent, .. } | Flight::Keep { sent, .. }, Outcome::Unknown) => {
                self.doubt = self.doubt.or(Some(sent));
                self.seen = None;
            }
            (Flight::Keep { epoch, sent }, Outcome::Stored { revision }) => {
                self.stands(revision, epoch, now);
                if let Some(tenure) = self.tenure {
                    self.tenure = Some(Tenure { revision, good: tenure.good.max(sent), ..tenure });
                    self.raise(epoch, actions);
                }
            }
            (Flight::Take { epoch, sent }, Outcome::Stored { revision }) => {
                self.stands(revision, epoch, now);
                let is_late = now >= sent.after(FENCE);
                if !is_late && self.belongs == Belongs::Here {
                    let (met, draining) = (Epoch(0), Draining::No);
                    let (good, beat) = (sent, sent);
                    self.tenure = Some(Tenure { epoch, revision, good, beat, met, draining });
                    actions.push(Action::Own(epoch));
                }
            }
        }
    }

    /// A life is over because an operator says so: its value is replaced as if it had ended, and if it is this one, it
    /// stops and never takes anything again. What it wrote meanwhile it takes back.
    pub(super) fn fence(&mut self, boot: Boot, actions: &mut Vec<Action>) {
        if !self.fenced.contains(&boot) {
            self.fenced.push(boot);
            let oldest = self.fenced.len().saturating_sub(FENCED_MAX);
            self.fenced.drain(..oldest);
        }
        if boot == self.boot {
            self.belongs = Belongs::Elsewhere;
            if self.tenure.is_some() {
                self.stop(Why::Fenced, actions);
            }
        }
    }

    fn raise(&mut self, epoch: Epoch, actions: &mut Vec<Action>) {
        if let Some(tenure) = &mut self.tenure
            && epoch > tenure.epoch
        {
            tenure.epoch = epoch;
            actions.push(Action::Own(epoch));
        }
    }

    /// A write of this life stands; what was sent before it can not arrive any more.
    fn stands(&mut self, revision: u64, epoch: Epoch, now: Uptime) {
        let holder = Holder { node: self.node.clone(), boot: self.boot, epoch };
        self.seen = Some((Seen::Held { revision, holder: Some(holder) }, now));
        self.doubt = None;
    }
}
