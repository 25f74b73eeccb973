//! Who writes and reads archives.

use std::fmt;

/// An engine that an archive can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Podman: `podman container restore --import`.
    Podman,
    /// CRI-O, under a kubelet.
    CriO,
    /// containerd 2.1 to 2.3, under a kubelet.
    Containerd,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Podman => "Podman",
            Self::CriO => "CRI-O",
            Self::Containerd => "containerd",
        })
    }
}

/// Who made an archive, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Podman.
    Podman,
    /// CRI-O.
    CriO,
    /// containerd.
    Containerd,
    /// rocferry: its `config.dump` says so.
    Rocferry,
    /// Nothing tells.
    Unknown,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Podman => "podman",
            Self::CriO => "cri-o",
            Self::Containerd => "containerd",
            Self::Rocferry => "rocferry",
            Self::Unknown => "unknown",
        })
    }
}
