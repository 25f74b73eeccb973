//! Why a dump or restore of GPU state failed. Every message names the object and what to look at.

use std::io;
use std::path::PathBuf;

use rocferry_image::{FileId, FormatError, ImageError, TaskPid};
use rocferry_kfd::{DeviceNumber, KfdError};
use rocferry_topology::{ReadError, Rejection, RenderMinor, SourceError, UserGpuId};
use thiserror::Error;

use crate::pipeline::PipelineError;

/// A dump cannot go on. CRIU then lets the process run again; [`crate::DumpSession::finish`] resumes its queues.
#[derive(Debug, Error)]
pub enum DumpError {
    /// A call on `/dev/kfd` failed.
    #[error("KFD call failed while dumping process {pid}")]
    Kfd {
        /// The process, as this CRIU sees it (0 before it is known).
        pid: i32,
        /// The call and its errno.
        #[source]
        source: KfdError,
    },
    /// The kernel's KFD is older than the CRIU interface needs.
    #[error("KFD {major}.{minor} is too old: version 1.8 or later of its interface is needed")]
    KfdTooOld {
        /// Major version found.
        major: u32,
        /// Minor version found.
        minor: u32,
    },
    /// A system object (`/proc`, sysfs, a descriptor) could not be read.
    #[error("Cannot read {what}")]
    System {
        /// What was read.
        what: String,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The topology tree is unreadable or malformed.
    #[error("Cannot read the KFD topology")]
    Topology(#[from] ReadError),
    /// An image could not be written.
    #[error("Cannot write the GPU images")]
    Image(#[from] ImageError),
    /// Contents of a BO could not be saved.
    #[error("Cannot save GPU memory")]
    Contents(#[from] PipelineError),
    /// No seized task holds the file, or none that KFD knows.
    #[error(
        "Open file {id} on {file} belongs to no process of the tree that has a KFD context: its opener is gone, or it never opened /dev/kfd"
    )]
    NoOwner {
        /// CRIU's id of the file.
        id: FileId,
        /// The device.
        file: String,
    },
    /// CRIU would let another task than the owner open the file at restore.
    #[error(
        "GPU files of process {owner} are shared with process {other}, which has the lower pid and would open them at restore"
    )]
    SharedWithLowerPid {
        /// Owner of the KFD process.
        owner: TaskPid,
        /// Other holder.
        other: TaskPid,
    },
    /// The owner has no `/dev/kfd` file of its own left.
    #[error("Process {pid} has no open /dev/kfd of its own: its GPU state cannot be reached")]
    NoKfdFile {
        /// The process.
        pid: i32,
    },
    /// Two processes with one innermost pid would write the same images.
    #[error("Two GPU processes of the tree have pid {ns_pid} in their pid namespaces")]
    SamePid {
        /// The pid.
        ns_pid: TaskPid,
    },
    /// `CHECKPOINT` of a process that has BOs and a GPU without address space crashes Linux 6.12.
    #[error(
        "Process {pid} may use GPU {gpu} ({node}) but holds no open file of its render node with an address space: it was never acquired, or the file is closed, and the kernel cannot checkpoint that"
    )]
    GpuWithoutVm {
        /// The process.
        pid: i32,
        /// The GPU.
        gpu: String,
        /// Its render node.
        node: String,
    },
    /// The kernel reported a GPU that the topology lacks.
    #[error("Process {pid} uses GPU {gpu}, which is not in the KFD topology")]
    UnknownGpu {
        /// The process.
        pid: i32,
        /// The GPU's id.
        gpu: String,
    },
    /// A BO is of a kind that cannot be restored.
    #[error(
        "BO {index} at {addr:#x} of process {pid} has flags {flags:#x}, a kind that cannot be restored"
    )]
    UnknownBoKind {
        /// The process.
        pid: i32,
        /// Place in the kernel's list.
        index: usize,
        /// GPU virtual address.
        addr: u64,
        /// `alloc_flags`.
        flags: u32,
    },
    /// A mapping of a device that is no whole BO of the process.
    #[error("Mapping {start:#x}-{end:#x} of {file} in process {pid} cannot be restored: {reason}")]
    Mapping {
        /// The process.
        pid: i32,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// The device.
        file: String,
        /// What is the matter with it.
        reason: &'static str,
    },
    /// A GEM object that does not belong to KFD.
    #[error(
        "Open file {id} on {node} holds GEM object {handle} ({size} bytes): memory allocated through the render node is not restored yet"
    )]
    GemObject {
        /// CRIU's id of the file.
        id: FileId,
        /// The render node.
        node: RenderMinor,
        /// GEM handle.
        handle: u32,
        /// Size in bytes, 0 when the kernel does not tell.
        size: u64,
    },
    /// A dma-buf of a GPU's memory held as a descriptor.
    #[error(
        "Open file {id} is a dma-buf of {size} bytes of GPU memory: shared GPU memory is not restored yet"
    )]
    DmaBuf {
        /// CRIU's id of the file.
        id: FileId,
        /// Size in bytes.
        size: u64,
    },
}

/// An error of the system, with what was read.
pub(crate) fn system(what: String) -> impl FnOnce(io::Error) -> DumpError {
    move |source| DumpError::System { what, source }
}

/// A restore cannot go on. The task's hook fails, CRIU kills what it had begun.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// A call on `/dev/kfd` failed.
    #[error("KFD call failed while restoring process {pid}")]
    Kfd {
        /// The process.
        pid: TaskPid,
        /// The call and its errno.
        #[source]
        source: KfdError,
    },
    /// The kernel's KFD is older than the CRIU interface needs.
    #[error("KFD {major}.{minor} is too old: version 1.8 or later of its interface is needed")]
    KfdTooOld {
        /// Major version found.
        major: u32,
        /// Minor version found.
        minor: u32,
    },
    /// A system object could not be read.
    #[error("Cannot open or read {what}")]
    System {
        /// What it was.
        what: String,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// A container's `/dev` lacks a node, and it cannot be made.
    #[error("Cannot make {path:?} ({number}) in the container's /dev")]
    DeviceNode {
        /// The node.
        path: PathBuf,
        /// Its number on this machine.
        number: DeviceNumber,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The topology tree is unreadable or malformed.
    #[error("Cannot read the KFD topology")]
    Topology(#[from] ReadError),
    /// An image is missing, damaged or contradicts itself.
    #[error("Cannot use the GPU images")]
    Image(#[from] ImageError),
    /// Images that are sound each by itself contradict one another.
    #[error("The GPU images contradict one another")]
    Contradiction(#[from] FormatError),
    /// An image that belongs to the set is not there.
    #[error("Image {name} is missing")]
    MissingImage {
        /// Its name.
        name: String,
    },
    /// An index does not belong to its pages file.
    #[error("Index {name} does not fit the BOs of the checkpoint: {reason}")]
    WrongIndex {
        /// Its name.
        name: String,
        /// In what.
        reason: &'static str,
    },
    /// No GPU image of the process was found.
    #[error(
        "No amdgpu-kfd image of process {pid} among the images, but GPU file {id} belongs to it"
    )]
    NoKfdImage {
        /// The process.
        pid: TaskPid,
        /// CRIU's id of the file that needs it.
        id: FileId,
    },
    /// The image of a process would have to be looked for in a stream.
    #[error(
        "GPU file {id} of process {pid} comes before its /dev/kfd file, whose image cannot be looked for in a \
         stream: restore from a folder"
    )]
    Unsearchable {
        /// The process.
        pid: TaskPid,
        /// CRIU's id of the file that needs it.
        id: FileId,
    },
    /// The image was made of another process than the one that opens the file.
    #[error("Image of GPU file {id} belongs to process {image_pid}, but process {pid} restores it")]
    WrongProcess {
        /// CRIU's id of the file.
        id: FileId,
        /// Pid in the image.
        image_pid: TaskPid,
        /// Pid of the task.
        pid: TaskPid,
    },
    /// The GPUs that the task may use do not fit.
    #[error("The GPUs of this task do not fit the checkpoint")]
    Mapping(#[from] Box<Rejection>),
    /// The GPUs of the checkpoint make no sense.
    #[error("The GPUs of the checkpoint cannot be matched")]
    Source(#[from] SourceError),
    /// Not enough GPU memory, even after waiting for a predecessor to go.
    #[error(
        "GPU {gpu} has {available} bytes of memory free, {needed} are needed (waited {waited_ms} ms for earlier processes to end)"
    )]
    OutOfMemory {
        /// The GPU, as the checkpoint calls it.
        gpu: UserGpuId,
        /// Bytes free.
        available: u64,
        /// Bytes needed.
        needed: u64,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Contents of a BO could not be filled in.
    #[error("Cannot restore GPU memory")]
    Contents(#[from] PipelineError),
    /// The kernel's answer does not fit the request.
    #[error("The kernel restored {got} BOs of {wanted}, or gave no dma-buf for one with contents")]
    KernelAnswer {
        /// BOs in the answer.
        got: usize,
        /// BOs asked for.
        wanted: usize,
    },
    /// A dma-buf descriptor among the images.
    #[error("File {id} is a dma-buf of GPU memory: shared GPU memory is not restored yet")]
    DmaBuf {
        /// CRIU's id of the file.
        id: FileId,
    },
    /// GEM objects among the images.
    #[error(
        "Render file {id} has {count} GEM objects in its image: memory allocated through the render node is not restored yet"
    )]
    GemObjects {
        /// CRIU's id of the file.
        id: FileId,
        /// How many.
        count: usize,
    },
    /// Two images of one file name different GPUs.
    #[error("Render file {id} is of GPU {image} by its image, of GPU {record} by its record")]
    OtherGpu {
        /// CRIU's id of the file.
        id: FileId,
        /// GPU in the C plugin's image.
        image: UserGpuId,
        /// GPU in our record.
        record: UserGpuId,
    },
    /// CRIU's fdstore failed.
    #[error("CRIU's fdstore failed for {what}")]
    FdStore {
        /// The file.
        what: String,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// A recorded mapping has no BO at the new place.
    #[error(
        "Mapping {start:#x}-{end:#x} (offset {pgoff:#x}) of the images belongs to no restored BO"
    )]
    LostMapping {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Offset at dump.
        pgoff: u64,
    },
    /// The shared table of restored tasks is full.
    #[error("More than {max} GPU processes in one restore")]
    TooManyTasks {
        /// Slots in the table.
        max: usize,
    },
    /// An earlier hook of this task had failed.
    #[error("The GPU state of process {pid} could not be restored by an earlier step")]
    Earlier {
        /// The process.
        pid: TaskPid,
    },
}

/// An error and all its sources on one line, for a place that keeps text.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
