//! How far something has got in each shard of the log. There is no order across shards, so no one number says it.

use events::record::{Position, Shard};
use std::collections::BTreeMap;
use std::fmt;
use store::Store;

/// The newest sequence of each shard; zero for none. Prints as positions, `0.12,3.7`: a shard that is not named stands
/// at zero, and a log of one shard prints as that one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach(BTreeMap<Shard, u64>);

impl Reach {
    /// Before the first commit of each of these shards.
    #[must_use]
    pub fn start(shards: impl IntoIterator<Item = Shard>) -> Self {
        Self(shards.into_iter().map(|shard| (shard, 0)).collect())
    }

    /// The newest sequence in a shard; zero for none, and for a shard that is not of the log.
    #[must_use]
    pub fn of(&self, shard: Shard) -> u64 {
        self.0.get(&shard).copied().unwrap_or_default()
    }

    /// The newest position of each shard, shards in order; those that stand at zero too.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        self.0.iter().map(|(shard, sequence)| Position { shard: *shard, sequence: *sequence })
    }

    /// Whether it has got as far as another in every shard.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(shard, sequence)| self.of(*shard) >= *sequence)
    }

    /// Commits of all shards that are still to come until another; one shard that is further makes up for nothing.
    #[must_use]
    pub fn until(&self, other: &Self) -> u64 {
        let still =
            other.0.iter().map(|(shard, sequence)| sequence.saturating_sub(self.of(*shard)));
        still.fold(0, u64::saturating_add)
    }

    /// As far as both have got, in each shard.
    #[must_use]
    pub fn lower(&self, other: &Self) -> Self {
        self.with(other, u64::min)
    }

    /// As far as either has got, in each shard.
    #[must_use]
    pub fn upper(&self, other: &Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(&self, other: &Self, choose: impl Fn(u64, u64) -> u64) -> Self {
        let shards = self.0.keys().chain(other.0.keys());
        Self(shards.map(|shard| (*shard, choose(self.of(*shard), other.of(*shard)))).collect())
    }

    /// Moves one shard.
    pub(crate) fn set(&mut self, position: Position) {
        self.0.insert(position.shard, position.sequence);
    }
}

impl FromIterator<Position> for Reach {
    fn from_iter<T: IntoIterator<Item = Position>>(positions: T) -> Self {
        Self(positions.into_iter().map(|at| (at.shard, at.sequence)).collect())
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = self.positions().filter(|at| at.sequence > 0);
        let first = named.next().or_else(|| self.positions().next()).unwrap_or_default();
        write!(f, "{first}")?;
        named.try_for_each(|at| write!(f, ",{at}"))
    }
}

/// The newest commit of each shard, as far as the store knows here.
pub(crate) fn newest(store: &Store) -> Reach {
    let newest = |shard| Position { shard, sequence: *store.notice(shard).borrow() };
    store.shards().into_iter().map(newest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(of: &[(u16, u64)]) -> Reach {
        of.iter()
            .map(|(shard, sequence)| Position { shard: Shard(*shard), sequence: *sequence })
            .collect()
    }

    #[test]
    fn it_prints_the_shards_that_have_something() {
        for (given, then) in [
            (vec![], "0.0"),
            (vec![(0, 0)], "0.0"),
            (vec![(0, 12)], "0.12"),
            (vec![(0, 0), (1, 0), (2, 0)], "0.0"),
            (vec![(0, 12), (1, 0), (3, 7)], "0.12,3.7"),
            (vec![(0, 0), (3, 7)], "3.7"),
        ] {
            assert_eq!(reach(&given).to_string(), then);
        }
    }

    /// Every pair of small reaches over two shards, against the plain arithmetic.
    #[test]
    fn shards_are_compared_each_by_itself() {
        let all = (0..3).flat_map(|one| (0..3).map(move |other| (one, other)));
        for ((a, b), (c, d)) in
            all.clone().flat_map(|left| all.clone().map(move |right| (left, right)))
        {
            let (left, right) = (reach(&[(0, a), (5, b)]), reach(&[(0, c), (5, d)]));
            assert_eq!(left.covers(&right), a >= c && b >= d);
            assert_eq!(left.until(&right), c.saturating_sub(a) + d.saturating_sub(b));
            assert_eq!(left.until(&right) == 0, left.covers(&right));
            assert_eq!(left.lower(&right), reach(&[(0, a.min(c)), (5, b.min(d))]));
            assert_eq!(left.upper(&right), reach(&[(0, a.max(c)), (5, b.max(d))]));
        }
    }

    #[test]
    fn a_shard_of_only_one_side_stands_at_zero_on_the_other() {
        let (left, right) = (reach(&[(0, 4)]), reach(&[(1, 3)]));
        assert!(!left.covers(&right) && !right.covers(&left));
        assert_eq!((left.until(&right), left.of(Shard(1))), (3, 0));
        assert_eq!(left.lower(&right), reach(&[(0, 0), (1, 0)]));
        assert_eq!(left.upper(&right), reach(&[(0, 4), (1, 3)]));
        let mut moved = Reach::start([Shard(0), Shard(1)]);
        moved.set(Position { shard: Shard(1), sequence: 3 });
        assert_eq!(moved, reach(&[(0, 0), (1, 3)]));
        assert_eq!(moved.positions().count(), 2);
    }
}
