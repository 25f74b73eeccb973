//! Whatever byte of a store changes, it is noticed, and the object is named.

use std::sync::Arc;
use std::time::Duration;

use rocferry_store::backend::Backend;
use rocferry_store::envelope::{LeaseKind, SmallObject};
use rocferry_store::seal::KeyConfig;
use rocferry_store::{Key, Kind, LeaseId, Store};

use crate::samples::{
    chain, collect, deep, directory, key_file, lease, memory, now_ms, open_with, options, pushed,
    put,
};

/// Changes of an object of this length: bytes that are flipped, and lengths that it is cut to.
fn places(length: usize) -> Vec<usize> {
    let step = (length / 24).max(1);
    let mut places: Vec<_> = (0..length).step_by(step).collect();
    places.extend([
        1,
        7,
        8,
        39,
        40,
        length.saturating_sub(49),
        length.saturating_sub(17),
    ]);
    places.push(length - 1);
    places.retain(|place| *place < length);
    places.sort_unstable();
    places.dedup();
    places
}

/// A store with one object of each kind at least.
async fn filled(backend: &Arc<dyn Backend>, keys: &KeyConfig) {
    let store = open_with(backend, keys).await;
    let old = pushed(&store, &[1, 2]).await;
    store.delete(&old.id).await.expect("deleted");
    tokio::time::sleep(Duration::from_millis(2)).await;
    collect(&store).await.expect("condemned");
    let kept = pushed(&store, &[3, 4, 5]).await;
    store.pin(&kept.id, "golden").await.expect("pinned");
    let key = Key::Lease(LeaseId([7; 16]));
    let lease = lease(LeaseKind::Restore, now_ms());
    put(&store, &key, lease.encode(&key, store.keyring().current())).await;
}

/// What tells the damage: opening the store, or looking at all of it.
async fn told(backend: &Arc<dyn Backend>, keys: &KeyConfig) -> Vec<String> {
    match Store::open(Arc::clone(backend), keys, options()).await {
        Err(error) => vec![chain(&error)],
        Ok(store) => deep(&store)
            .await
            .faults
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

async fn every_damage_is_told(backend: Arc<dyn Backend>, keys: KeyConfig) {
    filled(&backend, &keys).await;
    assert_eq!(told(&backend, &keys).await, Vec::<String>::new());
    let mut kinds = 0;
    for kind in Kind::ALL {
        let objects = backend.list(kind).await.expect("listed");
        kinds += usize::from(!objects.is_empty());
        for (key, meta) in objects {
            let good = backend.get(&key, None, 1 << 20).await.expect("read");
            assert_eq!(meta.size, good.len() as u64);
            let mut bad = Vec::new();
            for place in places(good.len()) {
                let mut flipped = good.to_vec();
                flipped[place] ^= 1 << (place % 8);
                bad.push((format!("flipped at {place}"), flipped));
                bad.push((format!("cut to {place}"), good[..place].to_vec()));
            }
            let longer = [&good[..], &[0]].concat();
            bad.push(("longer".to_owned(), longer));
            for (what, object) in bad {
                let replace = rocferry_store::backend::Existing::Replace;
                backend
                    .put(&key, object.into(), replace, &[])
                    .await
                    .expect("written");
                let told = told(&backend, &keys).await;
                let name = match &key {
                    // An error of a manifest or a pack says so in words.
                    Key::Store => "store".to_owned(),
                    key => key.id(),
                };
                assert!(!told.is_empty(), "{key}, {what}: not told");
                assert!(
                    told.iter().any(|text| text.contains(&name)),
                    "{key}, {what}: {told:?}"
                );
                assert!(told.len() < 20, "{key}, {what}: {told:?}");
            }
            let replace = rocferry_store::backend::Existing::Replace;
            backend
                .put(&key, good, replace, &[])
                .await
                .expect("written");
        }
    }
    assert_eq!(kinds, if keys.is_empty() { 7 } else { 8 });
    assert_eq!(told(&backend, &keys).await, Vec::<String>::new());
}

#[tokio::test]
async fn damage_of_a_store_without_sealing_is_told() {
    every_damage_is_told(memory(), KeyConfig::new()).await;
}

#[tokio::test]
async fn damage_of_a_sealed_store_is_told() {
    every_damage_is_told(memory(), key_file()).await;
}

#[tokio::test]
async fn damage_of_a_sealed_store_in_a_directory_is_told() {
    let (backend, _dir) = directory();
    every_damage_is_told(backend, key_file()).await;
}
