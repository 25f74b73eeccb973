//! Small files that are there as a whole or not at all.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::error::TicketError;

/// The content of a plain file of at most `limit` bytes; `None` if there is none.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, TicketError> {
    // Opening a pipe would wait for somebody to write into it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(TicketError::file("open", path)(errno)),
    };
    let stat = fstat(&file).map_err(TicketError::file("look at", path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(TicketError::Damaged {
            path: path.to_owned(),
            reason: "it is no plain file".to_owned(),
        });
    }
    let mut content = Vec::new();
    File::from(file)
        .take(limit + 1)
        .read_to_end(&mut content)
        .map_err(TicketError::file("read", path))?;
    if content.len() as u64 > limit {
        return Err(TicketError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(Some(content))
}

/// Writes `folder/name` with mode 600 so that a reader, also after a crash of the machine, sees the old content or
/// the new one. Only one writer at a time for each name.
pub(crate) fn write_whole(folder: &Path, name: &str, content: &[u8]) -> Result<(), TicketError> {
    let path = folder.join(name);
    let temporary = format!(".{name}.new");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = open(folder, flags, Mode::empty()).map_err(TicketError::file("open", folder))?;
    // What a crash has left.
    match unlinkat(&dir, &temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(TicketError::file("clear the way for", &path)(errno)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(&dir, &temporary, flags, Mode::RUSR | Mode::WUSR)
        .map_err(TicketError::file("create", &path))?;
    let mut file = File::from(file);
    let written = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(TicketError::file("write", &path))
        .and_then(|()| {
            renameat(&dir, &temporary, &dir, name).map_err(TicketError::file("replace", &path))
        });
    if let Err(error) = written {
        // The first error is the one to report.
        let _ = unlinkat(&dir, &temporary, AtFlags::empty());
        return Err(error);
    }
    File::from(dir)
        .sync_all()
        .map_err(TicketError::file("sync", folder))
}

/// Removes a file for good; none is as good.
pub(crate) fn remove_synced(folder: &Path, name: &str) -> Result<(), TicketError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = match open(folder, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(TicketError::file("open", folder)(errno)),
    };
    match unlinkat(&dir, name, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(TicketError::file("remove", folder.join(name))(errno)),
    }
    File::from(dir)
        .sync_all()
        .map_err(TicketError::file("sync", folder))
}
