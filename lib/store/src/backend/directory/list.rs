//! What objects of a kind a directory holds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use super::failure::Failure;
use super::place::{Place, open_dir};
use super::{ABANDONED, temporary};
use crate::backend::Meta;
use crate::{Key, Kind};

/// Size and age of a regular file.
pub(super) fn meta(stat: &Stat) -> Option<Meta> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    Some(Meta {
        size: u64::try_from(stat.st_size).ok()?,
        modified: modified(stat),
    })
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

pub(super) fn list(place: &Place, kind: Kind) -> Result<Vec<(Key, Meta)>, Failure> {
    let mut found = Vec::new();
    let Some(dir) = place.find_kind(kind)? else {
        return Ok(found);
    };
    match kind {
        Kind::Store => {
            take(&dir, kind, None, &mut found)?;
            if let Some(meta) = stat(&dir, &Place::file_name(&Key::Store))? {
                found.push((Key::Store, meta));
            }
        }
        Kind::Pack => {
            for fan in names(&dir)? {
                if fan.len() != 2 {
                    continue;
                }
                match open_dir(&dir, &fan) {
                    Ok(packs) => take(&packs, kind, Some(&fan), &mut found)?,
                    // Removed meanwhile, or not ours.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        _ => take(&dir, kind, None, &mut found)?,
    }
    Ok(found)
}

/// Adds the objects in one directory, and removes what old writes left there.
fn take(
    dir: &OwnedFd,
    kind: Kind,
    fan: Option<&str>,
    found: &mut Vec<(Key, Meta)>,
) -> Result<(), Failure> {
    for name in names(dir)? {
        if name.starts_with(temporary::PREFIX) {
            sweep(dir, &name);
            continue;
        }
        let Some(key) = Key::from_parts(kind, &name) else {
            continue;
        };
        if Place::fan(&key).as_deref() != fan {
            continue;
        }
        if let Some(meta) = stat(dir, &name)? {
            found.push((key, meta));
        }
    }
    Ok(())
}

fn names(dir: &OwnedFd) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        // A name that is no UTF-8 is not ours.
        if let Ok(name) = entry?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// None for what has gone meanwhile, and for what is no file.
fn stat(dir: &OwnedFd, name: &str) -> Result<Option<Meta>, Failure> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(meta(&stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes an old temporary file. Failures are left to the next list.
fn sweep(dir: &OwnedFd, name: &str) {
    let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    let old = modified(&stat)
        .and_then(|time| time.elapsed().ok())
        .is_some_and(|age| age > ABANDONED);
    if old {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}
