//! After an abort: the target ends, the source goes on.

use rocferry_crds::v1alpha1::SourceState;

use super::{AbortReason, Claim, Failure, Outcome, Step, Waiting, World};

pub(super) fn next_step(world: &World) -> Step {
    if world.target.is_some() {
        return Step::GiveUpTarget;
    }
    if world.leftovers {
        return Step::DeleteLeftovers;
    }
    if world.request.claim == Claim::Free {
        // An operator that does not know of the abort could still claim the source, for a request that nobody reads then. And
        // an aborted request is what lets its source go on.
        return Step::Claim;
    }
    let source = &world.source;
    // What another request has claimed, or its agent has let go, is not ours to wait for. Of what is ours the agent reports an end
    // in any case, and reads the decision in this request: it must be there until then.
    let ours = world.request.claim == Claim::Mine;
    let waits = match source.state {
        SourceState::Running | SourceState::Frozen => true,
        // Killed while it was frozen: its fence is still there, and nothing of a pod that stays starts before it is lifted.
        SourceState::Gone => source.pod.is_some_and(|pod| !pod.deleting),
        SourceState::Thawed | SourceState::Overridden => false,
    };
    if ours && waits {
        return Step::Wait(match source.reachable {
            true => Waiting::SourceThawed,
            false => Waiting::SourceNode,
        });
    }
    let reason = world.request.aborted_for.unwrap_or(AbortReason::Cancelled);
    Step::Settle(Outcome::Failed(Failure::Aborted(reason)))
}
