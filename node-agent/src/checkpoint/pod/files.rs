//! The files of a pod: each container's, and what they have together. Saved while it stands still.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::checkpoint::args::{Making, make_private};
use crate::checkpoint::saved::{save_alone, tar, write};
use crate::error::Error;
use crate::pod::{
    FoundVolume, POD_RECORD, Pod, PodContainer, PodError, PodRecord, SHARED_MEMORY_ARCHIVE, log,
};
use crate::runtime::Oci;
use crate::ticket::ContainerId;

/// Name of a container's log.
const LOG: &str = "container.log";

/// Saves them into the checkpoint's folder, with the record that says what is there.
pub(super) fn save(
    pod: &Pod,
    makings: &[Making<'_>],
    volumes: &[FoundVolume],
    tree: &Path,
) -> Result<PodRecord, Error> {
    let mut record = PodRecord::new(pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    for (member, making) in pod.members.iter().zip(makings) {
        save_alone(making)?;
        if let Some(log) = log(pod, member) {
            let to = making.folder.join(LOG);
            fs::copy(&log, &to).map_err(|source| Error::Read { path: log, source })?;
        }
        let id: ContainerId = member.container.id.parse().map_err(PodError::from)?;
        let name = member.name.clone();
        record.containers.push(PodContainer { name, id });
    }
    if !volumes.is_empty() {
        make_private(&tree.join("volumes"))?;
    }
    for found in volumes {
        tar(&tree.join(found.volume.archive()), &found.folder)?;
        record.volumes.push(found.volume.clone());
    }
    if let Some(shared) = shared_memory(pod, volumes) {
        tar(&tree.join(SHARED_MEMORY_ARCHIVE), &shared)?;
        record.shared_memory = true;
    }
    let bytes = record.to_bytes().map_err(PodError::from)?;
    write(&tree.join(POD_RECORD), &bytes)?;
    Ok(record)
}

/// The `/dev/shm` that the containers have from outside, unless that is a volume.
fn shared_memory(pod: &Pod, volumes: &[FoundVolume]) -> Option<PathBuf> {
    let oci = pod
        .members
        .iter()
        .filter_map(|member| member.container.oci.as_ref());
    let mut shared = oci.filter_map(Oci::shared_memory);
    shared.find(|path| !volumes.iter().any(|found| path.starts_with(&found.folder)))
}

/// What the containers may write to and is not their own: what is mounted from outside, each once.
pub(super) fn writable(pod: &Pod) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for oci in pod
        .members
        .iter()
        .filter_map(|member| member.container.oci.as_ref())
    {
        let mounts = oci.spec.get("mounts").and_then(serde_json::Value::as_array);
        for mount in mounts.into_iter().flatten() {
            found.extend(writable_source(mount));
        }
    }
    found
}

fn writable_source(mount: &serde_json::Value) -> Option<PathBuf> {
    let source = Path::new(mount.get("source")?.as_str()?);
    let options = mount.get("options").and_then(serde_json::Value::as_array);
    let mut options = options
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str);
    let read_only = options.any(|option| option == "ro");
    (source.is_absolute() && !read_only).then(|| source.to_owned())
}

/// Writes out what lies in memory of their file systems. A source that came late would go over newer data of the copy
/// where both have the same file system.
pub(super) fn sync(paths: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let mut done = BTreeSet::new();
    for path in paths {
        let failed = |source| Error::WriteFile {
            path: path.clone(),
            source,
        };
        let meta = match path.symlink_metadata() {
            // Mounted over, or removed: nobody can write there by this name.
            Err(_) => continue,
            Ok(meta) => meta,
        };
        use std::os::unix::fs::MetadataExt;
        let kind = meta.file_type();
        // To open anything else may do something.
        if !(kind.is_file() || kind.is_dir()) || !done.insert(meta.dev()) {
            continue;
        }
        let file = File::open(path).map_err(failed)?;
        rustix::fs::syncfs(&file).map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_can_be_written_to_is_synced() {
        for (mount, wanted) in [
            (
                json!({"source": "/data", "options": ["rbind", "rw"]}),
                Some("/data"),
            ),
            (json!({"source": "/data"}), Some("/data")),
            (json!({"source": "/data", "options": ["rbind", "ro"]}), None),
            (json!({"source": "proc", "options": ["nosuid"]}), None),
            (json!({"destination": "/x"}), None),
        ] {
            let found = writable_source(&mount);
            assert_eq!(found.as_deref(), wanted.map(Path::new), "{mount}");
        }
        let dir = tempfile::tempdir().expect("a folder");
        let paths = ["", "gone", "file"].map(|name| dir.path().join(name));
        fs::write(&paths[2], "x").expect("written");
        sync(&paths.into()).expect("synced");
    }
}
