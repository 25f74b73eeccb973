//! Waiting for an earlier owner of the GPUs to be gone.
//!
//! A process that a dump has killed keeps its SDMA queue numbers and its memory until a work item of the
//! kernel has run. A RESTORE in that moment fails with EBUSY or ENOMEM and cannot be repeated in the same
//! process, so the wait comes first.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rocferry_kfd::Sysfs;

use crate::host::{Host, log_at};
use crate::tracee::in_initial_pid_namespace;

/// Longer than any teardown that makes sense; a restore that starts anyway still gets the kernel's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Teardown takes milliseconds.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until KFD lists no process that has ended, or patience runs out (then the log says so).
pub(super) fn wait_for_dying_processes(host: &dyn Host) {
    // KFD lists pids of the initial namespace: in another one they are not to be found, dead or alive.
    if !in_initial_pid_namespace() {
        return;
    }
    let begun = Instant::now();
    loop {
        let dying: Vec<u32> = Sysfs::default()
            .kfd_processes()
            .unwrap_or_default()
            .into_iter()
            .filter(|&pid| is_gone(pid))
            .collect();
        if dying.is_empty() {
            return;
        }
        if begun.elapsed() > PATIENCE {
            log_at!(
                host,
                Warn,
                "KFD still lists ended processes {dying:?} after {} s: their queues and memory are not free yet",
                PATIENCE.as_secs()
            );
            return;
        }
        sleep(PAUSE);
    }
}

/// Has the process ended (or is it a zombie, whose memory map is gone)?
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}
