//! The GPU state of one restored process: the kernel's records, the contents, and where everything went.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rocferry_image::{DeviceVma, FileId, KfdImage, TaskRecord};
use rocferry_kfd::kfd::{
    Access, INTERFACE_MAJOR, INTERFACE_MINOR_MIN, Offset, RestoreBo, RestoreDevice, RestoredBo,
};
use rocferry_kfd::{BoFlags, Kfd, KfdError, RenderNode};
use rocferry_topology::{ActualGpuId, RenderMinor, System, UserGpuId};
use rustix::io::Errno;

use super::board::{TaskBoard, TaskSlot, TaskStage};
use super::contents;
use super::gpus::{TaskGpu, map};
use super::nodes::Nodes;
use super::target::Target;
use crate::config::Config;
use crate::device::KFD_PATH;
use crate::error::RestoreError;
use crate::host::{FdStoreId, Host};

/// How long memory may take to come free when an earlier process is still being torn down.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// A BO's mmap offset before and after.
#[derive(Debug)]
struct PlacedBo {
    gpu: UserGpuId,
    flags: BoFlags,
    size: u64,
    old: u64,
    new: u64,
}

/// What the task's later hooks need.
#[derive(Debug)]
pub(super) struct RestoredTask {
    kfd: Option<FdStoreId>,
    gpus: Vec<TaskGpu>,
    bos: Vec<PlacedBo>,
    vmas: Vec<DeviceVma>,
}

/// What the dump has left of a process.
#[derive(Debug)]
pub(super) struct TaskImages {
    /// The kfd file that the images are named after.
    pub(super) kfd_file: FileId,
    /// The kernel's records.
    pub(super) kfd: KfdImage,
    /// Ours; the C plugin writes none.
    pub(super) record: Option<TaskRecord>,
}

impl RestoredTask {
    /// Restores the process that calls it: mapping of GPUs, RESTORE, contents.
    pub(super) fn restore<B: TaskBoard>(
        host: &dyn Host,
        config: &Config,
        (criu_view, dev): (Option<&System>, Nodes),
        (board, slot): (&B, TaskSlot),
        images: TaskImages,
    ) -> Result<Self, RestoreError> {
        let TaskImages {
            kfd_file,
            kfd: image,
            record,
        } = images;
        let pid = image.pid;
        let kfd_error = |source| RestoreError::Kfd { pid, source };
        dev.kfd(host)?;
        let kfd = Kfd::open(KFD_PATH.as_ref(), Access::ReadWrite).map_err(kfd_error)?;
        let version = kfd.version().map_err(kfd_error)?;
        if version.major != INTERFACE_MAJOR || version.minor < INTERFACE_MINOR_MIN {
            return Err(RestoreError::KfdTooOld {
                major: version.major,
                minor: version.minor,
            });
        }
        let gpus = map(host, config, criu_view, &kfd, (&image, record.as_ref()))?;
        wait_for_memory(&kfd, &image, &gpus)?;
        for gpu in &gpus {
            dev.render(host, gpu.minor)?;
        }
        let nodes = open_nodes(&gpus).map_err(kfd_error)?;
        let restored = restore_records(&kfd, &image, &gpus, &nodes).map_err(kfd_error)?;
        board.set(slot, TaskStage::Records);
        let (placed, buffers) = place(&image, restored)?;
        contents::fill(
            host,
            config,
            (kfd_file, record.is_some()),
            &image,
            &gpus,
            &buffers,
        )?;
        drop(buffers);
        let mut task = Self {
            kfd: None,
            gpus,
            bos: placed,
            vmas: record.map(|record| record.vmas).unwrap_or_default(),
        };
        task.check_mappings()?;
        for (gpu, node) in task.gpus.iter_mut().zip(nodes) {
            let what = || gpu.minor.to_string();
            gpu.render = Some(store(host, &node.into_fd(), what)?);
        }
        task.kfd = Some(store(host, &kfd.into_fd(), || "/dev/kfd".to_owned())?);
        board.set(slot, TaskStage::Contents);
        Ok(task)
    }

    /// The `/dev/kfd` file that the state was restored through.
    pub(super) fn kfd_file(&self, host: &dyn Host) -> Result<OwnedFd, RestoreError> {
        fetch(host, self.kfd, || "/dev/kfd".to_owned())
    }

    /// The render file that KFD holds for a GPU.
    pub(super) fn render_file(
        &self,
        host: &dyn Host,
        gpu: UserGpuId,
    ) -> Result<OwnedFd, RestoreError> {
        let gpu = self.gpu(gpu)?;
        fetch(host, gpu.render, || gpu.minor.to_string())
    }

    /// Render minor of the GPU that stands in for `gpu`.
    pub(super) fn render_minor(&self, gpu: UserGpuId) -> Result<RenderMinor, RestoreError> {
        Ok(self.gpu(gpu)?.minor)
    }

    /// Its node's usual name.
    pub(super) fn node_name(&self, gpu: UserGpuId) -> Result<String, RestoreError> {
        Ok(self.gpu(gpu)?.minor.to_string())
    }

    /// The GPU that had this render minor at the dump.
    pub(super) fn gpu_of_source_minor(&self, minor: RenderMinor) -> Option<UserGpuId> {
        self.gpus
            .iter()
            .find(|gpu| gpu.source_minor == minor)
            .map(|gpu| gpu.user)
    }

    /// What the dump recorded about a mapping.
    pub(super) fn recorded_device(&self, addr: u64, pgoff: u64) -> Option<Target> {
        let holds = |vma: &&DeviceVma| {
            (vma.start..vma.end).contains(&addr)
                && pgoff == vma.pgoff.wrapping_add(addr - vma.start)
        };
        self.vmas.iter().find(holds).map(Target::from)
    }

    /// New offset of a mapping of `/dev/kfd`. Doorbells and MMIO pages carry the id of the GPU as the
    /// kernel knows it; the event page belongs to no GPU.
    pub(super) fn kfd_offset(&self, pgoff: u64) -> Option<u64> {
        let with_id = |gpu: ActualGpuId, here: fn(ActualGpuId) -> Offset| {
            let bo = self
                .bos
                .iter()
                .find(|bo| bo.old == pgoff && !bo.in_render_space());
            bo.map(|bo| bo.new).or_else(|| {
                let known = self.gpus.iter().find(|known| known.source == Some(gpu))?;
                Some(here(known.actual).to_kfd())
            })
        };
        match Offset::of_kfd(pgoff) {
            Offset::Events => Some(pgoff),
            Offset::Doorbell(gpu) => with_id(gpu, Offset::Doorbell),
            Offset::Mmio(gpu) => with_id(gpu, Offset::Mmio),
            Offset::ReservedMemory(_) => None,
        }
    }

    /// New offset of a mapping of a render node.
    pub(super) fn render_offset(&self, gpu: UserGpuId, pgoff: u64) -> Option<u64> {
        let holds = |bo: &&PlacedBo| {
            bo.gpu == gpu && bo.in_render_space() && pgoff >= bo.old && pgoff - bo.old < bo.size
        };
        self.bos
            .iter()
            .find(holds)
            .map(|bo| bo.new + (pgoff - bo.old))
    }

    /// Every recorded mapping must have a new place now: later hooks cannot fail the restore cleanly.
    fn check_mappings(&self) -> Result<(), RestoreError> {
        for vma in &self.vmas {
            let place = match Target::from(vma) {
                Target::Kfd => self.kfd_offset(vma.pgoff),
                Target::Render(gpu) => self.render_offset(gpu, vma.pgoff),
                Target::Unknown => None,
            };
            if place.is_none() {
                let DeviceVma {
                    start, end, pgoff, ..
                } = *vma;
                return Err(RestoreError::LostMapping { start, end, pgoff });
            }
        }
        Ok(())
    }

    fn gpu(&self, gpu: UserGpuId) -> Result<&TaskGpu, RestoreError> {
        self.gpus
            .iter()
            .find(|known| known.user == gpu)
            .ok_or_else(|| RestoreError::System {
                what: format!("GPU {gpu}, which is not among the process's GPUs"),
                source: std::io::ErrorKind::NotFound.into(),
            })
    }
}

impl PlacedBo {
    /// Mapped through the render node (VRAM, GTT) and not through `/dev/kfd`.
    fn in_render_space(&self) -> bool {
        self.flags.has_contents()
    }
}

/// RESTORE cannot be repeated in one process, so memory has to be there before it.
fn wait_for_memory(kfd: &Kfd, image: &KfdImage, gpus: &[TaskGpu]) -> Result<(), RestoreError> {
    let pid = image.pid;
    let begun = Instant::now();
    for gpu in gpus {
        let needed: u64 = image
            .bos
            .iter()
            .filter(|bo| bo.gpu == gpu.user && bo.flags.contains(BoFlags::VRAM))
            .map(|bo| bo.size)
            .sum();
        loop {
            // Before RESTORE a process knows its GPUs by their actual ids.
            let available = match kfd.available_memory(UserGpuId(gpu.actual.0)) {
                Ok(available) => available,
                // KFD 1.8 cannot be asked: RESTORE itself will tell.
                Err(error) if error.errno() == Some(Errno::NOTTY) => return Ok(()),
                Err(source) => return Err(RestoreError::Kfd { pid, source }),
            };
            if available >= needed {
                break;
            }
            if begun.elapsed() > MEMORY_PATIENCE {
                let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Err(RestoreError::OutOfMemory {
                    gpu: gpu.user,
                    available,
                    needed,
                    waited_ms,
                });
            }
            sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

fn open_nodes(gpus: &[TaskGpu]) -> Result<Vec<RenderNode>, KfdError> {
    gpus.iter()
        .map(|gpu| RenderNode::open_minor(gpu.minor))
        .collect()
}

fn restore_records(
    kfd: &Kfd,
    image: &KfdImage,
    gpus: &[TaskGpu],
    nodes: &[RenderNode],
) -> Result<Vec<RestoredBo>, KfdError> {
    let devices: Vec<_> = gpus
        .iter()
        .zip(nodes)
        .map(|(gpu, node)| RestoreDevice {
            user: gpu.user,
            actual: gpu.actual,
            render: node.as_fd(),
        })
        .collect();
    let bos: Vec<_> = image
        .bos
        .iter()
        .map(|bo| RestoreBo {
            addr: bo.addr,
            size: bo.size,
            offset: bo.offset,
            gpu: bo.gpu,
            flags: bo.flags,
        })
        .collect();
    kfd.restore(&devices, &bos, &image.priv_data, image.num_objects)
}

/// Pairs the kernel's answer with the BOs of the image.
fn place(
    image: &KfdImage,
    restored: Vec<RestoredBo>,
) -> Result<(Vec<PlacedBo>, Vec<Option<OwnedFd>>), RestoreError> {
    let (wanted, got) = (image.bos.len(), restored.len());
    let wrong = RestoreError::KernelAnswer { got, wanted };
    if wanted != got {
        return Err(wrong);
    }
    let mut buffers = Vec::with_capacity(got);
    let mut placed = Vec::with_capacity(got);
    for (bo, answer) in image.bos.iter().zip(restored) {
        let entry = PlacedBo {
            gpu: bo.gpu,
            flags: bo.flags,
            size: bo.size,
            old: bo.offset,
            new: answer.restored_offset,
        };
        if entry.in_render_space() && answer.dmabuf.is_none() {
            return Err(wrong);
        }
        placed.push(entry);
        buffers.push(answer.dmabuf);
    }
    Ok((placed, buffers))
}

fn store(
    host: &dyn Host,
    file: &OwnedFd,
    what: impl FnOnce() -> String,
) -> Result<FdStoreId, RestoreError> {
    host.fdstore_add(file.as_fd())
        .map_err(|source| RestoreError::FdStore {
            what: what(),
            source,
        })
}

fn fetch(
    host: &dyn Host,
    id: Option<FdStoreId>,
    what: impl FnOnce() -> String,
) -> Result<OwnedFd, RestoreError> {
    let file = id
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
        .and_then(|id| host.fdstore_get(id));
    file.map_err(|source| RestoreError::FdStore {
        what: what(),
        source,
    })
}
