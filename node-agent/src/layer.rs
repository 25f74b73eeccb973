//! Puts saved files where a new container will find them: the changes of a root file system (the layer of an image, in
//! which names that begin with `.wh.` stand for deletions), and the content of `/dev/shm` and of volumes.
//!
//! The layer may come from anywhere. Nothing outside of the folder is touched, whatever it says: names are plain, every
//! parent is opened below the folder and through no symbolic link, and whatever is there already is removed, not
//! followed. Devices are refused.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rocferry_store::archive;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid,
    XattrFlags, chmodat, chownat, fchmod, fchown, fsetxattr, linkat, mkdirat, mkfifoat, openat,
    openat2, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};
use thiserror::Error;

/// Beginning of a name that stands for a deletion.
const WHITEOUT: &[u8] = b".wh.";
/// Name that empties its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Longest path, in bytes.
const MAX_PATH: usize = 4096;
/// Deepest folder that is removed with all that is in it.
const MAX_DEPTH: usize = 256;
/// Extended attributes in a tar.
const ATTRIBUTE: &str = "SCHILY.xattr.";
/// Those that may be set.
const KEPT: [&str; 2] = ["security.capability", "user."];

/// The files cannot be put there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The archive cannot be read.
    #[error("Cannot read the saved files")]
    Archive(#[source] io::Error),
    /// It is none, or compressed in a way that is not known.
    #[error("Cannot read the saved files")]
    Form(#[from] archive::ReadError),
    /// A member that is not taken.
    #[error("Refused {name:?} among the saved files: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// Something cannot be made or removed.
    #[error("Cannot change {} below the folder that the saved files go to", .path.display())]
    Change {
        /// What.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl LayerError {
    /// Trying again makes no sense.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Applies the layer in a file to the folder. False: there is no such file.
///
/// # Errors
/// As [`apply`].
pub fn apply_file(file: &Path, folder: &Path) -> Result<bool, LayerError> {
    // Opening a pipe would wait for somebody to write into it; a link may lead anywhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = match openat(CWD, file, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(LayerError::Archive(errno.into())),
    };
    let layer = archive::open_layer(File::from(opened))?;
    apply(BufReader::with_capacity(1 << 20, layer), folder)?;
    Ok(true)
}

/// Applies a layer to the folder.
///
/// # Errors
/// The first one; what came before it stays.
pub fn apply(layer: impl Read, folder: &Path) -> Result<(), LayerError> {
    let root = openat(
        CWD,
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| change(folder)(errno.into()))?;
    let mut archive = Archive::new(layer);
    // Folders get their times last: what is made in them changes these.
    let mut times = Vec::new();
    for entry in archive.entries().map_err(LayerError::Archive)? {
        let mut entry = entry.map_err(LayerError::Archive)?;
        // Podman lists the folder itself.
        let folder = entry.header().entry_type() == EntryType::Directory;
        if folder && matches!(&*entry.path_bytes(), b"." | b"./") {
            continue;
        }
        let path = plain(&entry.path_bytes())?;
        member(&root, &path, &mut entry)?;
        if entry.header().entry_type() == EntryType::Directory {
            times.push((path, entry.header().mtime().unwrap_or(0)));
        }
    }
    for (path, seconds) in times.into_iter().rev() {
        let (parent, name) = split(&root, &path)?;
        match set_time(&parent, &name, seconds) {
            // Deleted again by a later member.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(change(&path)(errno.into())),
        }
    }
    Ok(())
}

/// A path of nothing but names.
fn plain(bytes: &[u8]) -> Result<PathBuf, LayerError> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let refused = |reason| {
        Err(LayerError::Refused {
            name: path.display().to_string(),
            reason,
        })
    };
    if bytes.len() > MAX_PATH || bytes.contains(&0) {
        return refused("its name is too long, or has a zero byte");
    }
    let mut names = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return refused("its name leads out of the folder"),
        }
    }
    match names.as_os_str().is_empty() {
        true => refused("it has no name"),
        false => Ok(names),
    }
}

/// The folder that it is in, and its name there.
fn split(root: &OwnedFd, path: &Path) -> Result<(OwnedFd, OsString), LayerError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(root, parent, flags, Mode::empty(), resolve);
    let opened = opened.map_err(|errno| change(parent)(errno.into()))?;
    Ok((opened, path.file_name().unwrap_or_default().to_owned()))
}

fn member<R: Read>(
    root: &OwnedFd,
    path: &Path,
    entry: &mut Entry<'_, R>,
) -> Result<(), LayerError> {
    let failed = |errno: Errno| change(path)(errno.into());
    let (parent, name) = split(root, path)?;
    if name.as_bytes() == OPAQUE {
        return empty(&parent, 0).map_err(failed);
    }
    if let Some(deleted) = name.as_bytes().strip_prefix(WHITEOUT) {
        let deleted = OsStr::from_bytes(deleted);
        if deleted.is_empty() || deleted.as_bytes().starts_with(WHITEOUT) {
            return Err(refused(path, "nothing is deleted by such a name"));
        }
        return remove(&parent, deleted, 0).map_err(failed);
    }
    let kind = entry.header().entry_type();
    let there = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW);
    let is_folder =
        there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if !(kind == EntryType::Directory && is_folder) {
        remove(&parent, &name, 0).map_err(failed)?;
    }
    match kind {
        EntryType::Directory => {
            if !is_folder {
                mkdirat(&parent, &name, Mode::RWXU).map_err(failed)?;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = openat(&parent, &name, flags, Mode::empty()).map_err(failed)?;
            finish(&made, path, entry)
        }
        EntryType::Regular | EntryType::Continuous => {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = openat(&parent, &name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let mut made = File::from(made);
            io::copy(entry, &mut made).map_err(change(path))?;
            finish(&made, path, entry)?;
            set_time(&parent, &name, entry.header().mtime().unwrap_or(0)).map_err(failed)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default();
            symlinkat(OsStr::from_bytes(&target), &parent, &name).map_err(failed)?;
            let (uid, gid) = owner(path, entry)?;
            chownat(&parent, &name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
        }
        EntryType::Link => {
            let target = plain(&entry.link_name_bytes().unwrap_or_default())?;
            let (from, first) = split(root, &target)?;
            // Not through a symbolic link: the link itself would be linked.
            linkat(&from, &first, &parent, &name, AtFlags::empty()).map_err(failed)
        }
        EntryType::Fifo => {
            mkfifoat(&parent, &name, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let (uid, gid) = owner(path, entry)?;
            chownat(&parent, &name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            // Just made, in a folder that nobody else works in.
            chmodat(&parent, &name, mode(path, entry)?, AtFlags::empty()).map_err(failed)
        }
        EntryType::Char | EntryType::Block => Err(refused(path, "it is a device")),
        _ => Err(refused(path, "it is of a kind that is not known")),
    }
}

/// Owner first: a change of owner takes set-user-id away.
fn finish<R: Read>(
    made: impl AsFd,
    path: &Path,
    entry: &mut Entry<'_, R>,
) -> Result<(), LayerError> {
    let failed = |errno: Errno| change(path)(errno.into());
    let (uid, gid) = owner(path, entry)?;
    fchown(&made, uid, gid).map_err(failed)?;
    fchmod(&made, mode(path, entry)?).map_err(failed)?;
    let Some(extensions) = entry.pax_extensions().map_err(LayerError::Archive)? else {
        return Ok(());
    };
    for extension in extensions {
        let extension = extension.map_err(LayerError::Archive)?;
        let name = extension
            .key()
            .ok()
            .and_then(|key| key.strip_prefix(ATTRIBUTE));
        let Some(name) = name.filter(|name| KEPT.iter().any(|kept| name.starts_with(kept))) else {
            continue;
        };
        match fsetxattr(&made, name, extension.value_bytes(), XattrFlags::empty()) {
            // This file system has none.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}

fn owner<R: Read>(
    path: &Path,
    entry: &Entry<'_, R>,
) -> Result<(Option<Uid>, Option<Gid>), LayerError> {
    let number = |number: io::Result<u64>| {
        let number = number.ok().and_then(|number| u32::try_from(number).ok());
        number
            // -1 would mean: leave it.
            .filter(|number| *number != u32::MAX)
            .ok_or_else(|| refused(path, "its owner is no number"))
    };
    let header = entry.header();
    let (uid, gid) = (number(header.uid())?, number(header.gid())?);
    Ok((Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
}

fn mode<R: Read>(path: &Path, entry: &Entry<'_, R>) -> Result<Mode, LayerError> {
    let mode = entry.header().mode();
    let mode = mode.map_err(|_| refused(path, "its mode is no number"))?;
    Ok(Mode::from_bits_truncate(mode & 0o7777))
}

fn set_time(parent: &OwnedFd, name: &OsStr, seconds: u64) -> Result<(), Errno> {
    let time = Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(0),
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Removes what has this name, with all that is in it. Nothing there is fine.
fn remove(parent: impl AsFd, name: &OsStr, depth: usize) -> Result<(), Errno> {
    match unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(&parent, name, flags, Mode::empty())?;
    empty(&folder, depth)?;
    unlinkat(&parent, name, AtFlags::REMOVEDIR)
}

fn empty(folder: &OwnedFd, depth: usize) -> Result<(), Errno> {
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        let name = OsStr::from_bytes(name.to_bytes());
        if name != "." && name != ".." {
            remove(folder, name, depth + 1)?;
        }
    }
    Ok(())
}

fn refused(path: &Path, reason: &'static str) -> LayerError {
    LayerError::Refused {
        name: path.display().to_string(),
        reason,
    }
}

fn change(path: &Path) -> impl FnOnce(io::Error) -> LayerError {
    let path = path.to_owned();
    move |source| LayerError::Change { path, source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use tar::{Builder, Header};

    use super::*;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o640);
        header.set_uid(rustix::process::getuid().as_raw().into());
        header.set_gid(rustix::process::getgid().as_raw().into());
        header.set_mtime(77);
        header
    }

    /// Names are put in as they are: the library would refuse some.
    fn raw(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, link: &str, data: &[u8]) {
        let mut header = header(kind, data.len() as u64);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, data).expect("appended");
    }

    type Member<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

    fn layer(members: &[Member<'_>]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (kind, name, link, data) in members {
            raw(&mut builder, *kind, name, link, data);
        }
        builder.into_inner().expect("a tar")
    }

    use EntryType::{Block, Char, Directory, Link, Regular, Symlink};

    #[test]
    fn changes_and_deletions_arrive() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        fs::create_dir_all(root.join("gone/deep/er")).expect("made");
        fs::write(root.join("gone/deep/er/file"), "x").expect("written");
        fs::create_dir(root.join("hidden")).expect("made");
        fs::write(root.join("hidden/old"), "x").expect("written");
        fs::write(root.join("kept"), "kept").expect("written");
        fs::write(root.join("was-file"), "x").expect("written");
        let bytes = layer(&[
            (Regular, ".wh.gone", "", b""),
            (Regular, ".wh.not-there", "", b""),
            (Directory, "hidden/", "", b""),
            (Regular, "hidden/.wh..wh..opq", "", b""),
            (Regular, "hidden/new", "", b"new"),
            (Directory, "was-file", "", b""),
            (Symlink, "was-file/link", "../kept", b""),
            (Link, "linked", "hidden/new", b""),
        ]);
        apply(bytes.as_slice(), root).expect("applied");
        assert!(!root.join("gone").exists());
        assert!(!root.join("hidden/old").exists());
        assert_eq!(fs::read(root.join("hidden/new")).expect("there"), b"new");
        assert_eq!(
            fs::read(root.join("was-file/link")).expect("there"),
            b"kept"
        );
        let meta = fs::metadata(root.join("hidden/new")).expect("there");
        assert_eq!(
            (meta.nlink(), meta.permissions().mode() & 0o7777),
            (2, 0o640)
        );
        assert_eq!(
            (
                meta.mtime(),
                fs::metadata(root.join("hidden")).expect("there").mtime()
            ),
            (77, 77)
        );
    }

    #[test]
    fn nothing_outside_is_touched() {
        let dir = tempfile::tempdir().expect("a folder");
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for path in [&root, &outside] {
            fs::create_dir(path).expect("made");
        }
        fs::write(outside.join("file"), "safe").expect("written");
        symlink(&outside, root.join("out")).expect("linked");
        symlink(outside.join("file"), root.join("file")).expect("linked");
        let hostile: &[&[Member<'_>]] = &[
            &[(Regular, "../outside/file", "", b"bad")],
            &[(Regular, "/outside/file", "", b"bad")],
            &[(Regular, "out/file", "", b"bad")],
            &[(Regular, "out/.wh.file", "", b"")],
            &[(Regular, "out/.wh..wh..opq", "", b"")],
            &[(Link, "x", "out/file", b"")],
            &[(Link, "x", "../outside/file", b"")],
            &[
                (Symlink, "y", "../outside", b""),
                (Regular, "y/file", "", b"bad"),
            ],
            &[(Char, "null", "", b"")],
            &[(Block, "disk", "", b"")],
            &[(Regular, ".wh..wh.x", "", b"")],
            &[(Regular, ".wh.", "", b"")],
            &[(Regular, "./", "", b"")],
            &[(Directory, "..", "", b"")],
        ];
        for members in hostile {
            let error = apply(layer(members).as_slice(), &root).expect_err("refused");
            assert!(!error.to_string().is_empty(), "{members:?}");
            assert_eq!(
                fs::read(outside.join("file")).expect("there"),
                b"safe",
                "{members:?}"
            );
            assert_eq!(
                fs::metadata(outside.join("file")).expect("there").nlink(),
                1
            );
        }
        // A link is replaced, not followed; a deletion takes the link.
        let bytes = layer(&[(Regular, "file", "", b"new"), (Regular, ".wh.out", "", b"")]);
        apply(bytes.as_slice(), &root).expect("applied");
        assert_eq!(fs::read(outside.join("file")).expect("there"), b"safe");
        assert_eq!(fs::read(root.join("file")).expect("there"), b"new");
        assert!(!root.join("out").exists() && outside.is_dir());
    }

    #[test]
    fn a_layer_that_is_cut_off_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut bytes = layer(&[(Regular, "a", "", &[1; 2000])]);
        bytes.truncate(1500);
        let error = apply(bytes.as_slice(), dir.path()).expect_err("cut off");
        assert!(matches!(
            error,
            LayerError::Change { .. } | LayerError::Archive(_)
        ));
    }
}
