//! Reading and writing small objects: leases, pins, condemnations.

use crate::backend::{BackendError, Existing};
use crate::envelope::{MAX_SMALL_OBJECT, SmallObject, data_key_of};
use crate::{Key, Store, StoreError};

impl Store {
    /// Writes a small object, with the keys of today.
    pub(crate) async fn put_small<T: SmallObject>(
        &self,
        key: &Key,
        object: &T,
        existing: Existing,
    ) -> Result<(), StoreError> {
        let object = object.encode(key, self.keyring().current());
        self.backend().put(key, object, existing, &[]).await?;
        Ok(())
    }

    /// Reads a small object; `None` if there is none.
    pub(crate) async fn small<T: SmallObject>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        let object = match self.backend().get(key, None, MAX_SMALL_OBJECT).await {
            Ok(object) => object,
            Err(BackendError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let failed = |source| StoreError::Object {
            key: key.clone(),
            source,
        };
        let keys = self.keys(data_key_of(key, &object).map_err(failed)?)?;
        T::decode(key, &keys, &object).map(Some).map_err(failed)
    }

    /// Reads all small objects of a kind. One that goes away meanwhile is left out.
    pub(crate) async fn all_small<T: SmallObject>(&self) -> Result<Vec<(Key, T)>, StoreError> {
        let mut objects = Vec::new();
        for (key, _) in self.backend().list(T::KIND).await? {
            if let Some(object) = self.small(&key).await? {
                objects.push((key, object));
            }
        }
        Ok(objects)
    }
}
