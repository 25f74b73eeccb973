//! CRIU's list of processes and threads, as far as the plugin needs it.
//!
//! CRIU frames its own images in another way: two magic numbers (images before version 1.1 have the
//! second one only), then entries of 4 bytes of length and a protobuf message each (CRIU's
//! `criu/include/magic.h` and `criu/protobuf.c`, 3.17 to 4.2).

use std::fs::File;
use std::io::{BufReader, Read};

use crate::frame::truncated;
use crate::walk::{decode, required};
use crate::wire::PstreeEntry;
use crate::{FormatError, ImageDir, ImageError, names};

/// `IMG_COMMON_MAGIC`.
const COMMON_MAGIC: u32 = 0x5456_4319;
/// `PSTREE_MAGIC`.
const PSTREE_MAGIC: u32 = 0x5027_3030;
/// Bytes of an entry: a process with every possible thread (4 million, at most 6 bytes each) fits.
const MAX_ENTRY: u32 = 32 << 20;

/// The highest thread id of any process in `pstree.img`, in the pid namespace in which CRIU sees them.
///
/// # Errors
/// A file that is missing, cannot be read or is damaged, or holds no process.
pub fn highest_tid(dir: &dyn ImageDir) -> Result<u32, ImageError> {
    let name = names::PSTREE;
    let fd = dir.open(name).map_err(ImageError::io(name, "open"))?;
    let fd = fd.ok_or_else(|| ImageError::Missing {
        name: name.to_owned(),
    })?;
    let mut input = Input {
        input: BufReader::new(File::from(fd)),
        position: 0,
    };
    let mut magic = input.u32()?.unwrap_or_default();
    if magic == COMMON_MAGIC {
        magic = input.u32()?.unwrap_or_default();
    }
    if magic != PSTREE_MAGIC {
        let error = FormatError::Magic {
            magic,
            expected: PSTREE_MAGIC,
        };
        return Err(ImageError::format(name)(error));
    }
    let mut highest = None;
    let mut index = 0;
    while let Some(length) = input.u32()? {
        let content = input.entry(length)?;
        let entry: PstreeEntry =
            decode("pstree_entry", &content).map_err(ImageError::format(name))?;
        let pid = required("pstree_entry", Some(index), "pid", entry.pid)
            .map_err(ImageError::format(name))?;
        highest = highest.max(Some(pid)).max(entry.threads.into_iter().max());
        index += 1;
    }
    highest.ok_or_else(|| truncated(name, input.position + 4, input.position))
}

struct Input {
    input: BufReader<File>,
    position: u64,
}

impl Input {
    /// Up to `length` bytes, fewer only at the end of the file.
    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        (&mut self.input)
            .take(length.into())
            .read_to_end(&mut bytes)
            .map_err(ImageError::io(names::PSTREE, "read"))?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// A number, or `None` at the end of the file.
    fn u32(&mut self) -> Result<Option<u32>, ImageError> {
        let start = self.position;
        let bytes = self.bytes(4)?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(truncated(names::PSTREE, start + 4, self.position)),
        }
    }

    fn entry(&mut self, length: u32) -> Result<Vec<u8>, ImageError> {
        if length > MAX_ENTRY {
            let (name, length, limit) = (names::PSTREE.to_owned(), length.into(), MAX_ENTRY.into());
            return Err(ImageError::TooLarge {
                name,
                length,
                limit,
            });
        }
        let start = self.position;
        let bytes = self.bytes(length)?;
        if bytes.len() as u64 != u64::from(length) {
            return Err(truncated(
                names::PSTREE,
                start + u64::from(length),
                self.position,
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prost::Message;
    use tempfile::TempDir;

    use super::*;
    use crate::FdDir;

    fn highest(content: &[u8]) -> Result<u32, ImageError> {
        let temporary = TempDir::new().expect("directory");
        fs::write(temporary.path().join(names::PSTREE), content).expect("file");
        highest_tid(&FdDir(File::open(temporary.path()).expect("directory")))
    }

    fn image(magics: &[u32], entries: &[(u32, &[u32])]) -> Vec<u8> {
        let mut content: Vec<u8> = magics.iter().copied().flat_map(u32::to_le_bytes).collect();
        for (pid, threads) in entries {
            let entry = PstreeEntry {
                pid: Some(*pid),
                threads: threads.to_vec(),
            };
            let entry = entry.encode_to_vec();
            content.extend(u32::try_from(entry.len()).expect("short").to_le_bytes());
            content.extend(entry);
        }
        content
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
