//! Taking a checkpoint: which step is next for a CheckpointRequest.
//!
//! Crash: nothing is remembered here; the next step follows from the objects alone. Cancellation: deleting the request; the agent
//! sees it too, lets the pod go on, and says so. Completion: the end is recorded once, and the finalizer stays until the pod is not
//! held by it any more and its data is as the request wants it.

mod decide;
mod step;
mod world;

#[cfg(test)]
mod tests;

pub use decide::next_step;
pub use step::{Failure, Step, Waiting};
pub use world::{Agent, Data, Frozen, Pod, Report, Request, Store, World};
