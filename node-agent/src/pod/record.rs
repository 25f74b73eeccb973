//! What the checkpoint of a pod says about itself: `pod.json`, at the top of its files.
//!
//! ```text
//! pod.json
//! containers/NAME/checkpoint/            CRIU's images
//! containers/NAME/spec.dump              the container's config.json
//! containers/NAME/config.dump            what engines look for in an archive
//! containers/NAME/rootfs-diff.tar        changes of its root file system, if there are any
//! containers/NAME/container.log          what it has written, if that is kept
//! volumes/NAME.tar                       content of an emptyDir volume
//! shm.tar                                content of the /dev/shm that its containers share
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ticket::{ContainerId, ContainerName, InvalidName, PodUid};

/// Name of the file.
pub const POD_RECORD: &str = "pod.json";

/// Largest file that is read, in bytes.
pub const MAX_RECORD: u64 = 1 << 20;

/// Version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Most containers, volumes, and mounts of a volume.
const MAX_LIST: usize = 1024;

/// Longest path of a mount, in bytes.
const MAX_PATH: usize = 4096;

/// The pod of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRecord {
    version: u32,
    /// Namespace, for people and for whoever may restore it.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID of the pod that was dumped.
    pub uid: PodUid,
    /// Its containers, in the order in which they were created.
    pub containers: Vec<PodContainer>,
    /// Its emptyDir volumes.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
    /// Whether `shm.tar` is there.
    #[serde(default)]
    pub shared_memory: bool,
}

/// A container of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodContainer {
    /// Its name in the pod.
    pub name: ContainerName,
    /// Its id in the runtime.
    pub id: ContainerId,
}

/// An emptyDir volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: ContainerName,
    /// What it lies on.
    pub kind: VolumeKind,
    /// Where its containers see it: how it is found in another pod.
    pub mounts: Vec<VolumeMount>,
}

/// What an emptyDir volume lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeKind {
    /// The node's disk.
    Disk,
    /// Memory (`medium: Memory`).
    Memory,
}

/// Where a container sees a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeMount {
    /// The container.
    pub container: ContainerName,
    /// Path in the container; absolute.
    pub destination: PathBuf,
    /// Path below the volume that is mounted there (`subPath`); relative, empty for all of it.
    #[serde(default)]
    pub sub_path: PathBuf,
}

/// A record that makes no sense.
#[derive(Debug, Error)]
pub enum PodRecordError {
    /// It is no JSON of this form.
    #[error("No pod record")]
    Form(#[from] serde_json::Error),
    /// It is of another version.
    #[error("A pod record of version {0}, and {VERSION} is known")]
    Version(u32),
    /// A name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It contradicts itself.
    #[error("The pod record makes no sense: {0}")]
    Content(String),
}

impl PodRecord {
    /// A record without containers and volumes.
    #[must_use]
    pub const fn new(namespace: String, name: String, uid: PodUid) -> Self {
        Self {
            version: VERSION,
            namespace,
            name,
            uid,
            containers: Vec::new(),
            volumes: Vec::new(),
            shared_memory: false,
        }
    }

    /// Reads one, whoever wrote it.
    ///
    /// # Errors
    /// [`PodRecordError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PodRecordError> {
        let record: Self = serde_json::from_slice(bytes)?;
        if record.version != VERSION {
            return Err(PodRecordError::Version(record.version));
        }
        record.check()?;
        Ok(record)
    }

    /// The file's content.
    ///
    /// # Errors
    /// [`PodRecordError`] for what [`Self::parse`] would refuse.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PodRecordError> {
        self.check()?;
        Ok(serde_json::to_vec_pretty(self)?)
    }

    fn check(&self) -> Result<(), PodRecordError> {
        let wrong = |what: String| Err(PodRecordError::Content(what));
        if self.containers.is_empty() {
            return wrong("it has no containers".to_owned());
        }
        if self.containers.len() > MAX_LIST || self.volumes.len() > MAX_LIST {
            return wrong(format!("it lists more than {MAX_LIST} things"));
        }
        let mut names = BTreeSet::new();
        for container in &self.containers {
            if !names.insert(&container.name) {
                return wrong(format!("container {} is there twice", container.name));
            }
        }
        let (mut volumes, mut places) = (BTreeSet::new(), BTreeSet::new());
        for volume in &self.volumes {
            if !volumes.insert(&volume.name) {
                return wrong(format!("volume {} is there twice", volume.name));
            }
            if volume.mounts.is_empty() || volume.mounts.len() > MAX_LIST {
                return wrong(format!(
                    "volume {} is mounted nowhere, or in more than {MAX_LIST} places",
                    volume.name
                ));
            }
            for mount in &volume.mounts {
                if !names.contains(&mount.container) {
                    return wrong(format!(
                        "volume {} is in a container {} that there is not",
                        volume.name, mount.container
                    ));
                }
                let inside = mount
                    .sub_path
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                let long = |path: &PathBuf| path.as_os_str().len() > MAX_PATH;
                if !mount.destination.is_absolute()
                    || !inside
                    || long(&mount.destination)
                    || long(&mount.sub_path)
                {
                    return wrong(format!(
                        "volume {} is at {:?} ({:?})",
                        volume.name, mount.destination, mount.sub_path
                    ));
                }
                if !places.insert((&mount.container, &mount.destination)) {
                    return wrong(format!(
                        "container {} has two volumes at {:?}",
                        mount.container, mount.destination
                    ));
                }
            }
        }
        Ok(())
    }
}

impl PodContainer {
    /// Folder of its files, below the checkpoint's.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.name)
    }
}

/// Folder of the files of a container of this name, below the checkpoint's.
pub(super) fn folder_of(container: &ContainerName) -> PathBuf {
    PathBuf::from("containers").join(container.as_str())
}

impl PodVolume {
    /// Archive of its content, below the checkpoint's folder.
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        PathBuf::from("volumes").join(format!("{}.tar", self.name))
    }
}

/// Archive of the `/dev/shm` that the containers share, below the checkpoint's folder.
pub const SHARED_MEMORY_ARCHIVE: &str = "shm.tar";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn example() -> Value {
        json!({
            "version": 1, "namespace": "team", "name": "train", "uid": "0b0c",
            "containers": [{ "name": "main", "id": "c1" }, { "name": "side", "id": "c2" }],
            "volumes": [{ "name": "scratch", "kind": "Disk", "mounts": [
                { "container": "main", "destination": "/scratch" },
                { "container": "side", "destination": "/in", "subPath": "a/b" },
            ]}],
            "sharedMemory": true,
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let record = PodRecord::parse(example().to_string().as_bytes()).unwrap();
        let again = PodRecord::parse(&record.to_bytes().unwrap()).unwrap();
        assert_eq!(record, again);
        assert_eq!(
            record.containers[1].folder(),
            PathBuf::from("containers/side")
        );
        assert_eq!(
            record.volumes[0].archive(),
            PathBuf::from("volumes/scratch.tar")
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cases: [(&str, Value); 12] = [
            ("/version", json!(2)),
            ("/containers", json!([])),
            ("/containers/0/name", json!("../main")),
            ("/containers/0/name", json!("side")),
            ("/containers/0/id", json!("a/b")),
            ("/uid", json!("..")),
            ("/volumes/0/name", json!("a/../b")),
            ("/volumes/0/mounts", json!([])),
            ("/volumes/0/mounts/0/container", json!("other")),
            ("/volumes/0/mounts/0/destination", json!("scratch")),
            ("/volumes/0/mounts/1/subPath", json!("../../etc")),
            ("/volumes/0/mounts/1/subPath", json!("/etc")),
        ];
        for (pointer, value) in cases {
            let mut record = example();
            *record.pointer_mut(pointer).unwrap() = value.clone();
            let refused = PodRecord::parse(record.to_string().as_bytes());
            refused.expect_err(&format!("{pointer} = {value}"));
        }
        let mut twice = example();
        let volume = twice["volumes"][0].clone();
        twice["volumes"].as_array_mut().unwrap().push(volume);
        PodRecord::parse(twice.to_string().as_bytes()).expect_err("two volumes of a name");
    }
}
