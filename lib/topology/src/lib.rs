//! Systems of CPUs and AMD GPUs: reading them, comparing them, and mapping the GPUs of one onto those
//! of another.
//!
//! Everything here is pure except [`System::read`], which reads a KFD topology tree of sysfs. This crate
//! knows no other crate of the workspace and therefore owns the identifiers that all of them use.
//!
//! Two kinds of GPU id exist and must never be mixed up: the [`UserGpuId`] that an application saw when
//! it first started (it stays the same over any number of restores and is what images hold), and the
//! [`ActualGpuId`] that the kernel gives the device on the machine at hand.
#![forbid(unsafe_code)]

mod bo_flags;
mod buffer;
mod checks;
mod compact;
mod device;
mod difference;
mod id;
mod link;
mod live;
mod mapping;
mod matcher;
mod matching;
mod node;
mod partition;
mod place;
mod properties;
mod rejection;
mod sysfs;
mod system;

pub use bo_flags::BoFlags;
pub use buffer::{MAX_BUFFER_SIZE_ENV, parse_max_buffer_size};
pub use checks::{Checks, Switch};
pub use compact::{
    COMPACT_VERSION, CompactCpu, CompactError, CompactGpu, CompactLinks, CompactModel,
    CompactOtherLinks, CompactTopology,
};
pub use device::compare_gpus;
pub use difference::{Difference, Rule, Value};
pub use id::{ActualGpuId, HiveId, NodeId, RenderMinor, UserGpuId};
pub use link::{Link, LinkKind};
pub use mapping::Mapping;
pub use matcher::{Matcher, Mode};
pub use node::{CpuNode, GpuNode, GpuProperties, Node, SourceGpu, Vram};
pub use partition::{ComputePartition, MemoryPartition, UnknownPartition};
pub use rejection::{Place, RejectedCandidate, RejectedGpu, Rejection, SourceError, Tie};
pub use sysfs::{ReadError, SYSFS_ROOT};
pub use system::System;
