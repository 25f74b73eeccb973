//! Processes of this machine, as `/proc` shows them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Largest file of `/proc` that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A process: the number alone may have gone to another one since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number in the initial pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
}

impl ProcessId {
    /// The process that has this number now.
    ///
    /// # Errors
    /// There is none, or `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        let started = stat.started;
        Ok(Self { pid, started })
    }

    /// Is it still there, and no zombie?
    #[must_use]
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| {
            stat.started == self.started && stat.state != 'Z' && stat.state != 'X'
        })
    }
}

struct Stat {
    state: char,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> io::Result<Self> {
        let text = read(&proc(pid).join("stat"))?;
        // The name in parentheses may hold anything.
        let (_, rest) = text.rsplit_once(") ").ok_or(io::ErrorKind::InvalidData)?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next().and_then(|field| field.chars().next());
        // The state is field 3.
        let started = fields.nth(18).and_then(|field| field.parse().ok());
        match (state, started) {
            (Some(state), Some(started)) => Ok(Self { state, started }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Its folder in `/proc`.
pub(crate) fn proc(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// A file of `/proc`, text or nearly so.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MAX_FILE)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process and all its descendants, parents first.
#[must_use]
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        for tid in numbers(&proc(pid).join("task")) {
            let children = read(&proc(pid).join(format!("task/{tid}/children")));
            for child in children.unwrap_or_default().split_ascii_whitespace() {
                if let Ok(child) = child.parse()
                    && !found.contains(&child)
                {
                    found.push(child);
                }
            }
        }
        at += 1;
    }
    found
}

/// All processes.
#[must_use]
pub(crate) fn all() -> BTreeSet<u32> {
    numbers(Path::new("/proc"))
}

/// Entries of a folder that are numbers; none if it is gone.
pub(crate) fn numbers(folder: &Path) -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Processes other than this one that work on a folder: it is in their command line, or something in it is open.
#[must_use]
pub(crate) fn users_of(folder: &Path) -> Vec<u32> {
    let own = std::process::id();
    let name = folder.as_os_str().as_encoded_bytes();
    let uses = |pid: u32| {
        let words = fs::read(proc(pid).join("cmdline")).unwrap_or_default();
        if words.windows(name.len()).any(|window| window == name) {
            return true;
        }
        let fds = proc(pid).join("fd");
        let open = numbers(&fds).into_iter();
        open.filter_map(|fd| fs::read_link(fds.join(fd.to_string())).ok())
            .any(|target| target.starts_with(folder))
    };
    all()
        .into_iter()
        .filter(|pid| *pid != own && uses(*pid))
        .collect()
}

/// Number of the boot that this machine is in.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(read(Path::new("/proc/sys/kernel/random/boot_id"))?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_itself_and_no_longer_when_it_has_ended() {
        let own = ProcessId::of(std::process::id()).expect("it is there");
        assert!(own.is_alive());
        let another = ProcessId {
            started: own.started + 1,
            ..own
        };
        assert!(!another.is_alive());
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let id = ProcessId::of(child.id()).expect("it is there");
        assert!(id.is_alive());
        assert!(tree(own.pid).contains(&id.pid));
        child.kill().expect("it is ours");
        // A zombie until it is waited for.
        child.wait().expect("it ends");
        assert!(!id.is_alive());
    }

    #[test]
    fn who_works_on_a_folder_is_found_by_what_is_open() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(dir.path().join("a")).expect("a file");
        assert_eq!(users_of(dir.path()), Vec::<u32>::new());
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(file)
            .spawn()
            .expect("sleep");
        // The child may still be on its way to `sleep`; its descriptors are there already.
        assert_eq!(users_of(dir.path()), vec![child.id()]);
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert_eq!(users_of(dir.path()), Vec::<u32>::new());
    }
}
