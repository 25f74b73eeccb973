//! Images of CRIU's own, as far as the plugin and the agent need them.
//!
//! CRIU frames them in another way than the plugins theirs: two magic numbers (images before version 1.1 have the
//! second one only), then entries of 4 bytes of length and a protobuf message each (CRIU's
//! `criu/include/magic.h` and `criu/protobuf.c`, 3.17 to 4.2).

mod core;
mod entries;
mod mounts;
mod seccomp;
mod tree;

pub use self::core::{Capabilities, Credentials, Seccomp, Thread, thread};
pub use mounts::{FileSystem, Mount, mounts};
pub use seccomp::{Filters, filters};
pub use tree::{Process, highest_tid, processes};
