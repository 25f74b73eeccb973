//! A folder as a tar: the upper folder of an overlay becomes the layer of an image, in which names that begin with
//! `.wh.` stand for deletions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::error::Error;

/// Marks a folder that hides everything below it in the layers under it.
const OPAQUE: &str = ".wh..wh..opq";
/// Extended attributes by which an overlay says so.
const OPAQUE_ATTRIBUTES: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];
/// Extended attributes that are kept: capabilities of programs, and the user's own.
const KEPT: [&str; 2] = ["security.capability", "user."];
/// Largest extended attribute, in bytes.
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Writes everything below a folder, parents first. Sockets are left out: CRIU makes them again.
pub(super) fn write(root: &Path, to: &mut dyn Write) -> Result<(), Error> {
    let mut builder = Builder::new(to);
    builder.follow_symlinks(false);
    builder.sparse(false);
    let mut links: HashMap<(u64, u64), PathBuf> = HashMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(dir) = waiting.pop() {
        let at = root.join(&dir);
        let failed = |source| Error::Read {
            path: at.clone(),
            source,
        };
        let mut names: Vec<OsString> = fs::read_dir(&at)
            .map_err(failed)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        names.sort();
        for name in names {
            let relative = dir.join(name);
            let meta = add(&mut builder, root, &relative, &mut links)?;
            if meta.is_dir() {
                waiting.push(relative);
            }
        }
    }
    let done = builder.finish();
    done.map_err(|source| Error::Read {
        path: root.to_owned(),
        source,
    })
}

fn add(
    builder: &mut Builder<&mut dyn Write>,
    root: &Path,
    relative: &Path,
    links: &mut HashMap<(u64, u64), PathBuf>,
) -> Result<Metadata, Error> {
    let path = root.join(relative);
    let failed = |source| Error::Read {
        path: path.clone(),
        source,
    };
    let meta = path.symlink_metadata().map_err(failed)?;
    let kind = meta.file_type();
    let mut header = Header::new_gnu();
    header.set_metadata(&meta);
    header.set_size(0);
    if kind.is_char_device() && meta.rdev() == 0 {
        // The overlay's sign for a deletion.
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0);
        let name = whiteout(relative);
        builder
            .append_data(&mut header, name, std::io::empty())
            .map_err(failed)?;
        return Ok(meta);
    }
    if kind.is_socket() {
        return Ok(meta);
    }
    if !meta.is_dir() && meta.nlink() > 1 {
        let key = (meta.dev(), meta.ino());
        if let Some(first) = links.get(&key) {
            header.set_entry_type(EntryType::Link);
            builder
                .append_link(&mut header, relative, first)
                .map_err(failed)?;
            return Ok(meta);
        }
        links.insert(key, relative.to_owned());
    }
    let attributes = attributes(&path).map_err(failed)?;
    if !kind.is_symlink() && !attributes.is_empty() {
        let pax = attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()));
        builder.append_pax_extensions(pax).map_err(failed)?;
    }
    let done = if meta.is_file() {
        header.set_entry_type(EntryType::Regular);
        header.set_size(meta.len());
        let file = File::open(&path).map_err(failed)?;
        builder.append_data(&mut header, relative, file)
    } else if kind.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        let target = fs::read_link(&path).map_err(failed)?;
        builder.append_link(&mut header, relative, target)
    } else {
        let kind = if meta.is_dir() {
            EntryType::Directory
        } else if kind.is_fifo() {
            EntryType::Fifo
        } else if kind.is_block_device() {
            EntryType::Block
        } else {
            EntryType::Char
        };
        header.set_entry_type(kind);
        if matches!(kind, EntryType::Block | EntryType::Char) {
            let (major, minor) = (
                rustix::fs::major(meta.rdev()),
                rustix::fs::minor(meta.rdev()),
            );
            header.set_device_major(major).map_err(failed)?;
            header.set_device_minor(minor).map_err(failed)?;
        }
        builder.append_data(&mut header, relative, std::io::empty())
    };
    done.map_err(failed)?;
    if meta.is_dir() && is_opaque(&path) {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(0);
        header.set_mode(0);
        builder
            .append_data(&mut header, relative.join(OPAQUE), std::io::empty())
            .map_err(failed)?;
    }
    Ok(meta)
}

/// The name that stands for the deletion of a path.
fn whiteout(path: &Path) -> PathBuf {
    let mut name = b".wh.".to_vec();
    name.extend(path.file_name().unwrap_or_default().as_encoded_bytes());
    path.with_file_name(OsString::from_vec(name))
}

fn is_opaque(path: &Path) -> bool {
    OPAQUE_ATTRIBUTES
        .iter()
        .any(|name| attribute(path, name).is_ok_and(|value| value == b"y"))
}

/// Extended attributes that are kept, by their names in a tar.
fn attributes(path: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0; MAX_ATTRIBUTE];
    let length = match rustix::fs::llistxattr(path, &mut names) {
        Ok(length) => length,
        // This file system has none.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(errno.into()),
    };
    let mut found = Vec::new();
    for name in names
        .get(..length)
        .unwrap_or_default()
        .split(|byte| *byte == 0)
    {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let kept = KEPT.iter().any(|kept| name.starts_with(kept));
        if kept && !name.is_empty() && !OPAQUE_ATTRIBUTES.contains(&name) {
            found.push((format!("SCHILY.xattr.{name}"), attribute(path, name)?));
        }
    }
    Ok(found)
}

fn attribute(path: &Path, name: &str) -> std::io::Result<Vec<u8>> {
    let mut value = vec![0; MAX_ATTRIBUTE];
    let length = rustix::fs::lgetxattr(path, name, &mut value)?;
    value.truncate(length);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn everything_that_was_changed_is_in_the_layer() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        fs::create_dir_all(root.join("etc/empty")).expect("made");
        fs::write(root.join("etc/file"), "content").expect("written");
        let mode = fs::Permissions::from_mode(0o4751);
        fs::set_permissions(root.join("etc/file"), mode).expect("ours");
        fs::hard_link(root.join("etc/file"), root.join("linked")).expect("linked");
        symlink("../nowhere", root.join("etc/link")).expect("linked");
        let _socket = UnixListener::bind(root.join("socket")).expect("bound");
        let long = "n".repeat(200);
        fs::write(root.join(&long), "").expect("written");
        let mut bytes = Vec::new();
        write(root, &mut bytes).expect("a tar");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut found = BTreeMap::new();
        for entry in archive.entries().expect("a tar") {
            let entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let link = entry.link_name().expect("a path");
            let link = link.map(|link| link.display().to_string());
            let mode = entry.header().mode().expect("a mode");
            found.insert(path, (entry.header().entry_type(), mode & 0o7777, link));
        }
        assert_eq!(found.len(), 6, "{found:?}");
        assert_eq!(found["etc/empty"].0, EntryType::Directory);
        assert!(found.contains_key(&long));
        assert_eq!(found["etc/link"].2.as_deref(), Some("../nowhere"));
        // The first one that comes is the file.
        assert_eq!(found["linked"], (EntryType::Regular, 0o4751, None));
        assert_eq!(found["etc/file"].0, EntryType::Link);
        assert_eq!(found["etc/file"].2.as_deref(), Some("linked"));
    }

    #[test]
    fn a_deletion_has_a_name_beside_the_deleted() {
        assert_eq!(whiteout(Path::new("a/b")), Path::new("a/.wh.b"));
        assert_eq!(whiteout(Path::new("b")), Path::new(".wh.b"));
    }
}
