//! Stores that fail.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rocferry_image::manifest::Manifest;
use rocferry_store::backend::faulty::{Call, Cut, Faults, Operation};
use rocferry_store::backend::{Backend, BackendError, Faulty, Memory, RetryPolicy, Retrying};
use rocferry_store::pull::PullOptions;
use rocferry_store::push::{Facts, NoCuts, PushOptions};
use rocferry_store::{Kind, Store, StoreError, StoreOptions};

use crate::lab::{assert_same, key_file, memory, noise, open, pull, push, quick, sample};

/// One thread for each thing: the same calls each time.
fn in_order() -> PushOptions {
    PushOptions {
        pack_size: 2 << 20,
        packers: 1,
        workers: 1,
        ..PushOptions::default()
    }
}

async fn stored(store: &Store, dir: &Path) -> Result<Manifest, StoreError> {
    let mut upload = store.push(in_order()).await?;
    upload.add_tree(dir, NoCuts).await?;
    upload.finish(Facts::default()).await
}

async fn comes_back(memory: Arc<Memory>, manifest: &Manifest, from: &Path) {
    let to = tempfile::tempdir().expect("dir");
    let store = open(memory, &key_file(7)).await;
    let pulled = pull(&store, manifest, to.path(), &PullOptions::default()).await;
    pulled.expect("read");
    assert_same(from, to.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_is_broken_off_is_sent_again() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    for (after, writers) in [(1, 1), (5 << 20, 2), (20, 5)] {
        let memory = memory();
        let faulty = Faulty::new(memory.clone(), Faults::default());
        let store = open(Arc::new(faulty.clone()), &key_file(7)).await;
        faulty.set_faults(Faults {
            cut: Some(Cut { after, writers }),
            ..Faults::default()
        });
        let (manifest, sent) = push(&store, &from).await.expect("stored");
        assert!(sent.packs > 1);
        comes_back(memory.clone(), &manifest, &from).await;
        // What was broken off is not there.
        let packs = memory.list(Kind::Pack).await.expect("list").len();
        assert_eq!(packs as u64, sent.packs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_fail_for_now_are_tried_again() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let memory = memory();
    let faulty = Faulty::new(memory.clone(), Faults::default());
    let policy = RetryPolicy {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        deadline: Duration::from_secs(60),
    };
    let retrying = Retrying::new(Arc::new(faulty.clone()), policy);
    // First tries are counted for each object, and every pack is a new one: not while storing.
    faulty.set_faults(Faults {
        lost_answers: 1,
        ..Faults::default()
    });
    let store = open(Arc::new(retrying), &key_file(7)).await;
    let manifest = stored(&store, &from).await.expect("stored");
    faulty.set_faults(Faults {
        first_tries: 1,
        ..Faults::default()
    });
    let failed = faulty.calls().iter().filter(|call| !call.succeeded).count();
    assert!(failed > 10, "{failed} calls failed");
    comes_back(memory.clone(), &manifest, &from).await;
    assert_eq!(memory.list(Kind::Lease).await.expect("list"), []);
    // Reading as well.
    let to = dir.path().join("to");
    let pulled = pull(&store, &manifest, &to, &PullOptions::default()).await;
    pulled.expect("read");
    assert_same(&from, &to);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stays_away_is_an_error_in_the_end() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    std::fs::create_dir(&from).expect("dir");
    std::fs::write(from.join("a"), noise(1, 1000)).expect("file");
    let faulty = Faulty::new(memory(), Faults::default());
    let options = StoreOptions {
        retry: RetryPolicy {
            deadline: Duration::from_millis(50),
            ..quick().retry
        },
        ..quick()
    };
    let backend = Arc::new(faulty.clone());
    let store = Store::open(backend, &key_file(7), options)
        .await
        .expect("opens");
    faulty.set_faults(Faults {
        cut: Some(Cut {
            after: 1,
            writers: u32::MAX,
        }),
        ..Faults::default()
    });
    let error = stored(&store, &from).await.expect_err("away");
    assert!(!error.is_permanent(), "{error:?}");
    assert!(matches!(
        error,
        StoreError::Backend(BackendError::Unavailable { .. })
    ));
}

/// Each call of an upload fails for good once. Whatever call that is: no checkpoint is listed, the error comes
/// to the caller, and the next upload sends no pack again that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn whichever_call_fails_nothing_half_is_listed() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    std::fs::create_dir(&from).expect("dir");
    for number in 0..4 {
        std::fs::write(from.join(number.to_string()), noise(number, 1 << 20)).expect("file");
    }
    let whole = Faulty::new(memory(), Faults::default());
    let store = open(Arc::new(whole.clone()), &key_file(7)).await;
    let before = whole.calls().len();
    stored(&store, &from).await.expect("stored");
    let calls = whole.calls().len() - before;
    assert!(calls > 15, "{calls} calls");
    let mut failures = 0;
    for number in 1..=calls as u64 {
        let memory = memory();
        let faulty = Faulty::new(memory.clone(), Faults::default());
        let store = open(Arc::new(faulty.clone()), &key_file(7)).await;
        let before = faulty.calls().len();
        faulty.set_faults(Faults {
            permanent_at: Some(before as u64 + number),
            ..Faults::default()
        });
        let failed = stored(&store, &from).await;
        faulty.set_faults(Faults::default());
        let listed = memory.list(Kind::Checkpoint).await.expect("list");
        match failed {
            Ok(manifest) => {
                // The lease, which runs out by itself, is the one thing that need not be removed.
                let calls: Vec<Call> = faulty.calls().split_off(before);
                let refused = calls.iter().find(|call| !call.succeeded);
                let refused = refused.expect("one failed");
                assert_eq!(refused.operation, Operation::Delete, "{refused:?}");
                assert!(refused.object.starts_with("leases/"), "{refused:?}");
                comes_back(memory, &manifest, &from).await;
                continue;
            }
            Err(error) => assert!(error.is_permanent(), "call {number}: {error:?}"),
        }
        failures += 1;
        assert_eq!(listed, [], "call {number}");
        let there = memory.list(Kind::Pack).await.expect("list");
        let (manifest, again) = push(&store, &from).await.expect("stored");
        let now = memory.list(Kind::Pack).await.expect("list");
        assert_eq!(now.len() as u64, there.len() as u64 + again.packs);
        let sizes: u64 = now.iter().map(|(_, meta)| meta.size).sum();
        assert!(sizes < 5 << 20, "call {number}: {sizes} bytes in packs");
        comes_back(memory, &manifest, &from).await;
    }
    assert!(failures >= calls as u64 - 2);
}
