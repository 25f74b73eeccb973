//! The initramfs: a cpio archive (newc format), written here and not compressed, as it is small.

use super::Kernel;
use crate::fingerprint::files_below;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules needed to reach the root file system. Missing ones are built into the kernel.
pub(super) const MODULES: [&str; 7] = [
    "virtio_blk",
    "squashfs",
    "overlay",
    "netfs",
    "9pnet",
    "9pnet_virtio",
    "9p",
];

/// The file of a module below a `modules/VERSION` folder.
pub(super) fn find_module(modules: &Path, name: &str) -> Result<Option<PathBuf>> {
    let file = format!("{name}.ko");
    let found = files_below(modules, &|p| {
        p.file_name().is_some_and(|n| n == file.as_str())
    })?;
    Ok(found.first().map(|p| modules.join(p)))
}

/// Writes the archive.
pub(super) fn write_initramfs(
    to: &Path,
    guest: &Path,
    agent: &Path,
    kernel: &Kernel,
) -> Result<()> {
    let mut cpio = Cpio::default();
    for dir in [
        "bin", "dev", "lower", "m", "newroot", "proc", "sys", "upper", "vm",
    ] {
        cpio.add(dir, 0o040_755, &[]);
    }
    let read =
        |path: PathBuf| fs::read(&path).with_context(|| format!("Cannot read {}", path.display()));
    cpio.add(
        "bin/busybox",
        0o100_755,
        &read(kernel.tree().join("usr/bin/busybox"))?,
    );
    cpio.add("init", 0o100_755, &read(guest.join("initramfs-init"))?);
    cpio.add("vm/init", 0o100_755, &read(guest.join("init"))?);
    cpio.add("vm/agent", 0o100_755, &read(agent.to_path_buf())?);
    let early = kernel.dir.join("early");
    for name in MODULES {
        let file = format!("{name}.ko");
        if early.join(&file).exists() {
            cpio.add(&format!("m/{file}"), 0o100_644, &read(early.join(&file))?);
        }
    }
    fs::write(to, cpio.finish()).with_context(|| format!("Cannot write {}", to.display()))
}

/// An archive in memory.
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    count: u32,
}

impl Cpio {
    /// Appends a member: a header of thirteen 8-digit hexadecimal numbers after the magic, the name with
    /// its zero byte, the data; name and data each padded to 4 bytes.
    fn add(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.count += 1;
        let links = if mode & 0o040_000 != 0 { 2 } else { 1 };
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        let fields = [
            self.count, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        let len = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(len, 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_aligned_and_counted() {
        let mut cpio = Cpio::default();
        cpio.add("abc", 0o100_644, b"hello");
        let bytes = cpio.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[54..62], b"00000005");
        assert_eq!(&bytes[94..102], b"00000004");
        assert_eq!(&bytes[110..114], b"abc\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
    }
}
