//! `crictl`, with which machines speak to containerd as a kubelet does. Debian has no package of it.

use crate::go::GoModule;
use crate::images::Lab;
use anyhow::Result;
use std::path::PathBuf;

/// CRI's own client. Its go.mod decides which Go it needs.
const CRI_TOOLS: GoModule = GoModule {
    name: "cri-tools",
    module: "sigs.k8s.io/cri-tools",
    version: "v1.37.0",
    go: "1.26.6",
    programs: &[("crictl", "sigs.k8s.io/cri-tools/cmd/crictl")],
    variables: &[("sigs.k8s.io/cri-tools/pkg/version.Version", "v1.37.0")],
    staging: None,
};

impl Lab {
    /// The program `crictl`.
    ///
    /// # Errors
    /// Those of [`GoModule::built`].
    pub fn crictl(&self) -> Result<PathBuf> {
        Ok(CRI_TOOLS.built(self.cache())?.join("crictl"))
    }
}
