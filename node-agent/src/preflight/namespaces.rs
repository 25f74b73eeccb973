//! Namespaces of a pod's containers that cannot be restored as they are.

use std::path::PathBuf;

use super::Finding;
use crate::process::proc;

/// The namespace of a process; `None` if it is gone.
fn of(pid: &str, kind: &str) -> Option<PathBuf> {
    std::fs::read_link(proc_of(pid).join("ns").join(kind)).ok()
}

fn proc_of(pid: &str) -> PathBuf {
    PathBuf::from("/proc").join(pid)
}

fn of_pid(pid: u32, kind: &str) -> Option<PathBuf> {
    std::fs::read_link(proc(pid).join("ns").join(kind)).ok()
}

/// Is it in the node's own network? Also if that cannot be told.
pub(crate) fn shares_network(pid: u32) -> bool {
    let node = of("1", "net").or_else(|| of("self", "net"));
    of_pid(pid, "net").is_none_or(|own| Some(own) == node)
}

/// A container: its name, its first process.
pub(super) type Named<'a> = (&'a str, u32);

/// Pid and IPC namespaces of the node, and pid namespaces that containers share with each other or the sandbox.
pub(super) fn check(containers: &[Named<'_>], sandbox: Option<u32>) -> Vec<Finding> {
    let node = |kind| of("1", kind).or_else(|| of("self", kind));
    let (node_pid, node_ipc) = (node("pid"), node("ipc"));
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    known.extend(sandbox.and_then(|pid| Some(("the sandbox", of_pid(pid, "pid")?))));
    let mut found = Vec::new();
    for (name, pid) in containers {
        let own = of_pid(*pid, "pid");
        if own.is_some() && own == node_pid {
            found.push(Finding::refusal(
                "host-pid",
                format!("Container {name} has the node's own processes (hostPID): their numbers cannot be had again elsewhere"),
            ));
        } else if let Some(own) = own {
            if let Some((other, _)) = known.iter().find(|(_, other)| *other == own) {
                found.push(Finding::refusal(
                    "shared-processes",
                    format!("Container {name} shares its processes with {other} (shareProcessNamespace), which is not supported"),
                ));
            }
            known.push((name, own));
        }
        let ipc = of_pid(*pid, "ipc");
        if ipc.is_some() && ipc == node_ipc {
            found.push(Finding::refusal(
                "host-ipc",
                format!("Container {name} has the node's own IPC (hostIPC), which stays behind"),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_node_is_seen() {
        let own = std::process::id();
        assert!(shares_network(own));
        assert!(shares_network(u32::MAX));
        let about: Vec<_> = check(&[("main", own)], None)
            .iter()
            .map(|finding| finding.about)
            .collect();
        assert_eq!(about, ["host-pid", "host-ipc"]);
    }
}
