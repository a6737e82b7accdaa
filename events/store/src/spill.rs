//! Large payloads leave their commit before it is encoded, so that a frame stays small and its hash cheap.

use crate::Blob;
use events::record::{Entry, Payload};
use std::cmp::Reverse;

/// Bytes of a payload that stays in its commit; larger ones stand in blobs.
pub const PAYLOAD_INLINE_MAX: usize = 64 << 10;
/// Bytes of all payloads that stay in one commit; over it, the largest ones go to blobs too.
pub const COMMIT_INLINE_MAX: usize = 512 << 10;
/// Bytes of one blob. It is held in memory by its writer and by each reader, so it stays below what a node can spare.
pub const BLOB_BYTES_MAX: usize = 64 << 20;
/// Bytes of the smallest payload that is worth a blob: a reference takes about as many.
const PAYLOAD_SPILLED_MIN: usize = 256;

/// Replaces what is too large by references, and hands the bytes over as blobs.
#[must_use]
pub fn spill(mut entries: Vec<Entry>) -> (Vec<Entry>, Vec<Blob>) {
    let mut inline: usize = entries.iter().map(inline_bytes).sum();
    let mut largest: Vec<usize> = (0..entries.len()).collect();
    largest.sort_by_key(|at| Reverse(entries.get(*at).map_or(0, inline_bytes)));
    let mut blobs: Vec<Blob> = vec![];
    for at in largest {
        let Some(entry) = entries.get_mut(at) else { continue };
        let bytes = inline_bytes(entry);
        let fits = bytes <= PAYLOAD_INLINE_MAX && inline <= COMMIT_INLINE_MAX;
        if fits || bytes < PAYLOAD_SPILLED_MIN {
            break;
        }
        inline -= bytes;
        if let Payload::Inline(body) = &entry.payload {
            let blob = Blob::new(body.clone());
            entry.payload = Payload::Blob(blob.reference);
            if !blobs.contains(&blob) {
                blobs.push(blob);
            }
        }
    }
    (entries, blobs)
}

fn inline_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Inline(bytes) => bytes.len(),
        Payload::Blob(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: usize, fill: u8) -> Entry {
        let payload = Payload::Inline(vec![fill; bytes].into());
        Entry { kind: 1, schema: 1, seal: None, payload }
    }

    /// Which entries were spilled, and how many blobs there are.
    #[track_caller]
    fn check(given: &[(usize, u8)], then: &[usize], blobs: usize) {
        let entries: Vec<Entry> = given.iter().map(|(bytes, fill)| entry(*bytes, *fill)).collect();
        let (after, found) = spill(entries.clone());
        let spilled: Vec<usize> =
            (0..after.len()).filter(|at| matches!(after[*at].payload, Payload::Blob(_))).collect();
        assert_eq!((spilled.as_slice(), found.len()), (then, blobs));
        for at in spilled {
            let Payload::Blob(reference) = after[at].payload else { panic!("{at}") };
            let blob = found.iter().find(|blob| blob.reference == reference).unwrap();
            assert_eq!(Payload::Inline(blob.bytes.clone()), entries[at].payload);
        }
    }

    #[test]
    fn a_small_commit_stays_whole() {
        check(&[], &[], 0);
        check(&[(PAYLOAD_INLINE_MAX, 1), (10, 2)], &[], 0);
    }

    #[test]
    fn a_payload_over_its_limit_leaves_alone() {
        check(&[(10, 1), (PAYLOAD_INLINE_MAX + 1, 2), (10, 3)], &[1], 1);
    }

    #[test]
    fn the_largest_ones_leave_a_commit_over_its_limit() {
        let mut given: Vec<(usize, u8)> = (0..9).map(|n| (60_000, n)).collect();
        given.push((20, 9));
        check(&given, &[0], 1);
    }

    #[test]
    fn equal_bytes_are_one_blob() {
        check(&[(70_000, 1), (70_000, 1)], &[0, 1], 1);
    }

    #[test]
    fn many_tiny_payloads_are_not_worth_blobs() {
        let given = vec![(200, 1); 3_000];
        check(&given, &[], 0);
    }
}
