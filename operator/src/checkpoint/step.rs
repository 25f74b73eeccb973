//! Steps of a checkpoint.

use thiserror::Error;

/// What is to be done next. Each may be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; something else has to happen first.
    Wait(Waiting),
    /// Put the finalizer onto the request.
    AddFinalizer,
    /// Give it to the agent of the pod's node: node, UID of the pod, containers.
    Assign,
    /// Delete the pod, whose checkpoint is stored.
    DeletePod,
    /// It ended well.
    Succeed,
    /// It ended badly.
    Fail(Failure),
    /// Remove what is stored.
    DeleteData,
    /// Delete the request: its time is over.
    Expire,
    /// Take the finalizer from it.
    RemoveFinalizer,
    /// Nothing, for ever.
    Done,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// All containers of the pod are to run.
    PodRunning,
    /// The store is to be reached again.
    Store,
    /// The agent of the node is to answer.
    Agent,
    /// Another request is to be done with the pod.
    OtherRequest,
    /// The agent is at it.
    Checkpoint,
    /// The pod is being deleted.
    PodGone,
    /// The agent is to let the pod go on.
    PodThawed,
    /// A RestoreRequest has yet to decide about the frozen pod.
    Decision,
    /// A RestoreRequest reads the data.
    DataFree,
    /// Its time is not over.
    Ttl,
}

/// Why there is no checkpoint, with what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// There is no such pod.
    #[error("There is no pod of that name; make the request in the pod's namespace")]
    PodMissing,
    /// It was there.
    #[error("The pod has ended or was replaced meanwhile")]
    PodGone,
    /// It is being deleted.
    #[error("The pod is being deleted")]
    PodDeleting,
    /// It has no such container.
    #[error("The pod has no container {container}")]
    NoContainer {
        /// The name.
        container: String,
    },
    /// Its owner would start another one.
    #[error(
        "The pod's {owner} would start another one in its place; scale it down, or move the pod with a RestoreRequest (sourcePolicy: Fence)"
    )]
    Replaced {
        /// Kind of the owner.
        owner: String,
    },
    /// There is no such store.
    #[error("There is no CheckpointStore of that name; an administrator makes them")]
    StoreMissing,
    /// The namespace may not use it.
    #[error("The namespace is not among allowedNamespaces of the CheckpointStore")]
    StoreNotAllowed,
    /// It is full.
    #[error(
        "The namespace has used up its quota in the CheckpointStore; delete checkpoints, or ask for more"
    )]
    OverQuota,
    /// The node's agent does not know it.
    #[error("The agent of the pod's node was not configured for the CheckpointStore")]
    StoreUnknown,
    /// There is no agent.
    #[error("The pod's node has no agent: it has no AMD GPU, or the DaemonSet does not go there")]
    NoAgent,
    /// The time is over.
    #[error("It was not done within timeoutSeconds; the pod goes on")]
    TimedOut,
    /// The agent says so.
    #[error("{0}")]
    Agent(String),
}

impl Failure {
    /// The word in the condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::PodMissing => "PodMissing",
            Self::PodGone => "PodGone",
            Self::PodDeleting => "PodDeleting",
            Self::NoContainer { .. } => "NoContainer",
            Self::Replaced { .. } => "PodWouldBeReplaced",
            Self::StoreMissing => "StoreMissing",
            Self::StoreNotAllowed => "StoreNotAllowed",
            Self::OverQuota => "OverQuota",
            Self::StoreUnknown => "StoreNotConfigured",
            Self::NoAgent => "NoAgent",
            Self::TimedOut => rocferry_crds::v1alpha1::reasons::TIMED_OUT,
            Self::Agent(_) => "CheckpointFailed",
        }
    }
}
