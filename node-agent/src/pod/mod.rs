//! Pods: containers that are checkpointed and restored together.

pub(crate) mod answering;
mod error;
mod find;
pub(crate) mod hold;
mod identity;
mod logs;
mod record;
mod volumes;

pub use error::PodError;
pub use find::{Member, Pod};
pub use identity::Identity;
pub(crate) use logs::log;
pub use record::{
    MAX_RECORD, POD_RECORD, PodContainer, PodRecord, PodRecordError, PodVolume,
    SHARED_MEMORY_ARCHIVE, VolumeKind, VolumeMount,
};
pub(crate) use volumes::{FoundVolume, volumes};
