//! What belongs to a container besides its processes: its files, its shared memory, its configuration. Saved while
//! it is frozen.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;

use super::args::Making;
use super::rootfs;
use crate::error::Error;
use crate::runtime::{Container, Oci};

/// Changes of the root file system.
pub(crate) const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// Content of `/dev/shm`, if it is mounted from outside.
pub(crate) const SHARED_MEMORY: &str = "devshm-checkpoint.tar";

/// Saves it into the checkpoint's folder. Processes without a runtime have nothing of the kind.
pub(super) fn save(making: &Making<'_>) -> Result<(), Error> {
    let shared = making.container.oci.as_ref().and_then(Oci::shared_memory);
    if let Some(shared) = shared {
        tar(&making.folder.join(SHARED_MEMORY), &shared)?;
    }
    save_alone(making)
}

/// The same without the shared memory, which a pod's containers have together.
pub(super) fn save_alone(making: &Making<'_>) -> Result<(), Error> {
    let Some(oci) = &making.container.oci else {
        return Ok(());
    };
    if let Some(upper) = &oci.rootfs.upper {
        tar(&making.folder.join(ROOTFS_DIFF), upper)?;
    }
    write(
        &making.folder.join("spec.dump"),
        &serde_json::to_vec(&oci.spec).map_err(|error| Error::Write {
            reason: error.to_string(),
        })?,
    )?;
    write(
        &making.folder.join("config.dump"),
        config(making.container, oci).to_string().as_bytes(),
    )
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

/// A folder as an archive.
pub(super) fn tar(file: &Path, dir: &Path) -> Result<(), Error> {
    let failed = |source| Error::WriteFile {
        path: file.to_owned(),
        source,
    };
    let to = File::create(file).map_err(failed)?;
    let mut to = BufWriter::with_capacity(1 << 20, to);
    rootfs::write(dir, &mut to)?;
    to.flush().map_err(failed)
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::WriteFile {
        path: path.to_owned(),
        source,
    })
}
