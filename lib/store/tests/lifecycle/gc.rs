//! Collections, one at a time.

use std::time::Duration;

use rocferry_image::manifest::PackId;
use rocferry_store::envelope::{Condemned, LeaseKind, SmallObject};
use rocferry_store::gc::{Amount, GcOptions};
use rocferry_store::seal::Keyring;
use rocferry_store::{Key, Kind, LeaseId, Store, StoreError};

use crate::samples::{
    chain, collect, collect_all, count, directory, expire_leases, key_file, lease, memory, now_ms,
    open, open_with, pushed, put, sound,
};

const HOUR: Duration = Duration::from_secs(3600);

async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

async fn put_lease(store: &Store, lease: &rocferry_store::envelope::Lease) -> Key {
    let key = Key::Lease(LeaseId([7; 16]));
    put(store, &key, lease.encode(&key, store.keyring().current())).await;
    key
}

/// A store with packs that nothing needs.
async fn orphaned(store: &Store) -> Vec<PackId> {
    let old = pushed(store, &[1, 2, 3, 4]).await;
    store.delete(&old.id).await.expect("deleted");
    old.packs
}

#[tokio::test]
async fn packs_go_in_two_steps() {
    let (backend, _dir) = directory();
    let store = open_with(&backend, &key_file()).await;
    let kept = pushed(&store, &[9]).await;
    let orphans = orphaned(&store).await;
    let mut bytes = 0;
    for pack in &orphans {
        bytes += backend
            .head(&Key::Pack(*pack))
            .await
            .expect("answer")
            .expect("there")
            .size;
    }
    let amount = Amount {
        packs: orphans.len() as u64,
        bytes,
    };
    pause().await;
    // Not before the grace.
    let report = store
        .gc(GcOptions {
            grace: HOUR,
            dry_run: false,
        })
        .await
        .expect("collected");
    assert_eq!(
        (report.young, report.condemned),
        (amount, Amount::default())
    );
    assert_eq!(report.needed.packs, kept.packs.len() as u64);
    let dry = GcOptions {
        grace: Duration::ZERO,
        dry_run: true,
    };
    let expected = store.gc(dry).await.expect("looked");
    assert!(expected.dry_run);
    assert_eq!(expected.condemned, amount);
    assert_eq!(count(&store, Kind::Condemned).await, 0);
    let report = collect(&store).await.expect("collected");
    assert_eq!(
        (report.condemned, report.deleted),
        (amount, Amount::default())
    );
    assert_eq!(count(&store, Kind::Condemned).await, orphans.len());
    // Not before the grace either.
    let report = store
        .gc(GcOptions {
            grace: HOUR,
            dry_run: false,
        })
        .await
        .expect("collected");
    assert_eq!(
        (report.waiting, report.deleted),
        (amount, Amount::default())
    );
    pause().await;
    assert_eq!(store.gc(dry).await.expect("looked").deleted, amount);
    assert_eq!(
        count(&store, Kind::Pack).await,
        orphans.len() + kept.packs.len()
    );
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted, amount);
    for kind in [Kind::Pack, Kind::Index] {
        assert_eq!(count(&store, kind).await, kept.packs.len());
    }
    assert_eq!(count(&store, Kind::Condemned).await, 0);
    assert_eq!(sound(&store).await, [kept.id]);
}

#[tokio::test]
async fn the_grace_is_an_hour_by_default() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    pause().await;
    let report = store.gc(GcOptions::default()).await.expect("collected");
    assert_eq!(report.young.packs, orphans.len() as u64);
}

#[tokio::test]
async fn nothing_new_relies_on_what_is_condemned() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    pause().await;
    collect(&store).await.expect("condemned");
    let stored = pushed(&store, &[1, 2, 3, 4]).await;
    assert!(stored.packs.iter().all(|pack| !orphans.contains(pack)));
    collect_all(&store).await;
    assert_eq!(sound(&store).await, [stored.id]);
    assert_eq!(count(&store, Kind::Pack).await, stored.packs.len());
}

#[tokio::test]
async fn an_upload_that_runs_holds_what_it_may_rely_on() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    pause().await;
    let upload = store
        .push(crate::samples::push_options())
        .await
        .expect("begun");
    pause().await;
    for _ in 0..3 {
        // It began when the packs were too young to be condemned with a grace of an hour.
        let report = store
            .gc(GcOptions {
                grace: HOUR,
                dry_run: false,
            })
            .await
            .expect("collected");
        assert_eq!(report.young.packs, orphans.len() as u64);
    }
    pause().await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.condemned.packs, orphans.len() as u64);
    pause().await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.held.packs, orphans.len() as u64);
    assert_eq!(report.holders, ["test"]);
    upload.abort().await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
}

#[tokio::test]
async fn a_dead_upload_holds_until_its_lease_runs_out() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    let started = now_ms();
    pause().await;
    collect(&store).await.expect("condemned");
    put_lease(&store, &lease(LeaseKind::Upload, started)).await;
    pause().await;
    assert_eq!(
        collect(&store).await.expect("collected").held.packs,
        orphans.len() as u64
    );
    expire_leases(&store).await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
    // And the lease itself.
    assert_eq!(report.leases, 1);
    assert_eq!(count(&store, Kind::Lease).await, 0);
}

#[tokio::test]
async fn an_upload_that_knows_of_the_condemnation_holds_nothing() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    pause().await;
    collect(&store).await.expect("condemned");
    pause().await;
    let upload = store
        .push(crate::samples::push_options())
        .await
        .expect("begun");
    pause().await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
    upload.abort().await;
}

#[tokio::test]
async fn a_restore_holds_what_it_names() {
    let store = open(&memory()).await;
    let old = pushed(&store, &[1, 2, 3, 4]).await;
    let mut named = lease(LeaseKind::Restore, now_ms());
    named.packs.clone_from(&old.packs);
    put_lease(&store, &named).await;
    store.delete(&old.id).await.expect("deleted");
    collect_all(&store).await;
    assert_eq!(count(&store, Kind::Pack).await, old.packs.len());
    // One that names the checkpoint alone: nobody can say any more what it needs.
    collect_all(&store).await;
    named.packs.clear();
    put_lease(&store, &named).await;
    pause().await;
    collect(&store).await.expect("condemned");
    store
        .backend()
        .delete(&Key::Lease(LeaseId([7; 16])))
        .await
        .expect("removed");
    named.checkpoints.push(old.id.clone());
    put_lease(&store, &named).await;
    collect_all(&store).await;
    assert_eq!(count(&store, Kind::Pack).await, old.packs.len());
    expire_leases(&store).await;
    collect_all(&store).await;
    assert_eq!(count(&store, Kind::Pack).await, 0);
}

#[tokio::test]
async fn a_condemned_pack_that_is_needed_stays_condemned() {
    let store = open(&memory()).await;
    let kept = pushed(&store, &[1, 2, 3, 4]).await;
    for pack in &kept.packs {
        let key = Key::Condemned(*pack);
        let condemned = Condemned { created_ms: 1 };
        put(
            &store,
            &key,
            condemned.encode(&key, store.keyring().current()),
        )
        .await;
    }
    for _ in 0..3 {
        let report = collect(&store).await.expect("collected");
        assert_eq!(report.needed_condemned.packs, kept.packs.len() as u64);
    }
    assert_eq!(sound(&store).await, std::slice::from_ref(&kept.id));
    assert_eq!(count(&store, Kind::Condemned).await, kept.packs.len());
    store.delete(&kept.id).await.expect("deleted");
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, kept.packs.len() as u64);
}

#[tokio::test]
async fn a_condemnation_that_has_no_time_yet_gets_one() {
    let store = open(&memory()).await;
    let orphans = orphaned(&store).await;
    let key = |pack: &PackId| Key::Condemned(*pack);
    for (number, pack) in orphans.iter().enumerate() {
        let key = key(pack);
        let pending = Condemned {
            created_ms: Condemned::PENDING,
        };
        // And one that is damaged.
        let object = match number {
            0 => b"nonsense".as_slice().into(),
            _ => pending.encode(&key, store.keyring().current()),
        };
        put(&store, &key, object).await;
    }
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.waiting.packs, orphans.len() as u64);
    for pack in &orphans {
        let object = store
            .backend()
            .get(&key(pack), None, 1000)
            .await
            .expect("read");
        let condemned = Condemned::decode(&key(pack), store.keyring().current(), &object);
        assert!(condemned.expect("readable").created_ms <= now_ms());
    }
    pause().await;
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
}

#[tokio::test]
async fn leftovers_of_crashes_are_removed() {
    let store = open(&memory()).await;
    let kept = pushed(&store, &[9]).await;
    let orphans = orphaned(&store).await;
    // The pack went, its index and condemnation did not.
    for pack in &orphans {
        store
            .backend()
            .delete(&Key::Pack(*pack))
            .await
            .expect("removed");
        let key = Key::Condemned(*pack);
        let condemned = Condemned { created_ms: 1 };
        put(
            &store,
            &key,
            condemned.encode(&key, store.keyring().current()),
        )
        .await;
    }
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.indexes, orphans.len() as u64);
    assert_eq!(report.condemnations, orphans.len() as u64);
    assert_eq!(count(&store, Kind::Index).await, kept.packs.len());
    assert_eq!(count(&store, Kind::Condemned).await, 0);
}

#[tokio::test]
async fn nothing_is_deleted_when_not_everything_can_be_read() {
    let store = open(&memory()).await;
    let kept = pushed(&store, &[9]).await;
    let orphans = orphaned(&store).await;
    pause().await;
    collect(&store).await.expect("condemned");
    pause().await;
    let packs = count(&store, Kind::Pack).await;
    let manifest = Key::Checkpoint(kept.id.clone());
    let object = store
        .backend()
        .get(&manifest, None, 1 << 20)
        .await
        .expect("read");
    let lease = Key::Lease(LeaseId([7; 16]));
    for (key, good) in [(manifest, Some(object)), (lease, None)] {
        put(&store, &key, b"nonsense".as_slice().into()).await;
        let error = collect(&store).await.expect_err("nonsense");
        assert!(matches!(error, StoreError::Collection { .. }), "{error:?}");
        let text = chain(&error);
        assert!(text.contains(&key.id()), "{text}");
        assert_eq!(count(&store, Kind::Pack).await, packs);
        match good {
            Some(object) => put(&store, &key, object).await,
            None => store.backend().delete(&key).await.expect("removed"),
        }
    }
    let report = collect(&store).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
}

#[tokio::test]
async fn what_is_sealed_by_a_key_that_is_not_known_ends_a_collection() {
    let backend = memory();
    let before = open_with(&backend, &key_file()).await;
    let orphans = orphaned(&before).await;
    pause().await;
    collect(&before).await.expect("condemned");
    // Somebody else rotates keys, and stores something.
    let (_, mut keyring) = rocferry_store::seal::open_store(&*backend, &key_file(), 1)
        .await
        .expect("opens");
    let rotated: &mut Keyring = &mut keyring;
    rotated
        .rotate(&*backend, &key_file(), now_ms())
        .await
        .expect("rotated");
    let after = open_with(&backend, &key_file()).await;
    let stored = pushed(&after, &[1, 2, 3]).await;
    pause().await;
    let error = collect(&before).await.expect_err("a new key");
    assert!(
        chain(&error).contains(stored.id.as_str()),
        "{}",
        chain(&error)
    );
    assert!(count(&before, Kind::Pack).await > orphans.len());
    let report = collect(&after).await.expect("collected");
    assert_eq!(report.deleted.packs, orphans.len() as u64);
    assert_eq!(sound(&after).await, [stored.id]);
}
