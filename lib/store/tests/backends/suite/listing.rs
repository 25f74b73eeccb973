//! What is listed, to whom.

use super::*;

pub(crate) async fn lists_follow_writes_and_deletes(place: &dyn Place) {
    let backend = backend(place);
    for kind in Kind::ALL {
        assert_eq!(keys(&*backend, kind).await, BTreeSet::new(), "{kind:?}");
    }
    let mut there = BTreeSet::new();
    for n in 0..20 {
        put(&*backend, &pack(n), &bytes(1, 10 + usize::from(n))).await;
        there.insert(pack(n));
        assert_eq!(keys(&*backend, Kind::Pack).await, there);
    }
    for (key, meta) in backend.list(Kind::Pack).await.expect("list") {
        let Key::Pack(PackId([n, ..])) = key else {
            panic!("{key} is no pack");
        };
        assert_eq!(meta.size, 10 + u64::from(n));
    }
    for n in (0..20).step_by(3) {
        backend.delete(&pack(n)).await.expect("delete");
        there.remove(&pack(n));
        assert_eq!(keys(&*backend, Kind::Pack).await, there);
    }
    assert_eq!(keys(&*backend, Kind::Index).await, BTreeSet::new());
}

pub(crate) async fn foreign_objects_are_ignored(place: &dyn Place) {
    let backend = backend(place);
    place.litter(&tenant()).await;
    for kind in Kind::ALL {
        assert_eq!(keys(&*backend, kind).await, BTreeSet::new(), "{kind:?}");
    }
    let (pack, manifest) = (pack(0xaa), Key::Checkpoint(checkpoint(1)));
    put(&*backend, &pack, &bytes(1, 10)).await;
    put(&*backend, &manifest, &bytes(2, 10)).await;
    place.litter(&tenant()).await;
    assert_eq!(
        keys(&*backend, Kind::Pack).await,
        BTreeSet::from([pack.clone()])
    );
    assert_eq!(
        keys(&*backend, Kind::Checkpoint).await,
        BTreeSet::from([manifest])
    );
    assert_eq!(get(&*backend, &pack).await, bytes(1, 10));
}

pub(crate) async fn tenants_do_not_see_each_other(place: &dyn Place) {
    // One name is the beginning of the other.
    let names = ["team", "team-b", "default"].map(|name| StoreName::new(name).expect("name"));
    let parts = names.clone().map(|name| place.open(&name));
    for (seed, part) in parts.iter().enumerate() {
        put(&**part, &Key::Store, &bytes(seed as u64, 50)).await;
        put(&**part, &pack(1), &bytes(seed as u64, 50)).await;
    }
    put(&*parts[0], &pack(2), &bytes(9, 50)).await;
    for (seed, part) in parts.iter().enumerate() {
        assert_eq!(get(&**part, &pack(1)).await, bytes(seed as u64, 50));
        assert_eq!(get(&**part, &Key::Store).await, bytes(seed as u64, 50));
        let count = if seed == 0 { 2 } else { 1 };
        assert_eq!(keys(&**part, Kind::Pack).await.len(), count);
    }
    parts[1].delete(&pack(1)).await.expect("delete");
    assert_absent(&*parts[1], &pack(1)).await;
    assert_eq!(get(&*parts[0], &pack(1)).await, bytes(0, 50));
    assert_eq!(get(&*parts[2], &pack(1)).await, bytes(2, 50));
}
