//! What CRIU does not record about an open file of ours.

use prost::Message;
use rocferry_topology::UserGpuId;

use crate::walk::{decode, need};
use crate::{FileId, FormatError, Image, TaskPid, wire};

const MESSAGE: &str = "rocferry-file";
pub(crate) const VERSION: u32 = 1;

/// Content of `rocferry-file-%d.img`, one for each open /dev/kfd and render node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// What it is.
    pub kind: FileKind,
    /// `fcntl(F_GETFL)`: access mode and status flags, in the numbers of x86-64.
    pub status_flags: u32,
    /// The process whose GPU state the file belongs to.
    pub task: TaskPid,
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// /dev/kfd, with the process's state in the kfd image of the same id.
    Kfd,
    /// A further open of /dev/kfd by the same process.
    KfdAlias {
        /// The file whose kfd image holds the state.
        of: FileId,
    },
    /// A render node.
    Render {
        /// The GPU behind it.
        gpu: UserGpuId,
        /// This file's GPU address space is the one that KFD uses for the process (ACQUIRE_VM).
        primary: bool,
    },
}

impl Image for FileRecord {
    const MAX: u64 = 4096;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let record: wire::FileRecord = decode(MESSAGE, content)?;
        check_version(MESSAGE, need!(MESSAGE, None, record.version), VERSION)?;
        let kind = match need!(MESSAGE, None, record.kind) {
            1 => FileKind::Kfd,
            2 => FileKind::KfdAlias {
                of: FileId(need!(MESSAGE, None, record.alias_of)),
            },
            3 => FileKind::Render {
                gpu: UserGpuId(need!(MESSAGE, None, record.gpu_id)),
                primary: need!(MESSAGE, None, record.primary),
            },
            kind => {
                let (message, field, value) = (MESSAGE, "kind", kind.into());
                return Err(FormatError::InvalidValue {
                    message,
                    index: None,
                    field,
                    value,
                });
            }
        };
        Ok(Self {
            kind,
            status_flags: need!(MESSAGE, None, record.status_flags),
            task: TaskPid(need!(MESSAGE, None, record.task_pid)),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut record = wire::FileRecord {
            version: Some(VERSION),
            status_flags: Some(self.status_flags),
            task_pid: Some(self.task.0),
            ..wire::FileRecord::default()
        };
        match self.kind {
            FileKind::Kfd => record.kind = Some(1),
            FileKind::KfdAlias { of } => {
                record.kind = Some(2);
                record.alias_of = Some(of.0);
            }
            FileKind::Render { gpu, primary } => {
                record.kind = Some(3);
                record.gpu_id = Some(gpu.get());
                record.primary = Some(primary);
            }
        }
        record.encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        Ok(())
    }
}

/// Refuses what a later rocferry wrote. Fields may be added within a version; a change that an older
/// reader must not overlook raises it.
pub(crate) fn check_version(
    message: &'static str,
    version: u32,
    supported: u32,
) -> Result<(), FormatError> {
    if version == 0 || version > supported {
        return Err(FormatError::Version {
            message,
            version,
            supported,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = FileKind> {
        prop_oneof![
            Just(FileKind::Kfd),
            any::<i32>().prop_map(|of| FileKind::KfdAlias { of: FileId(of) }),
            any::<(u32, bool)>().prop_map(|(gpu, primary)| FileKind::Render {
                gpu: UserGpuId(gpu),
                primary
            }),
        ]
    }

    #[test]
    fn the_format_stays() {
        let record = FileRecord {
            kind: FileKind::Kfd,
            status_flags: 0o2,
            task: TaskPid(7),
        };
        assert_eq!(record.encode(), [0x08, 1, 0x10, 1, 0x18, 2, 0x20, 7]);
        let record = FileRecord {
            kind: FileKind::KfdAlias { of: FileId(3) },
            ..record
        };
        assert_eq!(
            record.encode(),
            [0x08, 1, 0x10, 2, 0x18, 2, 0x20, 7, 0x28, 3]
        );
        let kind = FileKind::Render {
            gpu: UserGpuId(5),
            primary: true,
        };
        let record = FileRecord { kind, ..record };
        assert_eq!(
            record.encode(),
            [0x08, 1, 0x10, 3, 0x18, 2, 0x20, 7, 0x30, 5, 0x38, 1]
        );
    }

    #[test]
    fn damage_is_refused() {
        let missing = |field| {
            Err(FormatError::MissingField {
                message: MESSAGE,
                index: None,
                field,
            })
        };
        assert_eq!(FileRecord::decode(&[]), missing("version"));
        assert_eq!(FileRecord::decode(&[0x08, 1]), missing("kind"));
        assert_eq!(
            FileRecord::decode(&[0x08, 1, 0x10, 1]),
            missing("status_flags")
        );
        assert_eq!(
            FileRecord::decode(&[0x08, 1, 0x10, 1, 0x18, 2]),
            missing("task_pid")
        );
        assert_eq!(
            FileRecord::decode(&[0x08, 1, 0x10, 2, 0x18, 2, 0x20, 7]),
            missing("alias_of")
        );
        assert_eq!(
            FileRecord::decode(&[0x08, 1, 0x10, 3, 0x18, 2, 0x20, 7]),
            missing("gpu_id")
        );
        assert_eq!(
            FileRecord::decode(&[0x08, 1, 0x10, 3, 0x18, 2, 0x20, 7, 0x30, 5]),
            missing("primary")
        );
        assert!(matches!(
            FileRecord::decode(&[0x08, 1, 0x10, 4, 0x18, 2, 0x20, 7]),
            Err(FormatError::InvalidValue {
                field: "kind",
                value: 4,
                ..
            })
        ));
        for version in [0, 2] {
            assert_eq!(
                FileRecord::decode(&[0x08, version, 0x10, 1, 0x18, 2, 0x20, 7]),
                Err(FormatError::Version {
                    message: MESSAGE,
                    version: version.into(),
                    supported: 1
                })
            );
        }
    }

    proptest! {
        #[test]
        fn records_come_back(kind in kinds(), status_flags: u32, task: u32) {
            let record = FileRecord { kind, status_flags, task: TaskPid(task) };
            prop_assert_eq!(FileRecord::decode(&record.encode()), Ok(record));
        }

        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = FileRecord::decode(&content);
        }
    }
}
