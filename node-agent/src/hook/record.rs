//! What was written down about a container.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rocferry_topology::{ActualGpuId, RenderMinor};
use serde::{Deserialize, Serialize};

use super::state::ContainerState;
use crate::ticket::{ContainerId, TicketError, read_bounded, remove_synced, write_whole};

/// Version of the format.
const VERSION: u32 = 1;

/// Far more than a machine's GPUs take.
const MAX_FILE: u64 = 1 << 20;

const FOLDER: &str = "containers";

/// The GPUs that a container was given when it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecord {
    version: u32,
    /// The container.
    pub id: ContainerId,
    /// Folder of its bundle.
    pub bundle: PathBuf,
    /// In the order of the machine's topology.
    pub gpus: Vec<RecordedGpu>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedGpu {
    /// KFD's id of it, until the machine boots again.
    #[serde(with = "gpu_id")]
    pub gpu_id: ActualGpuId,
    /// Minor number of its render node.
    #[serde(with = "render_minor")]
    pub render_minor: RenderMinor,
}

impl ContainerRecord {
    /// A record to be put.
    #[must_use]
    pub fn new(state: ContainerState, gpus: Vec<RecordedGpu>) -> Self {
        Self {
            version: VERSION,
            id: state.id,
            bundle: state.bundle,
            gpus,
        }
    }
}

/// The records of a machine.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// Those below the agent's folder, which need not be there.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            folder: root.join(FOLDER),
        }
    }

    /// What is known of a container; `None` for one without GPUs.
    ///
    /// # Errors
    /// A file that cannot be read or makes no sense.
    pub fn get(&self, id: &ContainerId) -> Result<Option<ContainerRecord>, TicketError> {
        let path = self.folder.join(file_name(id));
        let Some(text) = read_bounded(&path, MAX_FILE)? else {
            return Ok(None);
        };
        let damaged = |reason| TicketError::Damaged {
            path: path.clone(),
            reason,
        };
        let record: ContainerRecord =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match record {
            ContainerRecord { version, .. } if version > VERSION => Err(TicketError::Version {
                path,
                version,
                known: VERSION,
            }),
            record if record.id != *id => Err(damaged(format!("it is of container {}", record.id))),
            record => Ok(Some(record)),
        }
    }

    /// Writes a record, in place of an older one of the same container.
    ///
    /// # Errors
    /// Every failure to write; then the older one is there.
    pub fn put(&self, record: &ContainerRecord) -> Result<(), TicketError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|source| TicketError::File {
                verb: "make",
                path: self.folder.clone(),
                source,
            })?;
        let name = file_name(&record.id);
        let text = serde_json::to_vec(record).map_err(|error| TicketError::Damaged {
            path: self.folder.join(&name),
            reason: error.to_string(),
        })?;
        write_whole(&self.folder, &name, &text)
    }

    /// Removes a container's record; none is as good.
    ///
    /// # Errors
    /// Every failure to remove it.
    pub fn remove(&self, id: &ContainerId) -> Result<(), TicketError> {
        remove_synced(&self.folder, &file_name(id))
    }
}

fn file_name(id: &ContainerId) -> String {
    format!("{id}.json")
}

macro_rules! as_number {
    ($module:ident, $type:ident) => {
        mod $module {
            use rocferry_topology::$type;
            use serde::{Deserialize, Deserializer, Serializer};

            pub(super) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                to.serialize_u32(value.0)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<$type, D::Error> {
                u32::deserialize(from).map($type)
            }
        }
    };
}

as_number!(gpu_id, ActualGpuId);
as_number!(render_minor, RenderMinor);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(id: &str) -> ContainerRecord {
        let state = ContainerState {
            id: id.parse().expect("id"),
            bundle: "/b".into(),
            pid: Some(1),
        };
        let gpu = RecordedGpu {
            gpu_id: ActualGpuId(28561),
            render_minor: RenderMinor(129),
        };
        ContainerRecord::new(state, vec![gpu])
    }

    #[test]
    fn a_record_is_there_until_it_is_removed() {
        let root = tempfile::tempdir().expect("folder");
        let records = Records::new(&root.path().join("not/there"));
        let (one, other) = (record("one"), record("other"));
        assert_eq!(records.get(&one.id).expect("none"), None);
        records.remove(&one.id).expect("none is as good");
        records.put(&one).expect("put");
        records.put(&one).expect("put again");
        records.put(&other).expect("another");
        assert_eq!(records.get(&one.id).expect("read"), Some(one.clone()));
        records.remove(&one.id).expect("removed");
        assert_eq!(records.get(&one.id).expect("none"), None);
        assert_eq!(records.get(&other.id).expect("read"), Some(other));
    }

    #[test]
    fn others_read_these_names() {
        let text = serde_json::to_string(&record("one")).expect("JSON");
        assert_eq!(
            text,
            r#"{"version":1,"id":"one","bundle":"/b","gpus":[{"gpuId":28561,"renderMinor":129}]}"#
        );
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        let root = tempfile::tempdir().expect("folder");
        let records = Records::new(root.path());
        let one = record("one");
        records.put(&one).expect("put");
        let path = root.path().join("containers/one.json");
        let good = fs::read_to_string(&path).expect("text");
        for text in [
            String::new(),
            good.replace("\"one\"", "\"other\""),
            good.replace(":1,", ":2,"),
            good.replace("129", "-1"),
            " ".repeat(2 << 20),
        ] {
            fs::write(&path, &text).expect("written");
            records
                .get(&one.id)
                .expect_err(&text[..text.len().min(100)]);
        }
    }
}
