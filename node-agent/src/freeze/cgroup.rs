//! A cgroup of version 2.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::FreezeError;
use crate::process;

/// Where the hierarchy is mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Where it is beside version 1.
const HYBRID_ROOT: &str = "/sys/fs/cgroup/unified";

/// A cgroup, by its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// The one that a process is in.
    ///
    /// # Errors
    /// The process is gone, or there is no hierarchy of version 2.
    pub fn of_process(pid: u32) -> Result<Self, FreezeError> {
        let path = process::proc(pid).join("cgroup");
        let text = process::read(&path).map_err(|source| FreezeError::File {
            what: "read",
            path,
            source,
        })?;
        let relative = own_path(&text).ok_or(FreezeError::NoCgroup { pid })?;
        let root = root().ok_or(FreezeError::NoCgroup { pid })?;
        Ok(Self(root.join(relative)))
    }

    /// A new one below the root of the hierarchy; one that is there already must be empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(name: &str) -> Result<Self, FreezeError> {
        let root = root().ok_or(FreezeError::NoCgroup {
            pid: std::process::id(),
        })?;
        let path = root.join(name);
        match fs::create_dir_all(&path) {
            Ok(()) => {}
            Err(source) => {
                let what = "make";
                return Err(FreezeError::File { what, path, source });
            }
        }
        let cgroup = Self(path);
        match cgroup.processes()?.first() {
            None => Ok(cgroup),
            Some(other) => Err(FreezeError::Shared {
                path: cgroup.0,
                other: *other,
            }),
        }
    }

    /// Those right below the root of the hierarchy whose names begin so.
    #[must_use]
    pub fn named(prefix: &str) -> Vec<Self> {
        let Some(entries) = root().and_then(|root| fs::read_dir(root).ok()) else {
            return Vec::new();
        };
        let begins =
            |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        entries
            .filter_map(Result::ok)
            .filter(|entry| begins(&entry.file_name()))
            .map(|entry| Self(entry.path()))
            .collect()
    }

    /// The one in this folder, which need not be there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The one above it, if this one has that name: some runtimes put the processes of a container one level lower.
    #[must_use]
    pub fn parent_of(&self, name: &str) -> Option<Self> {
        (self.0.file_name()? == name)
            .then(|| self.0.parent().map(|above| Self(above.to_owned())))?
    }

    /// The one above it, unless that is the root: of a container of a pod, the pod's.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let above = self.0.parent()?;
        let top = [ROOT, HYBRID_ROOT].map(Path::new).contains(&above);
        (above.starts_with(ROOT) && !top).then(|| Self(above.to_owned()))
    }

    /// Is it this one, or below it?
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// One above it whose tasks have been told to stop. Nothing in here can go on then, whatever is written here.
    #[must_use]
    pub fn frozen_above(&self) -> Option<Self> {
        let mut above = self.parent();
        while let Some(cgroup) = above {
            if process::read(&cgroup.0.join("cgroup.freeze")).is_ok_and(|text| text.trim() == "1") {
                return Some(cgroup);
            }
            above = cgroup.parent();
        }
        None
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Processes in it and below.
    ///
    /// # Errors
    /// It is gone or cannot be read.
    pub fn processes(&self) -> Result<BTreeSet<u32>, FreezeError> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![self.0.clone()];
        while let Some(dir) = waiting.pop() {
            let file = dir.join("cgroup.procs");
            match process::read(&file) {
                Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
                // A cgroup below may go at any time.
                Err(_) if dir != self.0 => continue,
                Err(source) => return Err(self.file("read", "cgroup.procs", source)),
            }
            let Ok(entries) = fs::read_dir(&dir) else {
                continue;
            };
            let dirs = entries.filter_map(Result::ok);
            let dirs = dirs.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            waiting.extend(dirs.map(|entry| entry.path()));
        }
        Ok(found)
    }

    /// Fails if there is a process in it that is not one of these, or if it is the root.
    ///
    /// # Errors
    /// [`FreezeError::Shared`].
    pub fn holds_only(&self, tree: &[u32]) -> Result<(), FreezeError> {
        let other = self
            .processes()?
            .into_iter()
            .find(|pid| !tree.contains(pid));
        match other {
            Some(other) => Err(FreezeError::Shared {
                path: self.0.clone(),
                other,
            }),
            // The root has no such file: it cannot be frozen.
            None if !self.0.join("cgroup.freeze").exists() => Err(FreezeError::NoCgroup {
                pid: tree.first().copied().unwrap_or_default(),
            }),
            None => Ok(()),
        }
    }

    /// Is it there?
    #[must_use]
    pub fn exists(&self) -> bool {
        self.0.join("cgroup.procs").exists()
    }

    /// Have all tasks in it and below stopped?
    ///
    /// # Errors
    /// It is gone or cannot be read.
    pub fn is_frozen(&self) -> Result<bool, FreezeError> {
        let text = process::read(&self.0.join("cgroup.events"));
        let text = text.map_err(|source| self.file("read", "cgroup.events", source))?;
        Ok(event(&text, "frozen") == Some(true))
    }

    /// Stops all tasks, and returns when they have stopped. If they do not in time it is taken back.
    ///
    /// # Errors
    /// [`FreezeError`].
    pub fn freeze(&self, limit: Duration) -> Result<(), FreezeError> {
        self.write("cgroup.freeze", "1")?;
        let done = self.wait("frozen", true, limit, "stopped");
        if done.is_err()
            && let Err(error) = self.write("cgroup.freeze", "0")
        {
            tracing::error!(cgroup = %self.0.display(), %error, "Cannot take a freeze back");
        }
        done
    }

    /// Lets all tasks go on, and returns when they do.
    ///
    /// # Errors
    /// [`FreezeError`].
    pub fn thaw(&self, limit: Duration) -> Result<(), FreezeError> {
        self.write("cgroup.freeze", "0")?;
        let wanted = "gone on (is a cgroup above it frozen?)";
        self.wait("frozen", false, limit, wanted)
    }

    /// Takes its own freeze back without waiting: a cgroup above it may be frozen still.
    ///
    /// # Errors
    /// It is gone or cannot be written.
    pub fn let_go(&self) -> Result<(), FreezeError> {
        self.write("cgroup.freeze", "0")
    }

    /// Have its tasks been told to stop, here and not above?
    ///
    /// # Errors
    /// It is gone or cannot be read.
    pub fn is_told_to_freeze(&self) -> Result<bool, FreezeError> {
        let text = process::read(&self.0.join("cgroup.freeze"));
        let text = text.map_err(|source| self.file("read", "cgroup.freeze", source))?;
        Ok(text.trim() == "1")
    }

    /// Kills all processes in it and below, frozen ones too, and returns when none is left.
    ///
    /// # Errors
    /// [`FreezeError`].
    pub fn kill(&self, limit: Duration) -> Result<(), FreezeError> {
        self.write("cgroup.kill", "1")?;
        self.wait("populated", false, limit, "become empty")
    }

    /// Removes it. One that is gone is fine.
    ///
    /// # Errors
    /// There are processes in it.
    pub fn remove(&self) -> Result<(), FreezeError> {
        match fs::remove_dir(&self.0) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FreezeError::File {
                what: "remove",
                path: self.0.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, value: &str) -> Result<(), FreezeError> {
        fs::write(self.0.join(name), value).map_err(|source| self.file("write", name, source))
    }

    fn file(&self, what: &'static str, name: &str, source: io::Error) -> FreezeError {
        let path = self.0.join(name);
        FreezeError::File { what, path, source }
    }

    /// Waits for an event; the kernel wakes whoever polls the file.
    fn wait(
        &self,
        name: &str,
        value: bool,
        limit: Duration,
        wanted: &'static str,
    ) -> Result<(), FreezeError> {
        let failed = |source| self.file("read", "cgroup.events", source);
        let file = File::open(self.0.join("cgroup.events")).map_err(failed)?;
        let begun = Instant::now();
        loop {
            let mut bytes = [0; 256];
            let read = file.read_at(&mut bytes, 0).map_err(failed)?;
            let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default());
            if event(&text, name) == Some(value) {
                return Ok(());
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let path = self.0.clone();
                return Err(FreezeError::Late {
                    path,
                    wanted,
                    limit,
                });
            }
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&file, PollFlags::PRI)], timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }
}

fn root() -> Option<&'static Path> {
    [ROOT, HYBRID_ROOT]
        .map(Path::new)
        .into_iter()
        .find(|root| root.join("cgroup.controllers").exists())
}

/// The path below the root in a `/proc/PID/cgroup`.
fn own_path(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Of a cgroup that is gone, or outside of this namespace, nothing can be said.
    (!line.ends_with(" (deleted)") && !line.starts_with("..")).then_some(line)
}

fn event(text: &str, name: &str) -> Option<bool> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_path_of_version_2() {
        assert_eq!(own_path("0::/a/b.scope\n"), Some("a/b.scope"));
        assert_eq!(own_path("3:devices:/x\n0::/\n"), Some(""));
        for none in ["", "3:devices:/x\n", "0::/a (deleted)\n", "0::/../other\n"] {
            assert_eq!(own_path(none), None, "{none:?}");
        }
    }

    #[test]
    fn events_are_read_by_name() {
        let text = "populated 1\nfrozen 0\n";
        assert_eq!(event(text, "populated"), Some(true));
        assert_eq!(event(text, "frozen"), Some(false));
        assert_eq!(event(text, "froz"), None);
        assert_eq!(event("frozen x\n", "frozen"), None);
    }
}
