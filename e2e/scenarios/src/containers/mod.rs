//! Container engines in the machine, with the plugin where their CRIU looks for it.
//!
//! Nothing here costs a case that uses none: an engine is set up when a case asks for it, and what it leaves
//! lies in the case's folder or on a tmpfs of its own, and goes with it.

mod command;
mod containerd;
mod cri;
mod devices;
mod plugin;
mod pod;
mod podman;
mod resident;
mod root;
mod runc;

pub(crate) use command::{Ran, run};
pub(crate) use containerd::Containerd;
pub(crate) use cri::{Client, Cri, CriOptions, CriPod, CriSettings};
pub(crate) use devices::Device;
pub(crate) use plugin::PluginForAll;
pub(crate) use pod::{Contents, Options as PodOptions, Pod, Volume};
pub(crate) use podman::{Podman, Runtime};
pub(crate) use resident::{Resident, Traces};
pub(crate) use root::WORKLOAD;
pub(crate) use runc::{Bundle, Runc, plugin_lines};

use std::path::Path;

use anyhow::Result;

use crate::case::Skip;

/// Is systemd process 1 here? Then engines and runtimes have it make their cgroups (their driver `systemd`), and else they
/// make them themselves (`cgroupfs`).
pub(crate) fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Skips the case in a userland without this program.
pub(crate) fn need(program: &'static str) -> Result<()> {
    let there = ["/usr/bin", "/usr/sbin"]
        .iter()
        .any(|dir| Path::new(dir).join(program).exists());
    if there {
        return Ok(());
    }
    Err(Skip("no container engines in this userland").into())
}
