//! A cgroup of version 2.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use thiserror::Error;

/// What cannot be done with a cgroup.
#[derive(Debug, Error)]
pub(crate) enum CgroupError {
    /// A file of it, or about it.
    #[error("Cannot {verb} {}", .path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// No hierarchy of version 2 is mounted.
    #[error(
        "No cgroup hierarchy of version 2 is mounted here: a container can be held only on one"
    )]
    NoHierarchy,
    /// It has no path in that hierarchy.
    #[error("{who} has no cgroup of version 2")]
    None { who: String },
    /// The kernel does not come to an end with it.
    #[error("{} is not {wanted} after {seconds} s", .path.display())]
    TooSlow {
        path: PathBuf,
        wanted: &'static str,
        seconds: u64,
    },
}

fn failed(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.into();
    move |source| CgroupError::File { verb, path, source }
}

/// Most bytes that are read of a file of the kernel.
const MAX_FILE: u64 = 1 << 20;

fn read(path: &Path) -> Result<String, CgroupError> {
    let mut text = String::new();
    let file = File::open(path).map_err(failed("open", path))?;
    file.take(MAX_FILE)
        .read_to_string(&mut text)
        .map_err(failed("read", path))?;
    Ok(text)
}

/// Where the hierarchy is mounted.
pub(crate) fn hierarchy() -> Result<PathBuf, CgroupError> {
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    mounts
        .lines()
        .find_map(mounted_hierarchy)
        .ok_or(CgroupError::NoHierarchy)
}

/// The mount point, if this line of a mountinfo is one of the whole hierarchy.
fn mounted_hierarchy(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut words = mount.split(' ').skip(3);
    let (root, point) = (words.next()?, words.next()?);
    let kind = file_system.split(' ').next()?;
    // A space in the path is written in octal; nobody has one there.
    (kind == "cgroup2" && root == "/" && !point.contains('\\')).then(|| PathBuf::from(point))
}

/// A cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// The one at this path of the host's file system.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// That of a process.
    pub(crate) fn of(hierarchy: &Path, pid: Pid) -> Result<Self, CgroupError> {
        let pid = pid.as_raw_nonzero();
        let list = read(Path::new(&format!("/proc/{pid}/cgroup")))?;
        let path = list.lines().find_map(|line| line.strip_prefix("0::/"));
        // Outside of what this cgroup namespace shows.
        let path = path.filter(|path| !path.starts_with(".."));
        let path = path.ok_or_else(|| CgroupError::None {
            who: format!("Process {pid}"),
        })?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        Ok(Self(hierarchy.join(path)))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it is this one or lies in it.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Processes in it and below.
    pub(crate) fn processes(&self) -> Result<Vec<Pid>, CgroupError> {
        let mut found = Vec::new();
        let mut waiting = vec![self.0.clone()];
        while let Some(folder) = waiting.pop() {
            let list = read(&folder.join("cgroup.procs"))?;
            let pids = list.lines().filter_map(|line| line.parse().ok());
            found.extend(pids.filter_map(Pid::from_raw));
            let entries = fs::read_dir(&folder).map_err(failed("list", &folder))?;
            let folders = entries.filter_map(Result::ok);
            let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            waiting.extend(folders.map(|entry| entry.path()));
        }
        Ok(found)
    }

    /// The one beside it for what a runtime has put into it and is none of the container's.
    pub(crate) fn aside(&self) -> Option<Self> {
        let mut name = std::ffi::OsString::from("rocferry-aside-");
        name.push(self.0.file_name()?);
        Some(Self(self.0.with_file_name(name)))
    }

    /// Makes it; one that is there is as good.
    pub(crate) fn make(&self) -> Result<(), CgroupError> {
        match fs::create_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(failed("make", &self.0)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes it, if nobody is in it.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir(&self.0);
    }

    /// Moves a process into it.
    pub(crate) fn take(&self, pid: Pid) -> Result<(), CgroupError> {
        self.write("cgroup.procs", &pid.as_raw_nonzero().to_string())
    }

    /// Kills everything in it, and leaves it thawed: it may be there still when its path is used again, and whoever comes
    /// into a frozen one stops.
    pub(crate) fn kill(&self) -> Result<(), CgroupError> {
        self.write("cgroup.kill", "1")?;
        self.write("cgroup.freeze", "0")
    }

    /// Freezes it, and waits until the kernel says that it is frozen.
    pub(crate) fn freeze(&self, patience: Duration) -> Result<(), CgroupError> {
        self.write("cgroup.freeze", "1")?;
        self.wait(true, patience)
    }

    /// Lets it run again.
    pub(crate) fn thaw(&self, patience: Duration) -> Result<(), CgroupError> {
        self.write("cgroup.freeze", "0")?;
        self.wait(false, patience)
    }

    /// Whether the kernel says that it is frozen.
    pub(crate) fn is_frozen(&self) -> Result<bool, CgroupError> {
        Ok(is_frozen(&read(&self.0.join("cgroup.events"))?))
    }

    /// Whether there is a process in it, or below.
    pub(crate) fn is_populated(&self) -> Result<bool, CgroupError> {
        let events = read(&self.0.join("cgroup.events"))?;
        Ok(events.lines().any(|line| line == "populated 1"))
    }

    /// Whether it asks to be frozen, which a `thaw` by somebody else takes back.
    pub(crate) fn is_to_freeze(&self) -> Result<bool, CgroupError> {
        Ok(read(&self.0.join("cgroup.freeze"))?.trim() == "1")
    }

    /// Whether all its processes are killed together for want of memory; `None` without a memory controller.
    pub(crate) fn oom_group(&self) -> Result<Option<bool>, CgroupError> {
        let path = self.0.join("memory.oom.group");
        match path.exists() {
            true => Ok(Some(read(&path)?.trim() == "1")),
            false => Ok(None),
        }
    }

    /// Sets that.
    pub(crate) fn set_oom_group(&self, together: bool) -> Result<(), CgroupError> {
        self.write("memory.oom.group", if together { "1" } else { "0" })
    }

    fn wait(&self, frozen: bool, patience: Duration) -> Result<(), CgroupError> {
        let path = self.0.join("cgroup.events");
        let mut file = File::open(&path).map_err(failed("open", &path))?;
        let deadline = Instant::now() + patience;
        loop {
            let mut text = String::new();
            file.rewind()
                .and_then(|()| (&file).take(MAX_FILE).read_to_string(&mut text))
                .map_err(failed("read", &path))?;
            if is_frozen(&text) == frozen {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CgroupError::TooSlow {
                    path,
                    wanted: if frozen { "frozen" } else { "thawed" },
                    seconds: patience.as_secs(),
                });
            }
            let left = Timespec::try_from(left)
                .map_err(|_| failed("wait for", &path)(io::ErrorKind::InvalidInput.into()))?;
            // The kernel marks the file when a line of it changes.
            let mut fds = [PollFd::new(&file, PollFlags::PRI)];
            match poll(&mut fds, Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("wait for", &path)(errno.into())),
            }
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.0.join(name);
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(failed("write", path))
    }
}

fn is_frozen(events: &str) -> bool {
    events.lines().any(|line| line == "frozen 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_among_mounts() {
        let line = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(mounted_hierarchy(line), Some("/sys/fs/cgroup".into()));
        for other in [
            "35 24 0:30 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "35 24 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
            "35 24 0:30 / /mnt rw - ext4 cgroup2 rw",
            "35 24",
            "",
        ] {
            assert_eq!(mounted_hierarchy(other), None, "{other}");
        }
    }

    #[test]
    fn one_contains_another() {
        let outer = Cgroup::at("/c/a");
        assert!(outer.contains(&outer) && outer.contains(&Cgroup::at("/c/a/b")));
        assert!(!outer.contains(&Cgroup::at("/c/ab")) && !outer.contains(&Cgroup::at("/c")));
    }

    #[test]
    fn only_the_kernels_word_counts() {
        assert!(is_frozen("populated 1\nfrozen 1\n"));
        for text in ["", "frozen 0\n", "populated 1\n", "frozen 10\n"] {
            assert!(!is_frozen(text), "{text}");
        }
    }

    #[test]
    fn what_is_killed_is_not_left_frozen() {
        let dir = tempfile::tempdir().expect("folder");
        for (file, text) in [("cgroup.kill", ""), ("cgroup.freeze", "1")] {
            fs::write(dir.path().join(file), text).expect("file");
        }
        Cgroup::at(dir.path()).kill().expect("killed");
        let text = |file| fs::read_to_string(dir.path().join(file)).expect("file");
        assert_eq!(
            (text("cgroup.kill"), text("cgroup.freeze")),
            ("1".into(), "0".into())
        );
    }

    #[test]
    fn processes_below_are_its_own() {
        let dir = tempfile::tempdir().expect("folder");
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).expect("folders");
        for (folder, text) in [
            (dir.path(), "1\n2\n"),
            (&dir.path().join("a"), ""),
            (&below, "3\n"),
        ] {
            fs::write(folder.join("cgroup.procs"), text).expect("file");
        }
        let found = Cgroup::at(dir.path()).processes().expect("read");
        let mut found: Vec<i32> = found.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3]);
        let aside = Cgroup::at("/c/a.scope/container").aside().expect("beside");
        assert_eq!(aside, Cgroup::at("/c/a.scope/rocferry-aside-container"));
        assert!(!Cgroup::at("/c/a.scope/container").contains(&aside));
    }

    #[test]
    fn waiting_ends() {
        let dir = tempfile::tempdir().expect("folder");
        fs::write(dir.path().join("cgroup.events"), "frozen 0\n").expect("file");
        fs::write(dir.path().join("cgroup.freeze"), "0").expect("file");
        let cgroup = Cgroup::at(dir.path());
        let error = cgroup.freeze(Duration::ZERO).expect_err("never frozen");
        assert!(matches!(
            error,
            CgroupError::TooSlow {
                wanted: "frozen",
                ..
            }
        ));
        cgroup.thaw(Duration::ZERO).expect("it is");
    }
}
