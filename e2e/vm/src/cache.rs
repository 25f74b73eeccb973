//! Folder outside the clone where built images are kept.
//!
//! ```text
//! NAME-KEY/        an entry; the key is a hash of what it is made from
//! tmp/             entries while they are built or removed
//! locks/           one lock file per entry
//! logs/            output of the commands that built it
//! run/             files of machines that run now
//! ```
//! An entry is built in `tmp`, gets a list of its files with their sizes, and is then renamed: a name
//! without `tmp` is whole or, after a crash of the host, found out by its list and built again.

use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// File in an entry that lists its top-level files with their sizes.
const LIST: &str = ".whole";
/// File in an entry whose modification time says when it was last used.
const USED: &str = ".used";

/// The folder of built images.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// One entry, for listings.
#[derive(Debug, Clone)]
pub struct EntryInfo {
    /// What it is, without the key.
    pub name: String,
    /// Hash of its inputs.
    pub key: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// Time since it was last asked for.
    pub unused: Duration,
}

impl Cache {
    /// `$ROCFERRY_CACHE`, else `$XDG_CACHE_HOME/rocferry`, else `~/.cache/rocferry`; made if missing.
    ///
    /// # Errors
    /// When none of the variables says where, or the folder cannot be made.
    pub fn open() -> Result<Self> {
        let var = |name| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let root = var("ROCFERRY_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").map(|p| p.join("rocferry")))
            .or_else(|| var("HOME").map(|p| p.join(".cache/rocferry")))
            .context("No cache folder: set ROCFERRY_CACHE or HOME")?;
        Self::at(root)
    }

    /// The cache in the folder `root`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn at(root: PathBuf) -> Result<Self> {
        let root = std::path::absolute(root)?;
        for sub in ["tmp", "locks", "logs", "run"] {
            let dir = root.join(sub);
            fs::create_dir_all(&dir).with_context(|| format!("Cannot make {}", dir.display()))?;
        }
        Ok(Self { root })
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry `name` with this key; `build` fills an empty folder when it is not there yet. While one
    /// process builds it, others that want it wait.
    pub(crate) fn entry(
        &self,
        name: &str,
        key: &str,
        build: impl FnOnce(&Path, &Progress) -> Result<()>,
    ) -> Result<PathBuf> {
        let full = format!("{name}-{key}");
        let path = self.root.join(&full);
        if touch_whole(&path) {
            return Ok(path);
        }
        let log = self.root.join("logs").join(format!("{full}.log"));
        let progress = Progress::new("images", name.replace('-', " "), log.clone());
        let _lock = self.lock(&full, &progress)?;
        if touch_whole(&path) {
            return Ok(path);
        }
        self.discard(&path)?;
        self.sweep_tmp(&full)?;
        let tmp = self
            .root
            .join("tmp")
            .join(format!("{full}.{}", std::process::id()));
        fs::create_dir(&tmp).with_context(|| format!("Cannot make {}", tmp.display()))?;
        let _ = fs::remove_file(&log);
        if let Err(error) = build(&tmp, &progress) {
            let _ = fs::remove_dir_all(&tmp);
            return Err(error.context(format!("Cannot build {}", name.replace('-', " "))));
        }
        File::create(tmp.join(USED))?;
        fs::write(tmp.join(LIST), list_of(&tmp)?)?;
        fs::rename(&tmp, &path).with_context(|| format!("Cannot rename to {}", path.display()))?;
        Ok(path)
    }

    fn lock(&self, full: &str, progress: &Progress) -> Result<File> {
        let path = self.root.join("locks").join(full);
        let file =
            File::create(&path).with_context(|| format!("Cannot open {}", path.display()))?;
        if file.try_lock().is_err() {
            progress.say("another run builds it, waiting");
            file.lock()?;
        }
        Ok(file)
    }

    /// Removes an entry in two steps, so that a half-removed one is never found under its name.
    fn discard(&self, path: &Path) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let away = self
            .root
            .join("tmp")
            .join(format!("{name}.old.{}", std::process::id()));
        fs::rename(path, &away)?;
        fs::remove_dir_all(&away).with_context(|| format!("Cannot remove {}", away.display()))
    }

    /// Removes what killed builds of this entry left; the caller holds its lock.
    fn sweep_tmp(&self, full: &str) -> Result<()> {
        for dir in subdirs(&self.root.join("tmp"))? {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            if name
                .strip_prefix(full)
                .is_some_and(|rest| rest.starts_with('.'))
            {
                fs::remove_dir_all(&dir)
                    .with_context(|| format!("Cannot remove {}", dir.display()))?;
            }
        }
        Ok(())
    }

    /// Every entry, by name.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn entries(&self) -> Result<Vec<EntryInfo>> {
        let mut all = Vec::new();
        for path in subdirs(&self.root)? {
            let full = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Some((name, key)) = split(&full) else {
                continue;
            };
            all.push(EntryInfo {
                name: name.to_owned(),
                key: key.to_owned(),
                bytes: disk_use(&path),
                unused: age(&path.join(USED)),
                path,
            });
        }
        all.sort_by(|a, b| (&a.name, a.unused).cmp(&(&b.name, b.unused)));
        Ok(all)
    }

    /// Removes entries not used for longer than `unused`, and what killed builds left. Entries that
    /// another process builds now are left alone. Returns what it removed.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn prune(&self, unused: Duration) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        for path in subdirs(&self.root)?
            .into_iter()
            .chain(subdirs(&self.root.join("tmp"))?)
        {
            let full = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let in_tmp = path.parent().is_some_and(|p| p.ends_with("tmp"));
            let entry = if in_tmp {
                full.split('.').next().unwrap_or_default()
            } else {
                &full
            };
            if split(entry).is_none() || (!in_tmp && age(&path.join(USED)) <= unused) {
                continue;
            }
            let lock = File::create(self.root.join("locks").join(entry))?;
            if lock.try_lock().is_err() {
                continue;
            }
            if in_tmp {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("Cannot remove {}", path.display()))?;
            } else {
                self.discard(&path)?;
            }
            gone.push(full);
        }
        Ok(gone)
    }

    /// Removes every entry of this name, whatever its key, so that it is built again.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(&self, name: &str) -> Result<()> {
        for entry in self.entries()?.into_iter().filter(|e| e.name == name) {
            self.discard(&entry.path)?;
        }
        Ok(())
    }
}

/// `NAME-KEY` in its parts; none when it does not end in a key.
fn split(full: &str) -> Option<(&str, &str)> {
    let (name, key) = full.rsplit_once('-')?;
    (key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit())).then_some((name, key))
}

/// True when the entry is there and whole; notes the use.
fn touch_whole(path: &Path) -> bool {
    let Ok(list) = fs::read_to_string(path.join(LIST)) else {
        return false;
    };
    if list_of(path).ok() != Some(list) {
        return false;
    }
    // Only pruning looks at it: a cache that cannot be written to is still good to read.
    let _ = File::options()
        .write(true)
        .open(path.join(USED))
        .and_then(|f| f.set_modified(SystemTime::now()));
    true
}

/// Names and sizes of an entry's top-level files.
fn list_of(path: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == LIST || name == USED {
            continue;
        }
        let meta = entry.metadata()?;
        let size = if meta.is_dir() { 0 } else { meta.len() };
        lines.push(format!("{size} {name}\n"));
    }
    if lines.is_empty() {
        bail!("Nothing in {}", path.display());
    }
    lines.sort();
    Ok(lines.concat())
}

fn subdirs(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("Cannot list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            dirs.push(entry.path());
        }
    }
    dirs.sort();
    Ok(dirs)
}

fn age(file: &Path) -> Duration {
    fs::metadata(file)
        .and_then(|m| m.modified())
        .ok()
        .and_then(|t| t.elapsed().ok())
        .unwrap_or_default()
}

fn disk_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let mut todo = vec![path.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            bytes += meta.blocks() * 512;
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef";

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("c")).unwrap();
        (dir, cache)
    }

    fn fill(dir: &Path, _: &Progress) -> Result<()> {
        Ok(fs::write(dir.join("image"), "whole")?)
    }

    fn never(_: &Path, _: &Progress) -> Result<()> {
        panic!("built again")
    }

    #[test]
    fn built_once() {
        let (_dir, cache) = cache();
        let path = cache.entry("a-b", KEY, fill).unwrap();
        assert_eq!(cache.entry("a-b", KEY, never).unwrap(), path);
        assert_eq!(cache.entries().unwrap()[0].name, "a-b");
    }

    #[test]
    fn a_failed_or_killed_build_is_not_an_entry() {
        let (_dir, cache) = cache();
        let failed = cache.entry("a", KEY, |dir, _| {
            fs::write(dir.join("image"), "half")?;
            bail!("no")
        });
        failed.unwrap_err();
        assert!(subdirs(&cache.root.join("tmp")).unwrap().is_empty());
        let left = cache.root.join("tmp").join(format!("a-{KEY}.1"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("image"), "half").unwrap();
        let path = cache.entry("a", KEY, fill).unwrap();
        assert_eq!(fs::read(path.join("image")).unwrap(), b"whole");
        assert!(!left.exists());
    }

    #[test]
    fn a_truncated_entry_is_built_again() {
        let (_dir, cache) = cache();
        let path = cache.entry("a", KEY, fill).unwrap();
        fs::write(path.join("image"), "wh").unwrap();
        cache.entry("a", KEY, fill).unwrap();
        assert_eq!(fs::read(path.join("image")).unwrap(), b"whole");
    }

    #[test]
    fn two_builders_make_one_entry() {
        let (_dir, cache) = cache();
        let built = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    cache.entry("a", KEY, |dir, p| {
                        built.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                        fill(dir, p)
                    })
                });
            }
        });
        assert_eq!(built.into_inner(), 1);
    }

    #[test]
    fn prune_takes_the_old_and_leaves_what_is_being_built() {
        let (_dir, cache) = cache();
        let old = cache.entry("old", KEY, fill).unwrap();
        let new = cache.entry("new", KEY, fill).unwrap();
        let past = SystemTime::now() - Duration::from_secs(1000);
        File::options()
            .write(true)
            .open(old.join(USED))
            .unwrap()
            .set_modified(past)
            .unwrap();
        let busy = cache.root.join("tmp").join(format!("busy-{KEY}.7"));
        fs::create_dir(&busy).unwrap();
        let held = File::create(cache.root.join("locks").join(format!("busy-{KEY}"))).unwrap();
        held.lock().unwrap();
        assert_eq!(
            cache.prune(Duration::from_secs(500)).unwrap(),
            [format!("old-{KEY}")]
        );
        assert!(!old.exists() && new.exists() && busy.exists());
        drop(held);
        cache.prune(Duration::from_secs(500)).unwrap();
        assert!(!busy.exists());
    }
}
