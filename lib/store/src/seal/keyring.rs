//! The keys of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocferry_image::manifest::DataKeyId;

use super::key_object::{MAX_KEY_OBJECT, Unwrapped};
use super::{DataKey, KeyConfig, KeyObject, Keys, Salt, SealError};
use crate::backend::{Backend, Existing};
use crate::{Key, Kind};

/// All keys of a store that can be used.
#[derive(Debug)]
pub struct Keyring {
    /// What is written with.
    current: Arc<Keys>,
    /// When its data key was made.
    current_ms: u64,
    /// All that the store has, by name; without sealing none.
    keys: BTreeMap<DataKeyId, Entry>,
}

/// Why a key may be used, or may not.
#[derive(Debug)]
enum Entry {
    Good(Arc<Keys>),
    /// Nothing that was given unwraps it.
    Locked(SealError),
    /// Nobody vouches for it.
    Foreign,
}

impl Keyring {
    /// That of a store without sealing.
    #[must_use]
    pub fn unsealed(salt: &Salt) -> Self {
        Self {
            current: Arc::new(Keys::unsealed(salt)),
            current_ms: 0,
            keys: BTreeMap::new(),
        }
    }

    /// Reads all data keys of a sealed store whose first one is `root`.
    ///
    /// # Errors
    /// When the first one, or the one that is pinned instead of it, cannot be read: [`SealError::NoKey`],
    /// [`SealError::WrongKey`], [`SealError::Missing`]...; or [`SealError::Backend`]. A damaged key object is an
    /// error in any case. Others that cannot be unwrapped are so only when they are needed.
    pub async fn load(
        backend: &dyn Backend,
        root: DataKeyId,
        config: &KeyConfig,
    ) -> Result<Self, SealError> {
        let root = config.pin.unwrap_or(root);
        let mut ring = BTreeMap::new();
        let mut unwrapped = Vec::new();
        for object in objects(backend).await? {
            match object.open(config) {
                Ok(key) => unwrapped.push((object, key)),
                Err(error @ (SealError::NoKey { .. } | SealError::WrongKey { .. }))
                    if object.id() != root =>
                {
                    ring.insert(object.id(), Entry::Locked(error));
                }
                Err(error) => return Err(error),
            }
        }
        let first = unwrapped.iter().position(|(object, _)| object.id() == root);
        let first = first.ok_or(SealError::Missing { key: root })?;
        let (_, first) = unwrapped.swap_remove(first);
        let mut current_ms = first.created_ms;
        let mut current = Arc::new(Keys::sealed(&first.key));
        let mut good = vec![Arc::clone(&current)];
        // Each one that is found good may vouch for others.
        while let Some(endorser) = good.pop() {
            let (endorsed, rest): (Vec<_>, Vec<_>) = unwrapped
                .into_iter()
                .partition(|(object, key)| object.is_endorsed_by(&endorser, key));
            unwrapped = rest;
            for (object, Unwrapped { key, created_ms }) in endorsed {
                let keys = Arc::new(Keys::sealed(&key));
                // Of two at the same time everybody must take the same.
                if (created_ms, Some(object.id())) > (current_ms, current.id()) {
                    current = Arc::clone(&keys);
                    current_ms = created_ms;
                }
                good.push(keys);
            }
            if let Some(id) = endorser.id() {
                ring.insert(id, Entry::Good(endorser));
            }
        }
        for (object, _) in unwrapped {
            ring.insert(object.id(), Entry::Foreign);
        }
        Ok(Self {
            current,
            current_ms,
            keys: ring,
        })
    }

    /// The keys for what is written.
    #[must_use]
    pub const fn current(&self) -> &Arc<Keys> {
        &self.current
    }

    /// Whether the store is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.current.is_sealed()
    }

    /// The keys for something that says by which data key it is sealed, if at all.
    ///
    /// # Errors
    /// [`SealError`] if those are no keys of this store: what is not sealed is none of a sealed store's.
    pub fn get(&self, id: Option<DataKeyId>) -> Result<&Arc<Keys>, SealError> {
        if id == self.current.id() {
            return Ok(&self.current);
        }
        let Some(key) = id else {
            return Err(SealError::NotSealed);
        };
        if !self.is_sealed() {
            return Err(SealError::Unexpected { key });
        }
        match self.keys.get(&key) {
            Some(Entry::Good(keys)) => Ok(keys),
            Some(Entry::Locked(SealError::WrongKey {
                wrapped_for, given, ..
            })) => Err(SealError::WrongKey {
                key,
                wrapped_for: wrapped_for.clone(),
                given: given.clone(),
            }),
            Some(Entry::Locked(_)) | None => Err(SealError::Missing { key }),
            Some(Entry::Foreign) => Err(SealError::Foreign { key }),
        }
    }

    /// Data keys that are in the store, but that no key of the store vouches for: somebody else put them there,
    /// or a store was made by two at once.
    pub fn foreign(&self) -> impl Iterator<Item = DataKeyId> + '_ {
        let foreign = self.keys.iter();
        foreign.filter_map(|(id, entry)| matches!(entry, Entry::Foreign).then_some(*id))
    }

    /// Data keys that nothing unwraps that was given. If one of them is newer than the one that is written with,
    /// somebody has rotated keys for others than this process.
    pub fn locked(&self) -> impl Iterator<Item = DataKeyId> + '_ {
        let locked = self.keys.iter();
        locked.filter_map(|(id, entry)| matches!(entry, Entry::Locked(_)).then_some(*id))
    }

    /// Makes a data key for what is written from now on. The older ones stay.
    ///
    /// # Errors
    /// [`SealError::StoreNotSealed`], [`SealError::NoRecipients`], [`SealError::Backend`]...
    pub async fn rotate(
        &mut self,
        backend: &dyn Backend,
        config: &KeyConfig,
        now_ms: u64,
    ) -> Result<DataKeyId, SealError> {
        if !self.is_sealed() {
            return Err(SealError::StoreNotSealed);
        }
        let key = DataKey::generate()?;
        // It is the newest also where clocks are not right.
        let created_ms = now_ms.max(self.current_ms.saturating_add(1));
        let object = KeyObject::wrap(&key, created_ms, config, Some(&self.current))?;
        put(backend, &object, Existing::Keep).await?;
        let keys = Arc::new(Keys::sealed(&key));
        self.keys.insert(key.id(), Entry::Good(Arc::clone(&keys)));
        self.current = keys;
        self.current_ms = created_ms;
        Ok(key.id())
    }

    /// Wraps all data keys again, for everybody in `config`: those who are not in it any more cannot read
    /// them from now on (unless they kept them: what is written later is safe only after a rotation).
    /// Returns how many.
    ///
    /// # Errors
    /// [`SealError`] as soon as one of them fails; the others stay as they are.
    pub async fn rewrap(
        backend: &dyn Backend,
        old: &KeyConfig,
        new: &KeyConfig,
    ) -> Result<usize, SealError> {
        let mut count = 0;
        for object in objects(backend).await? {
            let object = object.rewrap(&object.open(old)?, new)?;
            put(backend, &object, Existing::Replace).await?;
            count += 1;
        }
        Ok(count)
    }
}

pub(super) async fn put(
    backend: &dyn Backend,
    object: &KeyObject,
    existing: Existing,
) -> Result<(), SealError> {
    let key = Key::DataKey(object.id());
    backend.put(&key, object.encode(), existing, &[]).await?;
    Ok(())
}

async fn objects(backend: &dyn Backend) -> Result<Vec<KeyObject>, SealError> {
    let mut objects = Vec::new();
    for (key, _) in backend.list(Kind::DataKey).await? {
        if let Key::DataKey(id) = key {
            let bytes = backend.get(&key, None, MAX_KEY_OBJECT).await?;
            let object = KeyObject::decode(id, &bytes);
            objects.push(object.map_err(|source| SealError::Object { key, source })?);
        }
    }
    // What they are called must not matter; that it is the same each time does.
    objects.sort_by_key(KeyObject::id);
    Ok(objects)
}
