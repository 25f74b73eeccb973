//! One suite over every backend, and what is particular to each.

#[path = "../servers/mod.rs"]
mod servers;

mod child;
mod directory;
mod ending;
mod faulty;
mod macros;
mod memory;
mod oci;
mod retry;
mod s3;
mod suite;
mod tls;
mod whole;
