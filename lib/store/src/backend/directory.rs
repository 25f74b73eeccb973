//! Objects as files in a directory: a local disk, NFS, or a volume that several nodes mount.
//!
//! ```text
//! ROOT/NAME/store
//! ROOT/NAME/packs/5f/5f3c…
//! ROOT/NAME/checkpoints/20261130t014415-0123456789ab
//! ROOT/NAME/leases/.tmp-…           being written
//! ```
//!
//! Consistency: an object is written under another name in its own directory, made durable, and then linked
//! or renamed to its own, so that a reader sees nothing or all of it, also over NFS. Of several that write
//! with [`Existing::Keep`] the one whose `link(2)` succeeds wins.
//!
//! Crash: what is left of a write that was cut short is a `.tmp-` file that no list shows; a later list
//! removes it when it is [a day](ABANDONED) old. Completion: file and directory are synced before a call
//! returns.
//!
//! Cancellation: a call that has reached the file system is not stopped by dropping its future; it then
//! ends in the background, whole.
//!
//! Below ROOT no symbolic link is followed and nothing but regular files is read. ROOT itself has to exist:
//! where a volume should be mounted and is not, nothing is written to the disk below.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Backend, BackendError, Existing, Meta, ObjectWriter, range_length};
use crate::{Key, Kind, StoreName};

mod failure;
mod list;
mod place;
mod temporary;
mod writer;

use failure::Failure;
use place::Place;
use temporary::Temporary;
use writer::DirectoryWriter;

/// Age from which a temporary file counts as left behind: nobody waits that long between two writes.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A directory, see the [module](self).
#[derive(Clone, Debug)]
pub struct Directory {
    place: Arc<Place>,
}

impl Directory {
    /// The part of the directory `root` that belongs to `name`.
    ///
    /// # Errors
    /// [`BackendError::Url`] when there is no such directory.
    pub fn open(root: &Path, name: &StoreName) -> Result<Self, BackendError> {
        let refused = |reason: String| BackendError::Url {
            url: format!("file://{}", root.display()),
            reason,
        };
        let root: PathBuf =
            std::path::absolute(root).map_err(|error| refused(error.to_string()))?;
        match std::fs::metadata(&root) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(refused("Not a directory".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refused("No such directory; make it first".to_owned()));
            }
            Err(error) => return Err(refused(error.to_string())),
        }
        Ok(Self {
            place: Arc::new(Place::new(root, name)),
        })
    }

    /// Runs `work` on a thread that may block. `operation` and `object` are for its error.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: String,
        work: impl FnOnce(&Place) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, BackendError> {
        let place = self.place.clone();
        match tokio::task::spawn_blocking(move || work(&place)).await {
            Ok(done) => done.map_err(|failure| failure.into_error(operation, object)),
            Err(join) => Err(Failure::from(io::Error::other(join)).into_error(operation, object)),
        }
    }
}

#[async_trait]
impl Backend for Directory {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        let wanted = key.clone();
        self.blocking("Reading", key.to_string(), move |place| {
            read(place, &wanted, range, limit)
        })
        .await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        let wanted = key.clone();
        self.blocking("Looking at", key.to_string(), move |place| {
            let Some(dir) = place.find(&wanted)? else {
                return Ok(None);
            };
            match rustix::fs::statat(&dir, Place::file_name(&wanted), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => match list::meta(&stat) {
                    Some(meta) => Ok(Some(meta)),
                    None => Err(Failure::Foreign),
                },
                Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(errno.into()),
            }
        })
        .await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        _needs: &[Key],
    ) -> Result<(), BackendError> {
        let wanted = key.clone();
        self.blocking("Writing", key.to_string(), move |place| {
            let dir = place.make(&wanted)?;
            let name = Place::file_name(&wanted);
            if existing == Existing::Keep && exists(&dir, &name)? {
                return Err(Failure::Exists(wanted));
            }
            let mut temporary = Temporary::create(dir)?;
            temporary.write(&content)?;
            if temporary.commit(&name, existing)? {
                Ok(())
            } else {
                Err(Failure::Exists(wanted))
            }
        })
        .await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        let wanted = key.clone();
        let temporary = self
            .blocking("Writing", key.to_string(), move |place| {
                Ok(Temporary::create(place.make(&wanted)?)?)
            })
            .await?;
        Ok(Box::new(DirectoryWriter::new(key.clone(), temporary)))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        self.blocking("Listing", kind.dir().to_owned(), move |place| {
            list::list(place, kind)
        })
        .await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        let wanted = key.clone();
        self.blocking("Deleting", key.to_string(), move |place| {
            let Some(dir) = place.find(&wanted)? else {
                return Ok(());
            };
            match rustix::fs::unlinkat(&dir, Place::file_name(&wanted), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            }
        })
        .await
    }
}

fn exists(dir: &rustix::fd::OwnedFd, name: &str) -> Result<bool, Failure> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn read(place: &Place, key: &Key, range: Option<Range<u64>>, limit: u64) -> Result<Bytes, Failure> {
    let Some(dir) = place.find(key)? else {
        return Err(Failure::NotFound(key.clone()));
    };
    // Not blocking: a FIFO would otherwise be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&dir, Place::file_name(key), flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Err(Failure::NotFound(key.clone())),
        Err(Errno::LOOP) => return Err(Failure::Foreign),
        Err(errno) => return Err(errno.into()),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Failure::Foreign);
    }
    let range = range.unwrap_or(0..meta.len());
    let Some(length) = range_length(&range, meta.len()) else {
        return Err(Failure::Range(range, meta.len()));
    };
    if length > limit {
        return Err(Failure::TooLarge(key.clone(), limit));
    }
    let length = usize::try_from(length).map_err(|_| Failure::TooLarge(key.clone(), limit))?;
    // Not cleared first: that takes as long as reading from memory does.
    let mut content = Vec::with_capacity(length);
    let mut file = file;
    file.seek(SeekFrom::Start(range.start))?;
    file.take(length as u64).read_to_end(&mut content)?;
    match content.len() == length {
        true => Ok(content.into()),
        // It was cut meanwhile.
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}
