//! The plugin in CRIU's own folder, where every runtime's CRIU finds it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::case::BIN;

const FOLDER: &str = "/usr/lib/criu";

/// The installed plugin. Taken away when dropped, so that it is in no other case's way.
pub(crate) struct PluginForAll {
    file: PathBuf,
}

impl PluginForAll {
    /// Installs the plugin under test.
    pub(crate) fn install() -> Result<Self> {
        let plugin =
            std::env::var("ROCFERRY_PLUGIN").unwrap_or_else(|_| format!("{BIN}/amdgpu_plugin.so"));
        fs::create_dir_all(FOLDER)?;
        let file = Path::new(FOLDER).join("amdgpu_plugin.so");
        fs::copy(&plugin, &file).with_context(|| format!("cannot install {plugin}"))?;
        Ok(Self { file })
    }
}

impl Drop for PluginForAll {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}
