//! The images of files and processes.

use std::os::fd::{AsRawFd, BorrowedFd};

use rocferry_image::{
    BoEntry, FileId, FileKind, FileRecord, KfdImage, RenderImage, TaskDevice, TaskRecord, names,
    write_image,
};
use rocferry_kfd::Sysfs;
use rocferry_topology::{RenderMinor, System, UserGpuId};

use super::process::PausedProcess;
use crate::device::{Device, Devices};
use crate::error::{DumpError, system};
use crate::host::Host;
use crate::tracee::Tracee;

/// The image of a process as the kernel reported it.
pub(super) fn kfd_image(process: &PausedProcess, devices: &Devices) -> Result<KfdImage, DumpError> {
    let pid = process.pid().as_raw_nonzero().get();
    let unknown = |gpu: String| DumpError::UnknownGpu { pid, gpu };
    let topology = devices.system().ok_or_else(|| unknown("list".to_owned()))?;
    // Only the process's own GPUs: a container with a subset must be restorable on that many.
    let system: System<UserGpuId> = topology.rename(|gpu| process.user_id(gpu.id));
    let missing = process
        .checkpoint
        .devices
        .iter()
        .find(|device| topology.gpu(device.actual).is_none());
    if let Some(device) = missing {
        return Err(unknown(device.actual.to_string()));
    }
    let bos = process.checkpoint.bos.iter().map(|bo| BoEntry {
        addr: bo.addr,
        size: bo.size,
        offset: bo.offset,
        flags: bo.flags,
        gpu: bo.gpu,
        handle: None,
    });
    Ok(KfdImage {
        pid: process.ns_pid(),
        system,
        bos: bos.collect(),
        num_objects: process.objects(),
        // The thunk has not used that shared memory for years; the fields stay for the C plugin.
        shared_mem_size: 0,
        shared_mem_magic: 0,
        priv_data: process.checkpoint.priv_data.clone(),
    })
}

/// Images of a process's first kfd file: the kernel's records and ours.
pub(super) fn write_kfd(
    host: &dyn Host,
    process: &PausedProcess,
    id: FileId,
    file: BorrowedFd<'_>,
    image: &KfdImage,
    devices: &Devices,
) -> Result<(), DumpError> {
    let images = host.images();
    write_image(images, &names::kfd(id), image)?;
    let topology = devices.system();
    let devices = process.checkpoint.devices.iter().filter_map(|device| {
        let node = topology?.gpu(device.actual)?;
        Some(TaskDevice {
            user: device.user,
            actual: device.actual,
            render_minor: node.render_minor,
            gfx_target_version: node.gfx_target_version,
            num_xcc: node.num_xcc,
            compute_partition: node.compute_partition,
            memory_partition: node.memory_partition,
            partition_index: topology?
                .is_partition(node)
                .then(|| node.partition_index())
                .flatten(),
        })
    });
    let record = TaskRecord {
        pid: process.ns_pid(),
        kfd_file: id,
        devices: devices.collect(),
        vmas: process.vmas.clone(),
    };
    write_image(images, &names::task_record(process.ns_pid()), &record)?;
    write_file(host, process, id, file, FileKind::Kfd)
}

/// A further `/dev/kfd` file of a process whose state is saved under the first one.
pub(super) fn write_kfd_alias(
    host: &dyn Host,
    process: &PausedProcess,
    id: FileId,
    first: FileId,
    file: BorrowedFd<'_>,
) -> Result<(), DumpError> {
    write_file(host, process, id, file, FileKind::KfdAlias { of: first })
}

/// Images of a render file.
pub(super) fn write_render(
    host: &dyn Host,
    process: &PausedProcess,
    id: FileId,
    minor: RenderMinor,
    file: BorrowedFd<'_>,
    owner: &Tracee,
    devices: &Devices,
) -> Result<(), DumpError> {
    let pid = process.pid().as_raw_nonzero().get();
    let unknown = || DumpError::UnknownGpu {
        pid,
        gpu: format!("behind {minor}"),
    };
    let gpu = devices
        .gpu(minor)
        .and_then(|actual| process.user_id(actual))
        .ok_or_else(unknown)?;
    let image = RenderImage {
        gpu,
        file: Some(id),
        render_minor: Some(minor),
        bos: Vec::new(),
    };
    write_image(host.images(), &names::render(id), &image)?;
    let primary = is_primary(file, owner, minor)?;
    write_file(host, process, id, file, FileKind::Render { gpu, primary })
}

/// Is this the file whose address space KFD uses? Its fdinfo shows the process's PASID then
/// (`amdgpu_show_fdinfo()` of Linux 5.14 to 6.12). Where the kernel does not tell, the first file of the
/// node counts: runtimes open it before any other.
fn is_primary(file: BorrowedFd<'_>, owner: &Tracee, minor: RenderMinor) -> Result<bool, DumpError> {
    let sysfs = Sysfs::default();
    let pid = owner.pid.as_raw_nonzero().get().cast_unsigned();
    let kfd_error = |source| DumpError::Kfd {
        pid: pid.cast_signed(),
        source,
    };
    let own_pid = rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    let number = file.as_raw_fd().cast_unsigned();
    let process = sysfs.kfd_pasid(pid).map_err(kfd_error)?;
    let render = sysfs.render_pasid(own_pid, number).map_err(kfd_error)?;
    if let (Some(process), Some(render)) = (process, render) {
        return Ok(process == render);
    }
    let first = owner
        .gpu_fds
        .iter()
        .find(|fd| fd.device == Device::Render(minor));
    let Some(first) = first else { return Ok(false) };
    rocferry_kfd::same_open_file(
        rustix::process::getpid(),
        file.as_raw_fd(),
        owner.pid,
        first.number,
    )
    .map_err(system(format!(
        "descriptor {} of process {pid}",
        first.number
    )))
}

fn write_file(
    host: &dyn Host,
    process: &PausedProcess,
    id: FileId,
    file: BorrowedFd<'_>,
    kind: FileKind,
) -> Result<(), DumpError> {
    let flags = rustix::fs::fcntl_getfl(file)
        .map_err(|errno| system(format!("the flags of file {id}"))(errno.into()))?;
    let record = FileRecord {
        kind,
        status_flags: flags.bits(),
        task: process.ns_pid(),
    };
    write_image(host.images(), &names::file_record(id), &record)?;
    Ok(())
}
