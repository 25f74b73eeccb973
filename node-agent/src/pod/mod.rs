//! Pods: containers that are checkpointed and restored together.

mod record;

pub use record::{
    MAX_RECORD, POD_RECORD, PodContainer, PodRecord, PodRecordError, PodVolume,
    SHARED_MEMORY_ARCHIVE, VolumeKind, VolumeMount,
};
