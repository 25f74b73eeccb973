//! The new place of each device mapping.
//!
//! A mapping is told by what it maps (GPU and offset range), not by where it lies: a BO may be mapped at
//! another address than its GPU address, twice, or in part.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;

use rocferry_kfd::same_open_file;
use rocferry_topology::{RenderMinor, UserGpuId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::getpid;

use super::target::Target;
use super::task::RestoredTask;
use crate::error::RestoreError;
use crate::host::{Host, log_at};
use crate::outcome::Outcome;

/// The file that CRIU maps from.
#[derive(Debug)]
pub enum MappingFile {
    /// A descriptor made for this mapping; CRIU closes it.
    Fresh(OwnedFd),
    /// A descriptor of the application: CRIU up to 3.18 duplicates what it is given and closes the copy.
    Application(i32),
}

impl MappingFile {
    /// The number to be given to CRIU, which becomes the owner of a fresh one.
    pub fn into_number(self) -> i32 {
        match self {
            Self::Fresh(file) => file.into_raw_fd(),
            Self::Application(number) => number,
        }
    }
}

/// Where a mapping goes.
#[derive(Debug)]
pub struct VmaAnswer {
    /// Offset to map at, bytes.
    pub offset: u64,
    /// What to map; `None`: CRIU opens the mapping's path.
    pub file: Option<MappingFile>,
}

/// Answers for one mapping of the task. Ours without a new place get a file that cannot be mapped.
pub(super) fn answer(
    host: &dyn Host,
    task: Option<&RestoredTask>,
    path: &Path,
    addr: u64,
    pgoff: u64,
) -> Outcome<VmaAnswer, RestoreError> {
    let recorded = task.and_then(|task| task.recorded_device(addr, pgoff));
    let Some(device) = recorded.map_or_else(|| device_of_path(task, path), Some) else {
        return Outcome::NotMine;
    };
    let place = match (task, device) {
        (Some(task), Target::Kfd) => task.kfd_offset(pgoff).map(|offset| (offset, None)),
        (Some(task), Target::Render(gpu)) => task
            .render_offset(gpu, pgoff)
            .map(|offset| (offset, Some(gpu))),
        (None, _) | (_, Target::Unknown) => None,
    };
    let answered = match (place, task) {
        (Some((offset, Some(gpu))), Some(task)) => {
            file_for(host, task, gpu).map(|file| VmaAnswer {
                offset,
                file: Some(file),
            })
        }
        (Some((offset, _)), _) => Ok(VmaAnswer { offset, file: None }),
        (None, _) => Err(RestoreError::LostMapping {
            start: addr,
            end: addr,
            pgoff,
        }),
    };
    match answered {
        Ok(answer) => {
            log_at!(
                host,
                Debug,
                "Mapping at {addr:#x}: offset {pgoff:#x} is now {:#x}",
                answer.offset
            );
            Outcome::Done(answer)
        }
        Err(error) => {
            log_at!(
                host,
                Error,
                "Mapping at {addr:#x} of {}: {}; the restore fails at this mapping",
                path.display(),
                crate::error::chain(&error)
            );
            match eventfd(0, EventfdFlags::CLOEXEC) {
                Ok(unmappable) => Outcome::Done(VmaAnswer {
                    offset: pgoff,
                    file: Some(MappingFile::Fresh(unmappable)),
                }),
                Err(_) => Outcome::Failed(error),
            }
        }
    }
}

/// Images of the C plugin do not record mappings: there only the path tells.
fn device_of_path(task: Option<&RestoredTask>, path: &Path) -> Option<Target> {
    let name = path.file_name()?.to_str()?;
    if name == "kfd" {
        return Some(Target::Kfd);
    }
    let minor = RenderMinor(name.strip_prefix("renderD")?.parse().ok()?);
    // A task without GPU state may map another vendor's render node.
    let task = task?;
    Some(
        task.gpu_of_source_minor(minor)
            .map_or(Target::Unknown, Target::Render),
    )
}

/// A file that KFD has allowed the GPU's BOs on: the one that RESTORE was given.
fn file_for(
    host: &dyn Host,
    task: &RestoredTask,
    gpu: UserGpuId,
) -> Result<MappingFile, RestoreError> {
    let file = task.render_file(host, gpu)?;
    if host.takes_over_vma_fd() {
        return Ok(MappingFile::Fresh(file));
    }
    Ok(match application_number(host, &file) {
        Some(number) => MappingFile::Application(number),
        // The application has closed its file: on these versions of CRIU one number stays open.
        None => MappingFile::Fresh(file),
    })
}

/// A number of the application's own under which the same open file stands.
fn application_number(host: &dyn Host, file: &OwnedFd) -> Option<i32> {
    let own = getpid();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(host.criu_proc()?, "self/fd", flags, Mode::empty()).ok()?;
    let entries = rustix::fs::Dir::read_from(&dir).ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse::<i32>().ok())
        .filter(|&number| number != file.as_raw_fd() && number != dir.as_raw_fd())
        .find(|&number| same_open_file(own, number, own, file.as_raw_fd()).unwrap_or(false))
}
