//! What comes out is what went in.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rocferry_image::manifest::{BlockRef, Content, FileEntry};
use rocferry_store::backend::{Backend, Directory};
use rocferry_store::cache::Cache;
use rocferry_store::pull::{MARKER, Order, PullOptions};
use rocferry_store::push::{Cut, Cuts, Facts, NoCuts};
use rocferry_store::seal::KeyConfig;
use rocferry_store::{Kind, StoreError, StoreName};

use crate::lab::{BLOCK, assert_same, key_file, memory, noise, open, options, pull, push, sample};

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_and_every_file_comes_back() {
    for keys in [KeyConfig::new(), key_file(7)] {
        let dir = tempfile::tempdir().expect("dir");
        let place = tempfile::tempdir().expect("dir");
        let from = dir.path().join("from");
        sample(&from, 1);
        let backend = Directory::open(place.path(), &StoreName::default()).expect("opens");
        let store = open(Arc::new(backend), &keys).await;
        let (manifest, sent) = push(&store, &from).await.expect("stored");
        assert_eq!(sent.done, sent.expected);
        assert_eq!(sent.done, manifest.plain_size());
        assert!(sent.packs >= 2 && sent.zero > 10 * BLOCK as u64, "{sent:?}");
        // One block is there twice.
        assert_eq!(sent.known, BLOCK as u64);
        for page_cache in [false, true] {
            let to = dir.path().join(format!("to-{page_cache}"));
            let options = PullOptions {
                page_cache,
                ..PullOptions::default()
            };
            let got = pull(&store, &manifest, &to, &options).await.expect("read");
            assert_same(&from, &to);
            assert_eq!((got.done, got.expected), (sent.done, sent.expected));
            assert_eq!(got.moved, manifest.stored_size());
            let regular = |file: &&FileEntry| matches!(file.content, Content::Regular(_));
            let files = manifest.files.iter().filter(regular).count();
            assert_eq!(got.files, files as u64);
            let holes = fs::metadata(to.join("holes")).expect("meta");
            assert!(holes.blocks() * 512 < 2 * BLOCK as u64 + 65536, "no holes");
        }
        // No lease is left.
        let leases = store.backend().list(Kind::Lease).await.expect("list");
        assert_eq!(leases, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_has_is_not_sent_again() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &key_file(7)).await;
    let (first, _) = push(&store, &from).await.expect("stored");
    let (second, again) = push(&store, &from).await.expect("stored");
    assert_eq!((again.moved, again.packs), (0, 0));
    assert_ne!(first.id, second.id);
    assert_eq!(first.files, second.files);
    // A byte in a block: that block.
    let mut pages = fs::read(from.join("checkpoint/pages-1.img")).expect("pages");
    pages[BLOCK + 1] ^= 1;
    fs::write(from.join("checkpoint/pages-1.img"), &pages).expect("pages");
    let (third, again) = push(&store, &from).await.expect("stored");
    assert_eq!((again.packs, again.moved), (1, BLOCK as u64 + 40));
    let to = dir.path().join("to");
    pull(&store, &third, &to, &PullOptions::default())
        .await
        .expect("read");
    assert_same(&from, &to);
}

/// Cuts one file at the same contents, wherever they are.
#[derive(Clone)]
struct Parts(Vec<(u64, &'static str)>);

impl Cuts for Parts {
    fn cuts(&self, path: &str) -> Vec<Cut> {
        let cut = |(at, label): &(u64, &str)| Cut {
            at: *at,
            label: Some((*label).to_owned()),
        };
        match path {
            "gpu" => self.0.iter().map(cut).collect(),
            _ => Vec::new(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_find_what_has_moved() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("dir");
    let (one, two) = (noise(1, 2 * BLOCK + 4096), noise(2, BLOCK + 8192));
    let store = open(memory(), &KeyConfig::new()).await;
    let store_it = async |content: &[&[u8]], cuts: Parts| {
        fs::write(from.join("gpu"), content.concat()).expect("file");
        let mut upload = store.push(options()).await.expect("begins");
        let progress = upload.progress().clone();
        upload.add_tree(&from, cuts).await.expect("added");
        let manifest = upload.finish(Facts::default()).await.expect("stored");
        (manifest, progress.snapshot())
    };
    let cuts = Parts(vec![(0, "one"), (one.len() as u64, "two")]);
    store_it(&[&one, &two], cuts).await;
    // Other order, and a new one of 4 KiB before them.
    let new = noise(3, 4096);
    let at = [0, 4096, 4096 + two.len() as u64];
    let cuts = Parts(vec![(at[0], "new"), (at[1], "two"), (at[2], "one")]);
    let (manifest, sent) = store_it(&[&new, &two, &one], cuts).await;
    assert_eq!(sent.moved, 4096);
    let spans = manifest.files[0].spans();
    let labels: Vec<_> = spans.iter().map(|span| span.label.as_deref()).collect();
    assert_eq!(labels, [Some("new"), Some("two"), Some("one")]);
    let to = dir.path().join("to");
    pull(&store, &manifest, &to, &PullOptions::default())
        .await
        .expect("read");
    assert_same(&from, &to);
    // Cuts that are no cuts are refused, with the file's name.
    let mut upload = store.push(options()).await.expect("begins");
    let wrong = Parts(vec![(5, "b"), (5, "a")]);
    let error = upload.add_tree(&from, wrong).await.expect_err("refused");
    assert!(matches!(error, StoreError::Unfit { path, .. } if path == "gpu"));
    upload.abort().await;
    assert_eq!(store.backend().list(Kind::Lease).await.expect("list"), []);
}

/// Files by name, the last one first.
struct Backwards;

impl Order for Backwards {
    fn rank(&self, file: &FileEntry) -> u32 {
        u32::from(b'z' - file.path.as_bytes()[0])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_in_the_order_that_is_wanted() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("dir");
    for (number, name) in ["a", "b", "c", "d"].iter().enumerate() {
        fs::write(from.join(name), noise(number as u64, 3 * BLOCK)).expect("file");
    }
    let store = open(memory(), &KeyConfig::new()).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let (complete, mut completed) = tokio::sync::mpsc::unbounded_channel();
    let options = PullOptions {
        parallel: 1,
        order: Arc::new(Backwards),
        complete: Some(complete),
        ..PullOptions::default()
    };
    let to = dir.path().join("to");
    pull(&store, &manifest, &to, &options).await.expect("read");
    drop(options);
    let mut order = Vec::new();
    while let Some(path) = completed.recv().await {
        order.push(path);
    }
    assert_eq!(order, ["d", "c", "b", "a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_fetches_a_block_once() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let cache_dir = dir.path().join("cache");
    let cache = Arc::new(Cache::open(&cache_dir, 1 << 30).expect("opens"));
    let options = PullOptions {
        cache: Some(Arc::clone(&cache)),
        ..PullOptions::default()
    };
    let to = |name: &str| dir.path().join(name);
    let first = pull(&store, &manifest, &to("1"), &options)
        .await
        .expect("read");
    assert_eq!(first.moved, manifest.stored_size());
    let second = pull(&store, &manifest, &to("2"), &options)
        .await
        .expect("read");
    assert_eq!((second.moved, second.known), (0, second.done - second.zero));
    assert_same(&from, &to("2"));
    // What is damaged there is fetched again.
    let mut damaged = 0u64;
    for dir in fs::read_dir(&cache_dir).expect("cache") {
        for file in fs::read_dir(dir.expect("dir").path()).expect("dir") {
            let path = file.expect("file").path();
            let mut bytes = fs::read(&path).expect("block");
            if damaged == 0 {
                bytes.pop();
            } else {
                bytes[0] ^= 1;
            }
            damaged += 1;
            fs::write(&path, bytes).expect("block");
        }
    }
    assert!(damaged > 10);
    let third = pull(&store, &manifest, &to("3"), &options)
        .await
        .expect("read");
    assert_eq!(third.moved, manifest.stored_size());
    assert_same(&from, &to("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_be_read_as_a_stream() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let manifest = Arc::new(manifest);
    let read = |index: usize| {
        let reader = store.read_file(&manifest, index);
        let mut reader = reader.expect("opens");
        tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    for (index, file) in manifest.files.iter().enumerate() {
        if matches!(file.content, Content::Regular(_)) {
            let bytes = read(index).await.expect("thread").expect("reads");
            let expected = fs::read(from.join(&file.path)).expect("file");
            assert!(bytes == expected, "{} differs", file.path);
        }
    }
    // A pack that goes away is an error, not an end.
    for (key, _) in store.backend().list(Kind::Pack).await.expect("list") {
        store.backend().delete(&key).await.expect("deleted");
    }
    let large = manifest
        .files
        .iter()
        .position(|file| file.path.ends_with("pages-1.img"));
    let error = read(large.expect("there"))
        .await
        .expect("thread")
        .expect_err("no pack");
    assert!(error.to_string().contains("needs pack"), "{error}");
    assert!(
        manifest
            .blocks()
            .any(|(_, placed)| *placed.block == BlockRef::Zero)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_stays() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &KeyConfig::new()).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let to = dir.path().join("to");
    fs::create_dir(&to).expect("dir");
    fs::write(to.join("mine"), "precious").expect("file");
    let error = pull(&store, &manifest, &to, &PullOptions::default()).await;
    assert!(matches!(error, Err(StoreError::Occupied { .. })));
    // A copy of another checkpoint that was broken off.
    fs::write(to.join(MARKER), "20261130t014415-0123456789ab").expect("file");
    let error = pull(&store, &manifest, &to, &PullOptions::default()).await;
    assert!(matches!(error, Err(StoreError::Occupied { .. })));
    assert_eq!(fs::read(to.join("mine")).expect("file"), b"precious");
    // And what cannot be stored is refused by name.
    let pipe = from.join("checkpoint/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("pipe");
    let error = push(&store, &from).await.expect_err("refused");
    assert!(matches!(error, StoreError::Unfit { path, .. } if path == "checkpoint/pipe"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_checkpoints_never_mix_in_one_directory() {
    let dir = tempfile::tempdir().expect("dir");
    let store = open(memory(), &KeyConfig::new()).await;
    let mut manifests = Vec::new();
    for seed in [1, 2] {
        let from = dir.path().join(format!("from-{seed}"));
        fs::create_dir(&from).expect("dir");
        fs::write(from.join("pages"), noise(seed, 3 * BLOCK)).expect("file");
        fs::write(from.join(format!("only-{seed}")), "x").expect("file");
        manifests.push((push(&store, &from).await.expect("stored").0, from));
    }
    for round in 0..20 {
        let to = dir.path().join(format!("to-{round}"));
        let options = PullOptions::default();
        let (one, other) = tokio::join!(
            pull(&store, &manifests[0].0, &to, &options),
            pull(&store, &manifests[1].0, &to, &options),
        );
        let refused = |done: &Result<_, StoreError>| {
            matches!(
                done,
                Err(StoreError::Busy { .. } | StoreError::Occupied { .. })
            )
        };
        let winner = match (&one, &other) {
            (Ok(_), other) if refused(other) => &manifests[0].1,
            (one, Ok(_)) if refused(one) => &manifests[1].1,
            neither => panic!("{neither:?}"),
        };
        assert_same(winner, &to);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_changes_is_no_checkpoint() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    let secret = dir.path().join("secret");
    fs::write(&secret, "secret").expect("file");
    let changes: [(&str, &dyn Fn()); 3] = [
        ("a byte", &|| {
            let file = fs::OpenOptions::new().write(true).open(from.join("pages"));
            use std::os::unix::fs::FileExt;
            file.expect("file").write_all_at(b"x", 9).expect("written");
        }),
        ("a new file", &|| {
            fs::write(from.join("late"), "late").expect("file");
        }),
        ("a link in a file's place", &|| {
            fs::remove_file(from.join("zz")).expect("removed");
            std::os::unix::fs::symlink(&secret, from.join("zz")).expect("link");
        }),
    ];
    for (what, change) in changes {
        let _ = fs::remove_dir_all(&from);
        fs::create_dir(&from).expect("dir");
        fs::write(from.join("pages"), noise(1, 2 * BLOCK)).expect("file");
        fs::write(from.join("zz"), "public").expect("file");
        let store = open(memory(), &KeyConfig::new()).await;
        let mut upload = store.push(options()).await.expect("begins");
        upload.add_tree(&from, NoCuts).await.expect("added");
        change();
        let error = upload.finish(Facts::default()).await.expect_err(what);
        let told = matches!(error, StoreError::Changed { .. } | StoreError::File { .. });
        assert!(told, "{what}: {error:?}");
        assert_eq!(
            store.backend().list(Kind::Checkpoint).await.expect("list"),
            []
        );
    }
    // A copy that was never completed is none either.
    fs::write(from.join(MARKER), "20261130t014415-0123456789ab").expect("file");
    let store = open(memory(), &KeyConfig::new()).await;
    let error = push(&store, &from).await.expect_err("refused");
    assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_made_once() {
    use rocferry_store::seal::SealError;
    use rocferry_store::{Key, Store};
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("dir");
    fs::write(from.join("pages"), noise(1, 1000)).expect("file");
    for keys in [KeyConfig::new(), key_file(7)] {
        let memory = memory();
        let none = Store::open_existing(memory.clone(), &keys, crate::lab::quick()).await;
        assert!(matches!(none, Err(StoreError::NoStore)), "{none:?}");
        assert_eq!(memory.list(Kind::Store).await.expect("list"), []);
        let store = open(memory.clone(), &keys).await;
        push(&store, &from).await.expect("stored");
        // Its description is lost: what is there must not become unreadable for good.
        memory.delete(&Key::Store).await.expect("deleted");
        let again = Store::open(memory.clone(), &keys, crate::lab::quick()).await;
        let told = matches!(
            again,
            Err(StoreError::Seal(SealError::NoDescription { .. }))
        );
        assert!(told, "{again:?}");
    }
}
