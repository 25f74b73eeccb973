//! Sockets of processes.

use std::collections::BTreeSet;
use std::fs;

use crate::process::{numbers, proc};

/// Inodes of the sockets that these processes have open.
pub(super) fn of(processes: &[u32]) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for pid in processes {
        let fds = proc(*pid).join("fd");
        for fd in numbers(&fds) {
            let target = fs::read_link(fds.join(fd.to_string())).unwrap_or_default();
            let inode = target.to_str().and_then(|text| {
                let number = text.strip_prefix("socket:[")?.strip_suffix(']')?;
                number.parse::<u64>().ok()
            });
            inodes.extend(inode);
        }
    }
    inodes
}
