//! Moving a pod: which step is next (docs/migration.md has the protocol as a table).
//!
//! Consistency: the decision, the claim on the frozen source, the choice of a target, the target's right to thaw and the evidence
//! about the source are each one update of one object with its resourceVersion. Everything else is done again until it is seen.
//! Crash: nothing is remembered here; the next step follows from the objects alone.
//! Cancellation: deleting the request asks for an abort through the same decision; after the commit it changes nothing.
//! Completion: an outcome is recorded once, and what is left of the move is removed after it.

mod closing;
mod decide;
mod hand_over;
mod preflight;
mod prepare;
mod step;
mod sweep;
mod undo;
mod world;

#[cfg(test)]
mod rows;
#[cfg(test)]
mod tests;

pub use decide::next_step;
pub use preflight::{Facts, OwnerKind, Refusal, choose_mode};
pub use step::{AbortReason, Failure, Outcome, Step, Waiting};
pub use sweep::{Marks, Named, Sweep, sweep};
pub use world::{
    Claim, Count, Guarded, Image, Owner, Place, Policy, Request, Source, SourcePod, Target,
    TargetPod, TargetView, World,
};
