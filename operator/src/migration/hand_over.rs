//! After the commit: the owner gets the target and lets the source go; the source ends; the target runs.
//!
//! Each step waits until the one before is *seen*. There is no way back, and no time limit.

use rocferry_crds::v1alpha1::{
    FenceKind, Mode, SourceEvidence, SourceState, TargetOrigin, TargetState,
};

use super::{
    Count, Failure, Guarded, Outcome, Owner, Place, SourcePod, Step, Target, TargetView, Waiting,
    World, prepare,
};

pub(super) fn next_step(world: &World) -> Step {
    if let Some(target) = &world.target
        && let Some(step) = may_have_run(target)
    {
        return step;
    }
    if world.owner == Owner::Gone {
        return without_owner(world);
    }
    if world.leftovers {
        return Step::DeleteLeftovers;
    }
    match world.request.mode {
        Mode::Held => held(world),
        Mode::StopFirst => stop_first(world),
    }
}

/// A target that has the right to run is never given up for another one.
fn may_have_run(target: &Target) -> Option<Step> {
    let lost = match target.pod {
        TargetView::Present(pod) => pod.deleting || pod.failed,
        TargetView::Missing => true,
        TargetView::NotMade | TargetView::Unrecorded => false,
    };
    match target.state {
        TargetState::Thawed => Some(match target.pod {
            TargetView::Present(pod) if !pod.ready && !lost => Step::OpenReadiness,
            _ => Step::Settle(Outcome::Moved),
        }),
        TargetState::Thawing if lost => Some(Step::Settle(Outcome::Failed(Failure::TargetLost))),
        TargetState::Thawing if !target.reachable => Some(Step::Wait(Waiting::TargetNode)),
        TargetState::Thawing => Some(Step::Wait(Waiting::TargetThawed)),
        _ => None,
    }
}

fn held(world: &World) -> Step {
    let Some(target) = &world.target else {
        return choose(world);
    };
    // Held before, and perhaps lost since.
    if let Some(step) = prepare::bring(world, target) {
        return step;
    }
    if let Some(step) = give_to_owner(world, target) {
        return step;
    }
    if let Some(step) = end_source(world) {
        return step;
    }
    Step::Wait(Waiting::TargetThawed)
}

fn stop_first(world: &World) -> Step {
    if let Some(step) = end_source(world) {
        return step;
    }
    if world.source.pod.is_some() {
        // Its processes are no more, but the object is there: two of one name cannot be.
        return Step::Wait(match world.source.reachable {
            true => Waiting::SourceGone,
            false => Waiting::SourceNode,
        });
    }
    if !world.source.detached {
        return Step::Wait(Waiting::VolumesDetached);
    }
    let Some(target) = &world.target else {
        return choose(world);
    };
    if let Some(step) = prepare::bring(world, target) {
        return step;
    }
    give_to_owner(world, target).unwrap_or(Step::Wait(Waiting::TargetThawed))
}

/// A target after the first one. As soon as the owner misses a pod it makes one itself, and another one of ours would be one too many.
fn choose(world: &World) -> Step {
    if world.owners_pod {
        return Step::UseOwnersPod;
    }
    let counted = world
        .source
        .pod
        .is_some_and(|pod| pod.labelled && !pod.deleting);
    match world.owner {
        Owner::Present {
            pods: Count::Missing,
            ..
        } if !counted => {
            return Step::Wait(Waiting::OwnersPod);
        }
        // It was scaled down meanwhile, and does not want the pod that moves any more.
        Owner::Present { .. } if !counted => {
            if let Some(step) = world.source.pod.and_then(|pod| delete(world, pod)) {
                return step;
            }
            return Step::Settle(Outcome::Failed(Failure::ScaledDown));
        }
        _ => {}
    }
    match (world.request.mode, &world.place) {
        (Mode::StopFirst, Place::Nowhere | Place::Exhausted) => Step::Wait(Waiting::Node),
        (Mode::StopFirst, Place::Node(_)) => Step::ChooseTarget { node: None },
        (Mode::Held, _) => prepare::choose(world),
    }
}

/// Labels on the target, and its adoption.
fn give_to_owner(world: &World, target: &Target) -> Option<Step> {
    let TargetView::Present(pod) = target.pod else {
        return None;
    };
    if target.origin == TargetOrigin::Owner {
        return None;
    }
    if !pod.labelled {
        // The owner is about to have one too many, and picks whom it likes.
        return Some(match world.guarded {
            Guarded::All => Step::LabelTarget,
            Guarded::Some | Guarded::None => Step::Guard,
        });
    }
    let owner = matches!(world.owner, Owner::Present { .. });
    (owner && !pod.owned).then_some(Step::Wait(Waiting::Adoption))
}

/// Labels off the source, its release, its deletion, and the proof that it is gone.
fn end_source(world: &World) -> Option<Step> {
    if let Some(step) = world.source.pod.and_then(|pod| delete(world, pod)) {
        return Some(step);
    }
    if world.request.evidence.is_some() {
        return None;
    }
    let source = &world.source;
    Some(match source.state {
        SourceState::Gone => Step::Accept(SourceEvidence::Gone),
        _ if source.reachable => Step::Wait(Waiting::SourceGone),
        _ if source.fence == Some(FenceKind::Wrapper) => Step::Accept(SourceEvidence::Fenced),
        _ => Step::Wait(Waiting::SourceNode),
    })
}

fn delete(world: &World, pod: SourcePod) -> Option<Step> {
    if pod.deleting {
        return None;
    }
    let owner = matches!(world.owner, Owner::Present { .. });
    if owner && pod.labelled {
        return Some(match world.guarded {
            Guarded::All => Step::UnlabelSource,
            Guarded::Some | Guarded::None => Step::Guard,
        });
    }
    if owner && pod.owned {
        // An owned pod that is deleted counts as a failure of a Job, and is replaced.
        return Some(Step::Wait(Waiting::Release));
    }
    Some(Step::DeleteSource)
}

/// Whoever deleted the owner wanted its pods to end.
fn without_owner(world: &World) -> Step {
    if world.target.is_some() {
        return Step::GiveUpTarget;
    }
    if world.leftovers {
        return Step::DeleteLeftovers;
    }
    match world.source.pod {
        Some(pod) if !pod.deleting => Step::DeleteSource,
        _ => Step::Settle(Outcome::Failed(Failure::OwnerDeleted)),
    }
}
