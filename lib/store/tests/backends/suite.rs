//! The rules that every backend keeps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use rocferry_image::manifest::{CheckpointId, DataKeyId, PackId};
use rocferry_store::backend::{Backend, BackendError, Existing};
use rocferry_store::{Key, Kind, LeaseId, StoreName};

mod listing;
mod races;
mod writing;

pub(crate) use listing::*;
pub(crate) use races::*;
pub(crate) use writing::*;

/// A store that nobody else uses.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    /// A tenant's part of it.
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend>;

    /// Puts things beside the tenant's packs and checkpoints that no store has written.
    async fn litter(&self, tenant: &StoreName);
}

/// More than any object of these tests has.
pub(crate) const LIMIT: u64 = 1 << 30;

pub(crate) fn tenant() -> StoreName {
    StoreName::new("6f3f2c1e-tenant").expect("name")
}

pub(crate) fn backend(place: &dyn Place) -> Arc<dyn Backend> {
    place.open(&tenant())
}

/// Bytes that tell where they lie, different for each seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut content = vec![0; length];
    random.fill(&mut content);
    content.into()
}

pub(crate) fn pack(n: u8) -> Key {
    Key::Pack(PackId([n; 16]))
}

pub(crate) fn checkpoint(n: u8) -> CheckpointId {
    format!("20261130t014415-{n:012x}").parse().expect("id")
}

/// One key of each kind, all with the same id where they can.
fn one_of_each(n: u8) -> Vec<Key> {
    vec![
        Key::Store,
        Key::DataKey(DataKeyId([n; 8])),
        pack(n),
        Key::Index(PackId([n; 16])),
        Key::Checkpoint(checkpoint(n)),
        Key::Pin(checkpoint(n)),
        Key::Lease(LeaseId([n; 16])),
        Key::Condemned(PackId([n; 16])),
    ]
}

pub(crate) async fn put(backend: &dyn Backend, key: &Key, content: &Bytes) {
    backend
        .put(key, content.clone(), Existing::Keep, &[])
        .await
        .expect("put");
}

pub(crate) async fn get(backend: &dyn Backend, key: &Key) -> Bytes {
    backend.get(key, None, LIMIT).await.expect("get")
}

pub(crate) async fn keys(backend: &dyn Backend, kind: Kind) -> BTreeSet<Key> {
    let list = backend.list(kind).await.expect("list");
    let count = list.len();
    let keys: BTreeSet<Key> = list.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), count, "nothing is listed twice");
    keys
}

/// Nothing of this name can be found in any way.
pub(crate) async fn assert_absent(backend: &dyn Backend, key: &Key) {
    assert_eq!(backend.head(key).await.expect("head"), None, "{key}");
    let error = backend.get(key, None, LIMIT).await.expect_err("get");
    assert!(
        matches!(&error, BackendError::NotFound { key: named } if named == key),
        "{error:?}"
    );
    assert!(!keys(backend, key.kind()).await.contains(key), "{key}");
}

pub(crate) async fn content_comes_back(place: &dyn Place) {
    let backend = backend(place);
    for (n, length) in [0, 1, 511, 4096, 65_537, 1 << 20, (5 << 20) + 3]
        .into_iter()
        .enumerate()
    {
        let n = u8::try_from(n).expect("small");
        for key in [
            pack(n),
            Key::Checkpoint(checkpoint(n)),
            Key::Lease(LeaseId([n; 16])),
        ] {
            let content = bytes(u64::from(n), length);
            put(&*backend, &key, &content).await;
            assert!(get(&*backend, &key).await == content, "{key} of {length}");
        }
    }
}

pub(crate) async fn every_kind_has_its_own_objects(place: &dyn Place) {
    let backend = backend(place);
    let all = one_of_each(0xab);
    for (seed, key) in all.iter().enumerate() {
        put(&*backend, key, &bytes(seed as u64, 100)).await;
    }
    for (seed, key) in all.iter().enumerate() {
        assert_eq!(get(&*backend, key).await, bytes(seed as u64, 100), "{key}");
        let listed = keys(&*backend, key.kind()).await;
        assert_eq!(listed, BTreeSet::from([key.clone()]));
    }
}

pub(crate) async fn ranges(place: &dyn Place) {
    let backend = backend(place);
    let (key, content) = (pack(1), bytes(1, 300_000));
    put(&*backend, &key, &content).await;
    for range in [
        0..300_000,
        0..1,
        299_999..300_000,
        65_535..131_073,
        7..7,
        300_000..300_000,
    ] {
        let asked = range.start as u64..range.end as u64;
        let limit = (range.end - range.start) as u64;
        let got = backend.get(&key, Some(asked), limit).await.expect("range");
        assert!(got == content.slice(range.clone()), "{range:?}");
    }
}

pub(crate) async fn ranges_outside_are_refused(place: &dyn Place) {
    let backend = backend(place);
    let key = pack(1);
    put(&*backend, &key, &bytes(1, 1000)).await;
    for range in [
        0..1001,
        999..1002,
        1001..1001,
        5000..6000,
        u64::MAX - 1..u64::MAX,
    ] {
        let error = backend.get(&key, Some(range.clone()), LIMIT).await;
        let error = error.expect_err("outside");
        assert!(
            matches!(error, BackendError::Failed { .. }),
            "{range:?}: {error:?}"
        );
    }
    let absent = backend.get(&pack(2), Some(0..10), LIMIT).await;
    assert!(
        matches!(absent, Err(BackendError::NotFound { .. })),
        "{absent:?}"
    );
}

pub(crate) async fn nothing_larger_than_the_limit_comes(place: &dyn Place) {
    let backend = backend(place);
    let key = pack(1);
    put(&*backend, &key, &bytes(1, 1000)).await;
    backend.get(&key, None, 1000).await.expect("just fits");
    backend.get(&key, Some(0..10), 10).await.expect("just fits");
    for (range, limit) in [(None, 999), (None, 0), (Some(0..11), 10)] {
        let error = backend
            .get(&key, range, limit)
            .await
            .expect_err("too large");
        assert!(
            matches!(&error, BackendError::TooLarge { key: named, limit: told }
                if *named == key && *told == limit),
            "{error:?}"
        );
    }
}

pub(crate) async fn head_tells_size_and_age(place: &dyn Place) {
    let backend = backend(place);
    for (n, length) in [(1, 0), (2, 12_345)] {
        let key = pack(n);
        put(&*backend, &key, &bytes(1, length)).await;
        let meta = backend.head(&key).await.expect("head").expect("is there");
        assert_eq!(meta.size, length as u64);
        let modified = meta.modified.expect("all of ours tell");
        let now = SystemTime::now();
        let apart = now
            .duration_since(modified)
            .unwrap_or_else(|ahead| ahead.duration());
        assert!(apart < Duration::from_secs(300), "{apart:?} off");
        let listed = backend.list(Kind::Pack).await.expect("list");
        let (_, in_list) = listed
            .into_iter()
            .find(|(listed, _)| *listed == key)
            .expect("listed");
        assert_eq!(in_list.size, meta.size);
    }
}

pub(crate) async fn missing_objects(place: &dyn Place) {
    let backend = backend(place);
    // Before anything has been written, and beside something.
    for n in 1..3 {
        for key in one_of_each(9) {
            assert_absent(&*backend, &key).await;
            backend.delete(&key).await.expect("counts as removed");
        }
        put(&*backend, &pack(n), &bytes(1, 10)).await;
    }
}

pub(crate) async fn deleted_objects_are_gone(place: &dyn Place) {
    let backend = backend(place);
    for key in one_of_each(3) {
        put(&*backend, &key, &bytes(1, 100)).await;
        backend.delete(&key).await.expect("delete");
        assert_absent(&*backend, &key).await;
        put(&*backend, &key, &bytes(2, 100)).await;
        assert_eq!(get(&*backend, &key).await, bytes(2, 100));
    }
}

pub(crate) async fn keep_keeps(place: &dyn Place) {
    let backend = backend(place);
    for key in [pack(1), Key::Store, Key::Pin(checkpoint(1))] {
        put(&*backend, &key, &bytes(1, 100)).await;
        // Also where the content is the same.
        for other in [bytes(2, 100), bytes(1, 100)] {
            let error = backend.put(&key, other, Existing::Keep, &[]).await;
            let error = error.expect_err("is there");
            assert!(
                matches!(&error, BackendError::Exists { key: named } if *named == key),
                "{error:?}"
            );
        }
        assert_eq!(get(&*backend, &key).await, bytes(1, 100));
    }
}

pub(crate) async fn replace_replaces(place: &dyn Place) {
    let backend = backend(place);
    let key = Key::Lease(LeaseId([1; 16]));
    for (seed, length) in [(1, 100), (2, 0), (3, 70_000), (4, 10)] {
        let content = bytes(seed, length);
        backend
            .put(&key, content.clone(), Existing::Replace, &[])
            .await
            .expect("put");
        assert_eq!(get(&*backend, &key).await, content);
        let meta = backend.head(&key).await.expect("head").expect("is there");
        assert_eq!(meta.size, length as u64);
        assert_eq!(keys(&*backend, Kind::Lease).await.len(), 1);
    }
}

pub(crate) async fn a_checkpoint_needs_packs(place: &dyn Place) {
    let backend = backend(place);
    let packs = [pack(1), pack(2)];
    for (seed, key) in packs.iter().enumerate() {
        put(&*backend, key, &bytes(seed as u64, 10_000)).await;
    }
    let key = Key::Checkpoint(checkpoint(1));
    let content = bytes(7, 500);
    backend
        .put(&key, content.clone(), Existing::Keep, &packs)
        .await
        .expect("put");
    assert_eq!(get(&*backend, &key).await, content);
    let meta = backend.head(&key).await.expect("head").expect("is there");
    assert_eq!(meta.size, 500, "of the checkpoint alone");
    backend.delete(&key).await.expect("delete");
    assert_absent(&*backend, &key).await;
    for (seed, key) in packs.iter().enumerate() {
        assert_eq!(get(&*backend, key).await, bytes(seed as u64, 10_000));
    }
}

/// Errors of all operations on something that does not work at all.
pub(crate) async fn all_errors(backend: &dyn Backend) -> Vec<BackendError> {
    let key = pack(1);
    let mut writer = backend.writer(&key).await.expect("begins nothing yet");
    let write = match writer.write(bytes(1, 9 << 20)).await {
        Ok(()) => writer.finish().await,
        error => error,
    };
    vec![
        backend.get(&key, None, 10).await.expect_err("get"),
        backend.get(&key, Some(0..1), 10).await.expect_err("range"),
        backend.head(&key).await.expect_err("head"),
        backend
            .put(&key, bytes(1, 10), Existing::Keep, &[])
            .await
            .expect_err("keep"),
        backend
            .put(&key, bytes(1, 10), Existing::Replace, &[])
            .await
            .expect_err("replace"),
        backend.list(Kind::Pack).await.expect_err("list"),
        backend.delete(&key).await.expect_err("delete"),
        write.expect_err("writer"),
    ]
}
