//! The object of a manifest.
//!
//! ```text
//! 0   8  RFCKPT01
//! 8   1  1 if the payload is a zstd frame, 0 if it is the message itself
//! 9   1  1 if it is signed, else 0
//! 10  2  zeros
//! 12  28 name of the checkpoint
//! 40  8  data key; zeros: not sealed
//! 48  8  length of the message
//! 56  8  length of the payload
//! 64  …  payload; sealed (nonce, content, tag) if there is a data key
//! …   32 check value over everything before
//! …   96 if it is signed: public key, signature of everything before the public key
//! ```

use std::io::Read;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rocferry_image::manifest::{CheckpointId, MAX_MANIFEST, Manifest};

use super::object::{data_key_bytes, data_key_from, key_name};
use super::{EnvelopeError, ObjectError, PublicKey, Signer, TrustPolicy};
use crate::seal::{Keyring, Keys, Piece};

const MAGIC: &[u8; 8] = b"RFCKPT01";
const NAME: usize = 28;
const HEADER: usize = 64;
const CHECK: usize = 32;
const SIGNATURE: usize = 32 + 64;

/// Most bytes of such an object.
pub const MAX_MANIFEST_OBJECT: u64 = MAX_MANIFEST + (HEADER + 40 + CHECK + SIGNATURE) as u64;

/// A message may be this much larger than its payload, or [`SMALL`]: memory is not taken for less.
const RATIO: u64 = 64;
const SMALL: u64 = 16 << 20;

/// zstd level: a manifest is small beside what it describes.
const LEVEL: i32 = 3;

/// Largest window of a frame, as a power of two: level 3 makes 2 MiB.
const WINDOW_LOG: u32 = 23;

/// A manifest and who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestObject {
    /// The manifest.
    pub manifest: Manifest,
    /// Whose signature it carries, if any. The signature is right; whether that key is to be trusted is what a
    /// [`TrustPolicy`] says.
    pub signer: Option<PublicKey>,
}

impl ManifestObject {
    /// The object `checkpoints/ID` for a manifest. Takes time and memory in proportion to its size: not for
    /// threads that must not wait.
    ///
    /// # Errors
    /// [`EnvelopeError::Manifest`] if it is invalid, or is not for these keys; [`EnvelopeError::Seal`].
    pub fn encode(
        manifest: &Manifest,
        keys: &Keys,
        signer: Option<&Signer>,
    ) -> Result<Bytes, EnvelopeError> {
        let checkpoint = || manifest.id.clone();
        let object_error = |source| EnvelopeError::Object {
            checkpoint: checkpoint(),
            source,
        };
        if manifest.data_key != keys.id() {
            return Err(object_error(ObjectError::DataKey {
                found: manifest.data_key,
                expected: keys.id(),
            }));
        }
        let message = manifest.encode();
        let message = message.map_err(|source| EnvelopeError::Manifest {
            checkpoint: checkpoint(),
            source,
        })?;
        let compressed = zstd::bulk::compress(&message, LEVEL)
            .ok()
            .filter(|compressed| fits(message.len() as u64, compressed.len() as u64));
        let plain = compressed.as_deref().unwrap_or(&message);
        let sealed = keys.seal(Piece::Manifest(&manifest.id), plain);
        let payload = sealed.map_err(|source| EnvelopeError::Seal {
            checkpoint: checkpoint(),
            source,
        })?;
        let mut object = BytesMut::with_capacity(HEADER + payload.len() + CHECK + SIGNATURE);
        object.put_slice(MAGIC);
        object.put_slice(&[compressed.is_some().into(), signer.is_some().into(), 0, 0]);
        object.put_slice(manifest.id.as_str().as_bytes());
        object.put_slice(&data_key_bytes(keys));
        object.put_u64_le(message.len() as u64);
        object.put_u64_le(payload.len() as u64);
        object.put_slice(&payload);
        let check = keys.check(&[&object]);
        object.put_slice(check.as_bytes());
        if let Some(signer) = signer {
            let signature = signer.sign(&object);
            object.put_slice(&signer.public_key().0);
            object.put_slice(&signature);
        }
        Ok(object.freeze())
    }

    /// Reads the object `checkpoints/ID`. Takes time and memory in proportion to its size: not for threads
    /// that must not wait.
    ///
    /// # Errors
    /// [`EnvelopeError`]: damage, another checkpoint's manifest, a wrong signature, or anything that `policy`
    /// does not take.
    pub fn decode(
        id: &CheckpointId,
        object: &[u8],
        keyring: &Keyring,
        policy: &TrustPolicy,
    ) -> Result<Self, EnvelopeError> {
        let failed = |source| EnvelopeError::Object {
            checkpoint: id.clone(),
            source,
        };
        let untrusted = |source| EnvelopeError::Untrusted {
            checkpoint: id.clone(),
            source,
        };
        let sealing = |source| EnvelopeError::Seal {
            checkpoint: id.clone(),
            source,
        };
        let parts = Parts::split(id, object).map_err(failed)?;
        let keys = keyring
            .get(data_key_from(parts.data_key))
            .map_err(sealing)?;
        if keys.check(&[parts.checked]) != *parts.check {
            return Err(failed(ObjectError::Check));
        }
        let signer = parts.verify().map_err(|source| EnvelopeError::Signature {
            checkpoint: id.clone(),
            source,
        })?;
        policy.check_signer(signer).map_err(untrusted)?;
        let mut buffer = Vec::new();
        let payload = keys
            .open(Piece::Manifest(id), parts.payload, &mut buffer)
            .map_err(sealing)?;
        let message = parts.message(payload).map_err(failed)?;
        let manifest = Manifest::decode(&message);
        let manifest = manifest.map_err(|source| EnvelopeError::Manifest {
            checkpoint: id.clone(),
            source,
        })?;
        if manifest.id != *id {
            let reason = format!("it holds the manifest of {}", manifest.id);
            return Err(failed(ObjectError::Body { reason }));
        }
        if manifest.data_key != keys.id() {
            let inner = key_name(manifest.data_key);
            let reason = format!("the manifest is for {inner}");
            return Err(failed(ObjectError::Body { reason }));
        }
        policy.check_binding(&manifest.binding).map_err(untrusted)?;
        Ok(Self { manifest, signer })
    }
}

/// Whether a message of that length may come from a payload of that length.
const fn fits(message: u64, payload: u64) -> bool {
    message <= MAX_MANIFEST && (message <= SMALL || message / RATIO <= payload)
}

/// An object taken apart. Nothing of it is verified yet.
struct Parts<'a> {
    compressed: bool,
    data_key: [u8; 8],
    length: u64,
    payload: &'a [u8],
    /// What the check value is of.
    checked: &'a [u8],
    check: &'a [u8; CHECK],
    /// What the signature is of, by whom it is, and the signature.
    signed: Option<(&'a [u8], PublicKey, &'a [u8; 64])>,
}

impl<'a> Parts<'a> {
    fn split(id: &CheckpointId, object: &'a [u8]) -> Result<Self, ObjectError> {
        let actual = object.len() as u64;
        let least = (HEADER + CHECK) as u64;
        if actual < least || actual > MAX_MANIFEST_OBJECT {
            let expected = actual.clamp(least, MAX_MANIFEST_OBJECT);
            return Err(ObjectError::Length { expected, actual });
        }
        let mut header = object;
        let mut magic = [0; 8];
        header.copy_to_slice(&mut magic);
        if magic != *MAGIC {
            let expected = "manifest";
            return match magic.strip_prefix(b"RFCKPT") {
                // Two digits that this code does not know.
                Some(&[tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => Err(ObjectError::Version {
                    found: u32::from(tens - b'0') * 10 + u32::from(ones - b'0'),
                    supported: 1,
                }),
                _ => Err(ObjectError::Magic { expected }),
            };
        }
        let flags = header.get_u32();
        let (compressed, signed) = match flags.to_be_bytes() {
            [compressed @ (0 | 1), signed @ (0 | 1), 0, 0] => (compressed == 1, signed == 1),
            _ => return Err(ObjectError::Check),
        };
        let mut name = [0; NAME];
        header.copy_to_slice(&mut name);
        if name != id.as_str().as_bytes() {
            return Err(ObjectError::Body {
                reason: format!("it is that of {}", String::from_utf8_lossy(&name)),
            });
        }
        let mut data_key = [0; 8];
        header.copy_to_slice(&mut data_key);
        let (length, payload) = (header.get_u64_le(), header.get_u64_le());
        let signature = if signed { SIGNATURE } else { 0 };
        let expected = payload.saturating_add(least + signature as u64);
        if actual != expected {
            return Err(ObjectError::Length { expected, actual });
        }
        if !fits(length, payload) {
            return Err(ObjectError::Body {
                reason: format!("a message of {length} bytes in {payload}"),
            });
        }
        // All of these are there: the length is the sum of theirs.
        let wrong = ObjectError::Length { expected, actual };
        let (content, signature) = object.split_at(object.len() - signature);
        let (checked, check) = content.split_last_chunk().ok_or(wrong)?;
        let signed = signature.split_first_chunk().and_then(|(key, signature)| {
            Some((content, PublicKey(*key), signature.first_chunk()?))
        });
        Ok(Self {
            compressed,
            data_key,
            length,
            payload: &checked[HEADER..],
            checked,
            check,
            signed,
        })
    }

    /// Who signed it, if anybody.
    fn verify(&self) -> Result<Option<PublicKey>, super::SignError> {
        let Some((content, key, signature)) = self.signed else {
            return Ok(None);
        };
        key.verify(content, signature)?;
        Ok(Some(key))
    }

    /// The message in the opened payload.
    fn message<'b>(&self, payload: &'b [u8]) -> Result<std::borrow::Cow<'b, [u8]>, ObjectError> {
        let wrong = |actual| ObjectError::Length {
            expected: self.length,
            actual,
        };
        if !self.compressed {
            return match payload.len() as u64 {
                length if length == self.length => Ok(payload.into()),
                other => Err(wrong(other)),
            };
        }
        let invalid = |error: std::io::Error| ObjectError::Body {
            reason: error.to_string(),
        };
        let mut message = Vec::new();
        let mut decoder = zstd::Decoder::with_buffer(payload).map_err(invalid)?;
        decoder.window_log_max(WINDOW_LOG).map_err(invalid)?;
        decoder
            .single_frame()
            .take(self.length + 1)
            .read_to_end(&mut message)
            .map_err(invalid)?;
        match message.len() as u64 {
            length if length == self.length => Ok(message.into()),
            other => Err(wrong(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_large_as_their_payload_allows() {
        assert!(fits(0, 0) && fits(SMALL, 1));
        assert!(!fits(SMALL + RATIO, SMALL / RATIO));
        assert!(fits(SMALL + RATIO, SMALL / RATIO + 1));
        assert!(fits(MAX_MANIFEST, MAX_MANIFEST));
        assert!(!fits(MAX_MANIFEST + 1, MAX_MANIFEST + 1));
    }
}
