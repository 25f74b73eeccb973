//! The next step.

use rocferry_crds::v1alpha1::Decision;

use super::{Step, World, closing, hand_over, prepare, undo};

/// The next step of a migration.
#[must_use]
pub fn next_step(world: &World) -> Step {
    let request = &world.request;
    if request.outcome.is_some() {
        return closing::next_step(world);
    }
    if !request.finalizer {
        // Without it nothing was begun: a deleted request may go.
        return if request.deleting {
            Step::Done
        } else {
            Step::AddFinalizer
        };
    }
    match request.decision {
        Decision::Undecided => prepare::next_step(world),
        Decision::Committed => hand_over::next_step(world),
        Decision::Aborted => undo::next_step(world),
    }
}
