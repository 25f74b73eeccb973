//! Random bytes.

use rocferry_image::manifest::PackId;

use crate::LeaseId;

/// The system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("The system gives no random bytes")]
pub struct RandomError(#[source] getrandom::Error);

/// Random bytes that nobody can guess: for keys, nonces and names.
///
/// # Errors
/// [`RandomError`].
pub fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(RandomError)?;
    Ok(bytes)
}

/// A name for a new pack.
///
/// # Errors
/// [`RandomError`].
pub fn new_pack_id() -> Result<PackId, RandomError> {
    random().map(PackId)
}

/// A name for a new lease.
///
/// # Errors
/// [`RandomError`].
pub fn new_lease_id() -> Result<LeaseId, RandomError> {
    random().map(LeaseId)
}
