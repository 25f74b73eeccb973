//! Blocks that are kept on a machine, for all its checkpoints.
//!
//! A block is a file with the bytes that it has in its pack: sealed if the store is. So what is in the cache
//! is verified like anything from the store, and tells no more than the store does. Several processes may use
//! one directory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::SystemTime;

use rocferry_image::manifest::{BLOCK_SIZE, BlockId, Encoding};

use rustix::fs::{Mode, OFlags};

use crate::StoreError;

/// A directory of blocks with a size limit. Blocks that were not used for the longest time go first.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    limit: u64,
    /// Bytes that are there, as far as this process knows.
    size: AtomicU64,
    evicting: Mutex<()>,
}

/// Largest file that can be a block.
const MAX: u64 = BLOCK_SIZE as u64 + 64;
/// Eviction leaves this share of the limit, in percent: it lists all files, so it must not come often.
const LEAVE: u64 = 90;

/// How names of blocks end, by their encoding.
const ENDS: [&str; 2] = ["raw", "zstd"];
/// Digits of a block's name that its directory is named by.
const SHARD: usize = 2;
/// What names of files that are being written begin with.
const TEMPORARY: &str = ".rocferry-block-";

/// Whether a file is a block, by its name and that of its directory.
fn is_ours(dir: &OsStr, name: &OsStr) -> bool {
    let (Some(dir), Some(name)) = (dir.to_str(), name.to_str()) else {
        return false;
    };
    let is_shard = dir.len() == SHARD && dir.bytes().all(|byte| byte.is_ascii_hexdigit());
    let block = name.rsplit_once('.').filter(|(id, end)| {
        let encoding = ENDS.contains(end);
        encoding && id.parse::<BlockId>().is_ok() && id.starts_with(dir)
    });
    is_shard && (block.is_some() || name.starts_with(TEMPORARY))
}

struct Found {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl Cache {
    /// Opens a cache of at most `limit` bytes. The directory is made if it is not there.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn open(dir: &Path, limit: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::file("Making", dir))?;
        let cache = Self {
            dir: dir.to_owned(),
            limit,
            size: AtomicU64::new(0),
            evicting: Mutex::new(()),
        };
        let found = cache.list().map_err(StoreError::file("Listing", dir))?;
        let size = found.iter().map(|file| file.size).sum();
        cache.size.store(size, Ordering::Relaxed);
        if size > limit {
            cache.evict();
        }
        Ok(cache)
    }

    /// Bytes that are there, as far as this process knows.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// The bytes of a block in its pack. They still have to be decoded, which verifies them.
    #[must_use]
    pub fn get(&self, id: BlockId, encoding: Encoding) -> Option<Vec<u8>> {
        let path = self.path(id, encoding);
        // Not blocking: whatever else may lie there is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        let file = fs::File::from(file);
        let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let size = meta.len();
        let mut bytes = Vec::with_capacity(usize::try_from(size.min(MAX)).ok()?);
        io::Read::read_to_end(&mut io::Read::take(&file, MAX), &mut bytes).ok()?;
        // That it was used; if that cannot be noted it goes earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(bytes)
    }

    /// Keeps a block. If that fails it is not kept.
    pub fn put(&self, id: BlockId, encoding: Encoding, stored: &[u8]) {
        if stored.len() as u64 > self.limit {
            return;
        }
        match self.write(&self.path(id, encoding), stored) {
            Ok(()) => {
                let size = stored.len() as u64;
                if self.size.fetch_add(size, Ordering::Relaxed) + size > self.limit {
                    self.evict();
                }
            }
            Err(error) => tracing::debug!(block = %id, %error, "Block not kept in the cache"),
        }
    }

    fn write(&self, path: &Path, stored: &[u8]) -> io::Result<()> {
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(dir)?;
        io::Write::write_all(&mut file, stored)?;
        file.persist(path)?;
        Ok(())
    }

    /// Forgets a block.
    pub fn remove(&self, id: BlockId, encoding: Encoding) {
        let path = self.path(id, encoding);
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        if fs::remove_file(path).is_ok() {
            self.shrink(size);
        }
    }

    /// Removes what was not used for the longest time.
    fn evict(&self) {
        let _alone = match self.evicting.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            // Somebody does it already.
            Err(TryLockError::WouldBlock) => return,
        };
        let mut found = match self.list() {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "Cache not listed");
                return;
            }
        };
        found.sort_by_key(|file| file.used);
        // Others may have added and removed files.
        let mut size: u64 = found.iter().map(|file| file.size).sum();
        let leave = self.limit / 100 * LEAVE;
        for file in found {
            if size <= leave {
                break;
            }
            match fs::remove_file(&file.path) {
                Ok(()) => size -= file.size,
                Err(error) if error.kind() == io::ErrorKind::NotFound => size -= file.size,
                Err(error) => {
                    tracing::warn!(path = %file.path.display(), %error, "Block stays in the cache");
                }
            }
        }
        self.size.store(size, Ordering::Relaxed);
    }

    fn shrink(&self, size: u64) {
        let less = |known: u64| Some(known.saturating_sub(size));
        let _ = self
            .size
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// All blocks, those that are being written as well. Anything else is not ours, and left alone.
    fn list(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for dir in fs::read_dir(&self.dir)? {
            let dir = dir?;
            if !dir.file_type()?.is_dir() || dir.file_name().len() != SHARD {
                continue;
            }
            for file in fs::read_dir(dir.path())? {
                let file = file?;
                if !is_ours(&dir.file_name(), &file.file_name()) {
                    continue;
                }
                // One that goes away meanwhile is not there.
                let Ok(meta) = file.metadata() else { continue };
                if !meta.is_file() {
                    continue;
                }
                found.push(Found {
                    path: file.path(),
                    size: meta.len(),
                    used: meta.modified()?,
                });
            }
        }
        Ok(found)
    }

    fn path(&self, id: BlockId, encoding: Encoding) -> PathBuf {
        let name = id.to_string();
        let (dir, _) = name.split_at(SHARD);
        let end = match encoding {
            Encoding::Raw => ENDS[0],
            Encoding::Zstd => ENDS[1],
        };
        self.dir.join(dir).join(format!("{name}.{end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> BlockId {
        BlockId([number; 32])
    }

    #[test]
    fn what_was_used_last_stays() {
        let dir = tempfile::tempdir().expect("dir");
        let cache = Cache::open(dir.path(), 1000).expect("opens");
        let age = |number: u8, seconds: u64| {
            let file = fs::File::open(cache.path(id(number), Encoding::Raw)).expect("file");
            let time = SystemTime::now() - std::time::Duration::from_secs(seconds);
            file.set_modified(time).expect("time");
        };
        for number in 0..9 {
            cache.put(id(number), Encoding::Raw, &[number; 100]);
            age(number, 1000 - u64::from(number));
        }
        // The oldest one is used again.
        assert_eq!(cache.get(id(0), Encoding::Raw), Some(vec![0; 100]));
        assert_eq!(cache.get(id(0), Encoding::Zstd), None);
        cache.put(id(9), Encoding::Raw, &[9; 100]);
        assert_eq!(cache.size(), 1000);
        cache.put(id(10), Encoding::Raw, &[10; 150]);
        let there = (0..=10).filter(|number| cache.get(id(*number), Encoding::Raw).is_some());
        assert_eq!(there.collect::<Vec<_>>(), [0, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cache.size(), 850);
        // Another process sees the same.
        assert_eq!(Cache::open(dir.path(), 1000).expect("opens").size(), 850);
        assert!(Cache::open(dir.path(), 200).expect("opens").size() <= 200);
        cache.remove(id(10), Encoding::Raw);
        assert_eq!(cache.get(id(10), Encoding::Raw), None);
        // More than fits is not kept, and drives nothing out.
        cache.put(id(11), Encoding::Raw, &[0; 1001]);
        assert_eq!(cache.get(id(11), Encoding::Raw), None);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let write = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("dir");
            fs::write(path, [1; 500]).expect("file");
        };
        let block = id(0xab).to_string();
        let ours = [format!("ab/{block}.raw"), format!("ab/{TEMPORARY}1")];
        let others = [
            "Documents/thesis.odt".to_owned(),
            "ab/thesis.odt".to_owned(),
            format!("ab/{block}.txt"),
            format!("cd/{block}.raw"),
            format!("xy/{block}.raw"),
            format!("{block}.raw"),
        ];
        ours.iter().chain(&others).for_each(|path| write(path));
        let cache = Cache::open(dir.path(), 100).expect("opens");
        assert_eq!(cache.size(), 0);
        for path in &ours {
            assert!(!dir.path().join(path).exists(), "{path}");
        }
        for path in &others {
            assert!(dir.path().join(path).exists(), "{path}");
        }
        // What is no file is not waited for.
        let path = cache.path(id(3), Encoding::Raw);
        fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        let (fifo, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("FIFO");
        assert_eq!(cache.get(id(3), Encoding::Raw), None);
    }
}
