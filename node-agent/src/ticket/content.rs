//! What a ticket says.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::name::ContainerId;

/// Version of the format that is written, and the newest that is read.
pub const TICKET_VERSION: u32 = 1;

/// Longest list in a ticket.
const MAX_LIST: usize = 4096;

/// Longest text in a ticket, in bytes.
const MAX_TEXT: usize = 4096;

/// A container that is to be restored when its runtime is told to create it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ticket {
    /// [`TICKET_VERSION`].
    pub version: u32,
    /// What is restored, for people: the checkpoint's name.
    pub checkpoint: String,
    /// Folder with CRIU's images. Absolute.
    pub images: PathBuf,
    /// Archive with the changes of the root file system, put into that of the new container at each try. Absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs_diff: Option<PathBuf>,
    /// Archive with what was in the `/dev/shm` that the container gets from outside. Absolute. Put there once per pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<PathBuf>,
    /// Volumes whose content is part of the checkpoint. Each is filled once per pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SavedVolume>,
    /// Restore it frozen: complete, and without having run one instruction.
    pub held: bool,
    /// What a `create` means once the ticket is used up.
    pub on_container_restart: AfterUse,
    /// Mounts that the checkpoint has and the new container must have.
    #[serde(default)]
    pub mounts: Vec<ExpectedMount>,
    /// Devices that the checkpoint has and the new container must have. GPUs are not among them: those are matched.
    #[serde(default)]
    pub devices: Vec<ExpectedDevice>,
    /// How CRIU restores.
    #[serde(default)]
    pub criu: CriuOptions,
    /// Checks of the GPUs' compatibility that are left out: names of the plugin's switches, as `KFD_FW_VER_CHECK`.
    #[serde(default)]
    pub checks_off: Vec<String>,
    /// How far it is.
    pub state: State,
    /// Restores that were begun.
    #[serde(default)]
    pub attempts: u32,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What a `create` means after the thaw: the container has ended, and is to be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterUse {
    /// It starts as any other container.
    ColdStart,
    /// It is restored again from the same images, not held.
    RestoreAgain,
    /// It fails with the reason.
    Refuse,
}

/// A mount of the checkpointed container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedMount {
    /// Where it is in the container.
    pub destination: String,
    /// Kind of file system, `bind` for a bind mount.
    pub kind: String,
}

/// A volume whose content is part of the checkpoint, as the container sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedVolume {
    /// Archive of all of it. Absolute.
    pub archive: PathBuf,
    /// Where it is mounted in the container.
    pub destination: String,
    /// Path below the volume that is mounted there (`subPath`); relative, empty for all of it.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub sub_path: PathBuf,
}

fn is_whole(sub_path: &Path) -> bool {
    sub_path.as_os_str().is_empty()
}

/// A device of the checkpointed container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedDevice {
    /// Where it is in the container.
    pub path: String,
}

/// How CRIU restores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CriuOptions {
    /// Established TCP connections.
    pub tcp: Tcp,
    /// File locks of the images are taken again.
    pub file_locks: bool,
    /// Unix sockets may be connected to the outside.
    pub external_unix_sockets: bool,
    /// The tree was dumped with a session of its caller.
    pub shell_job: bool,
}

/// What becomes of established TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tcp {
    /// They are closed: the application sees them end.
    #[default]
    Close,
    /// They go on, which needs the same address.
    Established,
}

/// How far a ticket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum State {
    /// Nothing has been done yet, or the last try failed and was cleaned up.
    Ready,
    /// A restore is under way, or was when the wrapper was killed.
    Restoring {
        /// The container that it makes.
        container: ContainerId,
    },
    /// The container is complete and frozen, and waits for its thaw.
    Held {
        /// The container.
        container: ContainerId,
        /// Its cgroup, as a path of the host's file system.
        cgroup: PathBuf,
    },
    /// The container runs, or has run, from the checkpoint.
    Used {
        /// The container.
        container: ContainerId,
    },
}

impl State {
    /// A word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Restoring { .. } => "restoring",
            Self::Held { .. } => "held",
            Self::Used { .. } => "used",
        }
    }

    /// Whether this may follow. A used ticket stays used: nothing gives it its first life back.
    #[must_use]
    pub fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Used { .. }, Self::Used { .. }) => true,
            (Self::Used { .. }, _) => false,
            (_, Self::Ready | Self::Restoring { .. }) => true,
            (Self::Restoring { .. }, Self::Held { .. }) => true,
            (Self::Restoring { .. } | Self::Held { .. }, Self::Used { .. }) => true,
            (Self::Ready, Self::Held { .. } | Self::Used { .. }) => false,
            (Self::Held { .. }, Self::Held { .. }) => false,
        }
    }
}

impl Ticket {
    /// A ticket for these images with nothing special about it.
    #[must_use]
    pub fn new(checkpoint: impl Into<String>, images: impl Into<PathBuf>) -> Self {
        Self {
            version: TICKET_VERSION,
            checkpoint: checkpoint.into(),
            images: images.into(),
            rootfs_diff: None,
            shared_memory: None,
            volumes: Vec::new(),
            held: false,
            on_container_restart: AfterUse::ColdStart,
            mounts: Vec::new(),
            devices: Vec::new(),
            criu: CriuOptions::default(),
            checks_off: Vec::new(),
            state: State::Ready,
            attempts: 0,
            last_error: None,
        }
    }

    /// What makes no sense in it.
    pub(super) fn fault(&self) -> Option<String> {
        let texts = self
            .mounts
            .iter()
            .flat_map(|mount| [&mount.destination, &mount.kind]);
        let texts = texts.chain(self.devices.iter().map(|device| &device.path));
        let texts = texts.chain(self.volumes.iter().map(|volume| &volume.destination));
        let mut texts = texts.chain(&self.checks_off).chain([&self.checkpoint]);
        let known = rocferry_topology::Switch::ALL;
        let unknown = |name: &&String| !known.iter().any(|switch| switch.env() == **name);
        let archives = self.volumes.iter().map(|volume| &volume.archive);
        let archives = archives.chain(&self.rootfs_diff).chain(&self.shared_memory);
        let mut files = archives.chain([&self.images]);
        if let Some(path) = files.find(|path| !path.is_absolute()) {
            return Some(format!("{path:?} is not an absolute path"));
        }
        let plain = |volume: &&SavedVolume| {
            let mut parts = volume.sub_path.components();
            parts.all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(volume) = self.volumes.iter().find(|volume| !plain(volume)) {
            return Some(format!("subPath {:?} leads elsewhere", volume.sub_path));
        }
        let (mounts, volumes) = (self.mounts.len(), self.volumes.len());
        if [mounts, volumes, self.devices.len(), self.checks_off.len()]
            .iter()
            .any(|length| *length > MAX_LIST)
        {
            return Some(format!("a list has more than {MAX_LIST} entries"));
        }
        if let Some(text) = texts.find(|text| text.len() > MAX_TEXT) {
            return Some(format!("a text has {} bytes", text.len()));
        }
        let name = self.checks_off.iter().find(unknown)?;
        Some(format!("checksOff names {name:?}, which is no check"))
    }

    /// Notes why a restore failed, cut to what a ticket may hold.
    pub fn note_error(&mut self, text: &str) {
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.last_error = Some(text[..end].to_owned());
    }
}
