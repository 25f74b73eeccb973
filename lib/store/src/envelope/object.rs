//! The frame of small objects.
//!
//! ```text
//! 0   4  RFOB
//! 4   1  kind: 1 store, 2 data key, 3 lease, 4 pin, 5 condemned
//! 5   1  version of the frame: 1
//! 6   2  zeros
//! 8   8  data key whose check value it is; zeros: anybody can make it
//! 16  4  length of the body
//! 20  …  body: a protobuf message
//! …   32 check value over the name of the object and everything before
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use rocferry_image::manifest::DataKeyId;
use thiserror::Error;

use crate::seal::{Keys, Salt};
use crate::{Key, Kind};

const MAGIC: &[u8; 4] = b"RFOB";
const VERSION: u8 = 1;
const HEADER: usize = 20;
const CHECK: usize = 32;

/// An object that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The object ends early, or goes on.
    #[error("It has {actual} bytes instead of {expected}")]
    Length {
        /// Bytes that there must be.
        expected: u64,
        /// Bytes that there are.
        actual: u64,
    },
    /// It begins with something else.
    #[error("It is no {expected}")]
    Magic {
        /// What it should be.
        expected: &'static str,
    },
    /// An object of a later rocferry.
    #[error("It has format version {found}, {supported} is understood")]
    Version {
        /// Version found.
        found: u32,
        /// The one that this code reads.
        supported: u32,
    },
    /// It was changed, cut, or is another object of its kind.
    #[error("It is damaged: its check value is wrong")]
    Check,
    /// It is protected by another data key than the one that it was to be read with.
    #[error("It is protected by {}, not by {}", key_name(*found), key_name(*expected))]
    DataKey {
        /// Its data key.
        found: Option<DataKeyId>,
        /// The one that it was to be read with.
        expected: Option<DataKeyId>,
    },
    /// A message that cannot be understood although it is not damaged.
    #[error("It cannot be understood: {reason}")]
    Body {
        /// Why not.
        reason: String,
    },
}

impl From<prost::DecodeError> for ObjectError {
    fn from(error: prost::DecodeError) -> Self {
        let reason = error.to_string();
        Self::Body { reason }
    }
}

pub(super) fn key_name(key: Option<DataKeyId>) -> String {
    match key {
        Some(key) => format!("data key {key}"),
        None => "no data key".to_owned(),
    }
}

/// The keys of objects that must be readable before any data key is: the store's description and data keys
/// themselves. What they protect from is damage, not people.
pub(crate) fn public_keys() -> Keys {
    Keys::unsealed(&Salt([0; 32]))
}

/// Eight zeros stand for none.
pub(crate) fn data_key_bytes(keys: &Keys) -> [u8; 8] {
    keys.id().map_or([0; 8], |id| id.0)
}

/// The other way round.
pub(crate) fn data_key_from(bytes: [u8; 8]) -> Option<DataKeyId> {
    (bytes != [0; 8]).then_some(DataKeyId(bytes))
}

const fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Store => 1,
        Kind::DataKey => 2,
        Kind::Lease => 3,
        Kind::Pin => 4,
        Kind::Condemned => 5,
        // Of another form; nothing asks for them.
        Kind::Pack | Kind::Index | Kind::Checkpoint => 0,
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Store => "description of a store",
        Kind::DataKey => "data key",
        Kind::Lease => "lease",
        Kind::Pin => "pin",
        Kind::Condemned => "condemnation",
        Kind::Pack => "pack",
        Kind::Index => "index of a pack",
        Kind::Checkpoint => "checkpoint",
    }
}

/// The object with this body.
pub(crate) fn close_object(key: &Key, keys: &Keys, body: &[u8]) -> Bytes {
    let mut object = BytesMut::with_capacity(HEADER + body.len() + CHECK);
    object.put_slice(MAGIC);
    object.put_slice(&[kind_byte(key.kind()), VERSION, 0, 0]);
    object.put_slice(&data_key_bytes(keys));
    // Bodies are far below 4 GiB; a longer one could not be read again.
    object.put_u32_le(u32::try_from(body.len()).unwrap_or(u32::MAX));
    object.put_slice(body);
    let check = check(key, keys, &object);
    object.put_slice(check.as_bytes());
    object.freeze()
}

/// The body of an object. It must be this one, not just one of its kind.
pub(crate) fn open_object<'a>(
    key: &Key,
    keys: &Keys,
    object: &'a [u8],
) -> Result<&'a [u8], ObjectError> {
    let data_key = data_key_of(key, object)?;
    if data_key != keys.id() {
        return Err(ObjectError::DataKey {
            found: data_key,
            expected: keys.id(),
        });
    }
    let (content, found) = split_check(object)?;
    if check(key, keys, content) != *found {
        return Err(ObjectError::Check);
    }
    let length = |at: usize| content.get(at..at + 4)?.try_into().ok();
    let length = length(16).map_or(0, u32::from_le_bytes);
    let body = content.get(HEADER..).unwrap_or_default();
    if body.len() as u64 != u64::from(length) {
        return Err(ObjectError::Length {
            expected: HEADER as u64 + u64::from(length) + CHECK as u64,
            actual: object.len() as u64,
        });
    }
    Ok(body)
}

/// By which data key an object says that it is protected; `None`: by none. Not to be believed before it is
/// opened.
///
/// # Errors
/// [`ObjectError`] if it is no object of the kind of `key`.
pub fn data_key_of(key: &Key, object: &[u8]) -> Result<Option<DataKeyId>, ObjectError> {
    let (content, _) = split_check(object)?;
    let (header, rest) = content.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let [m0, m1, m2, m3, kind, version, reserved @ ..] = *header;
    let expected = kind_name(key.kind());
    if [m0, m1, m2, m3] != *MAGIC || kind != kind_byte(key.kind()) {
        return Err(ObjectError::Magic { expected });
    }
    if version != VERSION {
        return Err(ObjectError::Version {
            found: version.into(),
            supported: VERSION.into(),
        });
    }
    if reserved != [0; 2] {
        return Err(ObjectError::Check);
    }
    Ok(rest.first_chunk().copied().and_then(data_key_from))
}

fn split_check(object: &[u8]) -> Result<(&[u8], &[u8; CHECK]), ObjectError> {
    let split = object.split_last_chunk();
    let split = split.filter(|(content, _)| content.len() >= HEADER);
    split.ok_or(ObjectError::Length {
        expected: (HEADER + CHECK) as u64,
        actual: object.len() as u64,
    })
}

fn check(key: &Key, keys: &Keys, content: &[u8]) -> blake3::Hash {
    // A name has no zero byte.
    keys.check(&[key.to_string().as_bytes(), &[0], content])
}
