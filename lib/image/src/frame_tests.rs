use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::{DmabufImage, FdDir};

const NAME: &str = "amdgpu-dmabuf_1.img";

fn dir() -> (TempDir, FdDir<File>) {
    let temporary = TempDir::new().expect("directory");
    let dir = FdDir(File::open(temporary.path()).expect("directory"));
    (temporary, dir)
}

fn open(path: &Path) -> OwnedFd {
    File::open(path).expect("file").into()
}

fn pipe(content: &[u8]) -> OwnedFd {
    let (reader, mut writer) = io::pipe().expect("pipe");
    writer.write_all(content).expect("fits the pipe");
    reader.into()
}

#[test]
fn images_are_written_and_read_back() {
    let (temporary, dir) = dir();
    let image = DmabufImage { gem_handle: 5 };
    write_image(&dir, NAME, &image).expect("written");
    let path = temporary.path().join(NAME);
    assert_eq!(
        fs::read(&path).expect("file"),
        [2, 0, 0, 0, 0, 0, 0, 0, 0x08, 5]
    );
    let mode = fs::metadata(&path).expect("file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(read_image(&dir, NAME).expect("read"), Some(image));
    assert_eq!(
        read_image::<DmabufImage>(&dir, "amdgpu-dmabuf_2.img").expect("none"),
        None
    );
    assert_eq!(dir.list().expect("list"), Some(vec![NAME.to_owned()]));
    assert_eq!(dir.list().expect("again"), Some(vec![NAME.to_owned()]));
}

/// F7: nothing of an older, longer file is left.
#[test]
fn an_older_longer_file_is_replaced() {
    let (temporary, dir) = dir();
    fs::write(temporary.path().join(NAME), [7; 1000]).expect("old file");
    write_image(&dir, NAME, &DmabufImage { gem_handle: 5 }).expect("written");
    assert_eq!(
        fs::metadata(temporary.path().join(NAME))
            .expect("file")
            .len(),
        10
    );
}

/// F7: a full disk is an error.
#[test]
fn a_full_disk_is_reported() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let error = write_frame(full.into(), NAME, b"content").expect_err("no space");
    let ImageError::Io {
        name,
        action: "write",
        source,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (name.as_str(), source.kind()),
        (NAME, io::ErrorKind::StorageFull)
    );
}

#[test]
fn a_file_that_cannot_be_created_is_named() {
    let (temporary, dir) = dir();
    fs::create_dir(temporary.path().join(NAME)).expect("in the way");
    let error = write_image(&dir, NAME, &DmabufImage { gem_handle: 5 }).expect_err("a directory");
    assert_eq!(error.to_string(), format!("Cannot create {NAME}"));
    // A link would lead the dump out of its directory.
    let outside = temporary.path().join("outside");
    std::os::unix::fs::symlink(&outside, temporary.path().join("link")).expect("link");
    write_image(&dir, "link", &DmabufImage { gem_handle: 5 }).expect_err("a link");
    assert!(!outside.exists());
}

#[test]
fn trailing_bytes_are_ignored() {
    let content = [3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5];
    let temporary = TempDir::new().expect("directory");
    fs::write(temporary.path().join(NAME), content).expect("file");
    let fd = open(&temporary.path().join(NAME));
    assert_eq!(read_frame(fd, NAME, 100).expect("content"), [1, 2, 3]);
    assert_eq!(
        read_frame(pipe(&content), NAME, 100).expect("content"),
        [1, 2, 3]
    );
    assert_eq!(read_frame(pipe(&[0; 8]), NAME, 100).expect("empty"), [0; 0]);
}

#[test]
fn a_pipe_is_written_and_read_in_pieces() {
    let (reader, writer) = io::pipe().expect("pipe");
    let content: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let expected = content.clone();
    let thread = std::thread::spawn(move || write_frame(writer.into(), NAME, &content));
    let read = read_frame(reader.into(), NAME, MAX_CONTENT).expect("content");
    thread.join().expect("thread").expect("written");
    assert!(read == expected);
}

/// CRIU's image streamer fails when the reader goes away before the end of a file.
#[test]
fn a_pipe_is_read_to_its_end() {
    let (reader, mut writer) = io::pipe().expect("pipe");
    let rest = vec![0; 1 << 20];
    let writing = std::thread::spawn(move || {
        writer.write_all(b"\x01\0\0\0\0\0\0\0x")?;
        writer.write_all(&rest)
    });
    assert_eq!(read_frame(reader.into(), NAME, 8).expect("read"), b"x");
    let written = writing.join().expect("thread");
    assert!(written.is_ok(), "{written:?}");
}

#[test]
fn short_files_are_truncated() {
    let temporary = TempDir::new().expect("directory");
    let path = temporary.path().join(NAME);
    for (content, expected) in [
        (&[][..], 8),
        (&[3, 0, 0, 0, 0, 0, 0], 8),
        (&[3, 0, 0, 0, 0, 0, 0, 0], 11),
        (&[3, 0, 0, 0, 0, 0, 0, 0, 1, 2], 11),
    ] {
        fs::write(&path, content).expect("file");
        for fd in [open(&path), pipe(content)] {
            let error = read_frame(fd, NAME, 100).expect_err("short");
            let ImageError::Truncated {
                expected: e,
                actual,
                ..
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!((e, actual), (expected, content.len() as u64));
        }
    }
}

#[test]
fn absurd_lengths_are_refused_before_memory_is_taken() {
    for length in [101, 1 << 40, u64::MAX] {
        let error = read_frame(pipe(&length.to_le_bytes()), NAME, 100).expect_err("too long");
        let ImageError::TooLarge {
            length: found,
            limit: 100,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(found, length);
    }
    // Within the limit, but not there: takes what arrives and no more.
    let error = read_frame(pipe(&MAX_CONTENT.to_le_bytes()), NAME, MAX_CONTENT);
    assert!(matches!(
        error,
        Err(ImageError::Truncated { actual: 8, .. })
    ));
    let temporary = TempDir::new().expect("directory");
    let path = temporary.path().join(NAME);
    fs::write(&path, u64::MAX.to_le_bytes()).expect("file");
    let error = read_frame(open(&path), NAME, 100).expect_err("too long");
    assert!(matches!(
        error,
        ImageError::Truncated {
            expected: u64::MAX,
            actual: 8,
            ..
        }
    ));
}

#[test]
fn damaged_content_is_named() {
    let (temporary, dir) = dir();
    fs::write(temporary.path().join(NAME), 0u64.to_le_bytes()).expect("file");
    let error = read_image::<DmabufImage>(&dir, NAME).expect_err("no handle");
    assert_eq!(error.to_string(), format!("{NAME} is damaged"));
    let ImageError::Format { source, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        source.to_string(),
        "criu_dmabuf_node: field gem_handle is missing"
    );
}

#[test]
fn a_value_that_does_not_validate_is_not_written() {
    let (temporary, dir) = dir();
    let index = crate::BlockIndex {
        block_size: 3,
        bos: vec![],
    };
    let error = write_image(&dir, NAME, &index).expect_err("block size");
    assert!(matches!(error, ImageError::Format { .. }));
    assert!(!temporary.path().join(NAME).exists());
}
