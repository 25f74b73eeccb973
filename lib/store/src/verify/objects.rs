//! The small objects of a store.

use bytes::Bytes;

use super::fault::{Fault, Faults, fatal};
use crate::envelope::{
    Condemned, Lease, MAX_SMALL_OBJECT, ObjectError, Pin, SmallObject, StoreDescription,
    public_keys,
};
use crate::seal::KeyObject;
use crate::{Key, Kind, Store, StoreError};

impl Store {
    /// Looks at all of them.
    pub(super) async fn check_objects(&self, faults: &mut Faults) -> Result<(), StoreError> {
        let described = self.readable(&Key::Store, |object| {
            StoreDescription::decode(&Key::Store, &public_keys(), object).map(drop)
        });
        note(faults, Key::Store, described.await)?;
        for (key, _) in self.backend().list(Kind::DataKey).await? {
            let Key::DataKey(id) = key else { continue };
            let wrapped = self.readable(&key, |object| KeyObject::decode(id, object).map(drop));
            let wrapped = wrapped.await;
            note(faults, key, wrapped)?;
        }
        self.check_small::<Pin>(faults).await?;
        self.check_small::<Lease>(faults).await?;
        self.check_small::<Condemned>(faults).await
    }

    async fn check_small<T: SmallObject>(&self, faults: &mut Faults) -> Result<(), StoreError> {
        for (key, _) in self.backend().list(T::KIND).await? {
            // One that has gone meanwhile is no fault.
            let read = self.small::<T>(&key).await.map(drop);
            note(faults, key, read)?;
        }
        Ok(())
    }

    async fn readable(
        &self,
        key: &Key,
        decode: impl FnOnce(&Bytes) -> Result<(), ObjectError>,
    ) -> Result<(), StoreError> {
        let object = self.backend().get(key, None, MAX_SMALL_OBJECT).await?;
        decode(&object).map_err(|source| StoreError::Object {
            key: key.clone(),
            source,
        })
    }
}

fn note(faults: &mut Faults, key: Key, read: Result<(), StoreError>) -> Result<(), StoreError> {
    if let Err(error) = read {
        faults.push(Fault::new(key, fatal(error)?));
    }
    Ok(())
}
