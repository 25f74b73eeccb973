//! Links between topology nodes.

use std::fmt;

use crate::NodeId;

/// What a link runs over: the `type` of an io link, numbered as in the kernel's `kfd_crat.h` (6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Type 2.
    Pcie,
    /// Type 11.
    Xgmi,
    /// Any other type, for instance 1 (HyperTransport) or 5 (QPI) between CPUs. Neither compared nor
    /// written to images.
    Other(u32),
}

impl LinkKind {
    /// From the kernel's number.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            2 => Self::Pcie,
            11 => Self::Xgmi,
            other => Self::Other(other),
        }
    }

    /// The kernel's number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        match self {
            Self::Pcie => 2,
            Self::Xgmi => 11,
            Self::Other(raw) => raw,
        }
    }

    /// True for the two kinds that matter for matching and that images hold.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Pcie | Self::Xgmi)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pcie => f.write_str("PCIe"),
            Self::Xgmi => f.write_str("XGMI"),
            Self::Other(raw) => write!(f, "type {raw}"),
        }
    }
}

/// One link that leads away from the node that owns it. Links have a direction: the way back, if there
/// is one, is a link of the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// What it runs over.
    pub kind: LinkKind,
    /// The node at the far end, which may be absent (see `valid`).
    pub to: NodeId,
    /// The far end is a node of the same system. Set by [`System::new`](crate::System::new); a link to
    /// a masked GPU or out of a damaged image is not valid and is never followed.
    pub valid: bool,
    /// The far end has a link of the same kind back. Set by [`System::new`](crate::System::new).
    pub bidirectional: bool,
}

impl Link {
    /// A link whose far end has not been looked up yet.
    #[must_use]
    pub const fn new(kind: LinkKind, to: NodeId) -> Self {
        Self {
            kind,
            to,
            valid: false,
            bidirectional: false,
        }
    }
}
