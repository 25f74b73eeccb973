//! One suite over every backend, and what is particular to each.

mod child;
mod directory;
mod faulty;
mod macros;
mod memory;
mod retry;
mod suite;
