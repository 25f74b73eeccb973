//! One suite over every backend, and what is particular to each.

mod child;
mod directory;
mod macros;
mod memory;
mod suite;
