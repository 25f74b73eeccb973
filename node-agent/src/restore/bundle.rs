//! The bundle of a new container: the files that belong to the checkpoint go into it before CRIU starts.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rocferry_store::archive;

use super::compare::{self, Machine};
use crate::checkpoint::{ROOTFS_DIFF, SHARED_MEMORY};
use crate::error::Error;
use crate::layer;
use crate::preflight::Finding;
use crate::spec::Spec;

/// Largest list of deleted files, as in archives.
const MAX_LIST: u64 = 4 << 20;
/// Deleted files of an archive.
const DELETED: &str = "deleted.files";

/// What the bundle lacks of what the container had. A checkpoint that does not say what that was has nothing to compare.
pub(super) fn differences(bundle: &Path, tree: &Path) -> Result<Vec<Finding>, Error> {
    let path = tree.join("spec.dump");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let dumped = Spec::read_file(&path)?.into_value();
    Ok(compare::differences(
        &dumped,
        &spec(bundle)?,
        &Machine::here(),
    ))
}

/// Puts the changes of the root file system, and what was in `/dev/shm`, where the new container will find them.
pub(super) fn fill(bundle: &Path, tree: &Path) -> Result<(), Error> {
    let spec = Spec::read(bundle)?;
    let root = spec.root()?;
    deleted(&tree.join(DELETED), &root)?;
    layer::apply_file(&tree.join(ROOTFS_DIFF), &root)?;
    let shared = tree.join(SHARED_MEMORY);
    if !shared.exists() {
        return Ok(());
    }
    match shared_memory(&spec) {
        Some(folder) => {
            layer::apply_file(&shared, &folder)?;
            Ok(())
        }
        None => Err(Error::Incomplete {
            reason: "the checkpoint has a /dev/shm from outside, and the bundle mounts none"
                .to_owned(),
        }),
    }
}

/// Removes what Podman and CRI-O list beside the changes; ours and containerd's have it among them.
fn deleted(list: &Path, root: &Path) -> Result<(), Error> {
    let mut bytes = Vec::new();
    match File::open(list).and_then(|file| file.take(MAX_LIST).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(Error::Read {
                path: list.to_owned(),
                source,
            });
        }
    }
    let layer = archive::deletions(&bytes).map_err(|refusal| Error::Json {
        path: list.to_owned(),
        reason: refusal.to_string(),
    })?;
    Ok(layer::apply(layer.as_slice(), root)?)
}

/// What the new container gets as `/dev/shm`, if that is a folder of this machine.
fn shared_memory(spec: &Spec) -> Option<PathBuf> {
    let source = Path::new(spec.mount_at("/dev/shm")?.source?);
    source.is_absolute().then(|| source.to_owned())
}

/// The specification of the new container.
pub(super) fn spec(bundle: &Path) -> Result<serde_json::Value, Error> {
    Ok(Spec::read(bundle)?.into_value())
}
