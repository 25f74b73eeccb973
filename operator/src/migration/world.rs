//! What is seen of a migration. Any part may be older than another one.

use rocferry_crds::v1alpha1::{
    Decision, Fence, FenceKind, Mode, SourceEvidence, SourceState, TargetOrigin, TargetState,
};

use super::{AbortReason, Outcome};
use crate::Seconds;

/// Everything that the next step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Now.
    pub now: Seconds,
    /// The RestoreRequest.
    pub request: Request,
    /// The pod that moves.
    pub source: Source,
    /// Who owns it.
    pub owner: Owner,
    /// The target that the request names.
    pub target: Option<Target>,
    /// Pods of this request are left that it does not name any more.
    pub leftovers: bool,
    /// The owner has made a pod meanwhile. The admission policy has gated it, so it does not run.
    pub owners_pod: bool,
    /// Pods of the owner, source and target, that are guarded against deletion by controllers and eviction.
    pub guarded: Guarded,
    /// Where the next target could go.
    pub place: Place,
}

/// The RestoreRequest, and what its status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How the pod moves; chosen by [`super::choose_mode`].
    pub mode: Mode,
    /// How sure the fence must be.
    pub fence: Fence,
    /// When an undecided migration is given up.
    pub deadline: Seconds,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// Whose the frozen source is.
    pub claim: Claim,
    /// The decision.
    pub decision: Decision,
    /// Why it was aborted.
    pub aborted_for: Option<AbortReason>,
    /// Why the target may run.
    pub evidence: Option<SourceEvidence>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The admission policies that guard a move are installed.
    pub policy: Policy,
}

/// The admission policies of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In force.
    Present,
    /// Not there: nothing would stop a controller.
    Absent,
}

/// Whose a frozen source is (`status.claim` of its CheckpointRequest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody's.
    Free,
    /// This request's.
    Mine,
    /// Another request's.
    Other,
    /// Its agent has let it run: the checkpoint is old.
    Released,
}

/// The pod that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The pod. `None`: gone.
    pub pod: Option<SourcePod>,
    /// What its agent reports.
    pub state: SourceState,
    /// What keeps it from running, as its agent reports.
    pub fence: Option<FenceKind>,
    /// Its node answers.
    pub reachable: bool,
    /// The checkpoint.
    pub image: Image,
    /// No volume is attached to its node for it any more.
    pub detached: bool,
}

/// The pod of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePod {
    /// It has the labels that its owner selects by.
    pub labelled: bool,
    /// Its owner holds it: by a controller reference, or by a Job's finalizer.
    pub owned: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// The checkpoint of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Not whole yet.
    Pending,
    /// Whole, verified, and in a store that other nodes reach.
    Durable,
    /// It could not be taken or stored, or is lost.
    Failed,
}

/// The owner of the source: a controller that makes pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There never was one.
    None,
    /// There is one.
    Present {
        /// Its wish for pods has changed since the request was begun: another count or template, suspended, rolling.
        changed: bool,
        /// How many pods it has.
        pods: Count,
    },
    /// There was one.
    Gone,
}

/// Pods of an owner that count for it, against those that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// It will make one.
    Missing,
    /// It is content.
    Enough,
    /// It will delete one.
    Surplus,
}

/// The target that the request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Who makes its pod.
    pub origin: TargetOrigin,
    /// Its pod.
    pub pod: TargetView,
    /// What the agent reports of this very pod.
    pub state: TargetState,
    /// Its node answers. True as long as it has none.
    pub reachable: bool,
}

/// Whether the target's pod is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetView {
    /// It was not made yet.
    NotMade,
    /// It was made, and the request does not have its UID yet.
    Unrecorded,
    /// It is there.
    Present(TargetPod),
    /// It was there.
    Missing,
}

/// The pod of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPod {
    /// Its scheduling gate is off, and it is bound to the chosen node.
    pub placed: bool,
    /// It has the labels that the owner selects by.
    pub labelled: bool,
    /// The owner has adopted it.
    pub owned: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// The kubelet has given it up (phase Failed).
    pub failed: bool,
    /// Its readiness gate is open.
    pub ready: bool,
}

/// How far the pods that a move concerns are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// None is.
    None,
    /// Some are.
    Some,
    /// All are.
    All,
}

/// Where the next target could go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To this node.
    Node(String),
    /// Nowhere now.
    Nowhere,
    /// Every node that fits was tried.
    Exhausted,
}
