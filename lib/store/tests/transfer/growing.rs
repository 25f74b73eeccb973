//! Files that are still being written.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use rocferry_store::pull::PullOptions;
use rocferry_store::push::{Cut, Facts, Feed, Follower, NewContent, NewEntry, NoCuts, Source};
use rocferry_store::seal::KeyConfig;
use rocferry_store::{Kind, StoreError};

use crate::lab::{BLOCK, assert_same, memory, noise, open, options, pull};

fn entry(path: &str, content: NewContent) -> NewEntry {
    NewEntry {
        path: path.to_owned(),
        mode: 0o600,
        uid: 0,
        gid: 0,
        modified_ms: 0,
        content,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_sent_while_it_grows() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("pages");
    let store = open(memory(), &KeyConfig::new()).await;
    let mut upload = store.push(options()).await.expect("begins");
    let progress = upload.progress().clone();
    let content = noise(1, 12 * BLOCK + 999);
    let mut file = fs::File::create(&path).expect("file");
    let (feed, readable) = Feed::new();
    let source = Source::Path(path.clone());
    upload
        .add(entry("pages", NewContent::Regular(source, readable)))
        .expect("added");
    let mut written = 0;
    let mut ready = |upto: usize, feed: &Feed| {
        file.write_all(&content[written..upto]).expect("written");
        written = upto;
        feed.ready(upto as u64);
    };
    feed.cut(Cut {
        at: BLOCK as u64 + 10,
        label: None,
    })
    .expect("in time");
    ready(8 * BLOCK, &feed);
    // Packs go out before the file is complete.
    while progress.snapshot().packs == 0 {
        upload.check().expect("no error");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let late = feed.cut(Cut { at: 3, label: None }).expect_err("late");
    assert_eq!(late.at, 3);
    ready(content.len(), &feed);
    feed.finish(content.len() as u64);
    let manifest = upload.finish(Facts::default()).await.expect("stored");
    let sizes: Vec<_> = manifest.files[0]
        .spans()
        .iter()
        .map(|span| span.size)
        .collect();
    assert_eq!(sizes, [BLOCK as u64 + 10, (11 * BLOCK + 989) as u64]);
    let to = dir.path().join("to");
    pull(&store, &manifest, &to, &PullOptions::default())
        .await
        .expect("read");
    assert!(fs::read(to.join("pages")).expect("file") == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_is_no_checkpoint() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("pages");
    fs::write(&path, noise(1, 3 * BLOCK)).expect("file");
    let store = open(memory(), &KeyConfig::new()).await;
    for shorter in [false, true] {
        let mut upload = store.push(options()).await.expect("begins");
        let (feed, readable) = Feed::new();
        let source = Source::Path(path.clone());
        upload
            .add(entry("pages", NewContent::Regular(source, readable)))
            .expect("added");
        feed.ready(2 * BLOCK as u64);
        match shorter {
            // It says that there is more than there is.
            true => feed.finish(4 * BLOCK as u64),
            false => drop(feed),
        }
        let error = upload
            .finish(Facts::default())
            .await
            .expect_err("no checkpoint");
        match error {
            StoreError::Unfinished { path } if !shorter => assert_eq!(path, "pages"),
            StoreError::Short {
                path,
                expected,
                actual,
            } if shorter => {
                assert_eq!(
                    (path.as_str(), expected, actual),
                    ("pages", 4 * BLOCK as u64, 3 * BLOCK as u64)
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            store.backend().list(Kind::Checkpoint).await.expect("list"),
            []
        );
        assert_eq!(store.backend().list(Kind::Lease).await.expect("list"), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_followed_while_somebody_writes() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    let store = open(memory(), &KeyConfig::new()).await;
    let mut upload = store.push(options()).await.expect("begins");
    let progress = upload.progress().clone();
    let mut follower = Follower::new(from.clone());
    // Not there yet.
    follower.look(&mut upload, &NoCuts).await.expect("looks");
    fs::create_dir_all(from.join("checkpoint")).expect("dir");
    let pages = from.join("checkpoint/pages-1.img");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&pages)
        .expect("file");
    for part in 0..4 {
        file.write_all(&noise(part, 3 * BLOCK + 100))
            .expect("written");
        follower.look(&mut upload, &NoCuts).await.expect("looks");
    }
    // Written in any order, and a file that is gone at the end.
    let gpu = fs::File::create(from.join("gpu")).expect("file");
    gpu.write_all_at(&noise(10, 2 * BLOCK), 4 * BLOCK as u64)
        .expect("written");
    fs::write(from.join("scratch"), noise(11, BLOCK)).expect("file");
    follower.look(&mut upload, &NoCuts).await.expect("looks");
    gpu.write_all_at(&noise(12, 4 * BLOCK), 0).expect("written");
    while progress.snapshot().packs < 3 {
        upload.check().expect("no error");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Changed after it was sent.
    gpu.write_all_at(&noise(13, BLOCK), 5 * BLOCK as u64)
        .expect("written");
    fs::remove_file(from.join("scratch")).expect("removed");
    let before = progress.snapshot().moved;
    upload.add_tree(&from, NoCuts).await.expect("added");
    let manifest = upload.finish(Facts::default()).await.expect("stored");
    let sent = progress.snapshot();
    assert!(before > 8 * BLOCK as u64, "{before} bytes were sent early");
    assert!(sent.known >= 8 * BLOCK as u64, "{sent:?}");
    let to = dir.path().join("to");
    pull(&store, &manifest, &to, &PullOptions::default())
        .await
        .expect("read");
    assert_same(&from, &to);
}

/// Says where a file is cut only when it is told.
#[derive(Clone)]
struct LateCuts(Option<u64>);

impl rocferry_store::push::Cuts for LateCuts {
    fn cuts(&self, _path: &str) -> Vec<Cut> {
        let cut = |at| Cut { at, label: None };
        self.0.map(cut).into_iter().collect()
    }

    fn known(&self, path: &str) -> bool {
        path != "gpu" || self.0.is_some()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_cuts_are_not_known_waits_for_them() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("dir");
    fs::write(from.join("gpu"), noise(1, 6 * BLOCK)).expect("file");
    let store = open(memory(), &KeyConfig::new()).await;
    let mut upload = store.push(options()).await.expect("begins");
    let progress = upload.progress().clone();
    let mut follower = Follower::new(from.clone());
    follower
        .look(&mut upload, &LateCuts(None))
        .await
        .expect("looks");
    let cuts = LateCuts(Some(8));
    follower.look(&mut upload, &cuts).await.expect("looks");
    upload.add_tree(&from, cuts).await.expect("added");
    upload.finish(Facts::default()).await.expect("stored");
    // Nothing was sent under another alignment.
    let sent = progress.snapshot().moved;
    assert!(sent < 6 * BLOCK as u64 + BLOCK as u64 / 2, "{sent}");
}
