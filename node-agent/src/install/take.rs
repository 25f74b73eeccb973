//! Undoing.

use std::fs;
use std::io;

use super::change::Change;
use super::containerd;
use super::criu_conf;
use super::error::InstallError;
use super::file::{Content, remove};
use super::host::Host;
use super::record::Record;

/// Undoes a change. A line about it if somebody has changed the file since: it is left alone then.
pub(super) fn take(
    host: &Host,
    record: &mut Record,
    change: &Change,
) -> Result<Option<String>, InstallError> {
    let left = match change {
        Change::Folder { path } => {
            match fs::remove_dir(host.real(path)) {
                Ok(()) => {}
                // Others have put something there: it is theirs now.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                    ) => {}
                Err(error) => return Err(InstallError::file("remove", path)(error)),
            }
            None
        }
        Change::File {
            path,
            digest,
            aside,
        } => {
            let real = host.real(path);
            let before = aside.as_deref().map(|name| record.kept(name)).transpose()?;
            let before = before.flatten();
            match (Content::read(&real)?, &before) {
                // It was never put there.
                (Some(found), Some(before)) if found == *before => None,
                (Some(found), _) if found.digest() != *digest => {
                    let kept = aside.as_deref().map_or_else(String::new, |name| {
                        format!(
                            "; what was there before is {}",
                            record.aside(name).display()
                        )
                    });
                    Some(format!(
                        "{} was changed since, it is left as it is{kept}",
                        path.display()
                    ))
                }
                (_, Some(before)) => {
                    before.write(&real)?;
                    None
                }
                (_, None) => {
                    remove(&real)?;
                    None
                }
            }
        }
        Change::Lines { path, made } => {
            criu_conf::undo(host, path, *made)?;
            None
        }
        Change::Containerd {
            path,
            digest,
            aside,
        } => containerd::undo(host, record, path, digest, aside)?,
    };
    if left.is_none() {
        record.forget(change.path())?;
        if let Change::File {
            aside: Some(name), ..
        }
        | Change::Containerd { aside: name, .. } = change
        {
            remove(&record.aside(name))?;
        }
    }
    Ok(left)
}
