//! The list of processes and threads: `pstree.img`.

use crate::frame::truncated;
use crate::walk::{decode, required};
use crate::wire::PstreeEntry;
use crate::{FormatError, ImageDir, ImageError, names};

use super::entries::entries;

/// `PSTREE_MAGIC`.
const PSTREE_MAGIC: u32 = 0x5027_3030;

const MESSAGE: &str = "pstree_entry";

/// Most processes: what `pid_max` can be at most.
const MAX_PROCESSES: usize = 1 << 22;

/// A process of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its pid, in the pid namespace in which CRIU sees it.
    pub pid: u32,
    /// Its threads, the first one included; none of a zombie.
    pub threads: Vec<u32>,
}

/// The highest thread id of any process in `pstree.img`, in the pid namespace in which CRIU sees them.
///
/// # Errors
/// A file that is missing, cannot be read or is damaged, or holds no process.
pub fn highest_tid(dir: &dyn ImageDir) -> Result<u32, ImageError> {
    let mut highest = None;
    let length = each(dir, |process| {
        highest = highest.max(Some(process.pid));
        highest = highest.max(process.threads.into_iter().max());
        Ok(())
    })?;
    highest.ok_or_else(|| truncated(names::PSTREE, length + 4, length))
}

/// All processes of `pstree.img`.
///
/// # Errors
/// As [`highest_tid`]; more processes than there can be.
pub fn processes(dir: &dyn ImageDir) -> Result<Vec<Process>, ImageError> {
    let (mut found, mut tasks) = (Vec::new(), 0);
    let length = each(dir, |process| {
        tasks += 1 + process.threads.len();
        found.push(process);
        match tasks > MAX_PROCESSES {
            true => Err(FormatError::TooMany {
                field: MESSAGE,
                limit: MAX_PROCESSES,
            }),
            false => Ok(()),
        }
    })?;
    match found.is_empty() {
        true => Err(truncated(names::PSTREE, length + 4, length)),
        false => Ok(found),
    }
}

fn each(
    dir: &dyn ImageDir,
    mut process: impl FnMut(Process) -> Result<(), FormatError>,
) -> Result<u64, ImageError> {
    entries(dir, names::PSTREE, PSTREE_MAGIC, |index, content| {
        let entry: PstreeEntry = decode(MESSAGE, content)?;
        process(Process {
            pid: required(MESSAGE, Some(index), "pid", entry.pid)?,
            threads: entry.threads,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use prost::Message;
    use tempfile::TempDir;

    use super::super::entries::COMMON_MAGIC;
    use super::*;
    use crate::FdDir;

    fn highest(content: &[u8]) -> Result<u32, ImageError> {
        let temporary = TempDir::new().expect("directory");
        fs::write(temporary.path().join(names::PSTREE), content).expect("file");
        highest_tid(&FdDir(File::open(temporary.path()).expect("directory")))
    }

    fn image(magics: &[u32], entries: &[(u32, &[u32])]) -> Vec<u8> {
        let entry = |(pid, threads): &(u32, &[u32])| {
            PstreeEntry {
                pid: Some(*pid),
                threads: threads.to_vec(),
            }
            .encode_to_vec()
        };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        super::super::entries::image(magics, &entries)
    }

    #[test]
    fn all_processes_are_listed() {
        let temporary = TempDir::new().expect("directory");
        let content = image(&[COMMON_MAGIC, PSTREE_MAGIC], &[(10, &[10, 99]), (40, &[])]);
        fs::write(temporary.path().join(names::PSTREE), content).expect("file");
        let dir = FdDir(File::open(temporary.path()).expect("directory"));
        let found = processes(&dir).expect("image");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].pid, found[0].threads.as_slice()),
            (10, &[10, 99][..])
        );
        let content = image(&[COMMON_MAGIC, PSTREE_MAGIC], &[]);
        fs::write(temporary.path().join(names::PSTREE), content).expect("file");
        processes(&dir).expect_err("nobody");
    }

    #[test]
    fn threads_and_processes_count() {
        let magics = [COMMON_MAGIC, PSTREE_MAGIC];
        let entries: [(u32, &[u32]); 2] = [(10, &[10, 99, 11]), (40, &[40])];
        assert_eq!(highest(&image(&magics, &entries)).expect("image"), 99);
        // Zombies have no threads; the oldest images have one magic number.
        assert_eq!(
            highest(&image(&magics[1..], &[(10, &[10]), (40, &[])])).expect("image"),
            40
        );
    }

    /// An entry as CRIU writes it, all fields: pid 300, ppid 0, pgid 300, sid 300, threads 300 and 301.
    #[test]
    fn the_layout_is_that_of_criu() {
        let content = [
            &[0x19, 0x43, 0x56, 0x54, 0x30, 0x30, 0x27, 0x50, 17, 0, 0, 0][..],
            &[
                0x08, 0xac, 0x02, 0x10, 0, 0x18, 0xac, 0x02, 0x20, 0xac, 0x02,
            ],
            &[0x28, 0xac, 0x02, 0x28, 0xad, 0x02],
        ]
        .concat();
        assert_eq!(highest(&content).expect("image"), 301);
    }

    #[test]
    fn damage_is_refused() {
        let good = image(&[COMMON_MAGIC, PSTREE_MAGIC], &[(10, &[10, 99, 11])]);
        for cut in (0..good.len()).filter(|cut| *cut != 4) {
            let error = highest(&good[..cut]).expect_err("cut off");
            assert!(
                matches!(
                    error,
                    ImageError::Truncated { .. } | ImageError::Format { .. }
                ),
                "{error}"
            );
        }
        let error = highest(&image(&[COMMON_MAGIC, 5], &[])).expect_err("magic");
        assert!(matches!(
            error,
            ImageError::Format {
                source: FormatError::Magic { magic: 5, .. },
                ..
            }
        ));
        let mut long = good[..8].to_vec();
        long.extend(u32::MAX.to_le_bytes());
        assert!(matches!(highest(&long), Err(ImageError::TooLarge { .. })));
        let mut nameless = good[..8].to_vec();
        nameless.extend(0u32.to_le_bytes());
        assert!(matches!(
            highest(&nameless),
            Err(ImageError::Format {
                source: FormatError::MissingField { field: "pid", .. },
                ..
            })
        ));
        let empty = TempDir::new().expect("directory");
        let error = highest_tid(&FdDir(File::open(empty.path()).expect("directory")));
        assert!(matches!(error, Err(ImageError::Missing { .. })));
    }
}
