//! The tasks that CRIU has seized, their GPU files, and whose file is whose.
//!
//! `DUMP_EXT_FILE` tells a descriptor and an id but no pid, while KFD's checkpoint goes by process. The
//! owner is found here: among the tasks traced by this CRIU, those that hold the same open file (kcmp).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rocferry_image::TaskPid;
use rocferry_kfd::{Sysfs, same_open_file};
use rustix::process::Pid;

use crate::device::{Device, Devices};

/// An open GPU file in a task's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuFd {
    /// Number in the task's table.
    pub(crate) number: i32,
    /// What it is open on.
    pub(crate) device: Device,
}

/// A seized task (its thread-group leader).
#[derive(Clone, Debug)]
pub(crate) struct Tracee {
    /// Pid as this CRIU sees it.
    pub(crate) pid: Pid,
    /// Pid in its own innermost pid namespace: the one in the images.
    pub(crate) ns_pid: TaskPid,
    /// Parent, as this CRIU sees it.
    pub(crate) parent: i32,
    /// Does KFD know a process with this pid?
    pub(crate) has_kfd_process: bool,
    /// Open GPU files.
    pub(crate) gpu_fds: Vec<GpuFd>,
}

/// All tasks of one dump. The tree is frozen, so the snapshot stays true.
#[derive(Debug)]
pub(crate) struct Tracees {
    tasks: Vec<Tracee>,
}

impl Tracees {
    /// Every task whose tracer is this process.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub(crate) fn collect(devices: &Devices) -> io::Result<Self> {
        let tracer = rustix::process::getpid().as_raw_nonzero().get();
        let kfd_pids: HashSet<u32> = Sysfs::default()
            .kfd_processes()
            .unwrap_or_default()
            .into_iter()
            .collect();
        let initial = in_initial_pid_namespace();
        let mut tasks = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|text| text.parse::<i32>().ok()) else {
                continue;
            };
            // A process that ends while the list is read is none of ours: ours are stopped.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            if status_field(&status, "TracerPid").next() != Some(tracer) {
                continue;
            }
            let Some(handle) = Pid::from_raw(pid) else {
                continue;
            };
            let gpu_fds = gpu_fds(pid, devices)?;
            // KFD lists pids of the initial namespace. Where this CRIU sees others, holding a kfd file has
            // to do; a file of somebody else's context then fails at PROCESS_INFO.
            let known = if initial {
                kfd_pids.contains(&pid.cast_unsigned())
            } else {
                gpu_fds.iter().any(|fd| fd.device == Device::Kfd)
            };
            tasks.push(Tracee {
                pid: handle,
                ns_pid: TaskPid(
                    status_field(&status, "NSpid")
                        .last()
                        .unwrap_or(pid)
                        .cast_unsigned(),
                ),
                parent: status_field(&status, "PPid").next().unwrap_or(0),
                has_kfd_process: known,
                gpu_fds,
            });
        }
        tasks.sort_by_key(|task| task.pid.as_raw_nonzero());
        Ok(Self { tasks })
    }

    /// All of them, by pid.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tracee> {
        self.tasks.iter()
    }

    /// The tasks that hold the open file behind `fd` of this process.
    ///
    /// # Errors
    /// The kernel does not compare open files (kcmp).
    pub(crate) fn holders(&self, fd: BorrowedFd<'_>, device: Device) -> io::Result<Vec<&Tracee>> {
        let own = rustix::process::getpid();
        self.holders_where(device, |task, number| {
            same_open_file(own, fd.as_raw_fd(), task.pid, number)
        })
    }

    /// The task whose KFD process an open file belongs to: of the holders that KFD knows, the topmost
    /// ancestor. `None` when no holder is known to KFD.
    pub(crate) fn owner<'a>(&'a self, holders: &[&'a Tracee]) -> Option<&'a Tracee> {
        let known: Vec<_> = holders
            .iter()
            .copied()
            .filter(|task| task.has_kfd_process)
            .collect();
        known.iter().copied().find(|task| {
            let mut above = self.ancestors(task);
            !above.any(|ancestor| known.iter().any(|other| other.pid == ancestor.pid))
        })
    }

    /// The first open `/dev/kfd` file in `task`'s table that `task` itself opened.
    ///
    /// # Errors
    /// The kernel does not compare open files (kcmp).
    pub(crate) fn own_kfd_fd(&self, task: &Tracee) -> io::Result<Option<i32>> {
        for fd in task.gpu_fds.iter().filter(|fd| fd.device == Device::Kfd) {
            let holders = self.holders_where(Device::Kfd, |other, candidate| {
                same_open_file(task.pid, fd.number, other.pid, candidate)
            })?;
            if self
                .owner(&holders)
                .is_some_and(|owner| owner.pid == task.pid)
            {
                return Ok(Some(fd.number));
            }
        }
        Ok(None)
    }

    fn holders_where(
        &self,
        device: Device,
        same: impl Fn(&Tracee, i32) -> io::Result<bool>,
    ) -> io::Result<Vec<&Tracee>> {
        let mut holders = Vec::new();
        for task in &self.tasks {
            for fd in task.gpu_fds.iter().filter(|fd| fd.device == device) {
                if same(task, fd.number)? {
                    holders.push(task);
                    break;
                }
            }
        }
        Ok(holders)
    }

    fn ancestors<'a>(&'a self, task: &Tracee) -> impl Iterator<Item = &'a Tracee> {
        let mut parent = task.parent;
        // A tree of n tasks has no chain longer than n: a bound against a /proc that lies.
        (0..self.tasks.len()).map_while(move |_| {
            let above = self
                .tasks
                .iter()
                .find(|other| other.pid.as_raw_nonzero().get() == parent)?;
            parent = above.parent;
            Some(above)
        })
    }
}

/// The inode number of the initial pid namespace is fixed (`PROC_PID_INIT_INO` of `linux/proc_ns.h`).
pub(crate) fn in_initial_pid_namespace() -> bool {
    const INITIAL: u64 = 0xEFFF_FFFC;
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL)
}

/// GPU files among the descriptors of a task.
fn gpu_fds(pid: i32, devices: &Devices) -> io::Result<Vec<GpuFd>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|text| text.parse().ok())
        else {
            continue;
        };
        // Follows the link to the inode; nothing is opened.
        let Ok(meta) = fs::metadata(entry.path()) else {
            continue;
        };
        if let Some(device) = devices.classify(meta.mode(), meta.rdev()) {
            found.push(GpuFd { number, device });
        }
    }
    found.sort_by_key(|fd| fd.number);
    Ok(found)
}

/// The numbers behind `name:` in a `/proc/PID/status` text.
fn status_field<'a>(status: &'a str, name: &'a str) -> impl Iterator<Item = i32> + 'a {
    status
        .lines()
        .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'))
        .flat_map(str::split_whitespace)
        .filter_map(|text| text.parse().ok())
}

/// Highest pid of a task tree first would be wrong for CRIU: it lets the task with the lowest pid open a
/// shared file at restore (`file_master()` and `pid_rst_prio()` of CRIU 3.17 to 4.2).
pub(crate) fn restores_shared_file<'a>(holders: &[&'a Tracee]) -> Option<&'a Tracee> {
    holders.iter().copied().min_by_key(|task| task.ns_pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_are_read_by_whole_names() {
        let status = "Name:\tx\nPid:\t7\nPPid:\t3\nTracerPid:\t12\nNSpid:\t7\t4\t1\n";
        assert_eq!(status_field(status, "Pid").collect::<Vec<_>>(), [7]);
        assert_eq!(status_field(status, "TracerPid").next(), Some(12));
        assert_eq!(status_field(status, "NSpid").last(), Some(1));
        assert_eq!(status_field(status, "NStgid").next(), None);
    }

    fn task(pid: i32, parent: i32, has_kfd_process: bool) -> Tracee {
        Tracee {
            pid: Pid::from_raw(pid).unwrap(),
            ns_pid: TaskPid(pid.cast_unsigned()),
            parent,
            has_kfd_process,
            gpu_fds: Vec::new(),
        }
    }

    #[test]
    fn the_topmost_holder_that_kfd_knows_owns_a_file() {
        let tree = Tracees {
            tasks: vec![task(10, 1, true), task(11, 10, true), task(12, 11, false)],
        };
        let all: Vec<_> = tree.iter().collect();
        assert_eq!(tree.owner(&all).unwrap().pid, all[0].pid);
        assert_eq!(tree.owner(&all[1..]).unwrap().pid, all[1].pid);
        assert!(tree.owner(&all[2..]).is_none());
    }

    #[test]
    fn the_lowest_pid_opens_a_shared_file() {
        let (high, low) = (task(20, 1, true), task(5, 20, false));
        assert_eq!(
            restores_shared_file(&[&high, &low]).unwrap().ns_pid,
            TaskPid(5)
        );
    }
}
