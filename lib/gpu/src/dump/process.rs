//! One process whose queues are stopped and whose checkpoint was taken.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rocferry_image::{DeviceVma, FileId, TaskPid};
use rocferry_kfd::kfd::{Checkpoint, Counts};
use rocferry_kfd::{BoFlags, Kfd, Sysfs};
use rocferry_topology::{ActualGpuId, UserGpuId};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::device::{Device, Devices};
use crate::error::{DumpError, system};
use crate::host::{Host, log_at};
use crate::tracee::{Tracee, Tracees};

/// A process between PROCESS_INFO and UNPAUSE.
#[derive(Debug)]
pub(super) struct PausedProcess {
    pid: Pid,
    ns_pid: TaskPid,
    /// A copy of the process's own kfd file: KFD takes CRIU_OP only on that, and only from the ptracer.
    kfd: Kfd,
    counts: Counts,
    /// What CHECKPOINT returned; the dma-bufs are taken out when the contents are saved.
    pub(super) checkpoint: Checkpoint,
    /// Device mappings of the process.
    pub(super) vmas: Vec<DeviceVma>,
    /// CRIU's id of the first kfd file: the one that the images are named after.
    pub(super) kfd_file: Option<FileId>,
}

impl PausedProcess {
    /// Stops the queues of the process (PROCESS_INFO). On an error the kernel has let them run again, unless
    /// an earlier dump had stopped them and they cannot be started.
    pub(super) fn pause(
        host: &dyn Host,
        owner: &Tracee,
        tracees: &Tracees,
    ) -> Result<Self, DumpError> {
        let pid = owner.pid.as_raw_nonzero().get();
        let number = tracees
            .own_kfd_fd(owner)
            .map_err(system(format!("the open files of process {pid}")))?
            .ok_or(DumpError::NoKfdFile { pid })?;
        let kfd = Kfd::from_fd(take_fd(owner.pid, number)?);
        end_earlier_pause(host, pid, &kfd)?;
        let counts = kfd
            .process_info()
            .map_err(|source| DumpError::Kfd { pid, source })?;
        log_at!(
            host,
            Info,
            "Process {pid} (pid {} in the images) is paused: {} GPUs, {} BOs, {} objects",
            owner.ns_pid,
            counts.devices,
            counts.bos,
            counts.objects
        );
        Ok(Self {
            pid: owner.pid,
            ns_pid: owner.ns_pid,
            kfd,
            counts,
            checkpoint: Checkpoint {
                devices: Vec::new(),
                bos: Vec::new(),
                priv_data: Vec::new(),
            },
            vmas: Vec::new(),
            kfd_file: None,
        })
    }

    /// Takes the kernel's checkpoint of the paused process.
    pub(super) fn checkpoint(
        &mut self,
        host: &dyn Host,
        owner: &Tracee,
        devices: &Devices,
    ) -> Result<(), DumpError> {
        let pid = self.pid.as_raw_nonzero().get();
        if self.counts.bos > 0 {
            refuse_gpu_without_vm(owner, devices)?;
        }
        self.checkpoint = self
            .kfd
            .checkpoint(&self.counts)
            .map_err(|source| DumpError::Kfd { pid, source })?;
        for (index, bo) in self.checkpoint.bos.iter().enumerate() {
            let kinds = BoFlags::VRAM
                | BoFlags::GTT
                | BoFlags::USERPTR
                | BoFlags::DOORBELL
                | BoFlags::MMIO_REMAP;
            if !bo.flags.intersects(kinds) {
                let (addr, flags) = (bo.addr, bo.flags.bits());
                return Err(DumpError::UnknownBoKind {
                    pid,
                    index,
                    addr,
                    flags,
                });
            }
        }
        for device in &self.checkpoint.devices {
            log_at!(
                host,
                Debug,
                "GPU {} of process {pid} is {} here",
                device.user,
                device.actual
            );
        }
        Ok(())
    }

    /// Lets the queues run again. Called once per process, from `exit`.
    pub(super) fn unpause(self, host: &dyn Host) {
        let pid = self.pid.as_raw_nonzero();
        match self.kfd.unpause() {
            Ok(()) => log_at!(host, Info, "Process {pid} is resumed"),
            Err(error) => log_at!(
                host,
                Error,
                "Process {pid}: its GPU queues stay stopped: {error}. To free them: attach to it with \
                 ptrace, take its /dev/kfd descriptor and send AMDKFD_IOC_CRIU_OP with op UNPAUSE"
            ),
        }
    }

    /// Pid as this CRIU sees it.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Innermost pid: the one in the images.
    pub(super) fn ns_pid(&self) -> TaskPid {
        self.ns_pid
    }

    /// Queues, events and SVM ranges in the private data.
    pub(super) fn objects(&self) -> u32 {
        self.counts.objects
    }

    /// The id that the process knows a GPU by.
    pub(super) fn user_id(&self, actual: ActualGpuId) -> Option<UserGpuId> {
        self.checkpoint
            .devices
            .iter()
            .find(|device| device.actual == actual)
            .map(|device| device.user)
    }
}

/// A CRIU that was killed in the middle of a dump has left the process paused, which nothing but UNPAUSE
/// ends. A second PROCESS_INFO would stop the queues twice on most kernels, for good after a single UNPAUSE.
/// The kernel answers EINVAL for a process that is not paused, and does nothing.
fn end_earlier_pause(host: &dyn Host, pid: i32, kfd: &Kfd) -> Result<(), DumpError> {
    match kfd.unpause() {
        Ok(()) => {
            log_at!(
                host,
                Warn,
                "Process {pid} was still paused by a dump that did not end in order; it is resumed first"
            );
            Ok(())
        }
        Err(error) if error.errno() == Some(Errno::INVAL) => Ok(()),
        Err(source) => Err(DumpError::Kfd { pid, source }),
    }
}

/// A copy of a descriptor of a seized task.
fn take_fd(pid: Pid, number: i32) -> Result<OwnedFd, DumpError> {
    let what = || format!("descriptor {number} of process {}", pid.as_raw_nonzero());
    let pidfd =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| system(what())(errno.into()))?;
    pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty())
        .map_err(|errno| system(what())(errno.into()))
}

/// CHECKPOINT of a process with BOs dereferences a null pointer in Linux 6.12 when a GPU that the process
/// may use has no address space (`criu_checkpoint_bos()`). A runtime acquires all of them and keeps the
/// render nodes open: one of its files on the node then shows the PASID of the process
/// (`amdgpu_show_fdinfo()`). Where the kernel does not tell PASIDs, an open file has to do.
fn refuse_gpu_without_vm(owner: &Tracee, devices: &Devices) -> Result<(), DumpError> {
    let pid = owner.pid.as_raw_nonzero().get();
    let sysfs = Sysfs::default();
    let process = sysfs.kfd_pasid(pid.cast_unsigned()).unwrap_or_default();
    let acquired = |number: i32| {
        let file = sysfs.render_pasid(pid.cast_unsigned(), number.cast_unsigned());
        match (process, file.unwrap_or_default()) {
            (Some(process), Some(file)) => process == file,
            _ => true,
        }
    };
    let held: BTreeSet<ActualGpuId> = owner
        .gpu_fds
        .iter()
        .filter_map(|fd| match fd.device {
            Device::Render(minor) if acquired(fd.number) => devices.gpu(minor),
            Device::Render(_) | Device::Kfd => None,
        })
        .collect();
    // Without the list nothing can be told, and kernels that lack it are not the ones that crash.
    let usable = sysfs
        .kfd_process_gpus(pid.cast_unsigned())
        .unwrap_or_default();
    let Some(gpu) = usable.into_iter().find(|gpu| !held.contains(gpu)) else {
        return Ok(());
    };
    let node = devices
        .system()
        .and_then(|system| system.gpus().find(|node| node.id == gpu))
        .map_or_else(
            || "no render node".to_owned(),
            |node| node.render_minor.to_string(),
        );
    Err(DumpError::GpuWithoutVm {
        pid,
        gpu: gpu.to_string(),
        node,
    })
}
