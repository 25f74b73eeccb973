//! What is prepared: `STATE/restores/UID`.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::ticket::{ContainerName, Key, PodUid, TicketError, read_bounded, write_whole};

/// Version of the record that is written, and the newest that is read.
const VERSION: u32 = 1;

const RECORD: &str = "restore.json";
const MAX_RECORD: u64 = 1 << 20;

/// The folder with everything that is prepared on this node.
#[derive(Clone, Debug)]
pub struct Restores {
    folder: PathBuf,
}

/// What is prepared for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prepared {
    version: u32,
    /// The pod to come.
    pub pod_uid: PodUid,
    /// The checkpoint in its store.
    pub checkpoint: String,
    /// Its containers come back held.
    pub held: bool,
    /// The containers.
    pub containers: Vec<PreparedContainer>,
    /// All files and tickets are there.
    pub complete: bool,
}

/// A container that is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedContainer {
    /// Its name in the new pod.
    pub name: ContainerName,
    /// Its name in the pod of the checkpoint.
    pub was: ContainerName,
}

impl Prepared {
    /// One of which nothing is there yet.
    #[must_use]
    pub const fn new(pod_uid: PodUid, checkpoint: String, held: bool) -> Self {
        Self {
            version: VERSION,
            pod_uid,
            checkpoint,
            held,
            containers: Vec::new(),
            complete: false,
        }
    }

    /// Under which the tickets of its containers lie.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let key = |container: &PreparedContainer| Key::Pod {
            uid: self.pod_uid.clone(),
            container: container.name.clone(),
        };
        self.containers.iter().map(key).collect()
    }
}

impl Restores {
    /// Below the agent's folder.
    #[must_use]
    pub fn below(state: &Path) -> Self {
        Self {
            folder: state.join("restores"),
        }
    }

    /// Where the files of a pod's checkpoint lie.
    #[must_use]
    pub fn tree(&self, uid: &PodUid) -> PathBuf {
        self.of(uid).join("tree")
    }

    fn of(&self, uid: &PodUid) -> PathBuf {
        self.folder.join(uid.as_str())
    }

    /// What is prepared for a pod.
    ///
    /// # Errors
    /// A record that cannot be read or makes no sense.
    pub fn read(&self, uid: &PodUid) -> Result<Option<Prepared>, TicketError> {
        let path = self.of(uid).join(RECORD);
        let Some(content) = read_bounded(&path, MAX_RECORD)? else {
            return Ok(None);
        };
        let damaged = |reason| TicketError::Damaged {
            path: path.clone(),
            reason,
        };
        let prepared: Prepared =
            serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
        match (prepared.version, &prepared.pod_uid) {
            (VERSION, own) if own == uid => Ok(Some(prepared)),
            (VERSION, other) => Err(damaged(format!("it is about pod {other}"))),
            (version, _) => Err(TicketError::Version {
                path,
                version,
                known: VERSION,
            }),
        }
    }

    /// Writes that down, on the disk when this returns. Makes the folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, prepared: &Prepared) -> Result<(), TicketError> {
        let folder = self.of(&prepared.pod_uid);
        let mut builder = fs::DirBuilder::new();
        let made = builder.mode(0o700).recursive(true).create(&folder);
        made.map_err(TicketError::file("make", &folder))?;
        let text = serde_json::to_vec_pretty(prepared)
            .map_err(io::Error::other)
            .map_err(TicketError::file("encode", &folder))?;
        write_whole(&folder, RECORD, &text)
    }

    /// Removes the files of the checkpoint. The record stays.
    ///
    /// # Errors
    /// Something stays.
    pub fn remove_tree(&self, uid: &PodUid) -> Result<(), TicketError> {
        removed(&self.tree(uid))
    }

    /// Removes everything of a pod. None is as good.
    ///
    /// # Errors
    /// Something stays.
    pub fn remove(&self, uid: &PodUid) -> Result<(), TicketError> {
        removed(&self.of(uid))
    }

    /// Pods that something is prepared for.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn uids(&self) -> Result<Vec<PodUid>, Error> {
        let failed = |source| Error::Read {
            path: self.folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut uids = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            uids.extend(name.to_str().and_then(|name| name.parse().ok()));
        }
        uids.sort_unstable();
        Ok(uids)
    }
}

fn removed(folder: &Path) -> Result<(), TicketError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TicketError::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_read_and_removed() {
        let dir = tempfile::tempdir().expect("folder");
        let restores = Restores::below(dir.path());
        let uid: PodUid = "u-1".parse().expect("uid");
        assert_eq!(restores.read(&uid).expect("none"), None);
        restores.remove(&uid).expect("none");
        assert!(restores.uids().expect("none").is_empty());
        let mut prepared = Prepared::new(uid.clone(), "c".to_owned(), true);
        prepared.containers.push(PreparedContainer {
            name: "new".parse().expect("name"),
            was: "old".parse().expect("name"),
        });
        restores.write(&prepared).expect("written");
        assert_eq!(restores.read(&uid).expect("read"), Some(prepared));
        assert_eq!(restores.uids().expect("list"), std::slice::from_ref(&uid));
        let file = dir.path().join("restores/u-1/restore.json");
        let text = fs::read_to_string(&file).expect("there");
        for bad in [
            "",
            "{}",
            &text.replace("u-1", "u-2"),
            &text.replace("\"version\": 1", "\"version\": 2"),
            &text.replace("held", "hold"),
        ] {
            fs::write(&file, bad).expect("written");
            restores.read(&uid).expect_err(bad);
        }
        restores.remove(&uid).expect("removed");
        assert_eq!(restores.read(&uid).expect("none"), None);
    }
}
