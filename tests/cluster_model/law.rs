//! What must hold in every world, and what must become of every world once nothing goes wrong any more.

use super::course::{Budget, Move, Reply, Sight};
use super::made::{Head, Made};
use super::world::{Node, World};
use actors::cluster::Uptime;
use actors::cluster::lease::{Belongs, Input};

impl World {
    /// What must never be.
    pub fn check(&self) -> Result<(), String> {
        let mut before = Head::empty();
        for (sequence, made) in (1..).zip(&self.log) {
            if (made.on.version, made.on.hash) != (before.version, before.hash) {
                return Err(format!("commit {} does not follow the one before", made.id));
            }
            if made.epoch < before.epoch {
                return Err(format!("epoch {} after {}", made.epoch, before.epoch));
            }
            if made.epoch == before.epoch && made.boot != before.boot {
                return Err(format!("two lives wrote under epoch {}", made.epoch));
            }
            let Made { epoch, boot, hash, .. } = *made;
            before = Head { version: before.version + 1, hash, epoch, boot, sequence };
        }
        let stands = |id: &u16| self.log.iter().any(|made| made.id == *id);
        if let Some(id) = self.acked.iter().find(|id| !stands(id)) {
            return Err(format!("commit {id} was acknowledged and is gone"));
        }
        if let Some(id) = self.disowned.iter().find(|id| stands(id)) {
            return Err(format!("commit {id} was denied and stands"));
        }
        let holds = |node: &&Node| node.lease.epoch(Uptime(self.now)).is_some();
        if !self.shaken && self.nodes.iter().filter(holds).count() > 1 {
            return Err("two nodes hold the lease at once".to_owned());
        }
        Ok(())
    }

    /// The next thing that happens when nothing goes wrong: messages first, then news, then new work.
    fn due(&self, chosen: usize) -> Option<Move> {
        let rank = |next: &Move| match next {
            Move::LandPut(_, Reply::Arrives)
            | Move::LandPost(_, Reply::Arrives)
            | Move::Hear(_) => Some(0),
            Move::Look(_, Sight::Clear) | Move::Tick(_) | Move::Drained(_) | Move::Settle(_) => {
                Some(1)
            }
            Move::Begin(nth) => (*nth == chosen).then_some(2),
            _ => None,
        };
        let ranked = self.moves().into_iter().filter_map(|next| Some((rank(&next)?, next)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, next)| next)
    }

    /// From here on nothing goes wrong and the placement wants one node: whether it appends in the end.
    pub fn recovers(mut self, chosen: usize) -> Result<(), String> {
        const ROUNDS: usize = 90;
        self.left = Budget {
            steps: &[],
            in_order: false,
            advances: 0,
            begins: u8::MAX,
            losses: 0,
            bucket: 0,
            restarts: 0,
            places: 0,
            silences: 0,
            fences: 0,
            deaf: false,
        };
        let acked = self.acked.len();
        if self.fenced.contains(&self.nodes[chosen].boot.0) {
            // Only its next life may go on.
            self.restart(chosen);
        }
        for nth in 0..self.nodes.len() {
            let belongs = if nth == chosen { Belongs::Here } else { Belongs::Elsewhere };
            // What was told while the node was deaf is told again by the next word of its lease.
            self.nodes[nth].serving = self.nodes[nth].lease.epoch(Uptime(self.now));
            self.step(nth, Input::Reopened);
            self.step(nth, Input::Placed(belongs));
        }
        for _ in 0..ROUNDS {
            let mut tries = 0;
            let mut bound = 100;
            while let Some(next) = self.due(chosen).filter(|_| bound > 0) {
                bound -= 1;
                tries += usize::from(matches!(next, Move::Begin(_)));
                if tries > 2 {
                    break;
                }
                self.apply(next);
                if self.acked.len() > acked {
                    return self.check();
                }
            }
            if bound == 0 {
                return Err(format!("node {chosen} finds no rest"));
            }
            self.advance(1_000);
            (0..self.nodes.len()).for_each(|nth| self.apply(Move::Watch(nth)));
            self.check()?;
        }
        Err(format!("node {chosen} can not append"))
    }
}
