//! Objects that are written piece by piece.

use super::*;

/// More than one part or chunk of any backend.
const SEVERAL_PARTS: usize = (20 << 20) + 12_345;

async fn write(backend: &dyn Backend, key: &Key, content: &Bytes, piece: usize) {
    let mut writer = backend.writer(key).await.expect("writer");
    let mut rest = content.clone();
    while !rest.is_empty() {
        let next = rest.split_to(piece.min(rest.len()));
        writer.write(next).await.expect("write");
    }
    writer.finish().await.expect("finish");
}

pub(crate) async fn unfinished_objects_are_not_seen(place: &dyn Place) {
    let backend = backend(place);
    let (key, content) = (pack(1), bytes(1, SEVERAL_PARTS));
    let mut writer = backend.writer(&key).await.expect("writer");
    assert_absent(&*backend, &key).await;
    for piece in content.chunks(4 << 20) {
        let piece = Bytes::copy_from_slice(piece);
        writer.write(piece).await.expect("write");
        assert_absent(&*backend, &key).await;
    }
    writer.finish().await.expect("finish");
    assert!(get(&*backend, &key).await == content);
    assert!(keys(&*backend, Kind::Pack).await.contains(&key));
}

pub(crate) async fn an_aborted_writer_leaves_nothing(place: &dyn Place) {
    let backend = backend(place);
    for (n, length) in [(1, 0), (2, 100), (3, SEVERAL_PARTS)] {
        let key = pack(n);
        let mut writer = backend.writer(&key).await.expect("writer");
        writer.write(bytes(1, length)).await.expect("write");
        writer.abort().await;
        assert_absent(&*backend, &key).await;
    }
}

pub(crate) async fn a_dropped_writer_leaves_nothing(place: &dyn Place) {
    let backend = backend(place);
    for (n, length) in [(1, 0), (2, 100), (3, SEVERAL_PARTS)] {
        let key = pack(n);
        let mut writer = backend.writer(&key).await.expect("writer");
        writer.write(bytes(1, length)).await.expect("write");
        drop(writer);
        assert_absent(&*backend, &key).await;
        // What runs on in the background must not bring it back.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_absent(&*backend, &key).await;
    }
}

pub(crate) async fn an_abandoned_writer_leaves_the_old_object(place: &dyn Place) {
    let backend = backend(place);
    let (key, old) = (pack(1), bytes(1, 1000));
    put(&*backend, &key, &old).await;
    let mut writer = backend.writer(&key).await.expect("writer");
    writer.write(bytes(2, SEVERAL_PARTS)).await.expect("write");
    assert_eq!(get(&*backend, &key).await, old);
    writer.abort().await;
    assert_eq!(get(&*backend, &key).await, old);
    assert_eq!(keys(&*backend, Kind::Pack).await.len(), 1);
}

pub(crate) async fn finished_objects_are_whole(place: &dyn Place) {
    let backend = backend(place);
    let content = bytes(1, SEVERAL_PARTS);
    let key = pack(1);
    write(&*backend, &key, &content, 4 << 20).await;
    // Another connection sees it at once, whole.
    let other = super::backend(place);
    assert!(get(&*other, &key).await == content);
    let meta = other.head(&key).await.expect("head").expect("is there");
    assert_eq!(meta.size, SEVERAL_PARTS as u64);
    let end = SEVERAL_PARTS as u64;
    let tail = other.get(&key, Some(end - 1000..end), 1000).await;
    assert_eq!(tail.expect("range"), content.slice(SEVERAL_PARTS - 1000..));
}

pub(crate) async fn a_writer_replaces(place: &dyn Place) {
    let backend = backend(place);
    let key = pack(1);
    put(&*backend, &key, &bytes(1, 5000)).await;
    write(&*backend, &key, &bytes(2, 3000), 1000).await;
    assert_eq!(get(&*backend, &key).await, bytes(2, 3000));
    write(&*backend, &key, &bytes(3, SEVERAL_PARTS), 6 << 20).await;
    assert!(get(&*backend, &key).await == bytes(3, SEVERAL_PARTS));
    assert_eq!(keys(&*backend, Kind::Pack).await.len(), 1);
}

pub(crate) async fn an_empty_object_can_be_written(place: &dyn Place) {
    let backend = backend(place);
    let key = pack(1);
    write(&*backend, &key, &Bytes::new(), 1).await;
    assert_eq!(get(&*backend, &key).await, Bytes::new());
    let key = pack(2);
    let mut writer = backend.writer(&key).await.expect("writer");
    writer.write(Bytes::new()).await.expect("write");
    writer.finish().await.expect("finish");
    let meta = backend.head(&key).await.expect("head").expect("is there");
    assert_eq!(meta.size, 0);
}

pub(crate) async fn pieces_of_any_size_can_be_written(place: &dyn Place) {
    let backend = backend(place);
    // Ends just before, on and after the bounds of parts of 4, 8 and 16 MiB, in pieces that divide nothing.
    for (n, length, piece) in [
        (1, (8 << 20) - 1, 1 << 20),
        (2, 8 << 20, 3_000_001),
        (3, (8 << 20) + 1, 8 << 20),
        (4, 16 << 20, 16 << 20),
        (5, 9_999_991, 777_777),
    ] {
        let content = bytes(u64::from(n), length);
        write(&*backend, &pack(n), &content, piece).await;
        assert!(
            get(&*backend, &pack(n)).await == content,
            "{length} by {piece}"
        );
    }
}

pub(crate) async fn a_large_object(place: &dyn Place) {
    let backend = backend(place);
    let key = pack(1);
    write_large(&*backend, &key, 64).await;
    read_large(&*backend, &key, 64).await;
}

/// Writes an object of this size, made as it goes, 4 MiB at a time.
pub(crate) async fn write_large(backend: &dyn Backend, key: &Key, mebibytes: u64) {
    let mut writer = backend.writer(key).await.expect("writer");
    for block in 0..mebibytes / 4 {
        writer.write(bytes(block, 4 << 20)).await.expect("write");
    }
    writer.finish().await.expect("finish");
}

/// Reads it block by block and compares.
pub(crate) async fn read_large(backend: &dyn Backend, key: &Key, mebibytes: u64) {
    let meta = backend.head(key).await.expect("head").expect("is there");
    assert_eq!(meta.size, mebibytes << 20);
    for block in 0..mebibytes / 4 {
        let range = block * (4 << 20)..(block + 1) * (4 << 20);
        let got = backend.get(key, Some(range), 4 << 20).await.expect("range");
        assert!(got == bytes(block, 4 << 20), "block {block}");
    }
}
