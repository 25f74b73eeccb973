//! Making a store, or opening one that is there.

use super::keyring::put;
use super::{DataKey, KeyConfig, KeyObject, Keyring, Salt, SealError, random};
use crate::backend::{Backend, BackendError, Existing};
use crate::envelope::{self, MAX_SMALL_OBJECT, SmallObject, StoreDescription};
use crate::{Key, Kind};

/// Opens the store; makes it if there is none. It is sealed if and only if `config` is not empty: neither is
/// a sealed store read without keys, nor is anything written in the clear where keys are given.
///
/// Safe to be called by many at once, who then agree on one store.
///
/// # Errors
/// [`SealError`].
pub async fn open_store(
    backend: &dyn Backend,
    config: &KeyConfig,
    now_ms: u64,
) -> Result<(StoreDescription, Keyring), SealError> {
    let description = match describe(backend).await? {
        Some(description) => description,
        None => make(backend, config, now_ms).await?,
    };
    let keyring = match description.root_key {
        Some(root) => Keyring::load(backend, root, config).await?,
        None if config.is_empty() => Keyring::unsealed(&description.salt),
        None => return Err(SealError::StoreNotSealed),
    };
    Ok((description, keyring))
}

/// The store's description; `None` if there is none.
pub(crate) async fn describe(backend: &dyn Backend) -> Result<Option<StoreDescription>, SealError> {
    let key = Key::Store;
    let object = match backend.get(&key, None, MAX_SMALL_OBJECT).await {
        Ok(object) => object,
        Err(BackendError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let description = StoreDescription::decode(&key, &envelope::public_keys(), &object);
    match description {
        Ok(description) => Ok(Some(description)),
        Err(source) => Err(SealError::Object { key, source }),
    }
}

async fn make(
    backend: &dyn Backend,
    config: &KeyConfig,
    now_ms: u64,
) -> Result<StoreDescription, SealError> {
    let mut description = StoreDescription {
        salt: Salt(random()?),
        root_key: None,
        created_ms: now_ms,
    };
    // A new description would make everything unreadable that an old one is lost of.
    for kind in [Kind::Pack, Kind::Checkpoint] {
        if !backend.list(kind).await?.is_empty() {
            // Or somebody else has just made the store, and stored something.
            let found = describe(backend).await?;
            return found.ok_or(SealError::NoDescription { key: Key::Store });
        }
    }
    let mut made = None;
    if let Some(key) = config.pin {
        return Err(SealError::Missing { key });
    }
    if !config.is_empty() {
        if !config.can_unwrap() {
            return Err(SealError::NoIdentity);
        }
        // First the key, then the description that names it: there is never a sealed store without its key.
        let key = DataKey::generate()?;
        let object = KeyObject::wrap(&key, now_ms, config, None)?;
        put(backend, &object, Existing::Keep).await?;
        description.root_key = Some(key.id());
        made = Some(Key::DataKey(key.id()));
    }
    let object = description.encode(&Key::Store, &envelope::public_keys());
    match backend.put(&Key::Store, object, Existing::Keep, &[]).await {
        Ok(()) => Ok(description),
        Err(BackendError::Exists { .. }) => {
            // Somebody else was first. A key that nobody vouches for is ignored, but need not stay.
            if let Some(key) = made {
                backend.delete(&key).await?;
            }
            let theirs = describe(backend).await?;
            theirs.ok_or_else(|| SealError::Backend(BackendError::NotFound { key: Key::Store }))
        }
        Err(error) => Err(error.into()),
    }
}
