//! Helpers of a CRIU that was killed.
//!
//! CRIU has short-lived children of its own, which try out the kernel. runc puts CRIU into the container's cgroup, and when the
//! kernel kills it there for want of memory, such a child stays: it sleeps for ever, and holds the socket whose end runc waits
//! for. So while the runtime restores, it is looked for CRIU that has ended and is not waited for.

use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Pid;

use super::hold::{Named, kill, named};

/// Between two looks. Whoever waits for CRIU does so at once.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks in a row that find CRIU ended before something is done.
const LOOKS: u32 = 4;

/// CRIU's name, and that of its children.
const CRIU: &str = "criu";

/// Watches until it is dropped.
pub(super) struct Watch {
    /// Its end ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Over the CRIU that this runtime starts.
    pub(super) fn over(runtime: u32) -> Self {
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            let mut looks = 0;
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                looks = if has_dead_criu(runtime) { looks + 1 } else { 0 };
                if looks >= LOOKS {
                    for orphan in orphans(&processes(), runtime) {
                        kill(orphan);
                    }
                }
            }
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said nothing that somebody waits for.
            let _ = thread.join();
        }
    }
}

/// Of `/proc/PID/stat`.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    parent: u32,
    group: u32,
    started: u64,
    ended: bool,
    is_criu: bool,
}

/// Has a CRIU of this runtime ended that was not waited for? Looks at the runtime's children alone: a node has many processes.
fn has_dead_criu(runtime: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{runtime}/task"));
    let threads = threads.into_iter().flatten().filter_map(Result::ok);
    let mut lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.any(|list| {
        let mut children = list.split_ascii_whitespace();
        children.any(|pid| {
            let child = pid.parse().ok().and_then(process);
            child.is_some_and(|child| child.is_criu && child.ended)
        })
    })
}

/// What a CRIU of this runtime has left behind that has ended itself and is still to be waited for.
fn orphans(processes: &[Process], runtime: u32) -> Vec<Named> {
    let dead = processes
        .iter()
        .find(|one| one.is_criu && one.ended && one.parent == runtime);
    let Some(dead) = dead else {
        return Vec::new();
    };
    let has_owner = |one: &Process| {
        one.parent == runtime
            || processes
                .iter()
                .any(|other| other.pid == one.parent && other.is_criu && !other.ended)
    };
    let left = processes.iter().filter(|one| {
        one.is_criu
            && !one.ended
            && one.group == dead.group
            && one.started >= dead.started
            && !has_owner(one)
    });
    let left = left.filter_map(|one| {
        let pid = Pid::from_raw(i32::try_from(one.pid).ok()?)?;
        named(pid).filter(|named| named.started == one.started)
    });
    left.collect()
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse::<u32>().ok());
    pids.filter_map(process).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &stat)
}

/// The name in brackets may hold anything.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once('(')?;
    let words: Vec<&str> = after.split(' ').collect();
    Some(Process {
        pid,
        parent: words.get(1)?.parse().ok()?,
        group: words.get(2)?.parse().ok()?,
        started: words.get(19)?.parse().ok()?,
        ended: matches!(*words.first()?, "Z" | "X"),
        is_criu: name == CRIU,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A program of CRIU's name.
    fn criu(folder: &Path) -> PathBuf {
        let program = folder.join(CRIU);
        fs::copy("/bin/sh", &program).expect("copied");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        program
    }

    /// One that has a child of that name, and then does this; the child keeps its output open.
    fn with_child(folder: &Path, then: &str) -> Child {
        let program = criu(folder);
        let script = format!(
            "{} -c 'while :; do sleep 1; done' & {then}",
            program.display()
        );
        Command::new(&program)
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started")
    }

    /// One after the other: to each the other's processes would be of this runtime too.
    #[test]
    fn only_what_a_killed_criu_leaves_ends() {
        what_belongs_to_somebody_stays();
        what_a_killed_criu_leaves_ends();
    }

    fn what_a_killed_criu_leaves_ends() {
        let dir = tempfile::tempdir().expect("folder");
        let mut dead = with_child(dir.path(), "kill -9 $$");
        let mut output = dead.stdout.take().expect("pipe");
        let _watch = Watch::over(std::process::id());
        // Ends when nobody has it any more. We do not wait for the process before, as runc does not.
        let mut text = Vec::new();
        output.read_to_end(&mut text).expect("read");
        dead.wait().expect("waited for");
    }

    fn what_belongs_to_somebody_stays() {
        let dir = tempfile::tempdir().expect("folder");
        let mut alive = with_child(dir.path(), "wait");
        let found = || processes().into_iter().find(|one| one.parent == alive.id());
        let child = loop {
            match found() {
                Some(child) if child.is_criu => break child,
                _ => thread::sleep(Duration::from_millis(10)),
            }
        };
        // Another CRIU of this runtime is dead.
        let mut dead = Command::new(dir.path().join(CRIU))
            .args(["-c", "exit 1"])
            .spawn()
            .expect("started");
        while !processes()
            .iter()
            .any(|one| one.pid == dead.id() && one.ended)
        {
            thread::sleep(Duration::from_millis(10));
        }
        let mut all = processes();
        let own = std::process::id();
        assert!(orphans(&all, own).is_empty());
        // Without its owner it would be one, if it came later.
        all.retain(|one| one.pid != alive.id());
        for one in &mut all {
            if one.pid == dead.id() {
                one.started = child.started;
            }
        }
        let left = orphans(&all, own);
        assert_eq!(left.len(), 1, "{left:?}");
        for orphan in left {
            kill(orphan);
        }
        let _ = alive.wait();
        let _ = dead.wait();
    }
}
