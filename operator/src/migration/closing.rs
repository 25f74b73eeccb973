//! After the outcome: what is left of the move is removed.

use super::{Count, Guarded, Owner, Step, Waiting, World};

pub(super) fn next_step(world: &World) -> Step {
    if world.leftovers {
        return Step::DeleteLeftovers;
    }
    if world.owners_pod {
        // Which pod an owner with too many deletes is its choice, as long as the others are guarded.
        return match world.owner {
            Owner::Present {
                pods: Count::Surplus,
                ..
            } => Step::Wait(Waiting::OwnersPodGone),
            _ => Step::ReleaseOwnersPod,
        };
    }
    if world.guarded != Guarded::None {
        return Step::Unguard;
    }
    if world.request.finalizer {
        return Step::RemoveFinalizer;
    }
    Step::Done
}
