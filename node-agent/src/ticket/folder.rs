//! The folder with tickets and fences.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::content::{State, TICKET_VERSION, Ticket};
use super::error::TicketError;
use super::fence::{FENCE_VERSION, Fence};
use super::files::{read_bounded, remove_synced, write_whole};
use super::lock::TicketLock;
use super::name::Key;
use super::unpacked::{UNPACKED_VERSION, Unpacked};

/// Where it is unless told otherwise.
pub const DEFAULT_FOLDER: &str = "/var/lib/rocferry";

/// Far more than the longest ticket.
const MAX_FILE: u64 = 1 << 20;

const TICKETS: &str = "tickets";
const FENCES: &str = "fences";
const VOLUMES: &str = "volumes";

/// Tickets and fences of a node.
#[derive(Clone, Debug)]
pub struct TicketFolder {
    root: PathBuf,
}

impl TicketFolder {
    /// The folder at this place; it need not be there.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The container's ticket, if it has one.
    ///
    /// # Errors
    /// A folder or file that cannot be read, is not safe, or makes no sense.
    pub fn ticket(&self, key: &Key) -> Result<Option<Ticket>, TicketError> {
        let Some((path, ticket)) = self.read::<Ticket>(TICKETS, key, TICKET_VERSION)? else {
            return Ok(None);
        };
        match ticket.fault() {
            None => Ok(Some(ticket)),
            Some(reason) => Err(TicketError::Damaged { path, reason }),
        }
    }

    /// The container's fence, if it has one.
    ///
    /// # Errors
    /// As [`Self::ticket`].
    pub fn fence(&self, key: &Key) -> Result<Option<Fence>, TicketError> {
        let fence = self.read::<Fence>(FENCES, key, FENCE_VERSION)?;
        Ok(fence.map(|(_, fence)| fence))
    }

    /// Writes a container's ticket, replacing another one.
    ///
    /// # Errors
    /// A ticket that makes no sense, somebody who works with the old one, and every failure to write: then the old one
    /// is there.
    pub fn put(&self, key: &Key, ticket: &Ticket) -> Result<(), TicketError> {
        let folder = self.make(TICKETS)?;
        let name = file_name(key);
        if let Some(reason) = ticket.fault() {
            let path = folder.join(name);
            return Err(TicketError::Damaged { path, reason });
        }
        let _lock = self.lock(key)?;
        let content = json(&folder, &name, ticket)?;
        write_whole(&folder, &name, &content)
    }

    /// Changes a ticket, under its lock.
    ///
    /// # Errors
    /// No ticket, a step that its state does not allow, and every failure to write.
    pub fn change(
        &self,
        _lock: &TicketLock,
        key: &Key,
        change: impl FnOnce(&mut Ticket),
    ) -> Result<Ticket, TicketError> {
        let old = self.ticket(key)?.ok_or_else(|| TicketError::None {
            key: key.to_string(),
        })?;
        let mut ticket = old.clone();
        change(&mut ticket);
        if !old.state.may_become(&ticket.state) {
            return Err(TicketError::State {
                key: key.to_string(),
                state: old.state.word(),
                wanted: ticket.state.word(),
            });
        }
        let (folder, name) = (self.make(TICKETS)?, file_name(key));
        write_whole(&folder, &name, &json(&folder, &name, &ticket)?)?;
        Ok(ticket)
    }

    /// Uses a held container's ticket up. To be called **before** the thaw: a `create` after it obeys
    /// `on_container_restart`.
    ///
    /// # Errors
    /// As [`Self::change`]; a container that is not held, and somebody who is restoring it.
    pub fn use_up(&self, key: &Key) -> Result<Ticket, TicketError> {
        let lock = self.lock(key)?;
        self.change(&lock, key, |ticket| {
            if let State::Held { container, .. } = &ticket.state {
                ticket.state = State::Used {
                    container: container.clone(),
                };
            }
        })
        .and_then(|ticket| match ticket.state {
            State::Used { .. } => Ok(ticket),
            state => Err(TicketError::State {
                key: key.to_string(),
                state: state.word(),
                wanted: "used",
            }),
        })
    }

    /// Makes a ticket ready again whose container has not run after all: the machine went down between the ticket's use and
    /// the thaw. Only the journal can tell.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn take_back(&self, key: &Key) -> Result<(), TicketError> {
        let _lock = self.lock(key)?;
        let mut ticket = self.ticket(key)?.ok_or_else(|| TicketError::None {
            key: key.to_string(),
        })?;
        ticket.state = State::Ready;
        let (folder, name) = (self.make(TICKETS)?, file_name(key));
        write_whole(&folder, &name, &json(&folder, &name, &ticket)?)
    }

    /// Takes a ticket away.
    ///
    /// # Errors
    /// Somebody who works with it, and a file that stays.
    pub fn remove(&self, key: &Key) -> Result<(), TicketError> {
        let folder = self.root.join(TICKETS);
        if !folder.exists() {
            return Ok(());
        }
        let _lock = self.lock(key)?;
        remove_synced(&folder, &file_name(key))?;
        remove_synced(&folder, &lock_name(key))
    }

    /// Keeps everybody else from working with this ticket.
    ///
    /// # Errors
    /// [`TicketError::Busy`], and a lock that cannot be made.
    pub fn lock(&self, key: &Key) -> Result<TicketLock, TicketError> {
        TicketLock::take(&self.make(TICKETS)?.join(lock_name(key)))
    }

    /// What has been filled of the volumes of a container's pod.
    ///
    /// # Errors
    /// As [`Self::ticket`].
    pub fn unpacked(&self, key: &Key) -> Result<Unpacked, TicketError> {
        let name = pod_file_name(key);
        let unpacked = self.read_named(VOLUMES, &name, UNPACKED_VERSION)?;
        Ok(unpacked.map_or_else(Unpacked::default, |(_, unpacked)| unpacked))
    }

    /// Writes that down. Under [`Self::lock_volumes`].
    ///
    /// # Errors
    /// Every failure to write.
    pub fn put_unpacked(
        &self,
        _lock: &TicketLock,
        key: &Key,
        unpacked: &Unpacked,
    ) -> Result<(), TicketError> {
        let (folder, name) = (self.make(VOLUMES)?, pod_file_name(key));
        write_whole(&folder, &name, &json(&folder, &name, unpacked)?)
    }

    /// Forgets what has been filled.
    ///
    /// # Errors
    /// A file that stays.
    pub fn forget_unpacked(&self, key: &Key) -> Result<(), TicketError> {
        let folder = self.root.join(VOLUMES);
        remove_synced(&folder, &pod_file_name(key))?;
        remove_synced(&folder, &format!("{}.lock", key.pod_stem()))
    }

    /// Keeps everybody else from filling volumes of this pod.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_volumes(&self, key: &Key) -> Result<TicketLock, TicketError> {
        let folder = self.make(VOLUMES)?;
        TicketLock::take(&folder.join(format!("{}.lock", key.pod_stem())))
    }

    /// Fences a container.
    ///
    /// # Errors
    /// Every failure to write.
    pub fn put_up_fence(&self, key: &Key, fence: &Fence) -> Result<(), TicketError> {
        let (folder, name) = (self.make(FENCES)?, file_name(key));
        write_whole(&folder, &name, &json(&folder, &name, fence)?)
    }

    /// Takes a fence away.
    ///
    /// # Errors
    /// A file that stays.
    pub fn take_down_fence(&self, key: &Key) -> Result<(), TicketError> {
        remove_synced(&self.root.join(FENCES), &file_name(key))
    }

    /// Containers that have a ticket.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn ticket_keys(&self) -> Result<Vec<Key>, TicketError> {
        self.keys(TICKETS)
    }

    /// Containers that have a fence.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn fence_keys(&self) -> Result<Vec<Key>, TicketError> {
        self.keys(FENCES)
    }

    fn keys(&self, kind: &str) -> Result<Vec<Key>, TicketError> {
        let folder = self.root.join(kind);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(TicketError::file("list", folder)(error)),
        };
        let mut keys = Vec::new();
        for entry in entries {
            let entry = entry.map_err(TicketError::file("list", &folder))?;
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
            keys.extend(stem.and_then(Key::from_stem));
        }
        keys.sort_unstable();
        Ok(keys)
    }

    fn read<T: DeserializeOwned>(
        &self,
        kind: &str,
        key: &Key,
        known: u32,
    ) -> Result<Option<(PathBuf, T)>, TicketError> {
        self.read_named(kind, &file_name(key), known)
    }

    fn read_named<T: DeserializeOwned>(
        &self,
        kind: &str,
        name: &str,
        known: u32,
    ) -> Result<Option<(PathBuf, T)>, TicketError> {
        let folder = self.root.join(kind);
        for folder in [&self.root, &folder] {
            if !is_safe(folder)? {
                return Ok(None);
            }
        }
        let path = folder.join(name);
        let Some(content) = read_bounded(&path, MAX_FILE)? else {
            return Ok(None);
        };
        let damaged = |error: serde_json::Error| TicketError::Damaged {
            path: path.clone(),
            reason: error.to_string(),
        };
        // The version first: a later one may have other fields.
        let Version { version } = serde_json::from_slice(&content).map_err(damaged)?;
        if version != known {
            return Err(TicketError::Version {
                path,
                version,
                known,
            });
        }
        let value = serde_json::from_slice(&content).map_err(damaged)?;
        Ok(Some((path, value)))
    }

    /// The folder, made if need be.
    fn make(&self, kind: &str) -> Result<PathBuf, TicketError> {
        let folder = self.root.join(kind);
        for folder in [&self.root, &folder] {
            let mut builder = fs::DirBuilder::new();
            match builder.mode(0o700).create(folder) {
                Ok(()) => sync_parent(folder)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(TicketError::file("create", folder)(error)),
            }
            is_safe(folder)?;
        }
        Ok(folder)
    }
}

#[derive(serde::Deserialize)]
struct Version {
    version: u32,
}

fn sync_parent(folder: &Path) -> Result<(), TicketError> {
    let Some(parent) = folder.parent() else {
        return Ok(());
    };
    fs::File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(TicketError::file("sync", parent))
}

/// False if it is not there; an error if others could have written what is in it.
fn is_safe(folder: &Path) -> Result<bool, TicketError> {
    let metadata = match fs::symlink_metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(TicketError::file("look at", folder)(error)),
    };
    let mode = metadata.mode() & 0o7777;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_dir() || !own || mode & 0o022 != 0 {
        return Err(TicketError::Unsafe {
            path: folder.to_owned(),
            owner: metadata.uid(),
            mode,
        });
    }
    Ok(true)
}

fn file_name(key: &Key) -> String {
    format!("{}.json", key.stem())
}

fn pod_file_name(key: &Key) -> String {
    format!("{}.json", key.pod_stem())
}

fn lock_name(key: &Key) -> String {
    format!("{}.lock", key.stem())
}

fn json(folder: &Path, name: &str, value: &impl Serialize) -> Result<Vec<u8>, TicketError> {
    let path = folder.join(name);
    let encoded = serde_json::to_vec_pretty(value);
    let mut text = encoded
        .map_err(io::Error::other)
        .map_err(TicketError::file("encode", path))?;
    text.push(b'\n');
    Ok(text)
}
