//! The bundle of a new container: the files that belong to the checkpoint go into it before CRIU starts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::checkpoint::{ROOTFS_DIFF, SHARED_MEMORY};
use crate::error::Error;
use crate::layer;
use crate::spec::Spec;

/// Puts the changes of the root file system, and what was in `/dev/shm`, where the new container will find them.
pub(super) fn fill(bundle: &Path, tree: &Path) -> Result<(), Error> {
    let spec = Spec::read(bundle)?;
    layer::apply_file(&tree.join(ROOTFS_DIFF), &spec.root()?)?;
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

/// What the new container gets as `/dev/shm`, if that is a folder of this machine.
fn shared_memory(spec: &Spec) -> Option<PathBuf> {
    let source = Path::new(spec.mount_at("/dev/shm")?.source?);
    source.is_absolute().then(|| source.to_owned())
}

/// The specification of the new container.
pub(super) fn spec(bundle: &Path) -> Result<Value, Error> {
    Ok(Spec::read(bundle)?.into_value())
}
