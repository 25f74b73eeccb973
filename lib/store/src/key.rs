//! Names of what is in a store.

use std::fmt;
use std::str::FromStr;

use rocferry_image::manifest::{CheckpointId, DataKeyId, PackId};

/// What an object is: the first part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The store's own description.
    Store,
    /// A wrapped data key.
    DataKey,
    /// Blocks.
    Pack,
    /// The list of a pack's blocks.
    Index,
    /// A manifest.
    Checkpoint,
    /// A checkpoint that is not to be deleted.
    Pin,
    /// Something that a running upload or restore relies on.
    Lease,
    /// A pack that is about to be deleted.
    Condemned,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Store,
        Self::DataKey,
        Self::Pack,
        Self::Index,
        Self::Checkpoint,
        Self::Pin,
        Self::Lease,
        Self::Condemned,
    ];

    /// The directory of such objects.
    #[must_use]
    pub const fn dir(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::DataKey => "keys",
            Self::Pack => "packs",
            Self::Index => "index",
            Self::Checkpoint => "checkpoints",
            Self::Pin => "pins",
            Self::Lease => "leases",
            Self::Condemned => "condemned",
        }
    }
}

/// Name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `store`.
    Store,
    /// `keys/ID`.
    DataKey(DataKeyId),
    /// `packs/ID`.
    Pack(PackId),
    /// `index/ID`.
    Index(PackId),
    /// `checkpoints/ID`.
    Checkpoint(CheckpointId),
    /// `pins/ID`.
    Pin(CheckpointId),
    /// `leases/ID`.
    Lease(LeaseId),
    /// `condemned/ID`.
    Condemned(PackId),
}

impl Key {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Store => Kind::Store,
            Self::DataKey(_) => Kind::DataKey,
            Self::Pack(_) => Kind::Pack,
            Self::Index(_) => Kind::Index,
            Self::Checkpoint(_) => Kind::Checkpoint,
            Self::Pin(_) => Kind::Pin,
            Self::Lease(_) => Kind::Lease,
            Self::Condemned(_) => Kind::Condemned,
        }
    }

    /// The key of this kind with this id (the part after the slash); `None` for an id of another form.
    #[must_use]
    pub fn from_parts(kind: Kind, id: &str) -> Option<Self> {
        Some(match kind {
            Kind::Store => return id.is_empty().then_some(Self::Store),
            Kind::DataKey => Self::DataKey(id.parse().ok()?),
            Kind::Pack => Self::Pack(id.parse().ok()?),
            Kind::Index => Self::Index(id.parse().ok()?),
            Kind::Checkpoint => Self::Checkpoint(id.parse().ok()?),
            Kind::Pin => Self::Pin(id.parse().ok()?),
            Kind::Lease => Self::Lease(id.parse().ok()?),
            Kind::Condemned => Self::Condemned(id.parse().ok()?),
        })
    }

    /// The id alone; empty for the store's description.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Store => String::new(),
            Self::DataKey(id) => id.to_string(),
            Self::Pack(id) | Self::Index(id) | Self::Condemned(id) => id.to_string(),
            Self::Checkpoint(id) | Self::Pin(id) => id.to_string(),
            Self::Lease(id) => id.to_string(),
        }
    }
}

/// `DIR/ID`, of lower-case letters, digits, `-` and one `/`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str(Kind::Store.dir()),
            key => write!(f, "{}/{}", key.kind().dir(), key.id()),
        }
    }
}

/// A name that is no [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Not the name of an object of a store")]
pub struct InvalidKey;

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let (dir, id) = text.split_once('/').unwrap_or((text, ""));
        let kind = Kind::ALL.into_iter().find(|kind| kind.dir() == dir);
        kind.and_then(|kind| Self::from_parts(kind, id))
            .ok_or(InvalidKey)
    }
}

/// A running upload or restore: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub [u8; 16]);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&PackId(self.0), f)
    }
}

impl FromStr for LeaseId {
    type Err = rocferry_image::manifest::InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(|PackId(bytes)| Self(bytes))
    }
}

/// A tenant's part of a store: the UID of its namespace, or `default`. Deduplication and keys never cross it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreName(String);

impl StoreName {
    /// Lower-case letters, digits and `-`, 1 to 63 of them, none of the [`Kind::dir`] names.
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn new(name: &str) -> Result<Self, InvalidKey> {
        let fits = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && Kind::ALL.iter().all(|kind| kind.dir() != name);
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidKey)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for StoreName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
