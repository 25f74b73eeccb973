//! A Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as they are released,
//! in a network of their own. Nodes may join it, but none is needed: objects of all kinds, their validation, admission, garbage
//! collection and the built-in controllers are the real ones.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use rocferry_cluster::{ControlPlane, Programs};
//!
//! let cluster = ControlPlane::start(&Programs::open()?)?;
//! println!("{}", cluster.kubectl(&["get", "namespaces"])?.ok()?);
//! # Ok(())
//! # }
//! ```
//!
//! Everything is gone with the [`ControlPlane`], and with the process that made it, however that ends.
#![forbid(unsafe_code)]

pub mod cases;
mod control_plane;
mod keys;
mod kubeconfig;
mod part;
mod process;
mod programs;
mod tools;

pub use control_plane::ControlPlane;
pub use part::Part;
pub use process::Process;
pub use programs::Programs;
pub use tools::Output;
