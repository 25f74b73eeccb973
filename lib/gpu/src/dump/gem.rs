//! GPU memory that KFD does not list: GEM objects of a render file, and dma-buf descriptors.
//!
//! They are not restored yet, so a dump that meets one is refused, with the object named. What cannot be
//! seen: on kernels without GEM_LIST_HANDLES a handle far above all others (handles are given out lowest
//! first, so only a file that has closed more than [`GAP`] of them can hide one).

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use rocferry_image::FileId;
use rocferry_kfd::drm::GemHandle;
use rocferry_kfd::kfd::Access;
use rocferry_kfd::{Kfd, RenderNode};
use rocferry_topology::RenderMinor;

use crate::device::{Devices, KFD_PATH};
use crate::error::{DumpError, system};

/// Free handle numbers in a row after which the search ends.
const GAP: u32 = 256;

/// Refuses a render file that holds GEM objects. Works on the dumpee's open file, and only asks.
pub(super) fn refuse_objects(
    file: BorrowedFd<'_>,
    id: FileId,
    node: RenderMinor,
) -> Result<(), DumpError> {
    let kfd_error = |source| DumpError::Kfd { pid: 0, source };
    let render = RenderNode::from_fd(duplicate(file, id)?).map_err(kfd_error)?;
    if let Some(objects) = render.list_handles().map_err(kfd_error)? {
        return match objects.first() {
            Some(object) => Err(DumpError::GemObject {
                id,
                node,
                handle: object.handle.0,
                size: object.info.size,
            }),
            None => Ok(()),
        };
    }
    for handle in 1..=GAP {
        if let Some(info) = render
            .gem_create_info(GemHandle(handle))
            .map_err(kfd_error)?
        {
            let size = info.size;
            return Err(DumpError::GemObject {
                id,
                node,
                handle,
                size,
            });
        }
    }
    Ok(())
}

/// Refuses a dma-buf of a GPU's memory; any other file is left to CRIU and the next plugin.
///
/// Nothing is sent to a file that is not a dma-buf, and the question goes to KFD, not to the file.
pub(super) fn foreign_dma_buf(
    file: BorrowedFd<'_>,
    id: FileId,
    devices: &Devices,
) -> Result<(), DumpError> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let target = fs::read_link(link).unwrap_or_default();
    if !target
        .as_os_str()
        .as_encoded_bytes()
        .starts_with(b"/dmabuf:")
        || devices.system().is_none()
    {
        return Ok(());
    }
    // A host whose KFD cannot be opened has no GPU memory that could be behind it.
    let Ok(kfd) = Kfd::open(KFD_PATH.as_ref(), Access::ReadOnly) else {
        return Ok(());
    };
    match kfd.dmabuf_info(file) {
        Ok(info) => Err(DumpError::DmaBuf {
            id,
            size: info.size,
        }),
        Err(_not_of_a_gpu) => Ok(()),
    }
}

fn duplicate(file: BorrowedFd<'_>, id: FileId) -> Result<std::os::fd::OwnedFd, DumpError> {
    rustix::io::fcntl_dupfd_cloexec(file, 0)
        .map_err(|errno| system(format!("open file {id}"))(errno.into()))
}
