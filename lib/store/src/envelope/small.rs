//! What is in the small objects.

use bytes::Bytes;
use prost::Message;
use rocferry_image::manifest::{BLOCK_SIZE, CheckpointId, DataKeyId, PackId};

use super::object::{ObjectError, close_object, open_object};
use crate::seal::{Keys, Salt};
use crate::{Key, Kind};

/// Most bytes of any small object: a lease that names the packs of 32 TiB.
pub const MAX_SMALL_OBJECT: u64 = 4 << 20;

/// Version of the layout of a store that this code writes and reads.
const LAYOUT: u32 = 1;

/// An object that is protected by a check value, and not sealed.
///
/// All but the store's description are made and read with the [`Keys`] of the store: in a sealed store
/// nobody else can make them.
pub trait SmallObject: Sized {
    /// What it is.
    const KIND: Kind;

    /// The object of this name.
    fn encode(&self, key: &Key, keys: &Keys) -> Bytes {
        close_object(key, keys, &self.body())
    }

    /// Reads the object of this name.
    ///
    /// # Errors
    /// [`ObjectError`].
    fn decode(key: &Key, keys: &Keys, object: &[u8]) -> Result<Self, ObjectError> {
        if object.len() as u64 > MAX_SMALL_OBJECT {
            return Err(ObjectError::Length {
                expected: MAX_SMALL_OBJECT,
                actual: object.len() as u64,
            });
        }
        Self::from_body(open_object(key, keys, object)?)
    }

    /// Its message.
    fn body(&self) -> Vec<u8>;

    /// From its message.
    ///
    /// # Errors
    /// [`ObjectError::Body`].
    fn from_body(body: &[u8]) -> Result<Self, ObjectError>;
}

/// The object `store`: what a store is. Written once, by whoever comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDescription {
    /// Keys the names of blocks where there is no data key.
    pub salt: Salt,
    /// The first data key; `None`: the store is not sealed.
    pub root_key: Option<DataKeyId>,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StoreBody {
    #[prost(uint32, tag = "1")]
    layout: u32,
    #[prost(uint32, tag = "2")]
    block_size: u32,
    #[prost(bytes = "vec", tag = "3")]
    salt: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "4")]
    root_key: Option<Vec<u8>>,
    #[prost(uint64, tag = "5")]
    created_ms: u64,
}

impl SmallObject for StoreDescription {
    const KIND: Kind = Kind::Store;

    fn body(&self) -> Vec<u8> {
        StoreBody {
            layout: LAYOUT,
            block_size: BLOCK_SIZE,
            salt: self.salt.0.to_vec(),
            root_key: self.root_key.map(|id| id.0.to_vec()),
            created_ms: self.created_ms,
        }
        .encode_to_vec()
    }

    fn from_body(body: &[u8]) -> Result<Self, ObjectError> {
        let body = StoreBody::decode(body)?;
        if body.layout != LAYOUT {
            return Err(ObjectError::Version {
                found: body.layout,
                supported: LAYOUT,
            });
        }
        if body.block_size != BLOCK_SIZE {
            let found = body.block_size;
            let reason = format!("blocks of {found} bytes, {BLOCK_SIZE} expected");
            return Err(ObjectError::Body { reason });
        }
        let root_key = body.root_key.map(|id| array(&id, "data key"));
        Ok(Self {
            salt: Salt(array(&body.salt, "salt")?),
            root_key: root_key.transpose()?.map(DataKeyId),
            created_ms: body.created_ms,
        })
    }
}

/// The object `leases/ID`: something runs that relies on what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What runs.
    pub kind: LeaseKind,
    /// When it began, milliseconds since 1970. Renewing does not change it.
    pub started_ms: u64,
    /// Until when it counts, unless it is renewed.
    pub expires_ms: u64,
    /// Who runs it, for people: a node, a process.
    pub holder: String,
    /// Packs that must stay.
    pub packs: Vec<PackId>,
    /// Checkpoints that must stay.
    pub checkpoints: Vec<CheckpointId>,
}

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseKind {
    /// An upload.
    Upload,
    /// A restore, or anything else that reads.
    Restore,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseBody {
    /// 1 upload, 2 restore.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint64, tag = "2")]
    started_ms: u64,
    #[prost(uint64, tag = "3")]
    expires_ms: u64,
    #[prost(string, tag = "4")]
    holder: String,
    /// 16 bytes for each.
    #[prost(bytes = "vec", tag = "5")]
    packs: Vec<u8>,
    #[prost(string, repeated, tag = "6")]
    checkpoints: Vec<String>,
}

impl SmallObject for Lease {
    const KIND: Kind = Kind::Lease;

    fn body(&self) -> Vec<u8> {
        LeaseBody {
            kind: match self.kind {
                LeaseKind::Upload => 1,
                LeaseKind::Restore => 2,
            },
            started_ms: self.started_ms,
            expires_ms: self.expires_ms,
            holder: self.holder.clone(),
            packs: self.packs.iter().flat_map(|pack| pack.0).collect(),
            checkpoints: self.checkpoints.iter().map(ToString::to_string).collect(),
        }
        .encode_to_vec()
    }

    fn from_body(body: &[u8]) -> Result<Self, ObjectError> {
        let body = LeaseBody::decode(body)?;
        let unusable = |reason: &str| ObjectError::Body {
            reason: reason.to_owned(),
        };
        let kind = match body.kind {
            1 => LeaseKind::Upload,
            2 => LeaseKind::Restore,
            // It relies on something, whatever it is.
            other => return Err(unusable(&format!("lease of the unknown kind {other}"))),
        };
        let (packs, rest) = body.packs.as_chunks();
        if !rest.is_empty() {
            return Err(unusable("packs are not of 16 bytes each"));
        }
        let checkpoints = body.checkpoints.iter().map(|id| id.parse());
        Ok(Self {
            kind,
            started_ms: body.started_ms,
            expires_ms: body.expires_ms,
            holder: body.holder,
            packs: packs.iter().copied().map(PackId).collect(),
            checkpoints: checkpoints
                .collect::<Result<_, _>>()
                .map_err(|_| unusable("a checkpoint has no valid name"))?,
        })
    }
}

/// The object `pins/ID`: the checkpoint of that name is not to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// When it was pinned, milliseconds since 1970.
    pub created_ms: u64,
    /// Why, for people.
    pub reason: String,
}

/// Of [`Pin`] and [`Condemned`].
#[derive(Clone, PartialEq, Message)]
struct NoteBody {
    #[prost(uint64, tag = "1")]
    created_ms: u64,
    #[prost(string, tag = "2")]
    reason: String,
}

impl SmallObject for Pin {
    const KIND: Kind = Kind::Pin;

    fn body(&self) -> Vec<u8> {
        NoteBody {
            created_ms: self.created_ms,
            reason: self.reason.clone(),
        }
        .encode_to_vec()
    }

    fn from_body(body: &[u8]) -> Result<Self, ObjectError> {
        let NoteBody { created_ms, reason } = NoteBody::decode(body)?;
        Ok(Self { created_ms, reason })
    }
}

/// The object `condemned/ID`: the pack of that name is about to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condemned {
    /// Since when, milliseconds since 1970, by the clock of whoever condemned it; [`Condemned::PENDING`] as
    /// long as it is not certain that everybody sees it.
    pub created_ms: u64,
}

impl Condemned {
    /// A time that never comes: whoever does not know it waits for ever, and deletes nothing.
    pub const PENDING: u64 = u64::MAX;
}

impl SmallObject for Condemned {
    const KIND: Kind = Kind::Condemned;

    fn body(&self) -> Vec<u8> {
        NoteBody {
            created_ms: self.created_ms,
            reason: String::new(),
        }
        .encode_to_vec()
    }

    fn from_body(body: &[u8]) -> Result<Self, ObjectError> {
        let created_ms = NoteBody::decode(body)?.created_ms;
        Ok(Self { created_ms })
    }
}

fn array<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], ObjectError> {
    let array = bytes.try_into();
    array.map_err(|_| ObjectError::Body {
        reason: format!("{what} of {} bytes, {N} expected", bytes.len()),
    })
}
