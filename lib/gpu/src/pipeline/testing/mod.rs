//! Engines for tests and benches: memory instead of a GPU, and wrappers that delay or fail.

mod delay;
mod faulty;
mod memory;

pub use delay::{DelayedCopy, DelayedFile};
pub use faulty::{Fault, FaultyCopy, FaultyFile, Step};
pub use memory::MemoryEngine;
