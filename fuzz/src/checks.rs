//! Check values of a store without sealing, which anybody can make: without them nothing that is changed
//! would get far.

use rocferry_store::seal::{Keyring, Salt};

const SALT: [u8; 32] = [9; 32];

/// The keys that go with them.
pub(crate) fn keyring() -> Keyring {
    Keyring::unsealed(&Salt(SALT))
}

/// The check value of these parts.
pub(crate) fn check_value(parts: &[&[u8]]) -> [u8; 32] {
    check_value_of(&SALT, parts)
}

/// The same where everybody's salt is zeros: the store's description, and data keys.
pub(crate) fn public_check_value(parts: &[&[u8]]) -> [u8; 32] {
    check_value_of(&[0; 32], parts)
}

fn check_value_of(salt: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let key = blake3::derive_key("rocferry 2026-11-30 unsealed check values", salt);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}
