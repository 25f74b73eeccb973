//! The processes of a tree.

use std::collections::HashMap;
use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::files::Named;

/// A process and all its descendants that have not ended.
pub(crate) fn tree(root: Pid) -> io::Result<Vec<Pid>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Some(stat) = Stat::parse(&stat) {
            children.entry(stat.parent).or_default().push(pid);
            if !stat.ends {
                alive.push(pid);
            }
        }
    }
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).into_iter().flatten());
        next += 1;
    }
    found.retain(|pid| alive.contains(pid));
    Ok(found.into_iter().filter_map(Pid::from_raw).collect())
}

/// A process by pid and start; `None` if it is not there.
pub(crate) fn named(pid: Pid) -> Option<Named> {
    let pid = pid.as_raw_nonzero().get();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let started = Stat::parse(&stat)?.started;
    Some(Named { pid, started })
}

/// Those between a process and an ancestor of it, the nearest first, and the ancestor at last; `None` if it is none.
pub(super) fn chain(from: Pid, ancestor: Named) -> Option<Vec<Named>> {
    let mut found = Vec::new();
    let mut pid = from.as_raw_nonzero().get();
    // Nobody nests them deeper.
    while found.len() < 16 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        pid = Stat::parse(&stat)?.parent;
        let process = named(Pid::from_raw(pid)?)?;
        found.push(process);
        if process == ancestor {
            return Some(found);
        }
    }
    None
}

/// Kills a process, if it is still this one.
pub(crate) fn kill(process: Named) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    // Nobody else gets the pid while this is open.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if named(pid) == Some(process) {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Some of `/proc/PID/stat`.
struct Stat {
    parent: i32,
    /// It has ended, or is about to.
    ends: bool,
    started: u64,
}

/// A task that is ending, in the flags there.
const EXITING: u64 = 0x4;

impl Stat {
    /// The name in brackets may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| words.get(index)?.trim().parse::<u64>().ok();
        Some(Self {
            parent: words.get(1)?.parse().ok()?,
            ends: matches!(*words.first()?, "Z" | "X") || number(6)? & EXITING != 0,
            started: number(19)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn names_do_not_confuse() {
        let stat = |state: &str, flags: u32| {
            format!("7 (a) R 9 (b) {state} 5 1 1 0 -1 {flags} 0 0 0 0 1 2 0 0 20 0 1 0 4711 0")
        };
        let good = Stat::parse(&stat("S", 0x0040_0100)).expect("good");
        assert_eq!((good.parent, good.ends, good.started), (5, false, 4711));
        assert!(Stat::parse(&stat("S", 0x0040_0104)).expect("good").ends);
        assert!(Stat::parse(&stat("Z", 0)).expect("good").ends);
        assert!(Stat::parse("7 (a").is_none() && Stat::parse("7 (a) S 5").is_none());
    }

    #[test]
    fn ancestors_are_told_from_others() {
        let own = named(rustix::process::getpid()).expect("own");
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid::from_child(&child);
        assert_eq!(chain(pid, own), Some(vec![own]));
        let other = Named {
            started: own.started + 1,
            ..own
        };
        assert_eq!(chain(pid, other), None);
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert_eq!(chain(pid, own), None);
    }

    #[test]
    fn only_the_process_that_was_named_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let process = named(Pid::from_child(&child)).expect("there");
        let started = process.started + 1;
        kill(Named { started, ..process });
        assert!(child.try_wait().expect("child").is_none());
        kill(process);
        assert!(!child.wait().expect("child").success());
        kill(process);
        assert_eq!(named(Pid::from_child(&child)), None);
    }

    #[test]
    fn children_are_found_and_others_not() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let own = rustix::process::getpid();
        let found = tree(own).expect("proc");
        let pid = Pid::from_child(&child);
        assert!(found.contains(&own) && found.contains(&pid));
        assert!(!found.contains(&Pid::INIT));
        assert_eq!(tree(pid).expect("proc"), [pid]);
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(tree(pid).expect("proc").is_empty());
    }
}
