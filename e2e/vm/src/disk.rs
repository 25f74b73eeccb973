//! Scratch disks: a sparse file with an ext4 file system.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn make(file: &Path, mib: u64) -> Result<()> {
    File::create(file)
        .and_then(|f| f.set_len(mib << 20))
        .with_context(|| format!("Cannot make {}", file.display()))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let out = Command::new("mkfs.ext4")
        .args([
            "-q",
            "-F",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        ])
        .arg(file)
        // Not in an ordinary user's path on Debian.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output()
        .context("Cannot start mkfs.ext4")?;
    if !out.status.success() {
        bail!("mkfs.ext4 failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(())
}
