//! Whole checkpoints in real servers: stored, read, verified, deleted, collected.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rocferry_store::backend::{Backend, Directory, RetryPolicy, Retrying};
use rocferry_store::envelope::TrustPolicy;
use rocferry_store::gc::GcOptions;
use rocferry_store::pull::PullOptions;
use rocferry_store::push::{Facts, NoCuts, PushOptions};
use rocferry_store::seal::{KeyConfig, WrappingKey};
use rocferry_store::verify::VerifyOptions;
use rocferry_store::{Kind, Progress, Store, StoreName, StoreOptions};

use crate::suite::Place;

fn sample(dir: &Path, seed: u64) {
    std::fs::create_dir_all(dir.join("checkpoint")).expect("directory");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pages = vec![0; 13 << 20];
    random.fill(&mut pages[..9 << 20]);
    std::fs::write(dir.join("checkpoint/pages-1.img"), pages).expect("file");
    std::fs::write(dir.join("checkpoint/inventory.img"), "small").expect("file");
    std::fs::write(dir.join("config.dump"), format!("{{\"seed\": {seed}}}")).expect("file");
}

async fn open(backend: &Arc<dyn Backend>) -> Store {
    let mut keys = KeyConfig::new();
    keys.add_key(WrappingKey::from_file(&[7; 32]).expect("32 bytes"));
    let opened = Store::open(Arc::clone(backend), &keys, StoreOptions::default());
    opened.await.expect("opens")
}

async fn push(store: &Store, dir: &Path) -> (rocferry_image::manifest::CheckpointId, u64) {
    let options = PushOptions {
        pack_size: 6 << 20,
        ..PushOptions::default()
    };
    let mut upload = store.push(options).await.expect("begins");
    let progress = upload.progress().clone();
    upload.add_tree(dir, NoCuts).await.expect("added");
    let manifest = upload.finish(Facts::default()).await.expect("stored");
    (manifest.id, progress.snapshot().moved)
}

/// From an empty store to an empty store.
async fn life(backend: Arc<dyn Backend>) {
    let dir = tempfile::tempdir().expect("directory");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(&backend).await;
    let (first, sent) = push(&store, &from).await;
    assert!(sent > 9 << 20);
    // Another process finds what is there.
    let store = open(&backend).await;
    std::fs::write(from.join("more"), "more").expect("file");
    let (second, sent) = push(&store, &from).await;
    assert!(sent < 1000, "{sent} bytes sent again");
    assert_eq!(store.list().await.expect("list").len(), 2);
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let report = store
        .verify(deep, &Progress::new())
        .await
        .expect("verified");
    assert!(report.is_ok(), "{report:?}");
    let object = store
        .checkpoint(&second, &TrustPolicy::default())
        .await
        .expect("there");
    let to = dir.path().join("to");
    let (manifest, progress) = (Arc::new(object.manifest), Progress::new());
    let options = PullOptions::default();
    store
        .pull(manifest, &to, &options, &progress)
        .await
        .expect("read");
    for file in [
        "checkpoint/pages-1.img",
        "checkpoint/inventory.img",
        "config.dump",
        "more",
    ] {
        let read = |dir: &Path| std::fs::read(dir.join(file)).expect("file");
        assert!(read(&from) == read(&to), "{file} differs");
    }
    for id in [first, second] {
        store.delete(&id).await.expect("deleted");
    }
    let options = GcOptions {
        grace: Duration::ZERO,
        dry_run: false,
    };
    // Clocks of servers are not ours.
    tokio::time::sleep(Duration::from_secs(2)).await;
    store.gc(options).await.expect("collected");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.gc(options).await.expect("collected");
    for kind in [
        Kind::Pack,
        Kind::Index,
        Kind::Checkpoint,
        Kind::Lease,
        Kind::Condemned,
    ] {
        assert_eq!(backend.list(kind).await.expect("list"), [], "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_directory() {
    let dir = tempfile::tempdir().expect("directory");
    let backend = Directory::open(dir.path(), &StoreName::default());
    life(Arc::new(backend.expect("opens"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_bucket() {
    let place = crate::s3::fresh().await;
    let backend = place.open(&StoreName::default());
    life(Arc::new(Retrying::new(backend, RetryPolicy::default()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_registry() {
    let place = crate::oci::fresh().await;
    let backend = place.open(&StoreName::default());
    life(Arc::new(Retrying::new(backend, RetryPolicy::default()))).await;
}
