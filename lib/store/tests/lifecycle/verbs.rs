//! Listing, pinning, deleting.

use rocferry_image::manifest::{Binding, CheckpointId};
use rocferry_store::backend::faulty::{Faults, Faulty};
use rocferry_store::envelope::{Signer, TrustPolicy};
use rocferry_store::inspect::{InspectedKind, Inspection};
use rocferry_store::push::{Facts, NewContent};
use rocferry_store::{Key, Kind, Store, StoreError};
use std::sync::Arc;

use crate::samples::{
    begin, block, collect_all, count, deep, directory, entry, key_file, memory, open, open_with,
    push, pushed, put, sound,
};

fn id(second: u32) -> CheckpointId {
    format!("20261130t0144{second:02}-0123456789ab")
        .parse()
        .expect("id")
}

fn signer() -> Arc<Signer> {
    Arc::new(Signer::from_seed(&[5; 32]))
}

async fn stored(store: &Store, second: u32, facts: Facts) -> CheckpointId {
    let upload = begin(store, &[1, 2, 2, u64::from(second)])
        .await
        .expect("begun");
    let facts = Facts {
        id: Some(id(second)),
        ..facts
    };
    upload.finish(facts).await.expect("stored").id
}

#[tokio::test]
async fn checkpoints_are_listed_newest_first() {
    let (backend, _dir) = directory();
    let store = open_with(&backend, &key_file()).await;
    assert!(store.list().await.expect("listed").is_empty());
    let binding = Binding::Pod {
        namespace: "team-a".to_owned(),
        namespace_uid: "2f1c7f0a".to_owned(),
        pod: "trainer-0".to_owned(),
        container: "main".to_owned(),
    };
    stored(&store, 2, Facts::default()).await;
    let facts = Facts {
        parent: Some(id(2)),
        binding: binding.clone(),
        signer: Some(signer()),
        ..Facts::default()
    };
    stored(&store, 3, facts).await;
    stored(&store, 1, Facts::default()).await;
    store.pin(&id(2), "golden").await.expect("pinned");
    let list = store.list().await.expect("listed");
    let ids: Vec<_> = list.iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids, [id(3), id(2), id(1)]);
    let overview = list[0].overview.as_ref().expect("readable");
    assert_eq!(overview.parent, Some(id(2)));
    assert_eq!(overview.binding, binding);
    assert_eq!(overview.signer, Some(signer().public_key()));
    assert_eq!(overview.data_key, store.keyring().current().id());
    let object = store
        .checkpoint(&id(3), &TrustPolicy::default())
        .await
        .expect("read");
    assert_eq!(overview.totals, object.manifest.totals());
    assert_eq!(overview.packs, object.manifest.packs.len());
    assert_eq!(overview.created_ms, object.manifest.created_ms);
    let pins: Vec<_> = list.iter().map(|one| one.pin.is_some()).collect();
    assert_eq!(pins, [false, true, false]);
    let json = serde_json::to_value(&list).expect("JSON");
    assert_eq!(json[0]["id"], id(3).as_str());
    assert_eq!(json[0]["checkpoint"]["binding"]["pod"], "trainer-0");
    assert_eq!(json[0]["checkpoint"]["totals"]["files"], 1);
    assert_eq!(json[0]["checkpoint"]["parent"], id(2).as_str());
    assert_eq!(json[1]["pinned"], "golden");
    assert_eq!(json[1]["error"], serde_json::Value::Null);
    for one in &list {
        let key = Key::Checkpoint(one.id.clone());
        let meta = backend.head(&key).await.expect("answer").expect("there");
        assert_eq!(one.manifest_size, meta.size);
    }
}

#[tokio::test]
async fn a_damaged_manifest_hides_no_other() {
    let backend = memory();
    let store = open(&backend).await;
    stored(&store, 1, Facts::default()).await;
    stored(&store, 2, Facts::default()).await;
    put(
        &store,
        &Key::Checkpoint(id(3)),
        b"nonsense".as_slice().into(),
    )
    .await;
    let list = store.list().await.expect("listed");
    let readable: Vec<_> = list.iter().map(|one| one.overview.is_ok()).collect();
    assert_eq!(readable, [false, true, true]);
    let error = list[0].overview.as_ref().expect_err("nonsense");
    assert!(error.to_string().contains(id(3).as_str()), "{error}");
    // It can still be deleted.
    store.delete(&id(3)).await.expect("deleted");
    assert_eq!(sound(&store).await, [id(1), id(2)]);
}

#[tokio::test]
async fn whose_checkpoint_is_taken_is_up_to_the_reader() {
    let backend = memory();
    let store = open(&backend).await;
    stored(&store, 1, Facts::default()).await;
    let policy = TrustPolicy {
        signers: vec![signer().public_key()],
        ..TrustPolicy::default()
    };
    let error = store
        .checkpoint(&id(1), &policy)
        .await
        .expect_err("not signed");
    assert!(matches!(error, StoreError::Envelope(_)), "{error}");
    let facts = Facts {
        signer: Some(signer()),
        ..Facts::default()
    };
    stored(&store, 2, facts).await;
    let object = store.checkpoint(&id(2), &policy).await.expect("signed");
    assert_eq!(object.signer, Some(signer().public_key()));
    let error = store
        .checkpoint(&id(3), &policy)
        .await
        .expect_err("unknown");
    assert!(matches!(error, StoreError::NoCheckpoint { checkpoint } if checkpoint == id(3)));
}

#[tokio::test]
async fn what_is_pinned_is_not_deleted() {
    let backend = memory();
    let store = open(&backend).await;
    stored(&store, 1, Facts::default()).await;
    store.pin(&id(1), "golden").await.expect("pinned");
    let error = store.delete(&id(1)).await.expect_err("pinned");
    assert!(matches!(&error, StoreError::Pinned { reason, .. } if reason == "golden"));
    store
        .pin(&id(1), "still golden")
        .await
        .expect("pinned again");
    let pins = store.pins().await.expect("listed");
    assert_eq!(pins.len(), 1);
    assert_eq!(pins[0].0, id(1));
    assert_eq!(pins[0].1.as_ref().expect("readable").reason, "still golden");
    assert_eq!(sound(&store).await, [id(1)]);
    assert!(store.unpin(&id(1)).await.expect("unpinned"));
    assert!(!store.unpin(&id(1)).await.expect("was not pinned"));
    store.delete(&id(1)).await.expect("deleted");
    assert!(store.pins().await.expect("listed").is_empty());
}

#[tokio::test]
async fn a_pin_that_cannot_be_read_counts() {
    let backend = memory();
    let store = open(&backend).await;
    stored(&store, 1, Facts::default()).await;
    let key = Key::Pin(id(1));
    put(&store, &key, b"nonsense".as_slice().into()).await;
    let error = store.delete(&id(1)).await.expect_err("pinned");
    assert!(
        matches!(&error, StoreError::Object { key: found, .. } if *found == key),
        "{error}"
    );
    let list = store.list().await.expect("listed");
    assert!(list[0].pin.as_ref().expect("pinned").is_err());
    assert!(store.unpin(&id(1)).await.expect("unpinned"));
    store.delete(&id(1)).await.expect("deleted");
}

#[tokio::test]
async fn what_is_not_there_is_an_error() {
    let backend = memory();
    let store = open(&backend).await;
    for error in [
        store.delete(&id(1)).await.expect_err("unknown"),
        store.pin(&id(1), "why not").await.expect_err("unknown"),
    ] {
        assert!(matches!(error, StoreError::NoCheckpoint { checkpoint } if checkpoint == id(1)));
    }
    assert_eq!(count(&store, Kind::Pin).await, 0);
    stored(&store, 1, Facts::default()).await;
    let error = store
        .pin(&id(1), &"x".repeat(1025))
        .await
        .expect_err("too long");
    assert!(matches!(
        error,
        StoreError::Reason {
            bytes: 1025,
            limit: 1024
        }
    ));
}

/// A pin and a deletion that meet: whoever loses is told so.
#[tokio::test]
async fn a_pin_and_a_deletion_do_not_both_succeed_silently() {
    use crate::steps::Steps;
    let mut met = 0;
    for stop in 1..10 {
        for pin_stops in [true, false] {
            let backend = memory();
            let store = open(&backend).await;
            stored(&store, 1, Facts::default()).await;
            let steps = Steps::new(&backend, 0);
            let shared: Arc<dyn rocferry_store::backend::Backend> = Arc::new(steps.clone());
            let slow = open(&shared).await;
            steps.stop_at(stop);
            let mut running = tokio::spawn(async move {
                match pin_stops {
                    true => slow.pin(&id(1), "mine").await,
                    false => slow.delete(&id(1)).await,
                }
            });
            tokio::select! {
                biased;
                () = steps.reached() => {}
                _ = &mut running => continue,
            }
            met += 1;
            let other = match pin_stops {
                true => store.delete(&id(1)).await,
                false => store.pin(&id(1), "mine").await,
            };
            steps.go();
            let slow = running.await.expect("no panic");
            let (pin, delete) = if pin_stops {
                (slow, other)
            } else {
                (other, slow)
            };
            let there = store.list().await.expect("listed").len() == 1;
            assert_eq!(
                delete.is_ok() || matches!(delete, Err(StoreError::PinnedTooLate { .. })),
                !there
            );
            // A pin that succeeded keeps it, or whoever deleted it is told.
            if pin.is_ok() {
                assert!(delete.is_err(), "{stop} {pin_stops}");
            }
        }
    }
    assert!(met > 5, "{met}");
}

#[tokio::test]
async fn deleting_frees_what_nothing_else_needs() {
    let (backend, _dir) = directory();
    let store = open(&backend).await;
    let first = pushed(&store, &[1, 2, 3]).await;
    let second = pushed(&store, &[2, 3, 4]).await;
    let packs = count(&store, Kind::Pack).await;
    store.delete(&first.id).await.expect("deleted");
    assert_eq!(count(&store, Kind::Pack).await, packs);
    collect_all(&store).await;
    assert_eq!(sound(&store).await, std::slice::from_ref(&second.id));
    let left: Vec<_> = backend.list(Kind::Pack).await.expect("listed");
    assert_eq!(left.len(), second.packs.len());
    store.delete(&second.id).await.expect("deleted");
    collect_all(&store).await;
    assert_eq!(count(&store, Kind::Pack).await, 0);
    assert_eq!(count(&store, Kind::Index).await, 0);
}

#[tokio::test]
async fn a_checkpoint_is_described_for_scripts() {
    let backend = memory();
    let store = open(&backend).await;
    let mut upload = begin(&store, &[1, 2]).await.expect("begun");
    upload
        .add(entry("dir", NewContent::Directory))
        .expect("added");
    upload
        .add(entry(
            "dir/link",
            NewContent::Symlink("../pages-1.img".to_owned()),
        ))
        .expect("added");
    let source = rocferry_image::manifest::Source {
        node: Some("node-1".to_owned()),
        topology: Some("{\"nodes\":[]}".to_owned()),
        ..Default::default()
    };
    let facts = Facts {
        source,
        ..Facts::default()
    };
    let id = upload.finish(facts).await.expect("stored").id;
    let object = store
        .checkpoint(&id, &TrustPolicy::default())
        .await
        .expect("read");
    let inspection = Inspection::of(&object);
    let kinds: Vec<_> = inspection
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.kind))
        .collect();
    let expected = [
        ("dir", InspectedKind::Directory),
        ("dir/link", InspectedKind::Symlink),
        ("pages-1.img", InspectedKind::File),
    ];
    assert_eq!(kinds, expected);
    let sizes = [block(1).len() as u64, block(2).len() as u64];
    let spans = &inspection.files[2].spans;
    assert_eq!(spans.len(), 2);
    assert_eq!((spans[1].position, spans[1].size), (sizes[0], sizes[1]));
    assert_eq!(spans[1].label.as_deref(), Some("block 2"));
    let json = serde_json::to_value(&inspection).expect("JSON");
    assert_eq!(json["id"], id.as_str());
    assert_eq!(json["source"]["node"], "node-1");
    assert_eq!(json["source"]["topology"]["nodes"], serde_json::json!([]));
    assert_eq!(json["files"][1]["target"], "../pages-1.img");
    assert_eq!(json["files"][2]["kind"], "file");
    assert_eq!(json["files"][2]["spans"][0]["blocks"], 1);
    assert_eq!(json["totals"]["plain"], sizes[0] + sizes[1]);
    assert_eq!(json["packs"][0], object.manifest.packs[0].to_string());
    assert_eq!(json["binding"], serde_json::Value::Null);
}

/// Whatever call fails for good, the verb fails, and what is listed stays whole.
#[tokio::test]
async fn a_backend_that_fails_makes_no_broken_checkpoint() {
    let backend = memory();
    let faulty = Faulty::new(Arc::clone(&backend), Faults::default());
    let shared: Arc<dyn rocferry_store::backend::Backend> = Arc::new(faulty.clone());
    let store = open(&shared).await;
    let calm = open(&backend).await;
    let kept = pushed(&calm, &[1, 2, 3]).await;
    let mut failures = 0;
    for call in 1..40 {
        let number = u64::try_from(faulty.calls().len()).expect("fits") + call;
        faulty.set_faults(Faults {
            permanent_at: Some(number),
            ..Faults::default()
        });
        if let Ok(stored) = push(&store, &[2, 3, 4 + call]).await {
            failures += u64::from(store.delete(&stored.id).await.is_err());
        } else {
            failures += 1;
        }
        let collected = crate::samples::collect(&store).await;
        failures += u64::from(collected.is_err());
        faulty.set_faults(Faults::default());
        assert!(deep(&calm).await.is_ok());
        assert!(sound(&calm).await.contains(&kept.id));
    }
    assert!(failures >= 30, "{failures}");
}
