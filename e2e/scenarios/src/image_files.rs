//! What a dump has left on disk, to be looked at or damaged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The images whose names begin with `prefix`, sorted.
pub(crate) fn named(images: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(images)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The only or first image whose name begins with `prefix`.
pub(crate) fn one(images: &Path, prefix: &str) -> Result<PathBuf> {
    named(images, prefix)?
        .into_iter()
        .next()
        .with_context(|| format!("no {prefix}* image"))
}

/// Length that an image of the plugin has by its own header: 8 + content.
pub(crate) fn framed_length(image: &Path) -> Result<u64> {
    let bytes = fs::read(image)?;
    let header = bytes
        .first_chunk::<8>()
        .context("shorter than its header")?;
    Ok(8 + u64::from_le_bytes(*header))
}

/// A copy of a folder of images.
pub(crate) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
