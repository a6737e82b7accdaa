//! What stands beside commits: blobs, which belong to them, and snapshots, which may be lost but never believed
//! when they do not fit.

use super::{Home, stream};
use crate::probe::{after, all, entry, grow, landed};
use events::record::{BlobRef, Hash, Payload, StreamKey, Tail, Version};
use store::{
    Append, Appended, Blob, Malformed, PAYLOAD_INLINE_MAX, Snapshot, Store, StoreError, spill,
};

fn large(fill: u8) -> Vec<u8> {
    vec![fill; PAYLOAD_INLINE_MAX + 1]
}

/// A commit of these payloads, the large ones in blobs.
fn spilled(store: &Store, stream: &StreamKey, tail: Tail, payloads: &[&[u8]]) -> Append {
    let mut append = after(store, stream, tail, payloads);
    (append.commit.entries, append.blobs) = spill(append.commit.entries);
    append
}

pub async fn large_payloads_stand_in_blobs(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let payloads: [&[u8]; 3] = [b"small", &large(1), &large(2)];
    let append = spilled(&store, &stream, store.empty_tail(&stream), &payloads);
    assert_eq!(append.blobs.len(), 2);
    let references: Vec<BlobRef> = append.blobs.iter().map(|blob| blob.reference).collect();
    let tail = landed(&store.append(append).await);
    let found = all(&store, &stream).await;
    for (entry, payload) in found[0].commit.entries.iter().zip(payloads) {
        assert_eq!(&*store.payload(entry).await.unwrap(), payload);
    }
    // Bytes that are stored already need not be given again.
    let mut again = after(&store, &stream, tail, &[]);
    again.commit.entries = vec![entry(b"see"), found[0].commit.entries[1].clone()];
    landed(&store.append(again).await);
    assert_eq!(store.stats().await.unwrap().blobs, 2);
    assert_eq!(&*store.blob(&references[1]).await.unwrap(), &*large(2));
}

pub async fn a_blob_is_kept_before_any_commit_refers_to_it(home: &Home) {
    let store = home.open().await;
    let blob = Blob::new(large(3).into());
    let reference = blob.reference;
    assert!(matches!(store.blob(&reference).await, Err(StoreError::NoBlob(_))));
    for _ in 0..2 {
        store.put_blob(blob.clone()).await.unwrap();
        assert_eq!(&*store.blob(&reference).await.unwrap(), &*large(3));
    }
    assert_eq!(store.stats().await.unwrap().blobs, 1);
    store.erase_blob(&reference).await.unwrap();
    assert!(matches!(store.blob(&reference).await, Err(StoreError::Erased(_))));
}

pub async fn an_erased_blob_says_so(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let append = spilled(&store, &stream, store.empty_tail(&stream), &[&large(1)]);
    let blob = append.blobs[0].reference;
    let tail = landed(&store.append(append).await);
    for _ in 0..2 {
        store.erase_blob(&blob).await.unwrap();
        assert!(
            matches!(store.blob(&blob).await, Err(StoreError::Erased(hash)) if hash == blob.hash)
        );
    }
    let found = all(&store, &stream).await;
    assert!(matches!(store.payload(&found[0].commit.entries[0]).await, Err(StoreError::Erased(_))));
    assert_eq!(store.stats().await.unwrap().blobs, 0);

    // A commit can not refer to it unless it brings the bytes.
    let mut bare = after(&store, &stream, tail, &[b"x"]);
    bare.commit.entries = found[0].commit.entries.clone();
    let missing = Appended::Malformed(Malformed::BlobMissing(blob.hash));
    assert_eq!(store.append(bare).await, missing);
    landed(&store.append(spilled(&store, &stream, tail, &[&large(1)])).await);
    assert_eq!(&*store.blob(&blob).await.unwrap(), &*large(1));
}

pub async fn a_blob_that_is_not_there_is_malformed(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let tail = store.empty_tail(&stream);
    let strange = Blob::new(b"strange"[..].into());
    let mut append = after(&store, &stream, tail, &[b"x"]);
    append.commit.entries[0].payload = Payload::Blob(strange.reference);
    let answer = store.append(append.clone()).await;
    assert_eq!(answer, Appended::Malformed(Malformed::BlobMissing(strange.reference.hash)));
    assert!(matches!(store.blob(&strange.reference).await, Err(StoreError::NoBlob(_))));

    append.blobs = vec![Blob { bytes: b"changed"[..].into(), ..strange.clone() }];
    let answer = store.append(append.clone()).await;
    assert_eq!(answer, Appended::Malformed(Malformed::BlobBytes(strange.reference.hash)));
    assert_eq!(all(&store, &stream).await, [], "neither left a trace");

    append.blobs = vec![strange];
    landed(&store.append(append).await);
}

fn snapshot(tail: Tail, bytes: &[u8]) -> Snapshot {
    Snapshot { fold: 1, version: tail.version, hash: tail.hash, bytes: bytes.into() }
}

pub async fn a_snapshot_that_fits_is_returned(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    assert_eq!(store.snapshot(&stream, 1).await.unwrap(), None);
    let tail = grow(&store, &stream, &[b"one", b"two"]).await;
    grow(&store, &stream, &[b"three"]).await;
    let kept = snapshot(tail, b"a fold");
    store.put_snapshot(&stream, kept.clone()).await.unwrap();
    assert_eq!(store.snapshot(&stream, 1).await.unwrap(), Some(kept));
    assert_eq!(store.snapshot(&stream, 2).await.unwrap(), None, "of another shape");
    assert_eq!(store.snapshot(&super::stream("b"), 1).await.unwrap(), None);
}

pub async fn a_snapshot_that_does_not_fit_is_dropped(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one", b"two"]).await;
    let wrong = [
        Snapshot { hash: Hash([7; 32]), ..snapshot(tail, b"of another history") },
        Snapshot { version: Version(1), ..snapshot(tail, b"in the middle of a commit") },
        Snapshot { version: Version(3), ..snapshot(tail, b"ahead of the stream") },
    ];
    let good = snapshot(tail, b"a fold");
    for wrong in wrong {
        store.put_snapshot(&stream, wrong.clone()).await.unwrap();
        assert_eq!(store.snapshot(&stream, 1).await.unwrap(), None, "{wrong:?}");
        // What does not fit does not stand in the way of what does, and no file holds it for damage.
        store.put_snapshot(&stream, good.clone()).await.unwrap();
        assert_eq!(store.snapshot(&stream, 1).await.unwrap(), Some(good.clone()));
    }
}

pub async fn a_newer_snapshot_takes_the_place(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let first = grow(&store, &stream, &[b"one"]).await;
    store.put_snapshot(&stream, snapshot(first, b"old")).await.unwrap();
    let second = grow(&store, &stream, &[b"two"]).await;
    let newer = Snapshot { fold: 2, ..snapshot(second, b"new") };
    store.put_snapshot(&stream, newer.clone()).await.unwrap();
    assert_eq!(store.snapshot(&stream, 1).await.unwrap(), None);
    assert_eq!(store.snapshot(&stream, 2).await.unwrap(), Some(newer));
    let max = store::SNAPSHOT_BYTES_MAX;
    let huge = Snapshot { bytes: vec![0; max + 1].into(), ..snapshot(second, b"") };
    let error = store.put_snapshot(&stream, huge).await.unwrap_err();
    assert!(matches!(error, StoreError::SnapshotTooLarge { bytes, .. } if bytes == max + 1));
}
