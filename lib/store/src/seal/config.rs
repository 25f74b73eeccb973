//! Who can read a store's data keys: what an administrator gives.

use std::fmt;

use age::x25519::{Identity, Recipient};
use rocferry_image::manifest::DataKeyId;
use zeroize::Zeroizing;

use super::SealError;
use super::data_key::Secret;

/// What wraps and unwraps data keys. Empty: the store is not sealed.
#[derive(Default)]
pub struct KeyConfig {
    recipients: Vec<Recipient>,
    identities: Vec<Identity>,
    key_files: Vec<WrappingKey>,
    /// The data key that all others must come from, whatever the store says of itself. It may be any that
    /// is in the store; those before it are then not used.
    pub pin: Option<DataKeyId>,
}

impl KeyConfig {
    /// Nothing: no sealing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is neither recipient nor identity nor key, nor a pin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recipients.is_empty() && !self.can_unwrap() && self.pin.is_none()
    }

    /// Adds age recipients (`age1…`), one on each line. Empty lines and those that begin with `#` are none.
    ///
    /// # Errors
    /// [`SealError::Recipient`].
    pub fn add_recipients(&mut self, text: &str) -> Result<(), SealError> {
        for (line, recipient) in lines(text) {
            let recipient = recipient.parse();
            let recipient = recipient.map_err(|reason| SealError::Recipient { line, reason })?;
            if !self.recipients.contains(&recipient) {
                self.recipients.push(recipient);
            }
        }
        Ok(())
    }

    /// Adds age identities (`AGE-SECRET-KEY-1…`), as `age-keygen` writes them to a file: one on each line.
    /// New data keys are wrapped for them as well: what is written can be read again.
    ///
    /// # Errors
    /// [`SealError::Identity`].
    pub fn add_identities(&mut self, text: &str) -> Result<(), SealError> {
        for (line, identity) in lines(text) {
            let identity: Identity = identity
                .parse()
                .map_err(|reason| SealError::Identity { line, reason })?;
            let recipient = identity.to_public();
            if !self.recipients.contains(&recipient) {
                self.recipients.push(recipient);
            }
            self.identities.push(identity);
        }
        Ok(())
    }

    /// Adds a key from a file.
    pub fn add_key(&mut self, key: WrappingKey) {
        self.key_files.push(key);
    }

    pub(super) fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    pub(super) fn identities(&self) -> &[Identity] {
        &self.identities
    }

    pub(super) fn key_files(&self) -> &[WrappingKey] {
        &self.key_files
    }

    /// Whether anything is there to unwrap with: recipients alone are not.
    pub(super) fn can_unwrap(&self) -> bool {
        !self.identities.is_empty() || !self.key_files.is_empty()
    }

    /// What it unwraps with, in words: public parts alone.
    pub(super) fn describe(&self) -> String {
        let identities = self.identities.iter().map(|id| id.to_public().to_string());
        let keys = self.key_files.iter().map(|key| key.id().to_string());
        let all: Vec<_> = identities.chain(keys).collect();
        all.join(", ")
    }
}

/// Without secrets.
impl fmt::Debug for KeyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyConfig")
            .field("recipients", &self.recipients)
            .field("identities", &self.identities.len())
            .field("key_files", &self.key_files)
            .field("pin", &self.pin)
            .finish()
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| (index + 1, line))
}

/// A key of 32 bytes from a file, which wraps data keys. Wiped from memory when dropped.
pub struct WrappingKey(Secret);

impl WrappingKey {
    /// From the content of a file: 32 bytes, or 64 hexadecimal digits with nothing but space around them.
    ///
    /// # Errors
    /// [`SealError::KeyFile`].
    pub fn from_file(content: &[u8]) -> Result<Self, SealError> {
        let mut key = Zeroizing::new([0; 32]);
        if content.len() == key.len() {
            key.copy_from_slice(content);
            return Ok(Self(key));
        }
        let digits = content.trim_ascii();
        let valid = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
        if !valid {
            let bytes = content.len();
            return Err(SealError::KeyFile { bytes });
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default();
            // Two digits are at most 255.
            *byte = u8::try_from(digit(pair[0]) << 4 | digit(pair[1])).unwrap_or_default();
        }
        Ok(Self(key))
    }

    /// What it is called: the first bytes of a hash of it.
    #[must_use]
    pub fn id(&self) -> WrappingKeyId {
        let hash = blake3::derive_key("rocferry 2026-11-30 wrapping key id", &*self.0);
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        WrappingKeyId(id)
    }

    pub(super) fn sealing(&self) -> Secret {
        Zeroizing::new(blake3::derive_key("rocferry 2026-11-30 wrapping", &*self.0))
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrappingKey({})", self.id())
    }
}

/// Name of a key from a file, which does not tell the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappingKeyId(pub [u8; 8]);

/// `key-file:` and hexadecimal digits.
impl fmt::Display for WrappingKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key-file:{}", DataKeyId(self.0))
    }
}
