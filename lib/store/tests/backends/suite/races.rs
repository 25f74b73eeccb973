//! Several at once.

use super::*;

pub(crate) async fn one_of_eight_keepers_wins(place: &dyn Place) {
    for round in 0..3 {
        let key = [Key::Store, pack(round), Key::Checkpoint(checkpoint(round))][usize::from(round)]
            .clone();
        let mut writers = tokio::task::JoinSet::new();
        for seed in 0..8 {
            // Each as another process would: with a connection of its own.
            let (backend, key) = (backend(place), key.clone());
            writers.spawn(async move {
                let content = bytes(seed, 5000);
                (seed, backend.put(&key, content, Existing::Keep, &[]).await)
            });
        }
        let mut winners = Vec::new();
        for (seed, done) in writers.join_all().await {
            match done {
                Ok(()) => winners.push(seed),
                Err(BackendError::Exists { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?} have won");
        assert_eq!(get(&*backend(place), &key).await, bytes(winners[0], 5000));
        assert_eq!(keys(&*backend(place), key.kind()).await.len(), 1);
    }
}

pub(crate) async fn racing_replacers_leave_one_whole(place: &dyn Place) {
    let key = Key::Lease(LeaseId([5; 16]));
    let contents: Vec<Bytes> = (0..8).map(|seed| bytes(seed, 20_000)).collect();
    let first = backend(place);
    put(&*first, &key, &contents[0]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for content in contents.clone() {
        let (backend, key) = (backend(place), key.clone());
        tasks.spawn(async move {
            for _ in 0..3 {
                let done = backend.put(&key, content.clone(), Existing::Replace, &[]);
                done.await.expect("put");
            }
        });
    }
    // A reader beside them sees the old one or the new one, never a piece and never none.
    while !tasks.is_empty() {
        let seen = get(&*first, &key).await;
        assert!(contents.contains(&seen), "not one of those written");
        let _ = tokio::time::timeout(Duration::from_millis(1), tasks.join_next())
            .await
            .map(|done| done.map(|done| done.expect("writer")));
    }
    assert!(contents.contains(&get(&*first, &key).await));
    assert_eq!(keys(&*first, Kind::Lease).await.len(), 1);
}

pub(crate) async fn many_at_once(place: &dyn Place) {
    let backend = backend(place);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..32 {
        let backend = backend.clone();
        tasks.spawn(async move {
            let (key, content) = (pack(n), bytes(u64::from(n), 40_000));
            if n % 2 == 0 {
                put(&*backend, &key, &content).await;
            } else {
                let mut writer = backend.writer(&key).await.expect("writer");
                writer.write(content.slice(..123)).await.expect("write");
                writer.write(content.slice(123..)).await.expect("write");
                writer.finish().await.expect("finish");
            }
            assert!(get(&*backend, &key).await == content);
            assert!(keys(&*backend, Kind::Pack).await.contains(&key));
            if n % 4 == 3 {
                backend.delete(&key).await.expect("delete");
                assert_eq!(backend.head(&key).await.expect("head"), None);
            }
        });
    }
    tasks.join_all().await;
    let left: BTreeSet<Key> = (0..32).filter(|n| n % 4 != 3).map(pack).collect();
    assert_eq!(keys(&*backend, Kind::Pack).await, left);
}
