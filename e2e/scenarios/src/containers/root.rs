//! The root file system of the containers: a static shell and the static workload.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

use crate::case::BIN;

/// The workload inside.
pub(crate) const WORKLOAD: &str = "/opt/rocferry/bin/workload";

/// A file of the image that cases delete.
pub(super) const DELETED: &str = "/etc/deleted-by-the-case";

/// Fills the folder.
pub(crate) fn make_root(root: &Path) -> Result<()> {
    for dir in [
        "bin",
        "dev",
        "etc",
        "opt/rocferry/bin",
        "proc",
        "sys",
        "tmp",
        "work",
    ] {
        fs::create_dir_all(root.join(dir))?;
    }
    fs::copy("/usr/bin/busybox", root.join("bin/busybox")).context("no busybox")?;
    symlink("busybox", root.join("bin/sh"))?;
    fs::copy(format!("{BIN}/workload"), below(root, WORKLOAD)).context("no workload")?;
    fs::write(below(root, DELETED), "of the image\n")?;
    Ok(())
}

/// Where an absolute path lies below `root`.
pub(super) fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}
