//! A directory.

use super::child;
use super::suite::*;
use crate::macros::conformance;
use async_trait::async_trait;
use rocferry_store::backend::{Backend, BackendError, Directory, Existing};
use rocferry_store::{Key, Kind, StoreName};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

struct Folder(tempfile::TempDir);

impl Folder {
    fn tenant_dir(&self) -> PathBuf {
        self.0.path().join(tenant().as_str())
    }
}

#[async_trait]
impl Place for Folder {
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        Arc::new(Directory::open(self.0.path(), tenant).expect("open"))
    }

    async fn litter(&self, tenant: &StoreName) {
        let own = self.0.path().join(tenant.as_str());
        let id = "0123456789abcdef0123456789abcdef";
        let packs = own.join("packs");
        let file = |path: PathBuf| {
            fs::create_dir_all(path.parent().expect("parent")).expect("dirs");
            fs::write(path, "foreign").expect("write");
        };
        file(packs.join("README"));
        file(packs.join(id));
        file(packs.join("ff").join(id));
        file(packs.join("01").join(id.to_uppercase()));
        file(packs.join("01").join(".nfs000000000000000100000001"));
        file(packs.join("01").join(".tmp-0123"));
        file(packs.join("lost+found").join(id));
        fs::create_dir_all(packs.join("01").join(id)).expect("a directory of that name");
        file(own.join("checkpoints/.snapshot/daily"));
        file(own.join("checkpoints/20261130t014415-0123456789ab.part"));
        file(own.join("thumbs.db"));
        let link = own.join("checkpoints/20261130t014415-ffffffffffff");
        let _ = fs::remove_file(&link);
        symlink("/etc/passwd", link).expect("link");
        // No UTF-8.
        use std::os::unix::ffi::OsStrExt;
        let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
        file(packs.join("01").join(odd));
        file(packs.join(odd));
    }
}

async fn fresh() -> Folder {
    Folder(tempfile::tempdir().expect("dir"))
}

conformance!(fresh);

#[test]
fn the_root_has_to_be_there() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("write");
    for (root, reason) in [
        (dir.path().join("mnt"), "No such directory; make it first"),
        (file, "Not a directory"),
    ] {
        let error = Directory::open(&root, &tenant()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            format!("Store URL \"file://{}\": {reason}", root.display())
        );
    }
}

#[tokio::test]
async fn a_root_that_has_gone_is_not_an_empty_store() {
    let place = fresh().await;
    let backend = place.open(&tenant());
    put(&*backend, &pack(1), &bytes(1, 10)).await;
    fs::rename(place.0.path(), place.0.path().with_extension("away")).expect("rename");
    let errors = [
        backend.get(&pack(1), None, LIMIT).await.expect_err("get"),
        backend.head(&pack(1)).await.expect_err("head"),
        backend.list(Kind::Pack).await.expect_err("list"),
        backend.delete(&pack(1)).await.expect_err("delete"),
        backend.writer(&pack(1)).await.expect_err("writer"),
    ];
    fs::rename(place.0.path().with_extension("away"), place.0.path()).expect("rename");
    for error in errors {
        assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn no_link_is_followed() {
    let outside = tempfile::tempdir().expect("dir");
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").expect("write");

    // The object itself.
    let place = fresh().await;
    let backend = place.open(&tenant());
    let key = Key::Checkpoint(checkpoint(1));
    let dir = place.tenant_dir().join("checkpoints");
    fs::create_dir_all(&dir).expect("dirs");
    symlink(&secret, dir.join(checkpoint(1).as_str())).expect("link");
    let error = backend.get(&key, None, LIMIT).await.expect_err("get");
    assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
    backend.head(&key).await.expect_err("head");
    backend
        .put(&key, bytes(1, 10), Existing::Keep, &[])
        .await
        .expect_err("keep");
    backend
        .put(&key, bytes(1, 10), Existing::Replace, &[])
        .await
        .expect("the link is replaced");
    assert_eq!(fs::read(&secret).expect("read"), b"secret");

    // Each directory on the way.
    let fan = "01";
    for link in [
        place.tenant_dir().join("packs").join(fan),
        place.tenant_dir().join("packs"),
        place.tenant_dir(),
    ] {
        let _ = fs::remove_dir_all(&link);
        fs::create_dir_all(link.parent().expect("parent")).expect("dirs");
        symlink(outside.path(), &link).expect("link");
        backend
            .put(&pack(1), bytes(1, 10), Existing::Replace, &[])
            .await
            .expect_err("put through a link");
        backend.get(&pack(1), None, LIMIT).await.expect_err("get");
        fs::remove_file(&link).expect("remove");
    }
    assert_eq!(fs::read_dir(outside.path()).expect("dir").count(), 1);
}

#[tokio::test]
async fn a_pipe_is_not_waited_for() {
    let place = fresh().await;
    let backend = place.open(&tenant());
    let dir = place.tenant_dir().join("checkpoints");
    fs::create_dir_all(&dir).expect("dirs");
    let made = std::process::Command::new("mkfifo")
        .arg(dir.join(checkpoint(1).as_str()))
        .status();
    assert!(made.expect("mkfifo").success());
    let key = Key::Checkpoint(checkpoint(1));
    let error = backend.get(&key, None, LIMIT).await.expect_err("get");
    assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn only_the_owner_reads() {
    let place = fresh().await;
    let backend = place.open(&tenant());
    put(&*backend, &pack(1), &bytes(1, 10)).await;
    let mut path = place.tenant_dir();
    for part in ["", "packs", "01", &"01".repeat(16)] {
        path.push(part);
        let mode = fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

fn temporaries(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(temporaries(&entry.path()));
        } else if entry.file_name().as_encoded_bytes().starts_with(b".tmp-") {
            found.push(entry.path());
        }
    }
    found
}

#[tokio::test]
async fn temporaries_go_at_once_or_after_a_day() {
    let place = fresh().await;
    let backend = place.open(&tenant());
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    writer.write(bytes(1, 100)).await.expect("write");
    let left = temporaries(place.0.path());
    assert_eq!(left.len(), 1, "{left:?}");
    writer.abort().await;
    put(&*backend, &pack(1), &bytes(1, 10)).await;
    backend
        .put(&pack(1), bytes(1, 10), Existing::Keep, &[])
        .await
        .expect_err("exists");
    assert_eq!(temporaries(place.0.path()), Vec::<PathBuf>::new());

    // What a killed process leaves: removed once it is old, and nothing else is.
    let dir = left[0].parent().expect("parent");
    let old = dir.join(".tmp-00000000000000000000000000000001");
    let new = dir.join(".tmp-00000000000000000000000000000002");
    for (path, hours) in [(&old, 25), (&new, 23)] {
        fs::write(path, "half").expect("write");
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        let file = fs::File::options().write(true).open(path).expect("open");
        file.set_modified(time).expect("time");
    }
    assert_eq!(keys(&*backend, Kind::Pack).await.len(), 1);
    assert_eq!(temporaries(place.0.path()), [new]);
}

#[test]
fn a_full_disk_is_told() {
    const NAME: &str = "directory::a_full_disk_is_told";
    if let Some(dir) = child::argument() {
        return until_full(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().display().to_string();
    let disk = child::small_disk(dir.path(), 8);
    let disk: Vec<&str> = disk.iter().map(String::as_str).collect();
    child::run(NAME, &path, &disk);
    // No file larger than 4 MiB, as `ulimit -f` says. The signal that goes with it would end the process.
    let limit = [
        "prlimit",
        "--fsize=4194304",
        "sh",
        "-c",
        "trap '' XFSZ; exec \"$0\" \"$@\"",
    ];
    child::run(NAME, &path, &limit);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn until_full(dir: &Path) {
    let backend = Directory::open(dir, &tenant()).expect("open");
    let error = backend
        .put(&pack(1), bytes(1, 16 << 20), Existing::Keep, &[])
        .await
        .expect_err("put");
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    let mut writer = backend.writer(&pack(2)).await.expect("writer");
    let error = loop {
        if let Err(error) = writer.write(bytes(1, 1 << 20)).await {
            break error;
        }
    };
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    writer
        .write(bytes(1, 10))
        .await
        .expect_err("of no more use");
    writer.finish().await.expect_err("not whole");
    assert_eq!(keys(&backend, Kind::Pack).await.len(), 0);
    assert_eq!(temporaries(dir), Vec::<PathBuf>::new());
    // What did not fit has given its room back.
    put(&backend, &pack(3), &bytes(1, 3 << 20)).await;
}

#[test]
fn a_large_object_needs_little_memory() {
    const NAME: &str = "directory::a_large_object_needs_little_memory";
    if child::argument().is_none() {
        return child::run(NAME, "", &[]);
    }
    within_memory(48);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn within_memory(mebibytes: u64) {
    let place = fresh().await;
    let backend = place.open(&tenant());
    write_large(&*backend, &pack(1), 4).await;
    child::forget_peak();
    let before = child::peak_kib();
    write_large(&*backend, &pack(2), 128).await;
    read_large(&*backend, &pack(2), 128).await;
    let grown = child::peak_kib() - before;
    assert!(grown < mebibytes << 10, "{grown} KiB for 128 MiB");
}
