//! Directories to store, and stores to put them in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rocferry_image::manifest::{BLOCK_SIZE, Manifest};
use rocferry_store::backend::{Backend, Memory, RetryPolicy};
use rocferry_store::pull::PullOptions;
use rocferry_store::push::{Facts, NoCuts, PushOptions};
use rocferry_store::seal::{KeyConfig, WrappingKey};
use rocferry_store::{Progress, Snapshot, Store, StoreError, StoreName, StoreOptions};

pub(crate) const BLOCK: usize = BLOCK_SIZE as usize;

/// Retries at once, and not for long.
pub(crate) fn quick() -> StoreOptions {
    StoreOptions {
        retry: RetryPolicy {
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(5),
            deadline: Duration::from_secs(30),
        },
        ..StoreOptions::default()
    }
}

pub(crate) fn key_file(byte: u8) -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_key(WrappingKey::from_file(&[byte; 32]).expect("32 bytes"));
    config
}

pub(crate) fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(&StoreName::default()))
}

pub(crate) async fn open(backend: Arc<dyn Backend>, keys: &KeyConfig) -> Store {
    let store = Store::open(backend, keys, quick()).await;
    store.expect("store opens")
}

/// Small packs and more threads than a test machine has: all that can happen at once does.
pub(crate) fn options() -> PushOptions {
    PushOptions {
        pack_size: 9 << 20,
        packers: 3,
        workers: 4,
        ..PushOptions::default()
    }
}

pub(crate) async fn push(store: &Store, dir: &Path) -> Result<(Manifest, Snapshot), StoreError> {
    let mut upload = store.push(options()).await?;
    let progress = upload.progress().clone();
    upload.add_tree(dir, NoCuts).await?;
    let manifest = upload.finish(Facts::default()).await?;
    Ok((manifest, progress.snapshot()))
}

pub(crate) async fn pull(
    store: &Store,
    manifest: &Manifest,
    to: &Path,
    options: &PullOptions,
) -> Result<Snapshot, StoreError> {
    let progress = Progress::new();
    let manifest = Arc::new(manifest.clone());
    store.pull(manifest, to, options, &progress).await?;
    Ok(progress.snapshot())
}

pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// A directory as CRIU leaves it: many small files, some large ones, links, holes.
pub(crate) fn sample(dir: &Path, seed: u64) {
    let write = |path: &str, bytes: &[u8]| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, bytes).expect("file");
    };
    for number in 0..40usize {
        let bytes = noise(seed + number as u64, number * 97);
        write(&format!("checkpoint/core-{number}.img"), &bytes);
    }
    let mut pages = noise(seed, 2 * BLOCK);
    pages.extend(vec![0; 3 * BLOCK]);
    pages.extend(b"all the same ".repeat(400_000));
    pages.resize(7 * BLOCK, 1);
    // Once more what was there: it is stored once.
    pages.extend(noise(seed, BLOCK));
    pages.extend(noise(seed + 1, 12_345));
    write("checkpoint/pages-1.img", &pages);
    write("empty", b"");
    write("zero", &vec![0; BLOCK + 1]);
    write("checkpoint/deep/er/file", b"x");
    let holes = fs::File::create(dir.join("holes")).expect("file");
    holes.set_len(9 * BLOCK as u64 + 17).expect("length");
    use std::os::unix::fs::FileExt;
    let written = holes.write_all_at(&noise(seed + 2, 5000), 4 * BLOCK as u64 - 100);
    written.expect("written");
    std::os::unix::fs::symlink("checkpoint/../empty", dir.join("link")).expect("link");
    std::os::unix::fs::symlink("/etc", dir.join("checkpoint/etc")).expect("link");
    let mode = |path: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(dir.join(path), permissions).expect("mode");
    };
    mode("empty", 0o400);
    mode("checkpoint/deep", 0o1750);
    let old = std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let file = fs::File::open(dir.join("zero")).expect("file");
    file.set_modified(old).expect("time");
}

/// What a directory holds: by path the kind, mode, time in ms and content.
pub(crate) fn content(dir: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(place) = waiting.pop() {
        for file in fs::read_dir(place).expect("directory") {
            let path = file.expect("file").path();
            let meta = fs::symlink_metadata(&path).expect("meta");
            let bytes = if meta.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                let target = fs::read_link(&path).expect("link");
                target.into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).expect("content")
            };
            let time = meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000;
            let name = path.strip_prefix(dir).expect("below").to_owned();
            all.insert(name, (meta.mode(), time, bytes));
        }
    }
    all
}

/// Asserts without printing megabytes.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (content(one), content(other));
    let names = |map: &BTreeMap<PathBuf, _>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (path, (mode, time, bytes)) in &one {
        let (other_mode, other_time, other_bytes) = &other[path];
        assert_eq!((mode, time), (other_mode, other_time), "{}", path.display());
        assert!(bytes == other_bytes, "{} differs", path.display());
    }
}
