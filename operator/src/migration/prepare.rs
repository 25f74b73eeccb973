//! Before the decision: source frozen and dumped, target restored and held. Nothing here is final.

use rocferry_crds::v1alpha1::{Fence, FenceKind, Mode, SourceState, TargetState};

use super::{
    AbortReason, Claim, Guarded, Image, Owner, Place, Policy, Step, Target, TargetView, Waiting,
    World,
};

pub(super) fn next_step(world: &World) -> Step {
    if let Some(reason) = reason_to_abort(world) {
        return Step::Abort(reason);
    }
    if world.request.claim == Claim::Free {
        return Step::Claim;
    }
    if world.guarded != Guarded::All {
        return Step::Guard;
    }
    if world.source.state == SourceState::Running {
        return Step::Wait(Waiting::SourcePrepared);
    }
    if world.source.image != Image::Durable {
        return Step::Wait(Waiting::ImageDurable);
    }
    if world.leftovers {
        return Step::DeleteLeftovers;
    }
    match world.request.mode {
        Mode::Held => held(world),
        Mode::StopFirst => stop_first(world),
    }
}

fn held(world: &World) -> Step {
    let Some(target) = &world.target else {
        return choose(world);
    };
    match bring(world, target) {
        None => Step::Commit,
        Some(step) => step,
    }
}

/// Committing before anything is restored needs a node that fits. The pod is made before, if no owner makes it.
fn stop_first(world: &World) -> Step {
    match (&world.place, &world.target, world.owner) {
        (Place::Exhausted, ..) => Step::Abort(AbortReason::NoNode),
        (Place::Nowhere, ..) => Step::Wait(Waiting::Node),
        (Place::Node(_), None, Owner::None) => Step::ChooseTarget { node: None },
        (Place::Node(_), Some(target), _) => match target.pod {
            TargetView::NotMade => Step::CreateTarget,
            TargetView::Unrecorded => Step::RecordTarget,
            TargetView::Missing => Step::GiveUpTarget,
            TargetView::Present(pod) if pod.deleting || pod.failed => Step::GiveUpTarget,
            TargetView::Present(_) => Step::Commit,
        },
        (Place::Node(_), None, _) => Step::Commit,
    }
}

/// A target for now or for later: the owner's pod if it has made one.
pub(super) fn choose(world: &World) -> Step {
    if world.owners_pod {
        return Step::UseOwnersPod;
    }
    match &world.place {
        Place::Node(node) => Step::ChooseTarget {
            node: Some(node.clone()),
        },
        Place::Nowhere => Step::Wait(Waiting::Node),
        Place::Exhausted
            if world.request.decision == rocferry_crds::v1alpha1::Decision::Undecided =>
        {
            Step::Abort(AbortReason::NoNode)
        }
        // The source will not run again: better wait for a node than give up.
        Place::Exhausted => Step::Wait(Waiting::Node),
    }
}

/// What brings the target nearer to being held; `None` if it is, or has gone on from there.
pub(super) fn bring(world: &World, target: &Target) -> Option<Step> {
    let pod = match target.pod {
        TargetView::NotMade => return Some(Step::CreateTarget),
        TargetView::Unrecorded => return Some(Step::RecordTarget),
        TargetView::Missing => return Some(Step::GiveUpTarget),
        TargetView::Present(pod) => pod,
    };
    // It has not run: another one may take its place. Its agent cannot let it run once it is given up.
    let lost = pod.deleting || pod.failed || !target.reachable;
    if lost || target.state == TargetState::Failed {
        return Some(Step::GiveUpTarget);
    }
    if !pod.placed {
        return Some(match &world.place {
            Place::Node(node) => Step::PlaceTarget { node: node.clone() },
            Place::Nowhere | Place::Exhausted => Step::Wait(Waiting::Node),
        });
    }
    match target.state {
        TargetState::Pending | TargetState::Restoring | TargetState::Failed => {
            Some(Step::Wait(Waiting::TargetRestored))
        }
        TargetState::Held | TargetState::Thawing | TargetState::Thawed => None,
    }
}

fn reason_to_abort(world: &World) -> Option<AbortReason> {
    let (request, source) = (&world.request, &world.source);
    if request.deleting {
        return Some(AbortReason::Cancelled);
    }
    if request.policy == Policy::Absent {
        return Some(AbortReason::NoPolicy);
    }
    match request.claim {
        Claim::Other => return Some(AbortReason::ClaimedByOther),
        Claim::Released => return Some(AbortReason::SourceRuns),
        Claim::Free | Claim::Mine => {}
    }
    match world.owner {
        Owner::Gone => return Some(AbortReason::OwnerDeleted),
        Owner::Present { changed: true, .. } => return Some(AbortReason::OwnerChanged),
        Owner::Present { .. } | Owner::None => {}
    }
    let prepared = match source.state {
        SourceState::Thawed | SourceState::Overridden => return Some(AbortReason::SourceRuns),
        SourceState::Frozen | SourceState::Gone => true,
        SourceState::Running => false,
    };
    // A source that was killed while it was frozen has lost nothing, if its image is whole. One whose node is lost
    // is still fenced there.
    let whole = prepared && source.image == Image::Durable;
    match source.image {
        Image::Failed => return Some(AbortReason::CheckpointFailed),
        Image::Pending if source.state == SourceState::Gone || !source.reachable => {
            return Some(AbortReason::SourceLost);
        }
        Image::Pending | Image::Durable => {}
    }
    if !whole && (source.pod.is_none() || !source.reachable) {
        return Some(AbortReason::SourceLost);
    }
    // Somebody wants it to end. A node that does not answer has its pods deleted without anybody's wish.
    let deleted = source.pod.is_none_or(|pod| pod.deleting);
    if deleted && source.reachable {
        return Some(AbortReason::SourceDeleted);
    }
    if prepared && request.fence == Fence::Required && source.fence != Some(FenceKind::Wrapper) {
        return Some(AbortReason::WeakFence);
    }
    (world.now >= request.deadline).then_some(AbortReason::TimedOut)
}
