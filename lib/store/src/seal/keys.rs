//! What is derived from a data key, or from the salt of a store without one.

use std::fmt;

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use rocferry_image::manifest::{BlockId, CheckpointId, DataKeyId, Encoding, PackId};
use zeroize::Zeroizing;

use super::data_key::Secret;
use super::{DataKey, SealError, random};

const NONCE: usize = 24;
const TAG: usize = 16;
/// Bytes that sealing adds to a piece.
pub(crate) const SEALED: usize = NONCE + TAG;
const _: () = assert!(SEALED == Encoding::Raw.overhead(true) as usize);

/// Random bytes of a store, known to whoever can read it: equal blocks of two stores have different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub [u8; 32]);

/// Something that is sealed on its own. What it is and which one it is are sealed in, so that no piece can
/// stand in for another; where it lies is not, so that it can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A block.
    Block(BlockId),
    /// The list of a pack's blocks.
    Trailer(PackId),
    /// A manifest.
    Manifest(&'a CheckpointId),
    /// A data key, wrapped by a key from a file.
    DataKey(DataKeyId),
}

impl Piece<'_> {
    /// What is authenticated with the content: no two pieces have the same.
    fn associated(&self) -> Vec<u8> {
        let (kind, id): (u8, &[u8]) = match self {
            Self::Block(id) => (1, &id.0),
            Self::Trailer(pack) => (2, &pack.0),
            Self::Manifest(checkpoint) => (3, checkpoint.as_str().as_bytes()),
            Self::DataKey(key) => (4, &key.0),
        };
        [b"rocferry piece 1", &[kind][..], id].concat()
    }
}

impl fmt::Display for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(id) => write!(f, "Block {id}"),
            Self::Trailer(pack) => write!(f, "The list of blocks of pack {pack}"),
            Self::Manifest(checkpoint) => write!(f, "The manifest of {checkpoint}"),
            Self::DataKey(key) => write!(f, "Data key {key}"),
        }
    }
}

/// The keys that one data key gives, or the salt of a store without sealing.
pub struct Keys {
    id: Option<DataKeyId>,
    block_ids: Secret,
    checks: Secret,
    endorsements: Secret,
    sealing: Option<Sealer>,
}

impl Keys {
    /// Those of a data key.
    #[must_use]
    pub fn sealed(key: &DataKey) -> Self {
        Self {
            id: Some(key.id()),
            block_ids: key.derive("rocferry 2026-11-30 block ids"),
            checks: key.derive("rocferry 2026-11-30 check values"),
            endorsements: key.derive("rocferry 2026-11-30 endorsements"),
            sealing: Some(Sealer::new(&key.derive("rocferry 2026-11-30 sealing"))),
        }
    }

    /// Those of a store without sealing. Whoever can read it can make all of them.
    #[must_use]
    pub fn unsealed(salt: &Salt) -> Self {
        let derive = |purpose| Zeroizing::new(blake3::derive_key(purpose, &salt.0));
        Self {
            id: None,
            block_ids: derive("rocferry 2026-11-30 unsealed block ids"),
            checks: derive("rocferry 2026-11-30 unsealed check values"),
            endorsements: derive("rocferry 2026-11-30 unsealed endorsements"),
            sealing: None,
        }
    }

    /// The data key; `None` without sealing.
    #[must_use]
    pub const fn id(&self) -> Option<DataKeyId> {
        self.id
    }

    /// Whether they keep secrets.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.sealing.is_some()
    }

    /// The name of a block with this content.
    #[must_use]
    pub fn block_id(&self, plain: &[u8]) -> BlockId {
        BlockId(*blake3::keyed_hash(&self.block_ids, plain).as_bytes())
    }

    /// The check value of these parts, one after the other: a MAC if there is a data key. The parts must be
    /// such that they cannot be cut in another way.
    pub(crate) fn check(&self, parts: &[&[u8]]) -> blake3::Hash {
        keyed(&self.checks, parts)
    }

    /// Says that the key with these bytes belongs to the store, since this one does.
    pub(super) fn endorse(&self, key: &DataKey, created_ms: u64) -> blake3::Hash {
        let subject = key.derive("rocferry 2026-11-30 endorsed key");
        keyed(&self.endorsements, &[&*subject, &created_ms.to_le_bytes()])
    }

    /// Seals `plain`; without sealing it stays as it is.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(&self, piece: Piece<'_>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        match &self.sealing {
            Some(sealer) => sealer.seal(piece, plain),
            None => Ok(plain.to_vec()),
        }
    }

    /// Opens what [`Keys::seal`] sealed as this piece. `buffer` is where it is put if need be.
    ///
    /// # Errors
    /// [`SealError::Piece`]: damaged, or sealed as something else, or by another key.
    pub fn open<'a>(
        &self,
        piece: Piece<'_>,
        stored: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], SealError> {
        match &self.sealing {
            Some(sealer) => sealer.open(piece, stored, buffer),
            None => Ok(stored),
        }
    }
}

fn keyed(key: &Secret, parts: &[&[u8]]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "Keys({id})"),
            None => f.write_str("Keys(unsealed)"),
        }
    }
}

/// XChaCha20-Poly1305: nonces are long enough to be random.
pub(super) struct Sealer(XChaCha20Poly1305);

impl Sealer {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// Nonce, content, tag.
    pub(super) fn seal(&self, piece: Piece<'_>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let nonce: [u8; NONCE] = random()?;
        let mut sealed = vec![0; plain.len() + SEALED];
        sealed[..NONCE].copy_from_slice(&nonce);
        let (content, tag_place) = sealed[NONCE..].split_at_mut(plain.len());
        let tag = InOutBuf::new(plain, content).ok().and_then(|content| {
            let associated = piece.associated();
            let tag = self
                .0
                .encrypt_inout_detached(&XNonce::from(nonce), &associated, content);
            tag.ok()
        });
        // Content of more than 256 GiB is none of ours.
        let tag = tag.ok_or_else(|| SealError::Piece {
            piece: piece.to_string(),
        })?;
        tag_place.copy_from_slice(&tag);
        Ok(sealed)
    }

    pub(super) fn open<'a>(
        &self,
        piece: Piece<'_>,
        stored: &[u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], SealError> {
        let opened = stored
            .split_first_chunk::<NONCE>()
            .and_then(|(nonce, rest)| {
                let (content, tag) = rest.split_last_chunk::<TAG>()?;
                // The tag is verified first: nothing is written before it is right.
                buffer.resize(content.len(), 0);
                let content = InOutBuf::new(content, buffer.as_mut_slice()).ok()?;
                let (nonce, tag) = (XNonce::from(*nonce), Tag::from(*tag));
                let associated = piece.associated();
                self.0
                    .decrypt_inout_detached(&nonce, &associated, content, &tag)
                    .ok()
            });
        if opened.is_none() {
            let piece = piece.to_string();
            return Err(SealError::Piece { piece });
        }
        Ok(buffer)
    }
}
