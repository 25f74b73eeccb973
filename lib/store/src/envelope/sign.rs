//! Signatures of manifests: ed25519.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use rocferry_image::manifest::BlockId;
use thiserror::Error;

/// What a signature says besides the bytes: it is one of a manifest.
const CONTEXT: &[u8] = b"rocferry 2026-11-30 signature of a manifest\0";

/// A key that cannot be used, or a signature that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignError {
    /// Not a key to sign with.
    #[error("Not an ed25519 private key in PEM (PKCS #8)")]
    PrivateKey,
    /// Not a key to verify with.
    #[error("Not an ed25519 public key: PEM or 64 hexadecimal digits are expected")]
    PublicKey,
    /// Not made by this key, or of other bytes.
    #[error("The signature by {key} is wrong")]
    Signature {
        /// Who is said to have signed.
        key: PublicKey,
    },
}

/// A key that signs manifests. Wiped from memory when dropped.
pub struct Signer(SigningKey);

impl Signer {
    /// From a file as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// [`SignError::PrivateKey`].
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        let key = SigningKey::from_pkcs8_pem(pem);
        key.map(Self).map_err(|_| SignError::PrivateKey)
    }

    /// From the 32 bytes that it is made of.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The key that verifies its signatures.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    pub(super) fn sign(&self, content: &[u8]) -> [u8; 64] {
        self.0.sign(&message(content)).to_bytes()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public_key())
    }
}

/// A key that verifies signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Checks a signature as strictly as one can: one way to write it, and no key that many fit.
    pub(super) fn verify(&self, content: &[u8], signature: &[u8; 64]) -> Result<(), SignError> {
        let key = VerifyingKey::from_bytes(&self.0);
        let signature = Signature::from_bytes(signature);
        let verified = key.and_then(|key| key.verify_strict(&message(content), &signature));
        verified.map_err(|_| SignError::Signature { key: *self })
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&BlockId(self.0), f)
    }
}

/// 64 hexadecimal digits, or PEM as `openssl pkey -pubout` writes it.
impl FromStr for PublicKey {
    type Err = SignError;

    fn from_str(text: &str) -> Result<Self, SignError> {
        let text = text.trim();
        if let Ok(BlockId(bytes)) = text.to_ascii_lowercase().parse() {
            let key = VerifyingKey::from_bytes(&bytes);
            return key.map(|_| Self(bytes)).map_err(|_| SignError::PublicKey);
        }
        let key = VerifyingKey::from_public_key_pem(text);
        key.map(|key| Self(key.to_bytes()))
            .map_err(|_| SignError::PublicKey)
    }
}

/// A hash of the content: a manifest may be large, and a signature reads what it signs twice.
fn message(content: &[u8]) -> Vec<u8> {
    [CONTEXT, blake3::hash(content).as_bytes()].concat()
}
