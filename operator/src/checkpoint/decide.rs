//! The next step.

use rocferry_crds::v1alpha1::{After, Retention};

use super::{Agent, Data, Failure, Frozen, Report, Step, Store, Waiting, World};

/// The next step of a checkpoint.
#[must_use]
pub fn next_step(world: &World) -> Step {
    let request = &world.request;
    if request.deleting {
        return if request.finalizer {
            clean_up(world)
        } else {
            Step::Done
        };
    }
    if let Some(ended) = request.ended {
        return match request.ttl {
            None => Step::Done,
            Some(ttl) if world.now >= ended + ttl => Step::Expire,
            Some(_) => Step::Wait(Waiting::Ttl),
        };
    }
    if !request.finalizer {
        return Step::AddFinalizer;
    }
    if request.assigned {
        follow(world)
    } else {
        assign(world)
    }
}

/// Before an agent has it: nothing is touched.
fn assign(world: &World) -> Step {
    let Some(pod) = &world.pod else {
        return Step::Fail(Failure::PodMissing);
    };
    if pod.deleting {
        return Step::Fail(Failure::PodDeleting);
    }
    if pod.ended {
        return Step::Fail(Failure::PodGone);
    }
    if let Some(container) = pod.unknown_container.clone() {
        return Step::Fail(Failure::NoContainer { container });
    }
    if let (After::DeletePod, Some(owner)) = (world.request.after, pod.replaced_by.clone()) {
        return Step::Fail(Failure::Replaced { owner });
    }
    match world.store {
        Store::Missing => return Step::Fail(Failure::StoreMissing),
        Store::NotAllowed => return Step::Fail(Failure::StoreNotAllowed),
        Store::OverQuota => return Step::Fail(Failure::OverQuota),
        Store::Ready | Store::NotReady => {}
    }
    let waiting = if !pod.running {
        Waiting::PodRunning
    } else if world.store == Store::NotReady {
        Waiting::Store
    } else if world.busy.is_some() {
        Waiting::OtherRequest
    } else {
        match world.agent {
            Agent::None => return Step::Fail(Failure::NoAgent),
            Agent::StoreUnknown => return Step::Fail(Failure::StoreUnknown),
            Agent::Ready if !over(world) => return Step::Assign,
            Agent::Ready | Agent::Silent => Waiting::Agent,
        }
    };
    if over(world) {
        Step::Fail(Failure::TimedOut)
    } else {
        Step::Wait(waiting)
    }
}

/// An agent has it. The deadline is the agent's: it alone knows whether the pod goes on.
fn follow(world: &World) -> Step {
    match &world.report {
        Report::Failed(why) => Step::Fail(Failure::Agent(why.clone())),
        Report::Stored => stored(world),
        Report::Nothing | Report::Working => {
            if world.agent == Agent::None || world.pod.as_ref().is_none_or(|pod| pod.ended) {
                Step::Fail(Failure::PodGone)
            } else if world.agent == Agent::Silent {
                Step::Wait(Waiting::Agent)
            } else {
                Step::Wait(Waiting::Checkpoint)
            }
        }
    }
}

fn stored(world: &World) -> Step {
    if world.request.after != After::DeletePod {
        return Step::Succeed;
    }
    match &world.pod {
        None => Step::Succeed,
        Some(pod) if pod.deleting => Step::Wait(Waiting::PodGone),
        Some(_) => Step::DeletePod,
    }
}

/// The request was deleted: the pod is let go, and the data removed.
fn clean_up(world: &World) -> Step {
    let lost = world.agent == Agent::None;
    if !lost && world.request.ended.is_none() && world.report == Report::Working {
        return Step::Wait(Waiting::PodThawed);
    }
    match world.frozen {
        // Even with the node out of reach: it may come back with the pod frozen.
        Frozen::Claimed => return Step::Wait(Waiting::Decision),
        Frozen::Yes if !lost => return Step::Wait(Waiting::PodThawed),
        Frozen::Yes | Frozen::No => {}
    }
    match (world.data, world.request.retention) {
        (Data::InUse, _) => Step::Wait(Waiting::DataFree),
        (Data::Stored, Retention::Delete) => Step::DeleteData,
        // A store that is gone keeps nobody's request.
        (Data::Stored | Data::None | Data::OutOfReach, _) => Step::RemoveFinalizer,
    }
}

fn over(world: &World) -> bool {
    world.now >= world.request.deadline
}
