//! Objects in memory, for tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::{Backend, BackendError, Existing, Meta, ObjectWriter, OutOfRange, range_length};
use crate::{Key, Kind, StoreName};

type Objects = BTreeMap<(StoreName, Key), (Bytes, SystemTime)>;

/// A store in memory. Clones see the same objects.
#[derive(Clone, Debug)]
pub struct Memory {
    objects: Arc<Mutex<Objects>>,
    name: StoreName,
    room: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("Only {0} bytes are to be kept in memory")]
struct NoRoom(u64);

impl Memory {
    /// An empty one.
    #[must_use]
    pub fn new(name: &StoreName) -> Self {
        Self {
            objects: Arc::default(),
            name: name.clone(),
            room: u64::MAX,
        }
    }

    /// Another tenant's part of the same store.
    #[must_use]
    pub fn tenant(&self, name: &StoreName) -> Self {
        Self {
            name: name.clone(),
            ..self.clone()
        }
    }

    /// The same, with room for this many bytes in all: more is [`BackendError::Full`].
    #[must_use]
    pub fn with_room(mut self, bytes: u64) -> Self {
        self.room = bytes;
        self
    }

    fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        // No operation leaves the map half changed.
        work(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn name_of(&self, key: &Key) -> (StoreName, Key) {
        (self.name.clone(), key.clone())
    }

    fn store(&self, key: &Key, content: Bytes, existing: Existing) -> Result<(), BackendError> {
        let name = self.name_of(key);
        self.with(|objects| {
            if existing == Existing::Keep && objects.contains_key(&name) {
                return Err(BackendError::Exists { key: key.clone() });
            }
            let others = objects.iter().filter(|(other, _)| **other != name);
            let used: u64 = others.map(|(_, (content, _))| length(content)).sum();
            if used.saturating_add(length(&content)) > self.room {
                return Err(BackendError::Full {
                    object: key.to_string(),
                    source: Box::new(NoRoom(self.room)),
                });
            }
            objects.insert(name, (content, SystemTime::now()));
            Ok(())
        })
    }
}

fn length(content: &Bytes) -> u64 {
    content.len() as u64
}

#[async_trait]
impl Backend for Memory {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        let found = self.with(|objects| objects.get(&self.name_of(key)).cloned());
        let Some((content, _)) = found else {
            return Err(BackendError::NotFound { key: key.clone() });
        };
        let size = length(&content);
        let range = range.unwrap_or(0..size);
        match range_length(&range, size) {
            Some(length) if length > limit => Err(BackendError::TooLarge {
                key: key.clone(),
                limit,
            }),
            // Both ends are at most the length, which is a usize.
            Some(_) => Ok(content.slice(to_usize(range.start)..to_usize(range.end))),
            None => Err(BackendError::failed(
                "Reading",
                key.to_string(),
                OutOfRange { range, size },
            )),
        }
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        let found = self.with(|objects| objects.get(&self.name_of(key)).cloned());
        Ok(found.map(|(content, modified)| Meta {
            size: length(&content),
            modified: Some(modified),
        }))
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        _needs: &[Key],
    ) -> Result<(), BackendError> {
        self.store(key, content, existing)
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        Ok(Box::new(MemoryWriter {
            memory: self.clone(),
            key: key.clone(),
            content: BytesMut::new(),
        }))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        Ok(self.with(|objects| {
            objects
                .iter()
                .filter(|((name, key), _)| *name == self.name && key.kind() == kind)
                .map(|((_, key), (content, modified))| {
                    let meta = Meta {
                        size: length(content),
                        modified: Some(*modified),
                    };
                    (key.clone(), meta)
                })
                .collect()
        }))
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.with(|objects| objects.remove(&self.name_of(key)));
        Ok(())
    }
}

fn to_usize(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

#[derive(Debug)]
struct MemoryWriter {
    memory: Memory,
    key: Key,
    content: BytesMut,
}

#[async_trait]
impl ObjectWriter for MemoryWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        self.content.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), BackendError> {
        self.memory
            .store(&self.key, self.content.freeze(), Existing::Replace)
    }

    async fn abort(self: Box<Self>) {}
}
