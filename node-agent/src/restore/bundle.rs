//! The bundle of a new container: the files that belong to the checkpoint go into it before CRIU starts.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use rocferry_store::archive;
use rocferry_store::interchange::InterchangeError;
use serde_json::Value;

use super::compare::{self, Machine};
use super::rootfs;
use crate::checkpoint::{ROOTFS_DIFF, SHARED_MEMORY};
use crate::error::Error;
use crate::preflight::Finding;

/// Largest `config.json`, in bytes.
const MAX_SPEC: u64 = 16 << 20;
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
    let dumped = read(&path)?;
    Ok(compare::differences(
        &dumped,
        &spec(bundle)?,
        &Machine::here(),
    ))
}

/// Puts the changes of the root file system, and what was in `/dev/shm`, where the new container will find them.
pub(super) fn fill(bundle: &Path, tree: &Path) -> Result<(), Error> {
    let spec = spec(bundle)?;
    let root = spec.pointer("/root/path").and_then(Value::as_str);
    let root = root.ok_or_else(|| Error::Syntax {
        path: bundle.join("config.json"),
        reason: "it has no root.path".to_owned(),
    })?;
    let root = bundle.join(root);
    deleted(&tree.join(DELETED), &root)?;
    layer(&tree.join(ROOTFS_DIFF), &root)?;
    let shared = tree.join(SHARED_MEMORY);
    if !shared.exists() {
        return Ok(());
    }
    match shared_memory(&spec) {
        Some(folder) => layer(&shared, &folder),
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
    Ok(rootfs::apply(layer.as_slice(), root)?)
}

fn layer(file: &Path, folder: &Path) -> Result<(), Error> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened,
    };
    let opened = opened.map_err(|source| Error::Read {
        path: file.to_owned(),
        source,
    })?;
    let layer = archive::open_layer(opened).map_err(InterchangeError::from)?;
    Ok(rootfs::apply(
        BufReader::with_capacity(1 << 20, layer),
        folder,
    )?)
}

/// What the new container gets as `/dev/shm`, if that is a folder of this machine.
fn shared_memory(spec: &Value) -> Option<PathBuf> {
    let mounts = spec.get("mounts")?.as_array()?;
    let mount = mounts
        .iter()
        .find(|mount| mount.get("destination").and_then(Value::as_str) == Some("/dev/shm"))?;
    let source = Path::new(mount.get("source")?.as_str()?);
    source.is_absolute().then(|| source.to_owned())
}

/// The specification of the new container.
pub(super) fn spec(bundle: &Path) -> Result<Value, Error> {
    read(&bundle.join("config.json"))
}

fn read(path: &Path) -> Result<Value, Error> {
    let path = path.to_owned();
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_SPEC).read_to_end(&mut bytes));
    if let Err(source) = read {
        return Err(Error::Read { path, source });
    }
    serde_json::from_slice(&bytes).map_err(|error| Error::Syntax {
        path,
        reason: error.to_string(),
    })
}
