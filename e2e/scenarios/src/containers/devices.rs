//! The devices that a container is given.

use std::fs;
use std::os::linux::fs::MetadataExt as _;

use anyhow::{Context, Result};
use rustix::fs::{major, minor};
use serde_json::{Value, json};

use crate::sim::Sim;

/// A character device of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Its path, the same inside and outside.
    pub(crate) path: String,
    /// Major number.
    pub(crate) major: u32,
    /// Minor number.
    pub(crate) minor: u32,
}

impl Device {
    /// `/dev/kfd`, and the render nodes of these GPUs, by their place among the nodes.
    pub(crate) fn of_gpus(sim: &Sim, gpus: &[usize]) -> Result<Vec<Self>> {
        let counters = sim.counters()?;
        let mut devices = vec![Self::at("/dev/kfd")?];
        for gpu in gpus {
            let minor = counters.get(&format!("gpu{gpu}.render_minor"));
            let minor = minor.with_context(|| format!("no GPU {gpu}"))?;
            devices.push(Self::at(&format!("/dev/dri/renderD{minor}"))?);
        }
        Ok(devices)
    }

    fn at(path: &str) -> Result<Self> {
        let stat = fs::metadata(path).with_context(|| format!("no {path}"))?;
        Ok(Self {
            path: path.to_owned(),
            major: major(stat.st_rdev()),
            minor: minor(stat.st_rdev()),
        })
    }

    /// An entry of `linux.devices`.
    pub(super) fn node(&self) -> Value {
        json!({ "path": self.path, "type": "c", "major": self.major, "minor": self.minor,
                "fileMode": 0o666, "uid": 0, "gid": 0 })
    }

    /// An entry of `linux.resources.devices`.
    pub(super) fn rule(&self) -> Value {
        json!({ "allow": true, "type": "c", "major": self.major, "minor": self.minor, "access": "rwm" })
    }
}
