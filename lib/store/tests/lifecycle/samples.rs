//! Stores and checkpoints to test with.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocferry_image::manifest::{CheckpointId, Manifest};
use rocferry_store::backend::{Backend, Directory, Existing, Memory, RetryPolicy};
use rocferry_store::envelope::{Lease, LeaseKind, SmallObject};
use rocferry_store::gc::{GcOptions, GcReport};
use rocferry_store::push::{
    Cut, Facts, NewContent, NewEntry, PushOptions, Readable, Source, Upload,
};
use rocferry_store::seal::{KeyConfig, WrappingKey};
use rocferry_store::verify::{VerifyOptions, VerifyReport};
use rocferry_store::{Key, Kind, Progress, Store, StoreError, StoreName, StoreOptions};

/// Clocks of one process do not differ, and nothing takes as long as the lease.
pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        lease: Duration::from_secs(600),
        skew: Duration::ZERO,
        retry: RetryPolicy::NEVER,
        holder: "test".to_owned(),
    }
}

pub(crate) fn memory() -> Arc<dyn Backend> {
    Arc::new(Memory::new(&StoreName::default()))
}

/// A directory that goes away with what is returned.
pub(crate) fn directory() -> (Arc<dyn Backend>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let backend = Directory::open(dir.path(), &StoreName::default());
    (Arc::new(backend.expect("opens")), dir)
}

pub(crate) fn key_file() -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_key(WrappingKey::from_file(&[7; 32]).expect("32 bytes"));
    config
}

/// Opens a store without sealing.
pub(crate) async fn open(backend: &Arc<dyn Backend>) -> Store {
    open_with(backend, &KeyConfig::new()).await
}

pub(crate) async fn open_with(backend: &Arc<dyn Backend>, keys: &KeyConfig) -> Store {
    let store = Store::open(Arc::clone(backend), keys, options()).await;
    store.expect("opens")
}

/// A block by its number: half of them compress.
pub(crate) fn block(number: u64) -> Bytes {
    let mut random = fastrand::Rng::with_seed(number);
    let length = random.usize(1..3000);
    match number % 2 {
        0 => (0..length).map(|_| random.u8(..)).collect(),
        _ => format!("block {number} ").repeat(length / 8 + 8).into(),
    }
}

/// A file with a part for each of these blocks, labelled with its number.
pub(crate) fn file(path: &str, blocks: &[u64]) -> NewEntry {
    let mut file = tempfile::tempfile().expect("temporary file");
    let mut cuts = Vec::new();
    let mut size = 0;
    for number in blocks {
        let content = block(*number);
        file.write_all(&content).expect("written");
        cuts.push(Cut {
            at: size,
            label: Some(format!("block {number}")),
        });
        size += content.len() as u64;
    }
    let readable = Readable::complete(size, cuts).expect("ascending");
    entry(
        path,
        NewContent::Regular(Source::Open(Arc::new(file), 0), readable),
    )
}

pub(crate) fn entry(path: &str, content: NewContent) -> NewEntry {
    NewEntry {
        path: path.to_owned(),
        mode: 0o600,
        uid: 0,
        gid: 0,
        modified_ms: 1000,
        content,
    }
}

/// Small packs, made in a fixed order.
pub(crate) fn push_options() -> PushOptions {
    PushOptions {
        pack_size: 4096,
        packers: 1,
        workers: 1,
        ..PushOptions::default()
    }
}

pub(crate) async fn begin(store: &Store, blocks: &[u64]) -> Result<Upload, StoreError> {
    let mut upload = store.push(push_options()).await?;
    upload.add(file("pages-1.img", blocks))?;
    Ok(upload)
}

/// Stores a checkpoint of one file with these blocks.
pub(crate) async fn push(store: &Store, blocks: &[u64]) -> Result<Manifest, StoreError> {
    begin(store, blocks).await?.finish(Facts::default()).await
}

pub(crate) async fn pushed(store: &Store, blocks: &[u64]) -> Manifest {
    push(store, blocks).await.expect("stored")
}

/// Collects what is garbage this very moment.
pub(crate) async fn collect(store: &Store) -> Result<GcReport, StoreError> {
    let grace = Duration::ZERO;
    let dry_run = false;
    store.gc(GcOptions { grace, dry_run }).await
}

/// Collects until nothing can be left. Times are in milliseconds: what runs in one holds the other.
pub(crate) async fn collect_all(store: &Store) {
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        collect(store).await.expect("collected");
    }
}

pub(crate) async fn deep(store: &Store) -> VerifyReport {
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let report = store.verify(options, &Progress::new()).await;
    report.expect("verified")
}

/// All checkpoints, each whole.
pub(crate) async fn sound(store: &Store) -> Vec<CheckpointId> {
    let report = deep(store).await;
    let faults: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, Vec::<String>::new());
    assert!(report.is_ok() && report.broken.is_empty());
    let mut ids: Vec<_> = store
        .list()
        .await
        .expect("listed")
        .into_iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(report.checkpoints, ids.len() as u64);
    ids.sort();
    ids
}

pub(crate) async fn count(store: &Store, kind: Kind) -> usize {
    store.backend().list(kind).await.expect("listed").len()
}

/// Makes all leases of before run out, as if their holders had died long ago.
pub(crate) async fn expire_leases(store: &Store) {
    for (key, _) in store.backend().list(Kind::Lease).await.expect("listed") {
        let object = store
            .backend()
            .get(&key, None, 1 << 20)
            .await
            .expect("read");
        let keys = store.keyring().current();
        let mut lease = Lease::decode(&key, keys, &object).expect("lease");
        lease.expires_ms = 1;
        put(store, &key, lease.encode(&key, keys)).await;
    }
}

pub(crate) async fn put(store: &Store, key: &Key, object: Bytes) {
    let put = store.backend().put(key, object, Existing::Replace, &[]);
    put.await.expect("written");
}

/// A lease that counts, of somebody who is not this process.
pub(crate) fn lease(kind: LeaseKind, started_ms: u64) -> Lease {
    Lease {
        kind,
        started_ms,
        expires_ms: now_ms() + 3_600_000,
        holder: "somebody".to_owned(),
        packs: Vec::new(),
        checkpoints: Vec::new(),
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("fits")
}

/// An error and everything below it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
