//! Where each partition belongs: a total function of the set of live nodes, so that nodes that see the same set agree
//! without a word, and a node that joins or leaves moves little else.
//!
//! Nothing here says who owns a partition: a node takes what belongs to it by its lease, and only if that is free.

use super::NodeName;
use events::id::{PARTITIONS, Partition, digest};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is hashed before a node's name, so that no other hash of the same parts is the same number.
const DOMAIN: &[u8] = b"piton/place/1";

/// The most partitions one of `nodes` live nodes has.
#[must_use]
pub fn capacity(nodes: usize) -> usize {
    usize::from(PARTITIONS).div_ceil(nodes.max(1))
}

/// How well a partition suits a node; the highest is the first choice.
fn weight(partition: Partition, node: &NodeName) -> u128 {
    digest(&[DOMAIN, &[partition.number()], node.as_str().as_bytes()])
}

/// The live nodes in the order in which they should have a partition, by weight alone. The first one that is not the
/// suspect is who looks after a partition whose owner fell silent.
#[must_use]
pub fn ranked(partition: Partition, live: &BTreeSet<NodeName>) -> Vec<&NodeName> {
    let mut ranked: Vec<&NodeName> = live.iter().collect();
    ranked.sort_by_key(|node| Reverse((weight(partition, node), *node)));
    ranked
}

/// The owner of each partition; empty when no node lives.
///
/// Every pair of a partition and a node has a weight; the pairs are taken from the heaviest on, and a partition goes to
/// the first node that still has room. So nobody has more than [`capacity`], and what was taken by weight before a node
/// left is taken again after it.
#[must_use]
pub fn owners(live: &BTreeSet<NodeName>) -> BTreeMap<Partition, NodeName> {
    let mut pairs: Vec<(u128, Partition, &NodeName)> = Partition::all()
        .flat_map(|partition| {
            live.iter().map(move |node| (weight(partition, node), partition, node))
        })
        .collect();
    pairs.sort_by_key(|pair| Reverse(*pair));
    let capacity = capacity(live.len());
    let mut has: BTreeMap<&NodeName, usize> = BTreeMap::new();
    let mut owners = BTreeMap::new();
    for (_, partition, node) in pairs {
        let count = has.entry(node).or_default();
        if *count < capacity && !owners.contains_key(&partition) {
            *count += 1;
            owners.insert(partition, node.clone());
        }
    }
    owners
}

/// The partitions that belong to one node.
#[must_use]
pub fn belonging(node: &NodeName, live: &BTreeSet<NodeName>) -> BTreeSet<Partition> {
    let owners = owners(live).into_iter();
    owners.filter_map(|(partition, owner)| (owner == *node).then_some(partition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> BTreeSet<NodeName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn crowd(count: usize) -> BTreeSet<NodeName> {
        (0..count).map(|nth| format!("node-{nth}").parse().unwrap()).collect()
    }

    /// One letter of its owner's name for each partition, in order.
    fn picture(live: &BTreeSet<NodeName>) -> String {
        owners(live).values().map(|owner| owner.as_str().chars().next_back().unwrap()).collect()
    }

    #[test]
    fn the_placement_does_not_change() {
        assert_eq!(picture(&named(&["a"])), "a".repeat(64));
        assert_eq!(
            picture(&named(&["a", "b"])),
            "abbbbbbabaaaaaaabbaaabbaaaabababaabbabaabbbbbbaaaaabaabbaabbbbbb"
        );
        assert_eq!(
            picture(&named(&["a", "b", "c"])),
            "abcccbbacaaaaacabccaabcaaaacabcbcccbcbaccbbcbcaacacbbabcaabbbcbb"
        );
        let five = named(&["a", "b", "c", "d", "e"]);
        assert_eq!(
            picture(&five),
            "aebcbddadaaddacabcbaabcdeeaceecbdccdcbaecbebdbaeeacddedceaebbcde"
        );
        let ranks: String =
            ranked(Partition::of(7), &five).iter().map(|node| node.as_str()).collect();
        assert_eq!(ranks, "aecdb");
    }

    #[test]
    fn every_partition_has_one_owner_and_no_node_more_than_its_share() {
        assert!(owners(&BTreeSet::new()).is_empty());
        for count in [1, 2, 3, 5, 8, 13, 21, 64, 70] {
            let live = crowd(count);
            let owners = owners(&live);
            assert_eq!(owners.len(), 64, "{count} nodes");
            for node in &live {
                let has = owners.values().filter(|owner| *owner == node).count();
                assert!(has <= capacity(count), "{node} of {count} has {has}");
            }
        }
        let live = crowd(5);
        let all: usize = live.iter().map(|node| belonging(node, &live).len()).sum();
        assert_eq!(all, 64);
    }

    #[test]
    fn a_node_that_joins_or_leaves_moves_little_else() {
        for count in [2, 3, 4, 5, 8, 12] {
            let live = crowd(count);
            let before = owners(&live);
            for node in &live {
                let mut rest = live.clone();
                rest.remove(node);
                let after = owners(&rest);
                let own = before.values().filter(|owner| *owner == node).count();
                let moved =
                    before.iter().filter(|(place, owner)| after.get(place) != Some(owner)).count();
                // Its own must move. Others do only because the share of each node changed.
                let more = moved - own;
                assert!(moved >= own && more <= 8, "{node} of {count}: {own} its own, {more} more");
            }
        }
    }
}
