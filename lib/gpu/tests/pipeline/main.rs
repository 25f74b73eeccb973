//! The copy pipeline on engines in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod common;
mod faults;
mod interleavings;
mod round_trip;
