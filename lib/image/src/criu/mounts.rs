//! The mounts of a namespace: `mountpoints-%u.img`.

use crate::walk::{decode, required};
use crate::wire::MntEntry;
use crate::{FormatError, ImageDir, ImageError, names};

use super::entries::entries;

/// `MNTS_MAGIC`.
const MNTS_MAGIC: u32 = 0x5556_3928;

const MESSAGE: &str = "mnt_entry";

/// More than any container has: the kernel's default for a namespace is 100,000.
const MAX_MOUNTS: usize = 1 << 20;

/// A mount that a restore makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Kind of file system.
    pub kind: FileSystem,
    /// Its number; mounts of one file system share it.
    pub device: u32,
    /// What is mounted of it: `/` for all.
    pub root: String,
    /// Where it is in the container.
    pub place: String,
    /// Name that the restore must be given something for, if it comes from outside.
    pub external: Option<String>,
    /// It comes from outside, or a plugin makes it.
    pub is_external: bool,
}

/// Kind of file system, as far as CRIU knows them (`enum fstype`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// One by name, as `/proc/filesystems` has it.
    Named(String),
    /// Anything: a bind mount, or what CRIU mounts by the name that the kernel gave it.
    Other(u32),
}

/// Names in the order of their numbers; empty: not named.
const NAMES: [&str; 24] = [
    "",
    "proc",
    "sysfs",
    "devtmpfs",
    "binfmt_misc",
    "tmpfs",
    "devpts",
    "simfs",
    "pstore",
    "securityfs",
    "fusectl",
    "debugfs",
    "cgroup",
    "aufs",
    "mqueue",
    "fuse",
    "",
    "overlay",
    "autofs",
    "tracefs",
    "",
    "",
    "",
    "cgroup2",
];

/// Number for what CRIU knows only by its name (`--enable-fs`).
const AUTO: u32 = 16;

/// The mounts of all namespaces in the folder.
///
/// # Errors
/// A file that cannot be read or is damaged; a folder whose files cannot be listed.
pub fn mounts(dir: &dyn ImageDir) -> Result<Vec<Mount>, ImageError> {
    let list = dir.list().map_err(ImageError::io("the folder", "list"))?;
    let mut list: Vec<String> = list.unwrap_or_default();
    list.retain(|name| names::is_mounts(name));
    list.sort_unstable();
    let mut found = Vec::new();
    for name in list {
        entries(dir, &name, MNTS_MAGIC, |index, content| {
            if found.len() >= MAX_MOUNTS {
                return Err(FormatError::TooMany {
                    field: MESSAGE,
                    limit: MAX_MOUNTS,
                });
            }
            found.push(mount(index, decode(MESSAGE, content)?)?);
            Ok(())
        })?;
    }
    Ok(found)
}

fn mount(index: usize, entry: MntEntry) -> Result<Mount, FormatError> {
    let at = Some(index);
    let number = required(MESSAGE, at, "fstype", entry.fstype)?;
    let name = usize::try_from(number).ok().and_then(|at| NAMES.get(at));
    let kind = match (name, entry.fsname) {
        (_, Some(name)) if number == AUTO => FileSystem::Named(name),
        (Some(name), _) if !name.is_empty() => FileSystem::Named((*name).to_owned()),
        _ => FileSystem::Other(number),
    };
    let external = entry.ext_key.filter(|key| !key.is_empty());
    let flags = [entry.ext_mount, entry.with_plugin];
    Ok(Mount {
        kind,
        device: required(MESSAGE, at, "root_dev", entry.root_dev)?,
        root: required(MESSAGE, at, "root", entry.root)?,
        place: required(MESSAGE, at, "mountpoint", entry.mountpoint)?,
        is_external: external.is_some() || flags.contains(&Some(true)),
        external,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use prost::Message;
    use tempfile::TempDir;

    use super::super::entries::{COMMON_MAGIC, image};
    use super::*;
    use crate::FdDir;

    fn entry(fstype: u32) -> MntEntry {
        MntEntry {
            fstype: Some(fstype),
            mnt_id: Some(1),
            root_dev: Some(7),
            parent_mnt_id: Some(0),
            root: Some("/".to_owned()),
            mountpoint: Some("/x".to_owned()),
            ..MntEntry::default()
        }
    }

    fn read(content: &[u8]) -> Result<Vec<Mount>, ImageError> {
        let temporary = TempDir::new().expect("directory");
        fs::write(temporary.path().join("mountpoints-12.img"), content).expect("file");
        fs::write(temporary.path().join("mountpoints-.img"), "other").expect("file");
        mounts(&FdDir(File::open(temporary.path()).expect("directory")))
    }

    fn list(entries: &[MntEntry]) -> Vec<u8> {
        let entries: Vec<_> = entries.iter().map(Message::encode_to_vec).collect();
        image(&[COMMON_MAGIC, MNTS_MAGIC], &entries)
    }

    #[test]
    fn kinds_have_the_kernels_names() {
        let mut auto = entry(AUTO);
        auto.fsname = Some("ext4".to_owned());
        let mut outside = entry(0);
        outside.ext_key = Some("/data".to_owned());
        let mut lies = entry(1);
        lies.fsname = Some("ext4".to_owned());
        let found = read(&list(&[
            entry(5),
            entry(23),
            entry(17),
            auto,
            outside,
            lies,
        ]))
        .expect("image");
        let kinds: Vec<_> = found.iter().map(|mount| mount.kind.clone()).collect();
        let named = |name: &str| FileSystem::Named(name.to_owned());
        assert_eq!(
            kinds,
            [
                named("tmpfs"),
                named("cgroup2"),
                named("overlay"),
                named("ext4"),
                FileSystem::Other(0),
                named("proc"),
            ]
        );
        assert_eq!(found[4].external.as_deref(), Some("/data"));
        assert!(found[4].is_external && !found[0].is_external);
        assert_eq!((found[0].device, found[0].place.as_str()), (7, "/x"));
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let good = list(&[entry(5)]);
        for cut in (1..good.len()).filter(|cut| *cut != 8) {
            read(&good[..cut]).expect_err("cut off");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x81;
            let _ = read(&bad);
        }
        let mut nowhere = entry(5);
        nowhere.mountpoint = None;
        read(&list(&[nowhere])).expect_err("nowhere");
        assert!(read(&list(&[])).expect("none").is_empty());
    }
}
