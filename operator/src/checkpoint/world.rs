//! What is seen of a checkpoint.

use rocferry_crds::v1alpha1::{After, Retention};

use crate::Seconds;

/// Everything that the next step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Now.
    pub now: Seconds,
    /// The CheckpointRequest.
    pub request: Request,
    /// The pod; that of the same UID once the request has one. `None`: there is none.
    pub pod: Option<Pod>,
    /// The store.
    pub store: Store,
    /// The agent of the pod's node.
    pub agent: Agent,
    /// Another request that has the pod now.
    pub busy: Option<String>,
    /// What the agent says about this request.
    pub report: Report,
    /// The pod, as far as this request keeps it frozen.
    pub frozen: Frozen,
    /// What is stored.
    pub data: Data,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What becomes of the pod.
    pub after: After,
    /// What becomes of the data.
    pub retention: Retention,
    /// When it is given up.
    pub deadline: Seconds,
    /// Seconds that it is kept after its end.
    pub ttl: Option<Seconds>,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// An agent was given it.
    pub assigned: bool,
    /// When it ended.
    pub ended: Option<Seconds>,
}

/// The pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// All its containers run.
    pub running: bool,
    /// It has ended: phase Succeeded or Failed.
    pub ended: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Kind of an owner that would start another one in its place.
    pub replaced_by: Option<String>,
    /// The first container that was asked for and is none of its.
    pub unknown_container: Option<String>,
}

/// The store, for the namespace of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It can be used.
    Ready,
    /// There is none of that name.
    Missing,
    /// The namespace may not use it.
    NotAllowed,
    /// The namespace has used up its quota.
    OverQuota,
    /// It cannot be reached now.
    NotReady,
}

/// The agent of the pod's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// It works, and knows the store.
    Ready,
    /// It does not answer.
    Silent,
    /// It was not configured for the store.
    StoreUnknown,
    /// The node has none, or is gone for good.
    None,
}

/// What the agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nothing yet.
    Nothing,
    /// It works on it.
    Working,
    /// The checkpoint is whole and verified, and the pod as it was asked for.
    Stored,
    /// It could not be done, and the pod goes on.
    Failed(String),
}

/// The pod, as far as this request keeps it frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// It does not.
    No,
    /// It does.
    Yes,
    /// It does, and a RestoreRequest decides about it.
    Claimed,
}

/// What is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing, or nothing any more.
    None,
    /// Something.
    Stored,
    /// Something that a RestoreRequest reads now.
    InUse,
    /// Something in a store that is gone.
    OutOfReach,
}
