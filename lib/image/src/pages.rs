//! Files with the contents of buffer objects.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rocferry_topology::UserGpuId;

use crate::frame::{FRAME_HEADER, file_size, read_header, truncated};
use crate::{BoEntry, ImageError};

/// A buffer object within a pages file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// Index in the list of buffer objects.
    pub bo: usize,
    /// Where it starts, in bytes from the start of this file's content: add
    /// [`FRAME_HEADER`](crate::FRAME_HEADER) for the position in the file.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The pages file of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPages {
    /// The GPU.
    pub gpu: UserGpuId,
    /// Its VRAM and GTT objects, one after the other without gaps.
    pub parts: Vec<PagePart>,
    /// Length of the content in bytes: 0 for a GPU without objects, whose file exists all the same.
    pub total: u64,
}

/// The pages files of a process, one for each of its GPUs, in the order of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesLayout {
    /// One for each GPU.
    pub files: Vec<GpuPages>,
}

impl PagesLayout {
    /// Lays out the objects of the given GPUs. Objects of other GPUs, and sizes that add up to more than
    /// 64 bits hold, are what [`KfdImage`](crate::KfdImage) refuses before.
    pub(crate) fn new(gpus: impl Iterator<Item = UserGpuId>, bos: &[BoEntry]) -> Self {
        let mut files: Vec<GpuPages> = gpus
            .map(|gpu| GpuPages {
                gpu,
                parts: Vec::new(),
                total: 0,
            })
            .collect();
        for (index, bo) in bos
            .iter()
            .enumerate()
            .filter(|(_, bo)| bo.flags.has_contents())
        {
            if let Some(file) = files.iter_mut().find(|file| file.gpu == bo.gpu) {
                file.parts.push(PagePart {
                    bo: index,
                    offset: file.total,
                    size: bo.size,
                });
                file.total = file.total.saturating_add(bo.size);
            }
        }
        Self { files }
    }

    /// The file of this GPU.
    #[must_use]
    pub fn file(&self, gpu: UserGpuId) -> Option<&GpuPages> {
        self.files.iter().find(|file| file.gpu == gpu)
    }
}

/// Reads the header of a pages file and compares it with the sum of its objects. Afterwards the
/// descriptor stands at the first byte of content.
///
/// # Errors
/// [`ImageError::LengthMismatch`] when the lengths differ, [`ImageError::Truncated`] when a regular
/// file ends early (a pipe shows that only at the end), and every failure of reading.
pub fn check_pages(fd: OwnedFd, name: &str, expected: u64) -> Result<OwnedFd, ImageError> {
    let size = file_size(&fd).map_err(ImageError::io(name, "stat"))?;
    let mut file = File::from(fd);
    let actual = read_header(&mut file, name, None)?;
    if actual != expected {
        return Err(ImageError::LengthMismatch {
            name: name.to_owned(),
            expected,
            actual,
        });
    }
    check_size(name, size, expected)?;
    Ok(file.into())
}

/// Checks that a file of one GEM object (`amdgpu-drm-pages-*`) holds `expected` bytes after its
/// header, whatever the header says: the C plugin writes garbage there. Reads the header.
///
/// # Errors
/// [`ImageError::Truncated`], and every failure of reading.
pub fn check_drm_pages(fd: OwnedFd, name: &str, expected: u64) -> Result<OwnedFd, ImageError> {
    let size = file_size(fd.as_fd()).map_err(ImageError::io(name, "stat"))?;
    let mut file = File::from(fd);
    read_header(&mut file, name, None)?;
    check_size(name, size, expected)?;
    Ok(file.into())
}

fn check_size(name: &str, size: Option<u64>, content: u64) -> Result<(), ImageError> {
    let expected = content.saturating_add(FRAME_HEADER);
    match size {
        Some(size) if size < expected => Err(truncated(name, expected, size)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};

    use super::*;

    fn file(length: u64, content: &[u8]) -> OwnedFd {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&length.to_le_bytes()).expect("header");
        file.write_all(content).expect("content");
        io::Seek::rewind(&mut file).expect("rewind");
        file.into()
    }

    fn pipe(length: u64, content: &[u8]) -> OwnedFd {
        let (reader, mut writer) = io::pipe().expect("pipe");
        writer.write_all(&length.to_le_bytes()).expect("header");
        writer.write_all(content).expect("content");
        reader.into()
    }

    #[test]
    fn the_length_must_be_the_sum_of_the_objects() {
        for open in [file, pipe] {
            let fd = check_pages(open(4, b"abcd"), "pages", 4).expect("fits");
            let mut content = String::new();
            File::from(fd)
                .read_to_string(&mut content)
                .expect("content");
            assert_eq!(content, "abcd");
            for (length, expected) in [(4, 5), (4, 3), (4, 0), (0, 4), (u64::MAX, 4)] {
                let error =
                    check_pages(open(length, b"abcd"), "pages", expected).expect_err("differs");
                let ImageError::LengthMismatch {
                    expected: e,
                    actual,
                    ..
                } = error
                else {
                    panic!("{error}")
                };
                assert_eq!((e, actual), (expected, length));
            }
        }
        check_pages(file(0, b""), "pages", 0).expect("a GPU without objects");
        check_pages(file(4, b"abcdefgh"), "pages", 4).expect("stale tail of an older file");
    }

    #[test]
    fn a_file_that_ends_early_is_refused() {
        let error = check_pages(file(5, b"abcd"), "pages", 5).expect_err("short");
        assert!(matches!(
            error,
            ImageError::Truncated {
                expected: 13,
                actual: 12,
                ..
            }
        ));
        let empty = tempfile::tempfile().expect("file").into();
        let error = check_pages(empty, "pages", 0).expect_err("no header");
        assert!(matches!(
            error,
            ImageError::Truncated {
                expected: 8,
                actual: 0,
                ..
            }
        ));
    }

    #[test]
    fn the_header_of_a_gem_object_may_hold_anything() {
        for header in [0, 4, 77, u64::MAX] {
            check_drm_pages(file(header, b"abcd"), "drm", 4).expect("enough bytes");
            let error = check_drm_pages(file(header, b"abcd"), "drm", 5).expect_err("short");
            assert!(matches!(
                error,
                ImageError::Truncated {
                    expected: 13,
                    actual: 12,
                    ..
                }
            ));
        }
    }
}
