//! Identifiers of a checkpoint and of what it consists of.

use std::fmt;
use std::str::FromStr;

/// Text that is no identifier of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Not an identifier of this kind")]
pub struct InvalidId;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident($bytes:literal)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        /// Lower-case hexadecimal digits.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let digits = text.as_bytes();
                if digits.len() != 2 * $bytes {
                    return Err(InvalidId);
                }
                let digit = |byte: u8| match byte {
                    b'0'..=b'9' => Ok(byte - b'0'),
                    b'a'..=b'f' => Ok(byte - b'a' + 10),
                    _ => Err(InvalidId),
                };
                let mut bytes = [0; $bytes];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = digit(pair[0])? << 4 | digit(pair[1])?;
                }
                Ok(Self(bytes))
            }
        }
    };
}

hex_id! {
    /// A block: keyed BLAKE3 of its content before compression and sealing.
    BlockId(32)
}

hex_id! {
    /// A pack: random.
    PackId(16)
}

hex_id! {
    /// A data key: the first bytes of a hash of it, so that keys can be told apart without telling them.
    DataKeyId(8)
}

/// A checkpoint: `YYYYMMDDtHHMMSS-` (UTC) and 12 random lower-case hexadecimal digits, so that names sort by
/// age and fit wherever Kubernetes and registries take a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(String);

impl CheckpointId {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CheckpointId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() == 28
            && text.bytes().enumerate().all(|(index, byte)| match index {
                8 => byte == b't',
                15 => byte == b'-',
                0..16 => byte.is_ascii_digit(),
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            });
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_read_what_they_print() {
        let pack = PackId([0xa5; 16]);
        assert_eq!(pack.to_string().parse(), Ok(pack));
        assert_eq!("A5".repeat(16).parse::<PackId>(), Err(InvalidId));
        assert_eq!("a5".repeat(15).parse::<PackId>(), Err(InvalidId));
        assert_eq!("é".repeat(16).parse::<PackId>(), Err(InvalidId));
        let name = "20261130t014415-0123456789ab";
        let id: CheckpointId = name.parse().expect("id");
        assert_eq!(id.to_string(), name);
        for wrong in [
            "",
            "20261130T014415-0123456789ab",
            "20261130t014415-0123456789aG",
            "20261130t0144150123456789abc",
        ] {
            assert_eq!(wrong.parse::<CheckpointId>(), Err(InvalidId), "{wrong}");
        }
    }
}
