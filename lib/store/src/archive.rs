//! Archives that Podman, CRI-O and containerd exchange, and OCI images of checkpoints. `docs/interchange.md`
//! says what is read, what is refused and what is written for whom.
//!
//! An archive is a tar, plain or compressed; unpacked it is what a checkpoint's directory is here. [`read`]
//! gives its members to a [`Sink`], one after the other, and believes nothing of it: no path leads out, there
//! is nothing but files and directories, everything comes once, and memory is bounded whatever it says.
//! [`write`] makes an archive that a given [`Engine`] restores, or says what is missing for that.
//! [`write_image`] and [`read_image`] do the same with an OCI image whose one layer is the archive.
//!
//! Everything here waits for its input and output: callers that must not wait use a thread for it.

mod convert;
mod deleted;
mod diff;
mod engine;
mod entry;
mod error;
mod image;
mod input;
mod json;
mod layer;
mod limits;
mod origin;
mod output;
mod pathname;
mod pax;
mod plan;
mod read;
mod records;
mod refusal;
mod sparse;
mod tree;
mod write;

pub use convert::Facts;
pub use engine::{Engine, Origin};
pub use entry::{Entry, EntryKind};
pub use error::{BoxError, ReadError, WriteError};
pub use image::{ImageError, ImageNames, ReadImage, WrittenImage, read_image, write_image};
pub use input::Compression;
pub use layer::{deletions, open_layer};
pub use limits::Limits;
pub use origin::{CHECKPOINTED_AT, CHECKPOINTED_BY, CONTAINER_NAME, CREATED_AT, IMAGE_ID, ORIGIN};
pub use read::{Archive, Content, Sink, read};
pub use refusal::Refusal;
pub use write::{Source, Written, write};

#[cfg(test)]
mod tests;

/// The configuration of the container, in every archive.
const CONFIG_DUMP: &str = "config.dump";
/// The runtime's specification of the container, in every archive.
const SPEC_DUMP: &str = "spec.dump";
/// The container's status as CRI has it: containerd's.
const STATUS_DUMP: &str = "status.dump";
/// Changes of the root file system.
const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// Paths that were deleted from it, a JSON list.
const DELETED_FILES: &str = "deleted.files";
/// Content of `/dev/shm`.
const DEVSHM: &str = "devshm-checkpoint.tar";
/// What CRIU writes first and last: without it there is no checkpoint.
const INVENTORY: &str = "checkpoint/inventory.img";

/// Largest JSON file of an archive or an image, in bytes.
const MAX_JSON: u64 = 4 << 20;

/// Beginning of the last part of a path that stands for a deletion in the layer of an image.
const WHITEOUT: &str = ".wh.";

/// What a tar consists of, in bytes.
const BLOCK: usize = 512;
