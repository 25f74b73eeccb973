//! What can be wrong with an image.

use std::io;

use rocferry_topology::{NodeId, UserGpuId};
use thiserror::Error;

/// An image file that cannot be read or written.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A system call failed.
    #[error("Cannot {action} {name}")]
    Io {
        /// The file.
        name: String,
        /// What was tried: "open", "read", "create", "write", "close"...
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The file that must be there is not.
    #[error("{name} is missing")]
    Missing {
        /// The file.
        name: String,
    },
    /// The file ends early.
    #[error("{name} is truncated: {expected} bytes expected, {actual} found")]
    Truncated {
        /// The file.
        name: String,
        /// Bytes that there must be, header included.
        expected: u64,
        /// Bytes that there are.
        actual: u64,
    },
    /// The length in the header is larger than any sane image.
    #[error("{name} claims {length} bytes of content, the limit is {limit}")]
    TooLarge {
        /// The file.
        name: String,
        /// Length in the header.
        length: u64,
        /// Largest length that is read.
        limit: u64,
    },
    /// A pages file that does not belong to the buffer objects of the kfd image.
    #[error("{name} holds {actual} bytes of content, its buffer objects {expected}")]
    LengthMismatch {
        /// The file.
        name: String,
        /// Sum of the sizes of the objects.
        expected: u64,
        /// Length in the header.
        actual: u64,
    },
    /// The content is damaged.
    #[error("{name} is damaged")]
    Format {
        /// The file.
        name: String,
        /// What is wrong.
        source: FormatError,
    },
}

impl ImageError {
    /// An I/O error of a file: what was being done to it.
    pub fn io(name: &str, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            name: name.to_owned(),
            action,
            source,
        }
    }

    /// Content of a file that must not be used.
    pub fn format(name: &str) -> impl FnOnce(FormatError) -> Self {
        move |source| Self::Format {
            name: name.to_owned(),
            source,
        }
    }
}

/// Content that must be rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Not a protobuf message, or a known field of another type.
    #[error("{message}: invalid protobuf: {reason}")]
    Protobuf {
        /// The message.
        message: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// A required field is absent.
    #[error("{message}{}: field {field} is missing", at(.index))]
    MissingField {
        /// The message.
        message: &'static str,
        /// Which one of a list.
        index: Option<usize>,
        /// The field.
        field: &'static str,
    },
    /// A number means nothing.
    #[error("{message}{}: {field} has the invalid value {value}", at(.index))]
    InvalidValue {
        /// The message.
        message: &'static str,
        /// Which one of a list.
        index: Option<usize>,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A field says how many entries there are, and there are not.
    #[error("{field} is {stated}, but there are {actual} entries")]
    Count {
        /// The field.
        field: &'static str,
        /// Its value.
        stated: u64,
        /// Entries found.
        actual: u64,
    },
    /// More entries than any machine makes.
    #[error("More than {limit} entries in {field}")]
    TooMany {
        /// The list.
        field: &'static str,
        /// The bound.
        limit: usize,
    },
    /// No GPU at all: the kernel would refuse it.
    #[error("No GPU in the image")]
    NoGpus,
    /// Two GPUs with one id.
    #[error("GPU {gpu} is in the image twice")]
    DuplicateGpu {
        /// The GPU.
        gpu: UserGpuId,
    },
    /// Two nodes with one number.
    #[error("Node {node} is in the image twice")]
    DuplicateNode {
        /// The node.
        node: NodeId,
    },
    /// A buffer object of a GPU that the process does not have.
    #[error("Buffer object {index} is on GPU {gpu}, which the image does not list")]
    BoUnknownGpu {
        /// Index in bo_entries.
        index: usize,
        /// The GPU.
        gpu: UserGpuId,
    },
    /// Size 0 or not a multiple of the page size.
    #[error("Buffer object {index} has the invalid size {size}")]
    BoSize {
        /// Index in bo_entries.
        index: usize,
        /// Size in bytes.
        size: u64,
    },
    /// Address plus size exceeds 64 bits.
    #[error("Buffer object {index} at 0x{addr:x} of {size} bytes wraps around")]
    BoWraps {
        /// Index in bo_entries.
        index: usize,
        /// GPU address.
        addr: u64,
        /// Size in bytes.
        size: u64,
    },
    /// The sizes of all buffer objects together exceed 64 bits.
    #[error("The sizes of the buffer objects add up to more than 64 bits hold")]
    BoSumOverflow,
    /// The kernel's private data are shorter than the entries need.
    #[error("Private data hold {actual} bytes, {expected} or more expected")]
    PrivateDataShort {
        /// Least length for these counts.
        expected: u64,
        /// Length found.
        actual: u64,
    },
    /// The kernel's private data are of another version.
    #[error("Private data have version {version}, 1 expected")]
    PrivateDataVersion {
        /// Version found.
        version: u32,
    },
    /// A render node of a GPU that the process does not have.
    #[error("Render node of GPU {gpu}, which the process does not have")]
    RenderUnknownGpu {
        /// The GPU.
        gpu: UserGpuId,
    },
    /// Two GEM objects with one handle.
    #[error("GEM handle {handle} is in the image twice")]
    DuplicateHandle {
        /// The handle.
        handle: u32,
    },
    /// An image of a later rocferry.
    #[error("{message} has format version {version}, at most {supported} is understood")]
    Version {
        /// The message.
        message: &'static str,
        /// Version found.
        version: u32,
        /// Newest one that this code reads.
        supported: u32,
    },
    /// The block index contradicts itself.
    #[error("Blocks of buffer object {bo}: {reason}")]
    Blocks {
        /// Index in bo_entries.
        bo: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// An image of CRIU begins with something else.
    #[error("Magic number 0x{magic:08x} instead of 0x{expected:08x}")]
    Magic {
        /// Number found.
        magic: u32,
        /// Number expected.
        expected: u32,
    },
    /// A JSON file that cannot be understood.
    #[error("Invalid JSON: {reason}")]
    Json {
        /// What the parser says.
        reason: String,
    },
}

fn at(index: &Option<usize>) -> String {
    index.map(|index| format!(" {index}")).unwrap_or_default()
}
