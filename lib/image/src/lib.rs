//! What lies on disk after a dump: the images of the C `amdgpu_plugin`, byte for byte, and the extra
//! images of ours beside them (their names begin with `rocferry-`). `docs/images.md` describes every
//! file and field.
//!
//! Reading trusts nothing: lengths are bounded before memory is taken, every required field must be
//! present, counts must agree with what they count, and ids must name something. What cannot be used is
//! a [`FormatError`] that names the entry and the field.
//!
//! ```text
//! ImageDir           where images live: FdDir (a directory) or the plugin's streamer
//! frame              length prefix, bounds, checked close
//! KfdImage           amdgpu-kfd-%d.img       PagesLayout  amdgpu-pages-%d-%04x.img
//! RenderImage        amdgpu-renderD-%d.img   DmabufImage  amdgpu-dmabuf_%d.img
//! FileRecord, TaskRecord, BlockIndex         rocferry-*.img
//! RestoreResult      rocferry-result.json    criu         images of CRIU's own
//! ```
#![forbid(unsafe_code)]

mod bo;
pub mod criu;
mod device;
mod dir;
mod dmabuf;
mod error;
mod file_record;
mod frame;
mod id;
mod index;
mod kfd;
pub mod manifest;
pub mod names;
mod pages;
mod render;
mod result;
mod source;
mod task_record;
mod walk;
mod wire;

pub use bo::{BoEntry, PAGE_SIZE};
pub use criu::highest_tid;
pub use dir::{FdDir, ImageDir};
pub use dmabuf::DmabufImage;
pub use error::{FormatError, ImageError};
pub use file_record::{FileKind, FileRecord};
pub use frame::{
    FRAME_HEADER, Image, MAX_CONTENT, close_checked, read_frame, read_image, write_frame,
    write_image,
};
pub use id::{FileId, TaskPid};
pub use index::{Block, BlockIndex, BoBlocks, Digest};
pub use kfd::KfdImage;
pub use pages::{GpuPages, PagePart, PagesLayout, check_drm_pages, check_pages};
pub use render::{DrmBo, DrmMapping, RenderImage};
pub use result::{RESULT_VERSION, RestoreResult, Resume, TaskResult};
pub use rocferry_topology::BoFlags;
pub use source::source_system;
pub use task_record::{DeviceVma, TaskDevice, TaskRecord, VmaKind};
