//! Folder with the files of one running machine. A lock on a file in it says that its owner lives; what
//! a killed owner left is removed by the next run.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time in which an owner has certainly taken its lock.
const SETTLED: Duration = Duration::from_secs(60);

/// A folder for the files of something that runs. It is removed when this is dropped.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Makes one whose name begins with `name`, in the cache's folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(cache: &Path, name: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = cache
            .join("run")
            .join(format!("{name}.{}.{n}", std::process::id()));
        // One with our process id is of a process that is gone.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).with_context(|| format!("Cannot make {}", path.display()))?;
        let lock = File::create(path.join("lock"))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Removes the folders of those who are gone.
    pub fn sweep(cache: &Path) {
        sweep(cache);
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders whose owner is gone. Failures are left to the next run.
pub(crate) fn sweep(cache: &Path) {
    for entry in fs::read_dir(cache.join("run"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let dir = entry.path();
        let old = fs::metadata(&dir)
            .and_then(|m| m.modified())
            .is_ok_and(|t| t.elapsed().is_ok_and(|age| age > SETTLED));
        let free = || File::open(dir.join("lock")).map_or(true, |f| f.try_lock().is_ok());
        if old && free() {
            let _ = fs::remove_dir_all(&dir);
        }
    }
}
