//! What the operator decides. Pure: a decision is a function from what is seen of the world to the next step.
//!
//! Nothing here knows of an API server. Whoever drives these functions reads the world, asks for the next step, does it,
//! and asks again; steps may be repeated, views may be old, and the driver may die between any two lines.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod migration;
pub mod placement;
mod seconds;

pub use seconds::Seconds;
