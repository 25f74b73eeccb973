//! What is found when something is wrong, and what is not when nothing is.

use rocferry_store::envelope::TrustPolicy;
use rocferry_store::seal::{DataKey, KeyObject};
use rocferry_store::verify::{Defect, VerifyOptions};
use rocferry_store::{Key, Kind, Progress, StoreError};

use crate::samples::{
    collect, count, deep, directory, key_file, memory, now_ms, open, open_with, pushed, put,
};

fn quick() -> VerifyOptions {
    VerifyOptions::default()
}

#[tokio::test]
async fn a_good_store_has_no_faults() {
    let (backend, _dir) = directory();
    let store = open_with(&backend, &key_file()).await;
    let empty = deep(&store).await;
    assert!(empty.is_ok());
    assert_eq!(
        (empty.checkpoints, empty.packs.packs, empty.blocks),
        (0, 0, 0)
    );
    let one = pushed(&store, &[1, 2, 3, 4]).await;
    let other = pushed(&store, &[3, 4, 5, 6]).await;
    let progress = Progress::new();
    let options = VerifyOptions {
        deep: true,
        ..quick()
    };
    let report = store.verify(options, &progress).await.expect("verified");
    assert!(report.is_ok());
    assert_eq!(report.checkpoints, 2);
    // Each block once.
    assert_eq!(report.blocks, 6);
    assert_eq!(report.packs.packs, count(&store, Kind::Pack).await as u64);
    assert_eq!((report.orphans.packs, report.unindexed), (0, 0));
    let snapshot = progress.snapshot();
    assert_eq!(snapshot.packs, report.packs.packs);
    assert!(snapshot.expected > 0 && snapshot.expected == snapshot.done);
    // A single one: its own blocks.
    let options = VerifyOptions {
        deep: true,
        checkpoints: vec![other.id.clone()],
        ..quick()
    };
    let report = store
        .verify(options, &Progress::new())
        .await
        .expect("verified");
    assert!(report.is_ok());
    assert_eq!((report.checkpoints, report.blocks), (1, 4));
    let report = store
        .verify(quick(), &Progress::new())
        .await
        .expect("verified");
    assert!(report.is_ok());
    assert_eq!((report.checkpoints, report.blocks), (2, 0));
    store.delete(&one.id).await.expect("deleted");
    let options = VerifyOptions {
        checkpoints: vec![one.id.clone()],
        ..quick()
    };
    let error = store
        .verify(options, &Progress::new())
        .await
        .expect_err("gone");
    assert!(matches!(error, StoreError::NoCheckpoint { checkpoint } if checkpoint == one.id));
}

#[tokio::test]
async fn a_missing_pack_breaks_the_checkpoints_that_need_it() {
    let store = open(&memory()).await;
    let good = pushed(&store, &[1]).await;
    let bad = pushed(&store, &[2, 3, 4, 5, 6, 7]).await;
    for pack in &bad.packs {
        store
            .backend()
            .delete(&Key::Pack(*pack))
            .await
            .expect("removed");
    }
    for deep in [false, true] {
        let options = VerifyOptions { deep, ..quick() };
        let report = store
            .verify(options, &Progress::new())
            .await
            .expect("verified");
        assert_eq!(report.broken.iter().collect::<Vec<_>>(), [&bad.id]);
        let mut missing: Vec<_> = report
            .faults
            .iter()
            .map(|fault| fault.object.clone())
            .collect();
        missing.sort();
        let mut expected: Vec<_> = bad.packs.iter().copied().map(Key::Pack).collect();
        expected.sort();
        assert_eq!(missing, expected);
        for fault in &report.faults {
            assert!(matches!(fault.defect, Defect::Missing));
            assert_eq!(fault.checkpoint.as_ref(), Some(&bad.id));
        }
    }
    let options = VerifyOptions {
        deep: true,
        checkpoints: vec![good.id],
        ..quick()
    };
    assert!(
        store
            .verify(options, &Progress::new())
            .await
            .expect("verified")
            .is_ok()
    );
}

#[tokio::test]
async fn faults_are_all_found_and_some_are_kept() {
    let store = open(&memory()).await;
    let blocks: Vec<_> = (0..20).map(|number| 2 * number).collect();
    let bad = pushed(&store, &blocks).await;
    let mut damaged = 0;
    for (_, placed) in bad.blocks() {
        let rocferry_image::manifest::BlockRef::Stored { pack, offset, .. } = placed.block else {
            continue;
        };
        let key = Key::Pack(bad.packs[*pack as usize]);
        let mut object = store
            .backend()
            .get(&key, None, 1 << 20)
            .await
            .expect("read")
            .to_vec();
        object[usize::try_from(*offset).expect("fits")] ^= 1;
        put(&store, &key, object.into()).await;
        damaged += 1;
    }
    assert_eq!(damaged, 20);
    let report = deep(&store).await;
    assert_eq!(report.faults.len(), damaged);
    assert!(
        report
            .faults
            .iter()
            .all(|fault| matches!(fault.defect, Defect::Block { .. }))
    );
    assert_eq!(report.broken.iter().collect::<Vec<_>>(), [&bad.id]);
    let options = VerifyOptions {
        deep: true,
        max_faults: 3,
        ..quick()
    };
    let report = store
        .verify(options, &Progress::new())
        .await
        .expect("verified");
    assert_eq!((report.faults.len(), report.more_faults), (3, 17));
    assert!(!report.is_ok());
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["broken"][0], bad.id.as_str());
    assert_eq!(json["more_faults"], 17);
    let reason = json["faults"][0]["reason"].as_str().expect("text");
    assert!(reason.contains("damaged"), "{reason}");
    // Blocks are not read quickly.
    assert!(
        store
            .verify(quick(), &Progress::new())
            .await
            .expect("verified")
            .is_ok()
    );
}

#[tokio::test]
async fn a_block_that_is_somewhere_else_is_found_quickly() {
    let store = open(&memory()).await;
    let stored = pushed(&store, &[1, 2, 3]).await;
    let mut wrong = stored.clone();
    let rocferry_image::manifest::Content::Regular(spans) = &mut wrong.files[0].content else {
        panic!("no file");
    };
    let (first, second) = (spans[0].blocks.clone(), spans[1].blocks.clone());
    let places = [first, second].map(|blocks| match *blocks.get(0).expect("a block") {
        rocferry_image::manifest::BlockRef::Stored { offset, .. } => offset,
        rocferry_image::manifest::BlockRef::Zero => panic!("zeros"),
    });
    let mut moved = *spans[0].blocks.get(0).expect("a block");
    if let rocferry_image::manifest::BlockRef::Stored { offset, .. } = &mut moved {
        *offset = places[1];
    }
    spans[0].blocks = vec![moved].into();
    let object =
        rocferry_store::envelope::ManifestObject::encode(&wrong, store.keyring().current(), None);
    put(
        &store,
        &Key::Checkpoint(wrong.id.clone()),
        object.expect("encodes"),
    )
    .await;
    let report = store
        .verify(quick(), &Progress::new())
        .await
        .expect("verified");
    assert_eq!(report.faults.len(), 1);
    let fault = &report.faults[0];
    assert!(
        matches!(&fault.defect, Defect::Place { path, offset, .. } if path == "pages-1.img" && *offset == places[1]),
        "{fault}"
    );
    assert!(report.broken.contains(&wrong.id));
}

#[tokio::test]
async fn what_is_no_fault_is_told_apart() {
    let backend = memory();
    let store = open_with(&backend, &key_file()).await;
    let old = pushed(&store, &[1, 2]).await;
    let kept = pushed(&store, &[3]).await;
    store.delete(&old.id).await.expect("deleted");
    for pack in &kept.packs {
        store
            .backend()
            .delete(&Key::Index(*pack))
            .await
            .expect("removed");
    }
    let report = deep(&store).await;
    assert!(report.is_ok());
    assert_eq!(report.orphans.packs, old.packs.len() as u64);
    assert_eq!(report.unindexed, kept.packs.len() as u64);
    // Nothing was written.
    assert_eq!(count(&store, Kind::Index).await, old.packs.len());
    // Somebody wraps a key of their own.
    let key = DataKey::generate().expect("random");
    let object = KeyObject::wrap(&key, now_ms(), &key_file(), None).expect("wrapped");
    put(&store, &Key::DataKey(key.id()), object.encode()).await;
    let again = open_with(&backend, &key_file()).await;
    let report = deep(&again).await;
    assert!(report.is_ok());
    assert_eq!(report.foreign_keys, [key.id()]);
    assert!(report.locked_keys.is_empty());
}

#[tokio::test]
async fn a_checkpoint_that_nobody_signed_is_a_fault_if_a_signature_is_wanted() {
    let store = open(&memory()).await;
    let stored = pushed(&store, &[1]).await;
    let signer = "00".repeat(32);
    let policy = TrustPolicy {
        signers: signer.parse().into_iter().collect(),
        unsigned: false,
        binding: None,
    };
    assert_eq!(policy.signers.len(), 1);
    for checkpoints in [vec![], vec![stored.id.clone()]] {
        let options = VerifyOptions {
            policy: policy.clone(),
            checkpoints,
            ..quick()
        };
        let report = store
            .verify(options, &Progress::new())
            .await
            .expect("verified");
        assert_eq!(report.faults.len(), 1);
        assert_eq!(report.faults[0].object, Key::Checkpoint(stored.id.clone()));
        assert!(report.broken.contains(&stored.id));
    }
}

/// A verification that stops before each of its calls while everything is deleted finds nothing wrong.
#[tokio::test]
async fn what_goes_away_meanwhile_is_no_fault() {
    use std::sync::Arc;
    use std::time::Duration;
    let mut stops = 0;
    for stop in 1..80 {
        let backend = memory();
        let store = open(&backend).await;
        let kept = pushed(&store, &[1, 2]).await;
        let gone = pushed(&store, &[3, 4, 5]).await;
        let steps = crate::steps::Steps::new(&backend, 0);
        let shared: Arc<dyn rocferry_store::backend::Backend> = Arc::new(steps.clone());
        let slow = open(&shared).await;
        steps.stop_at(stop);
        let mut running = tokio::spawn(async move { deep(&slow).await });
        tokio::select! {
            biased;
            () = steps.reached() => {}
            _ = &mut running => break,
        }
        stops += 1;
        store.delete(&gone.id).await.expect("deleted");
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            collect(&store).await.expect("collected");
        }
        steps.go();
        let report = running.await.expect("no panic");
        let faults: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, Vec::<String>::new(), "{stop}");
        assert!(crate::samples::sound(&store).await.contains(&kept.id));
    }
    assert!(stops > 10, "{stops}");
}
