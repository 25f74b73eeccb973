//! Version `v1alpha1`: one file for each kind, and what they share.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats each struct inside of a function"
)]

mod checkpoint_grant;
mod checkpoint_request;
mod checkpoint_schedule;
mod checkpoint_store;
mod condition;
mod decision;
mod gpu_node;
mod restore_request;
mod restore_status;
#[cfg(test)]
mod testing;

pub use checkpoint_grant::{CheckpointGrant, CheckpointGrantSpec, GrantedCheckpoints, Grantee};
pub use checkpoint_request::{
    After, CheckpointRequest, CheckpointRequestSpec, CheckpointRequestStatus, Claim, Compression,
    ContainerCheckpoint, Progress, Retention, TcpConnections,
};
pub use checkpoint_schedule::{
    CheckpointSchedule, CheckpointScheduleSpec, CheckpointScheduleStatus, PodSelector,
    RestoreOnNodeLoss,
};
pub use checkpoint_store::{
    AllowedNamespaces, CheckpointStore, CheckpointStoreSpec, CheckpointStoreStatus, Encryption,
    From, Quota, S3, SecretName, Unsigned,
};
pub use condition::{ConditionStatus, reasons, set_condition, types};
pub use decision::{
    Decision, FenceKind, SourceEvidence, SourceState, TargetState, source_may_thaw, target_may_thaw,
};
pub use gpu_node::{
    CachedCheckpoint, Feature, GpuNode, GpuNodeSpec, GpuNodeStatus, GpuUse, Limits, Versions,
};
pub use restore_request::{
    Check, CheckpointRef, Compatibility, ContainerOverride, Fence, ImageRef, Mode,
    OnContainerRestart, OnNodeLoss, Placement, PodTemplate, RestoreFrom, RestoreRequest,
    RestoreRequestSpec, SourcePolicy, Toleration, TolerationEffect, TolerationOperator,
};
pub use restore_status::{
    Attempt, GpuPair, RejectedNodes, RestoreRequestStatus, RestoreSource, RestoreTarget,
    TargetOrigin, TargetPod, TimeEstimate,
};
