//! Copies that are broken off and go on.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use rocferry_store::backend::{Backend, BackendError, Existing, Meta, ObjectWriter};
use rocferry_store::pull::{MARKER, PullOptions};
use rocferry_store::{Key, Kind, StoreError};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use crate::lab::{assert_same, key_file, memory, open, pull, push, sample};

/// Lets some packs be read, then says that it is not allowed.
#[derive(Debug)]
struct Budget {
    inner: Arc<dyn Backend>,
    left: AtomicU64,
    /// Gets what a child would have that is forked when reading is refused: the open mark below this
    /// directory.
    forked: Option<(PathBuf, Mutex<Option<OwnedFd>>)>,
}

/// The same open file as the one of this process with this path.
fn inherited(path: &Path) -> Option<OwnedFd> {
    let own = rustix::process::getpid();
    let own = rustix::process::pidfd_open(own, PidfdFlags::empty()).expect("pidfd");
    let open = fs::read_dir("/proc/self/fd").expect("list").flatten();
    let number = open
        .filter(|file| fs::read_link(file.path()).is_ok_and(|target| target == path))
        .find_map(|file| file.file_name().to_str()?.parse().ok())?;
    Some(rustix::process::pidfd_getfd(own, number, PidfdGetfdFlags::empty()).expect("fd"))
}

#[async_trait]
impl Backend for Budget {
    async fn get(
        &self,
        key: &Key,
        range: Option<std::ops::Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        if key.kind() == Kind::Pack {
            let less = |left: u64| left.checked_sub(1);
            let taken = self
                .left
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
            if taken.is_err() {
                if let Some((dir, forked)) = &self.forked {
                    *forked.lock().expect("lock") = inherited(&dir.join(MARKER));
                }
                return Err(BackendError::Denied {
                    operation: "Reading",
                    object: key.to_string(),
                    source: "no more".into(),
                });
            }
        }
        self.inner.get(key, range, limit).await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        self.inner.head(key).await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        self.inner.put(key, content, existing, needs).await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        self.inner.writer(key).await
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        self.inner.list(kind).await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.inner.delete(key).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_goes_on_from_where_it_was_broken_off() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let memory = memory();
    let store = open(memory.clone(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let to = dir.path().join("to");
    let options = PullOptions {
        parallel: 2,
        ..PullOptions::default()
    };
    let (mut moved, mut tries) = (0, 0);
    loop {
        tries += 1;
        let budget = Budget {
            inner: memory.clone(),
            left: AtomicU64::new(1),
            forked: None,
        };
        let store = open(Arc::new(budget), &key_file(7)).await;
        match pull(&store, &manifest, &to, &options).await {
            Ok(snapshot) => {
                moved += snapshot.moved;
                break;
            }
            Err(error) => {
                assert!(
                    matches!(error, StoreError::Backend(BackendError::Denied { .. })),
                    "{error:?}"
                );
                assert!(to.join(MARKER).exists());
                // What lies there may have been changed meanwhile, by whatever broke it off.
                if tries == 2 {
                    let path = to.join("zero");
                    let mut bytes = fs::read(&path).expect("file");
                    bytes[77] = 1;
                    fs::write(&path, bytes).expect("file");
                    let pages = to.join("checkpoint/pages-1.img");
                    fs::OpenOptions::new()
                        .write(true)
                        .open(pages)
                        .and_then(|file| file.set_len(100))
                        .expect("cut");
                }
            }
        }
        assert!(tries < 50, "it never ends");
    }
    assert!(tries > 3, "{tries} tries");
    assert!(!to.join(MARKER).exists());
    assert_same(&from, &to);
    let _ = moved;
    // Whole, it is not touched again.
    let error = pull(&store, &manifest, &to, &options).await;
    assert!(matches!(error, Err(StoreError::Occupied { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_forked_meanwhile_keeps_nobody_away() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let memory = memory();
    let store = open(memory.clone(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let to = dir.path().join("to");
    let budget = Arc::new(Budget {
        inner: memory,
        left: AtomicU64::new(1),
        forked: Some((to.clone(), Mutex::new(None))),
    });
    let refusing = open(budget.clone(), &key_file(7)).await;
    let options = PullOptions::default();
    let broken = pull(&refusing, &manifest, &to, &options).await;
    broken.expect_err("refused");
    let (_, forked) = budget.forked.as_ref().expect("set");
    assert!(forked.lock().expect("lock").is_some(), "no open mark");
    pull(&store, &manifest, &to, &options).await.expect("read");
    assert_same(&from, &to);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_fetched_again() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let to = dir.path().join("to");
    pull(&store, &manifest, &to, &PullOptions::default())
        .await
        .expect("read");
    fs::write(to.join(MARKER), manifest.id.as_str()).expect("mark");
    let again = pull(&store, &manifest, &to, &PullOptions::default())
        .await
        .expect("read");
    assert_eq!((again.moved, again.known), (0, again.done - again.zero));
    assert_same(&from, &to);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_outside_through_a_link() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    sample(&from, 1);
    let store = open(memory(), &key_file(7)).await;
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    fs::create_dir_all(&to).expect("dir");
    fs::create_dir_all(&outside).expect("dir");
    fs::write(to.join(MARKER), manifest.id.as_str()).expect("mark");
    for place in ["checkpoint", "zero"] {
        let link = to.join(place);
        std::os::unix::fs::symlink(&outside, &link).expect("link");
        let error = pull(&store, &manifest, &to, &PullOptions::default()).await;
        assert!(matches!(error, Err(StoreError::File { .. })), "{error:?}");
        assert_eq!(fs::read_dir(&outside).expect("dir").count(), 0);
        fs::remove_file(link).expect("removed");
    }
}
