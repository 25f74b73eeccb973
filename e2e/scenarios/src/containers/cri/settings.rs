//! containerd's settings on a node, and the network that pods get.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Cri;

/// What an administrator has written; gone when dropped.
pub(crate) struct CriSettings {
    before: Option<Vec<u8>>,
}

const NETWORK: &str = "/etc/cni/net.d/10-case.conflist";

impl CriSettings {
    /// The file.
    pub(crate) const FILE: &str = "/etc/containerd/config.toml";

    /// Writes them: runc as the runtime, a bridge for pods.
    pub(crate) fn write() -> Result<Self> {
        let made = Self {
            before: fs::read(Self::FILE).ok(),
        };
        let settings = format!(
            "version = 3\nroot = \"{root}\"\nstate = \"{state}\"\n\
             [plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"{image}\"\n\
             [plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = [\"/usr/lib/cni\"]\nconf_dir = \"/etc/cni/net.d\"\n\
             [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n",
            root = Cri::ROOT,
            state = Cri::STATE,
            image = Cri::IMAGE,
        );
        put(Self::FILE, &settings)?;
        put(NETWORK, super::network::CONFIG)?;
        Ok(made)
    }
}

fn put(file: &str, text: &str) -> Result<()> {
    fs::create_dir_all(Path::new(file).parent().context("path")?)?;
    fs::write(file, text).with_context(|| format!("cannot write {file}"))
}

impl Drop for CriSettings {
    fn drop(&mut self) {
        let _ = match &self.before {
            Some(before) => fs::write(Self::FILE, before),
            None => fs::remove_file(Self::FILE),
        };
        let _ = fs::remove_file(NETWORK);
    }
}
