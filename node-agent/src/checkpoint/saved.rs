//! What belongs to a container besides its processes: its files, its shared memory, its configuration. Saved while
//! it is frozen.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;

use super::args::Making;
use super::rootfs;
use crate::error::{Error, causes};
use crate::runtime::{Container, Oci};

/// Changes of the root file system.
pub(crate) const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// Content of `/dev/shm`, if it is mounted from outside.
pub(crate) const SHARED_MEMORY: &str = "devshm-checkpoint.tar";

/// Saves it into the checkpoint's folder. Processes without a runtime have nothing of the kind.
pub(super) fn save(making: &Making<'_>) -> Result<(), Error> {
    let Some(oci) = &making.container.oci else {
        return Ok(());
    };
    if let Some(upper) = &oci.rootfs.upper {
        tar(&making.tree.join(ROOTFS_DIFF), upper)?;
    }
    if let Some(shared) = oci.shared_memory() {
        tar(&making.tree.join(SHARED_MEMORY), &shared)?;
    }
    write(
        &making.tree.join("spec.dump"),
        &serde_json::to_vec(&oci.spec).map_err(|error| Error::Write {
            reason: error.to_string(),
        })?,
    )?;
    let config = engine_config(making).unwrap_or_else(|| config(making.container, oci));
    write(
        &making.tree.join("config.dump"),
        config.to_string().as_bytes(),
    )
}

/// What an engine keeps of it. Without that the checkpoint is as good for others.
fn engine_config(making: &Making<'_>) -> Option<serde_json::Value> {
    match making.driver.engine_config(making.container) {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!(
                error = causes(&error),
                "The engine itself will not be able to restore it"
            );
            None
        }
    }
}

/// The file that engines look for in an archive.
fn config(container: &Container, oci: &Oci) -> serde_json::Value {
    let image = container
        .image
        .as_deref()
        .or_else(|| oci.annotation("io.kubernetes.cri.image-name"));
    let reference = match (image, &container.image_digest) {
        (Some(image), Some(digest)) => Some(format!("{image}@{digest}")),
        _ => image.map(str::to_owned),
    };
    json!({
        "id": container.id,
        "name": container.name,
        "rootfsImageName": image,
        "rootfsImageRef": reference,
        "runtime": container.runtime_name(),
        "checkpointedBy": "rocferry",
    })
}

fn tar(file: &Path, dir: &Path) -> Result<(), Error> {
    let failed = |source| Error::WriteFile {
        path: file.to_owned(),
        source,
    };
    let to = File::create(file).map_err(failed)?;
    let mut to = BufWriter::with_capacity(1 << 20, to);
    rootfs::write(dir, &mut to)?;
    to.flush().map_err(failed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::WriteFile {
        path: path.to_owned(),
        source,
    })
}
