//! Uploads, deletions, restores and collections that meet in every possible place: one of them stops before
//! each of its calls in turn, and the others do all they want meanwhile.

use std::sync::Arc;
use std::time::Duration;

use rocferry_store::backend::Backend;
use rocferry_store::envelope::{LeaseKind, SmallObject};
use rocferry_store::push::Facts;
use rocferry_store::{Key, Kind, LeaseId, Store, StoreError};

use crate::samples::{
    begin, block, collect, collect_all, count, expire_leases, lease, memory, now_ms, open, push,
    pushed, put, sound,
};
use crate::steps::Steps;

/// More calls than any of them makes.
pub(crate) const CALLS: u64 = 80;

/// What there is when it begins: packs of a checkpoint that is gone, and whether they are condemned.
pub(crate) async fn orphans(backend: &Arc<dyn Backend>, condemned: bool) -> Store {
    let store = open(backend).await;
    let old = pushed(&store, &[1, 2, 3, 4]).await;
    store.delete(&old.id).await.expect("deleted");
    if condemned {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let report = collect(&store).await.expect("collected");
        assert_eq!(report.condemned.packs, old.packs.len() as u64);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store
}

/// Starts `work` on a store whose calls stop once before call number `stop`, and waits until it stands there.
/// `None`: it ended before.
pub(crate) async fn stopped<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    backend: &Arc<dyn Backend>,
    stop: u64,
    work: impl FnOnce(Store) -> F,
) -> Option<(Steps, tokio::task::JoinHandle<T>)> {
    let steps = Steps::new(backend, 0);
    let shared: Arc<dyn Backend> = Arc::new(steps.clone());
    let store = open(&shared).await;
    steps.stop_at(stop);
    let mut running = tokio::spawn(work(store));
    tokio::select! {
        biased;
        () = steps.reached() => Some((steps, running)),
        ended = &mut running => {
            ended.expect("no panic");
            None
        }
    }
}

/// Deletes everything, and sees that nothing is left over.
async fn clear(store: &Store) {
    for one in store.list().await.expect("listed") {
        store.delete(&one.id).await.expect("deleted");
    }
    expire_leases(store).await;
    collect_all(store).await;
    for kind in [Kind::Pack, Kind::Index, Kind::Condemned, Kind::Lease] {
        assert_eq!(count(store, kind).await, 0, "{kind:?}");
    }
}

#[tokio::test]
async fn an_upload_survives_collections_at_any_moment() {
    for condemned in [false, true] {
        let mut stops = 0;
        for stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, condemned).await;
            let work = |store: Store| async move { push(&store, &[1, 2, 3, 4, 5]).await };
            let Some((steps, running)) = stopped(&backend, stop, work).await else {
                break;
            };
            stops += 1;
            collect_all(&store).await;
            steps.go();
            let stored = running.await.expect("no panic").expect("stored");
            assert_eq!(sound(&store).await, [stored.id]);
            collect_all(&store).await;
            assert_eq!(sound(&store).await.len(), 1);
            clear(&store).await;
        }
        assert!((6..CALLS - 1).contains(&stops), "{stops}");
    }
}

#[tokio::test]
async fn a_collection_survives_uploads_and_deletions_at_any_moment() {
    for condemned in [false, true] {
        let mut stops = 0;
        for stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, condemned).await;
            let kept = pushed(&store, &[6, 7]).await;
            let gone = pushed(&store, &[7, 8]).await;
            let work = |store: Store| async move { collect(&store).await };
            let Some((steps, running)) = stopped(&backend, stop, work).await else {
                break;
            };
            stops += 1;
            let stored = pushed(&store, &[1, 2, 3, 4, 5, 8]).await;
            store.delete(&gone.id).await.expect("deleted");
            // And another one at the same time.
            collect_all(&store).await;
            let more = pushed(&store, &[1, 2, 8]).await;
            steps.go();
            running.await.expect("no panic").expect("collected");
            let mut expected = [kept.id, stored.id, more.id];
            expected.sort();
            assert_eq!(sound(&store).await, expected);
            collect_all(&store).await;
            assert_eq!(sound(&store).await, expected);
            clear(&store).await;
        }
        assert!((6..CALLS - 1).contains(&stops), "{stops}");
    }
}

/// The upload stops, one collection runs, another one starts and stops, the upload ends, the collection ends.
#[tokio::test]
async fn an_upload_and_a_collection_interleave() {
    let mut both = 0;
    for (condemned, upload_stop) in (1..CALLS).flat_map(|stop| [(false, stop), (true, stop)]) {
        for collection_stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, condemned).await;
            let work = |store: Store| async move { push(&store, &[1, 2, 5]).await };
            let Some((upload, uploading)) = stopped(&backend, upload_stop, work).await else {
                break;
            };
            // What it relies on is condemned, as far as it is not.
            tokio::time::sleep(Duration::from_millis(1)).await;
            collect(&store).await.expect("collected");
            tokio::time::sleep(Duration::from_millis(1)).await;
            let work = |store: Store| async move { collect(&store).await };
            let collection = stopped(&backend, collection_stop, work).await;
            upload.go();
            let stored = uploading.await.expect("no panic").expect("stored");
            let Some((collection, collecting)) = collection else {
                break;
            };
            both += 1;
            // Whoever comes now may rely on what is there, condemned or not.
            let next = pushed(&store, &[1, 3]).await;
            collection.go();
            collecting.await.expect("no panic").expect("collected");
            let mut expected = [stored.id, next.id];
            expected.sort();
            assert_eq!(
                sound(&store).await,
                expected,
                "{condemned} {upload_stop} {collection_stop}"
            );
            collect_all(&store).await;
            assert_eq!(
                sound(&store).await,
                expected,
                "{condemned} {upload_stop} {collection_stop}"
            );
        }
    }
    assert!(both > 100, "{both}");
}

/// The collection stops, an upload starts and stops, the collection ends, others come, the upload ends.
#[tokio::test]
async fn an_upload_that_overtakes_a_collection_keeps_what_it_relies_on() {
    let mut both = 0;
    'collections: for collection_stop in 1..CALLS {
        for upload_stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, false).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            let work = |store: Store| async move { collect(&store).await };
            let Some((collection, collecting)) = stopped(&backend, collection_stop, work).await
            else {
                break 'collections;
            };
            tokio::time::sleep(Duration::from_millis(2)).await;
            let work = |store: Store| async move { push(&store, &[1, 2, 5]).await };
            let Some((upload, uploading)) = stopped(&backend, upload_stop, work).await else {
                break;
            };
            both += 1;
            collection.go();
            collecting.await.expect("no panic").expect("collected");
            collect_all(&store).await;
            upload.go();
            let stored = uploading.await.expect("no panic").expect("stored");
            let stops = (collection_stop, upload_stop);
            assert_eq!(sound(&store).await, [stored.id], "{stops:?}");
        }
    }
    assert!(both > 50, "{both}");
}

/// Two collections, of which one is as slow as can be, and an upload between them.
#[tokio::test]
async fn two_collections_interleave_with_a_checkpoint_that_comes_and_goes() {
    let mut stops = 0;
    for stop in 1..CALLS {
        let backend = memory();
        let store = orphans(&backend, true).await;
        let work = |store: Store| async move { collect(&store).await };
        let Some((slow, collecting)) = stopped(&backend, stop, work).await else {
            break;
        };
        stops += 1;
        // Needs what may be deleted any moment, as far as it is there to be relied on.
        let passing = pushed(&store, &[1, 2, 3]).await;
        collect(&store).await.expect("collected");
        store.delete(&passing.id).await.expect("deleted");
        collect(&store).await.expect("collected");
        let stored = pushed(&store, &[1, 2, 3, 4]).await;
        slow.go();
        collecting.await.expect("no panic").expect("collected");
        assert_eq!(sound(&store).await, [stored.id]);
        collect_all(&store).await;
        assert_eq!(sound(&store).await.len(), 1);
    }
    assert!(stops >= 8, "{stops}");
}

/// The lease of an upload runs out while it stands still, and everything that it sent or relied on is deleted.
#[tokio::test]
async fn an_upload_that_lost_its_lease_leaves_no_broken_checkpoint() {
    let (mut failed, mut stored) = (0, 0);
    for stop in 1..CALLS {
        let backend = memory();
        let store = orphans(&backend, false).await;
        let work = |store: Store| async move { push(&store, &[1, 2, 3, 4, 5]).await };
        let Some((upload, uploading)) = stopped(&backend, stop, work).await else {
            break;
        };
        expire_leases(&store).await;
        collect_all(&store).await;
        // Its own clock says the same.
        tokio::time::pause();
        tokio::time::advance(store.options().lease).await;
        tokio::time::resume();
        upload.go();
        match uploading.await.expect("no panic") {
            Ok(_) => stored += 1,
            Err(StoreError::LeaseLost { .. }) => failed += 1,
            Err(other) => panic!("{other:?}"),
        }
        let ids = sound(&store).await;
        assert!(ids.len() <= 1);
        clear(&store).await;
    }
    // The last calls remove a lease that is not needed any more.
    assert!(failed > 5 && stored > 0, "{failed} failed, {stored} stored");
}

/// A restore has what it reads in its lease, so it ends well although the checkpoint is deleted.
#[tokio::test]
async fn a_restore_survives_deletions_and_collections_at_any_moment() {
    use rocferry_store::Progress;
    use rocferry_store::pull::PullOptions;
    let blocks = [2, 4, 6, 8, 10, 12];
    let mut stops = 0;
    for stop in 1..CALLS {
        let backend = memory();
        let store = open(&backend).await;
        let manifest = Arc::new(pushed(&store, &blocks).await);
        let dir = tempfile::tempdir().expect("temporary directory");
        let (to, wanted) = (dir.path().join("copy"), Arc::clone(&manifest));
        let work = |store: Store| async move {
            let options = PullOptions::default();
            store.pull(wanted, &to, &options, &Progress::new()).await
        };
        let Some((restore, restoring)) = stopped(&backend, stop, work).await else {
            break;
        };
        stops += 1;
        store.delete(&manifest.id).await.expect("deleted");
        collect_all(&store).await;
        restore.go();
        match restoring.await.expect("no panic") {
            Ok(()) => {
                let copy = std::fs::read(dir.path().join("copy/pages-1.img")).expect("read");
                let expected: Vec<_> = blocks.into_iter().flat_map(block).collect();
                assert_eq!(copy, expected, "{stop}");
            }
            // Too late: it had no lease yet, or had not seen the checkpoint since.
            Err(StoreError::NoCheckpoint { .. }) => assert!(stop <= 2, "{stop}"),
            Err(error) => panic!("{stop}: {error:?}"),
        }
        clear(&store).await;
    }
    assert!(stops >= 4, "{stops}");
}

/// A restore protects what it reads: either it finds that the checkpoint is gone, or its packs stay.
#[tokio::test]
async fn what_a_restore_has_in_its_lease_stays_whenever_the_checkpoint_goes() {
    let mut restored = 0;
    for stop in 1..CALLS {
        let backend = memory();
        let store = open(&backend).await;
        let old = pushed(&store, &[1, 2, 3, 4]).await;
        // Condemned although it is needed: the hardest case.
        let stale = Steps::new(&backend, 0);
        condemn(&store, &old.packs).await;
        drop(stale);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let work = |store: Store| async move { collect(&store).await };
        let Some((collection, collecting)) = stopped(&backend, stop, work).await else {
            break;
        };
        let mut named = lease(LeaseKind::Restore, now_ms());
        named.packs.clone_from(&old.packs);
        named.checkpoints.push(old.id.clone());
        let key = Key::Lease(LeaseId([7; 16]));
        put(&store, &key, named.encode(&key, store.keyring().current())).await;
        let there = store.backend().head(&Key::Checkpoint(old.id.clone())).await;
        assert!(there.expect("answer").is_some());
        store.delete(&old.id).await.expect("deleted");
        collection.go();
        collecting.await.expect("no panic").expect("collected");
        collect_all(&store).await;
        let packs = store.backend().list(Kind::Pack).await.expect("listed");
        for pack in &old.packs {
            assert!(
                packs.iter().any(|(key, _)| *key == Key::Pack(*pack)),
                "{stop}"
            );
        }
        restored += 1;
        clear(&store).await;
    }
    assert!(restored > 5, "{restored}");
}

async fn condemn(store: &Store, packs: &[rocferry_image::manifest::PackId]) {
    for pack in packs {
        let key = Key::Condemned(*pack);
        let created_ms = now_ms();
        let condemned = rocferry_store::envelope::Condemned { created_ms };
        put(
            store,
            &key,
            condemned.encode(&key, store.keyring().current()),
        )
        .await;
    }
}

/// A crash in the middle of a collection is like a pause: the next one goes on.
#[tokio::test]
async fn a_collection_that_dies_is_gone_on_with() {
    for condemned in [false, true] {
        for stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, condemned).await;
            let kept = pushed(&store, &[6, 7]).await;
            let work = |store: Store| async move { collect(&store).await };
            let Some((_, collecting)) = stopped(&backend, stop, work).await else {
                break;
            };
            collecting.abort();
            collecting.await.expect_err("killed");
            assert_eq!(sound(&store).await, [kept.id]);
            let stored = pushed(&store, &[1, 2, 3, 4]).await;
            collect_all(&store).await;
            assert!(sound(&store).await.contains(&stored.id));
            clear(&store).await;
        }
    }
}

/// An upload that is killed before it is over leaves nothing that is listed, and all that it left can be used
/// by the next one, or is collected.
#[tokio::test]
async fn an_upload_that_dies_leaves_what_the_next_one_uses() {
    for stop in 1..CALLS {
        let backend = memory();
        let store = open(&backend).await;
        let work = |store: Store| async move {
            begin(&store, &[1, 2, 3, 4, 5])
                .await?
                .finish(Facts::default())
                .await
        };
        let Some((_, uploading)) = stopped(&backend, stop, work).await else {
            break;
        };
        uploading.abort();
        uploading.await.expect_err("killed");
        let before = sound(&store).await;
        let packs = count(&store, Kind::Pack).await;
        collect_all(&store).await;
        assert_eq!(
            count(&store, Kind::Pack).await,
            packs,
            "its lease still counts"
        );
        let stored = pushed(&store, &[1, 2, 3, 4, 5]).await;
        let mut expected = [before, vec![stored.id]].concat();
        expected.sort();
        assert_eq!(sound(&store).await, expected);
        clear(&store).await;
    }
}
