//! Virtual machines for tests: builds kernel and root images from Debian packages, keeps them outside
//! the clone, boots them under QEMU's own instruction translator (no KVM needed), runs commands inside
//! and brings back what they printed, their exit status and their files.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use rocferry_vm::{Lab, Userland};
//! use std::time::Duration;
//!
//! let lab = Lab::open()?;
//! let vm = lab.vm(Userland::Sid).memory_mib(2048).start()?;
//! vm.load_kfd_sim(&lab.kfd_sim()?, "preset=mi210-pair")?;
//! vm.install_plugin(&lab.plugin_so()?)?;
//! let out = vm.exec("criu --version", Duration::from_secs(30))?.ok()?;
//! println!("{}", out.stdout);
//! vm.close()?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cache;
mod cprog;
mod cri_tools;
mod disk;
mod error;
mod fingerprint;
mod frame;
mod go;
mod guest_rust;
mod host;
mod images;
mod kmod;
mod leash;
mod mirror;
mod net;
mod packages;
mod progress;
mod qemu;
mod rundir;
mod selftest;
mod servers;
mod session;
mod shell;
mod vm;

pub use cache::{Cache, EntryInfo};
pub use error::VmError;
pub use go::GoModule;
pub use host::require_zstd;
pub use images::{Kernel, Lab};
pub use leash::spawn;
pub use net::Net;
pub use packages::Userland;
pub use progress::Progress;
pub use rundir::RunDir;
pub use selftest::self_test;
pub use servers::{Registry, RegistryOptions, S3Server, Servers};
pub use session::{ExecOutput, Running, Session, Stream};
pub use vm::{Outcome, Vm};

/// Root of the source tree that this crate was built from.
#[must_use]
pub fn source_root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
