//! Steps of a migration.

use rocferry_crds::v1alpha1::SourceEvidence;

/// What is to be done next. Each may be done again.
///
/// *Update*: one update of one object's status that carries the resourceVersion which the view was read with; if it fails, the
/// world is read again. The rest is idempotent by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; something else has to happen first.
    Wait(Waiting),
    /// Put the finalizer onto the request.
    AddFinalizer,
    /// Update of the CheckpointRequest: the frozen source is this request's.
    Claim,
    /// Guard source, target and every pod of the owner.
    Guard,
    /// Update: name a target on this node (Held), or a gated one (StopFirst: no node yet).
    ChooseTarget {
        /// The node.
        node: Option<String>,
    },
    /// Update: the pod that the owner has made is the target.
    UseOwnersPod,
    /// Make the target's pod, under the name that the request has for it: gated, without owner, without the owner's labels.
    CreateTarget,
    /// Update: the UID of the target's pod.
    RecordTarget,
    /// Bind the target to this node and take its gate away.
    PlaceTarget {
        /// The node.
        node: String,
    },
    /// Update: the request names no target any more; the node goes onto the list of those that were tried.
    GiveUpTarget,
    /// Delete pods of this request that it does not name.
    DeleteLeftovers,
    /// Update: Undecided becomes Committed.
    Commit,
    /// Update: Undecided becomes Aborted.
    Abort(AbortReason),
    /// Give the target the labels that the owner selects by.
    LabelTarget,
    /// Take them from the source.
    UnlabelSource,
    /// Delete the source's pod, with its grace period.
    DeleteSource,
    /// Update: why the target may run.
    Accept(SourceEvidence),
    /// Open the target's readiness gate.
    OpenReadiness,
    /// Update: how it ended.
    Settle(Outcome),
    /// Take the guards away.
    Unguard,
    /// Take the gate from the pod that the owner has made: it starts as any pod does.
    ReleaseOwnersPod,
    /// Take the finalizer from the request.
    RemoveFinalizer,
    /// Nothing, for ever.
    Done,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The source is being frozen and dumped.
    SourcePrepared,
    /// The checkpoint is on its way into the store.
    ImageDurable,
    /// No node fits now.
    Node,
    /// The target is being restored.
    TargetRestored,
    /// The pod of a target is on its way out.
    TargetGone,
    /// The owner is to make a pod, which will be the target.
    OwnersPod,
    /// The owner is to delete a pod that it made and has too many of now.
    OwnersPodGone,
    /// The owner is to adopt the target.
    Adoption,
    /// The owner is to let the source go.
    Release,
    /// The source's processes are being killed.
    SourceGone,
    /// The source's node does not answer, and nothing keeps it from starting the source: a person must look.
    SourceNode,
    /// Volumes are being detached from the source's node.
    VolumesDetached,
    /// The target's agent is to let it run.
    TargetThawed,
    /// The target may have run, and its node does not answer.
    TargetNode,
    /// The source's agent is to let it run again.
    SourceThawed,
}

/// Why a migration is given up before it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The request was deleted.
    Cancelled,
    /// The time is over.
    TimedOut,
    /// The admission policies are not installed.
    NoPolicy,
    /// Another request has the source.
    ClaimedByOther,
    /// The source runs again: the checkpoint is old.
    SourceRuns,
    /// The source's pod was deleted.
    SourceDeleted,
    /// The source or its node was lost before its checkpoint was whole.
    SourceLost,
    /// The checkpoint could not be taken or stored.
    CheckpointFailed,
    /// The source has no fence as strong as was asked for.
    WeakFence,
    /// The owner wants other pods than before.
    OwnerChanged,
    /// The owner is gone.
    OwnerDeleted,
    /// Every node that fits was tried.
    NoNode,
}

/// How a migration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The target runs, in the place of the source.
    Moved,
    /// It does not. The checkpoint is kept.
    Failed(Failure),
}

/// Why a migration failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It was given up before it was decided.
    Aborted(AbortReason),
    /// The target was lost when it may already have run: to restore it again could undo what it had done.
    TargetLost,
    /// The owner was deleted after the commit, and its pods with it.
    OwnerDeleted,
    /// The target was lost, the source was gone, and the owner wanted no other pod by then.
    ScaledDown,
}
