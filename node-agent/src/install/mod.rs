//! `rocferry-agent install` and `uninstall`: what a host needs so that its containers can be checkpointed and
//! restored.
//!
//! ```text
//! PREFIX/rocferry-{agent,runc,crun,hook}        programs
//! CRIU's folder of plugins/amdgpu_plugin.so     another one of that name is kept aside, other plugins stay
//! containers.conf.d, oci/hooks.d                Podman: a runtime, and the hook
//! crio.conf.d                                   CRI-O: a runtime
//! containerd's configuration                    a runtime, the rest of it as it was
//! STATE/install.json, STATE/aside/              what was changed, and what was there before
//! ```
//!
//! Each change is written down before it is made, so that whatever breaks an installation off, `uninstall` puts back
//! what was there. What somebody has changed since is left alone, and said. Nothing is restarted.

mod args;
mod change;
mod containerd;
mod criu_conf;
mod error;
mod file;
mod host;
mod plan;
mod put;
mod record;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use args::{InstallArgs, UninstallArgs};
pub use error::InstallError;
