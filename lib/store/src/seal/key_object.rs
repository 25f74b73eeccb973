//! A data key as it lies in the store: wrapped.

use std::io::{Read, Write};

use age::{Decryptor, Encryptor};
use bytes::Bytes;
use prost::Message;
use rocferry_image::manifest::DataKeyId;
use zeroize::Zeroizing;

use super::keys::Sealer;
use super::{DataKey, KeyConfig, Keys, Piece, SealError, WrappingKeyId};
use crate::Key;
use crate::envelope::{self, ObjectError};

/// Most bytes of a `keys/ID` object: some hundred recipients.
pub(super) const MAX_KEY_OBJECT: u64 = 64 << 10;

/// What is wrapped: the key and the time, so that nobody can make an old key the newest.
const PAYLOAD: usize = 32 + 8;

#[derive(Clone, PartialEq, Message)]
struct Body {
    /// Milliseconds since 1970; within the wrapping again.
    #[prost(uint64, tag = "1")]
    created_ms: u64,
    /// Who can unwrap it, for people.
    #[prost(string, repeated, tag = "2")]
    wrapped_for: Vec<String>,
    /// An age file of [`PAYLOAD`] bytes.
    #[prost(bytes = "vec", optional, tag = "3")]
    age: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    keyed: Vec<Keyed>,
    /// The data key that vouches for this one.
    #[prost(bytes = "vec", optional, tag = "5")]
    endorser: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "6")]
    endorsement: Option<Vec<u8>>,
}

/// Wrapped by a key from a file.
#[derive(Clone, PartialEq, Message)]
struct Keyed {
    /// 8 bytes: which key.
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    /// [`PAYLOAD`] bytes, sealed.
    #[prost(bytes = "vec", tag = "2")]
    wrapped: Vec<u8>,
}

/// A wrapped data key: the object `keys/ID`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyObject {
    id: DataKeyId,
    body: Body,
}

/// What is in the wrapping.
pub(super) struct Unwrapped {
    pub(super) key: DataKey,
    pub(super) created_ms: u64,
}

impl KeyObject {
    /// Wraps `key` for everybody in `config`. `endorser` are the keys of the data key before it.
    ///
    /// # Errors
    /// [`SealError::NoRecipients`], [`SealError::Wrap`], [`SealError::Random`].
    pub fn wrap(
        key: &DataKey,
        created_ms: u64,
        config: &KeyConfig,
        endorser: Option<&Keys>,
    ) -> Result<Self, SealError> {
        let id = key.id();
        if config.recipients().is_empty() && config.key_files().is_empty() {
            return Err(SealError::NoRecipients);
        }
        let mut payload = Zeroizing::new([0; PAYLOAD]);
        payload[..32].copy_from_slice(key.bytes());
        payload[32..].copy_from_slice(&created_ms.to_le_bytes());
        let mut body = Body {
            created_ms,
            endorser: endorser.and_then(Keys::id).map(|id| id.0.to_vec()),
            ..Body::default()
        };
        body.endorsement = endorser.map(|keys| keys.endorse(key, created_ms).as_bytes().to_vec());
        if !config.recipients().is_empty() {
            let wrapped = wrap_age(&*payload, config);
            body.age = Some(wrapped.map_err(|reason| SealError::Wrap { key: id, reason })?);
            let recipients = config.recipients().iter();
            body.wrapped_for.extend(recipients.map(ToString::to_string));
        }
        for file in config.key_files() {
            let wrapped = Sealer::new(&file.sealing()).seal(Piece::DataKey(id), &*payload)?;
            let key = file.id();
            body.wrapped_for.push(key.to_string());
            let key = key.0.to_vec();
            body.keyed.push(Keyed { key, wrapped });
        }
        Ok(Self { id, body })
    }

    /// The data key that it holds.
    #[must_use]
    pub const fn id(&self) -> DataKeyId {
        self.id
    }

    /// When the data key was made, as far as one can tell without it: milliseconds since 1970.
    #[must_use]
    pub const fn created_ms(&self) -> u64 {
        self.body.created_ms
    }

    /// Who can unwrap it: age recipients, and names of keys from files.
    #[must_use]
    pub fn wrapped_for(&self) -> &[String] {
        &self.body.wrapped_for
    }

    /// The object.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let keys = envelope::public_keys();
        envelope::close_object(&Key::DataKey(self.id), &keys, &self.body.encode_to_vec())
    }

    /// Reads an object. That it holds the right key shows when it is unwrapped.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn decode(id: DataKeyId, object: &[u8]) -> Result<Self, ObjectError> {
        let keys = envelope::public_keys();
        let body = envelope::open_object(&Key::DataKey(id), &keys, object)?;
        let body = Body::decode(body).map_err(ObjectError::from)?;
        Ok(Self { id, body })
    }

    /// The data key.
    ///
    /// # Errors
    /// [`SealError::NoKey`], [`SealError::WrongKey`], [`SealError::Damaged`].
    pub fn unwrap(&self, config: &KeyConfig) -> Result<DataKey, SealError> {
        self.open(config).map(|unwrapped| unwrapped.key)
    }

    pub(super) fn open(&self, config: &KeyConfig) -> Result<Unwrapped, SealError> {
        let key = self.id;
        let wrapped_for = || match self.body.wrapped_for.as_slice() {
            [] => "nobody".to_owned(),
            names => names.join(", "),
        };
        if !config.can_unwrap() {
            let wrapped_for = wrapped_for();
            return Err(SealError::NoKey { key, wrapped_for });
        }
        let payload = match self.open_keyed(config)? {
            Some(payload) => Some(payload),
            None => self.open_age(config)?,
        };
        let payload = payload.ok_or_else(|| SealError::WrongKey {
            key,
            wrapped_for: wrapped_for(),
            given: config.describe(),
        })?;
        let damaged = |reason| SealError::Damaged { key, reason };
        let length = damaged("it has another length");
        let (bytes, time) = payload.split_first_chunk::<32>().ok_or(length)?;
        let time = <[u8; 8]>::try_from(time).map_err(|_| damaged("it has another length"))?;
        let data_key = DataKey::from_bytes(&mut { *bytes });
        if data_key.id() != key {
            return Err(damaged("it holds another key"));
        }
        Ok(Unwrapped {
            key: data_key,
            created_ms: u64::from_le_bytes(time),
        })
    }

    fn open_keyed(&self, config: &KeyConfig) -> Result<Option<Zeroizing<Vec<u8>>>, SealError> {
        for file in config.key_files() {
            let WrappingKeyId(id) = file.id();
            if let Some(entry) = self.body.keyed.iter().find(|entry| entry.key == id) {
                let mut payload = Zeroizing::new(Vec::new());
                Sealer::new(&file.sealing())
                    .open(Piece::DataKey(self.id), &entry.wrapped, &mut payload)
                    .map_err(|_| SealError::Damaged {
                        key: self.id,
                        reason: "the key file that it is wrapped by does not open it",
                    })?;
                return Ok(Some(payload));
            }
        }
        Ok(None)
    }

    fn open_age(&self, config: &KeyConfig) -> Result<Option<Zeroizing<Vec<u8>>>, SealError> {
        let Some(wrapped) = &self.body.age else {
            return Ok(None);
        };
        let damaged = |reason| SealError::Damaged {
            key: self.id,
            reason,
        };
        let file = Decryptor::new_buffered(wrapped.as_slice());
        let file = file.map_err(|_| damaged("it is no age file"))?;
        let identities = config.identities().iter();
        let identities = identities.map(|identity| identity as &dyn age::Identity);
        let reader = match file.decrypt(identities) {
            Ok(reader) => reader,
            Err(age::DecryptError::NoMatchingKeys) => return Ok(None),
            Err(_) => return Err(damaged("the header of the age file is invalid")),
        };
        let mut payload = Zeroizing::new(Vec::with_capacity(PAYLOAD + 1));
        let read = reader.take(PAYLOAD as u64 + 1).read_to_end(&mut payload);
        read.map_err(|_| damaged("the content of the age file is invalid"))?;
        Ok(Some(payload))
    }

    /// Whether `endorser` vouches for this key.
    pub(super) fn is_endorsed_by(&self, endorser: &Keys, unwrapped: &Unwrapped) -> bool {
        let Some(id) = endorser.id() else {
            return false;
        };
        let endorsement = self.body.endorsement.as_deref().unwrap_or_default();
        self.body.endorser.as_deref() == Some(&id.0[..])
            && <[u8; 32]>::try_from(endorsement).is_ok_and(|found| {
                // Of `blake3::Hash`, which compares in constant time.
                endorser.endorse(&unwrapped.key, unwrapped.created_ms) == found
            })
    }

    /// Wraps the same key for others; who vouches for it stays.
    pub(super) fn rewrap(
        &self,
        unwrapped: &Unwrapped,
        config: &KeyConfig,
    ) -> Result<Self, SealError> {
        let mut object = Self::wrap(&unwrapped.key, unwrapped.created_ms, config, None)?;
        object.body.endorser.clone_from(&self.body.endorser);
        object.body.endorsement.clone_from(&self.body.endorsement);
        Ok(object)
    }
}

fn wrap_age(payload: &[u8], config: &KeyConfig) -> Result<Vec<u8>, String> {
    let recipients = config.recipients().iter();
    let recipients = recipients.map(|recipient| recipient as &dyn age::Recipient);
    let encryptor = Encryptor::with_recipients(recipients).map_err(|error| error.to_string())?;
    let mut wrapped = Vec::new();
    let written = encryptor.wrap_output(&mut wrapped).and_then(|mut writer| {
        writer.write_all(payload)?;
        writer.finish()
    });
    written.map_err(|error| error.to_string())?;
    Ok(wrapped)
}
