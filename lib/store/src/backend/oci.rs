//! Objects in an OCI registry: each one an artifact with a tag made of its key.
//!
//! ```text
//! oci://HOST/REPOSITORY     REPOSITORY/NAME:store
//!                           REPOSITORY/NAME:packs.5f3c…
//!                           REPOSITORY/NAME:checkpoints.20261130t014415-0123456789ab
//! ```
//!
//! A pack is the one layer of its manifest. A checkpoint's manifest of ours is the config of the registry's
//! one, whose layers are the packs that it needs: a registry that removes blobs which no manifest names keeps
//! them as long as the checkpoint, and a tool that copies the tag copies all of it. The index of a pack and
//! the pin of a checkpoint name it as their `subject`. Every manifest carries its key, when it was written
//! (registries tell no time) and a random word, so that no two are the same and deleting one by its digest
//! takes no other tag along.
//!
//! Consistency: a registry writes a manifest whole. None knows a conditional write, so that
//! [`Existing::Keep`] looks whether the tag is there, writes, waits longer than others may take between their
//! look and their write, and looks whose manifest has stayed: that one has won.
//!
//! Crash: an upload that was not finished, and the blob of a manifest that was never written, go with the
//! registry's own garbage collection, which must not run during uploads (docker-registry's does not by
//! itself). Retry: chunks of an object that is being written are sent again from where the registry has got,
//! or all of them if it has lost the upload, from a copy in a temporary file; everything else is the caller's
//! ([`Retrying`](super::Retrying)). A registry that takes no chunks gets the copy in one piece. Deleting needs
//! a registry that allows it.
//!
//! From oci-client come the types of manifests. Its requests are not used: they have no deletion and no
//! scope for one, read answers of any size, and lose `Retry-After` and the next page of a list.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::{Backend, BackendError, Existing, Meta, ObjectWriter, RetryPolicy, Variables};
use crate::{Key, Kind, StoreName};

mod auth;
mod blob;
mod credentials;
mod failure;
mod manifest;
mod registry;
mod session;
mod tags;
mod upload;
mod writer;

use failure::Refused;
use manifest::{Blob, Found};
use registry::{Content, Registry};
use writer::OciWriter;

/// Manifests that are fetched at the same time for a list, or for what a checkpoint needs.
const AT_ONCE: usize = 16;
/// Manifests that are remembered. A pack's never changes.
const REMEMBERED: usize = 1 << 16;
/// The shortest time in which another writer of the same object is waited for.
const SETTLE: Duration = Duration::from_millis(500);
/// The longest.
const SETTLE_AT_MOST: Duration = Duration::from_secs(10);
/// The first pause before a manifest is written again whose blob the registry does not know. It doubles.
const UNKNOWN_BLOB: Duration = Duration::from_millis(50);
/// The last one.
const UNKNOWN_BLOB_AT_MOST: Duration = Duration::from_millis(800);

/// Where a repository is, as the store's URL says: `oci://HOST/REPOSITORY`, with `?http` for a registry
/// without TLS that is not on this machine, and `?https` for one with TLS that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name and perhaps port of the registry.
    pub host: String,
    /// The repository. Each tenant's is one below it.
    pub repository: String,
    /// Without TLS.
    pub plain: bool,
}

/// A tenant's repository, see the [module](self). Clones share connections.
#[derive(Clone, Debug)]
pub struct Oci {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    registry: Registry,
    retry: RetryPolicy,
    /// What is known of objects that never change.
    found: Mutex<HashMap<Key, Found>>,
    /// The blob that stands for nothing has been pushed.
    nothing_is_there: AtomicBool,
    /// Held while it is.
    nothing: tokio::sync::Mutex<()>,
}

impl Oci {
    /// The repository that belongs to `name`. Credentials come from `REGISTRY_AUTH_FILE` and the files of
    /// Podman and Docker, which are looked for by means of `variables`.
    ///
    /// # Errors
    /// [`BackendError::Url`] when the tenant's name cannot be part of a repository's.
    pub fn open(
        location: &Location,
        name: &StoreName,
        variables: &Variables,
        retry: RetryPolicy,
    ) -> Result<Self, BackendError> {
        let registry = Registry::new(location, name, variables)?;
        Ok(Self {
            shared: Arc::new(Shared {
                registry,
                retry,
                found: Mutex::default(),
                nothing_is_there: AtomicBool::new(false),
                nothing: tokio::sync::Mutex::default(),
            }),
        })
    }
}

/// Objects that are never written again under the same name.
const fn never_changes(kind: Kind) -> bool {
    matches!(kind, Kind::Pack | Kind::Index)
}

impl Shared {
    fn remembered(&self, key: &Key) -> Option<Found> {
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).cloned()
    }

    fn remember(&self, key: &Key, found: Option<&Found>) {
        let mut known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(found) if never_changes(key.kind()) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(key.clone(), found.clone());
            }
            _ => {
                known.remove(key);
            }
        }
    }

    /// The object's manifest as it is now.
    async fn look(
        &self,
        operation: &'static str,
        key: &Key,
    ) -> Result<Option<Found>, BackendError> {
        let object = key.to_string();
        let tag = manifest::tag(key);
        let found = match self.registry.manifest(operation, &object, &tag).await? {
            Some(body) => match Found::read(&body, key) {
                Some(found) => Some(found),
                None => return Err(BackendError::failed(operation, object, Refused::Foreign)),
            },
            None => None,
        };
        self.remember(key, found.as_ref());
        Ok(found)
    }

    async fn known(
        &self,
        operation: &'static str,
        key: &Key,
    ) -> Result<Option<Found>, BackendError> {
        match self.remembered(key) {
            Some(found) => Ok(Some(found)),
            None => self.look(operation, key).await,
        }
    }

    /// Writes the manifest that makes a blob the object. `needs` are there already.
    async fn tag(&self, key: &Key, content: Blob, needs: &[Blob]) -> Result<Found, BackendError> {
        let subject = match manifest::subject(key) {
            Some(subject) => self.known("Writing", &subject).await?,
            None => None,
        };
        let (body, found) = manifest::write(key, content, needs, subject.as_ref())
            .map_err(|error| BackendError::failed("Writing", key.to_string(), error))?;
        if !self.nothing_is_there.load(Ordering::Relaxed) {
            self.push_nothing(key).await?;
        }
        let tag = manifest::tag(key);
        let object = key.to_string();
        let write = || self.registry.put_manifest(&object, &tag, body.clone());
        let mut pause = UNKNOWN_BLOB;
        while let Err(error) = write().await {
            if !failure::is_unknown_blob(&error) || pause > UNKNOWN_BLOB_AT_MOST {
                return Err(error);
            }
            // Its garbage collection has been there, or another process pushes the same blob just now:
            // docker-registry does not know it while it writes it again.
            tokio::time::sleep(pause).await;
            pause *= 2;
            self.push_nothing(key).await?;
        }
        self.remember(key, Some(&found));
        Ok(found)
    }

    async fn push_nothing(&self, key: &Key) -> Result<(), BackendError> {
        let (object, digest) = (key.to_string(), manifest::nothing().digest);
        let _one_at_a_time = self.nothing.lock().await;
        if !upload::exists(self, &object, &digest).await? {
            let nothing = vec![Bytes::from_static(manifest::NOTHING)];
            upload::push(self, &object, &digest, Content::Pieces(nothing)).await?;
        }
        self.nothing_is_there.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Blobs of what a checkpoint needs, in that order.
    async fn needed(&self, key: &Key, needs: &[Key]) -> Result<Vec<Blob>, BackendError> {
        let looks = needs.iter().map(|need| self.needed_one(key, need.clone()));
        futures_util::stream::iter(looks.collect::<Vec<_>>())
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn needed_one(&self, key: &Key, need: Key) -> Result<Blob, BackendError> {
        match self.known("Looking at", &need).await? {
            Some(found) => Ok(found.content),
            None => Err(BackendError::failed(
                "Writing",
                key.to_string(),
                BackendError::NotFound { key: need },
            )),
        }
    }

    /// Whether the manifest of this digest is still the object's after all who may have written at the same
    /// time as we, beginning at `begun`, have done so.
    async fn has_stayed(
        &self,
        key: &Key,
        ours: &Found,
        begun: Instant,
    ) -> Result<bool, BackendError> {
        let wait = begun
            .elapsed()
            .saturating_mul(2)
            .clamp(SETTLE, SETTLE_AT_MOST);
        tokio::time::sleep(wait).await;
        let now = self.look("Writing", key).await?;
        // One that was deleted meanwhile had been written.
        Ok(now.is_none_or(|now| now.digest == ours.digest))
    }

    /// Removes a manifest that no tag names any more, and leaves it if the registry does not want to.
    async fn forget(&self, key: &Key, old: &Found) {
        let _ = self
            .registry
            .delete_manifest(&key.to_string(), &old.digest)
            .await;
    }
}

#[async_trait]
impl Backend for Oci {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        let shared = &self.shared;
        let mut found = shared.known("Reading", key).await?;
        // A blob may go between the look at its manifest and the reading.
        for _ in 0..3 {
            let Some(now) = found else {
                return Err(BackendError::NotFound { key: key.clone() });
            };
            match blob::read(&shared.registry, key, &now.content, range.clone(), limit).await? {
                Some(content) => return Ok(content),
                None => found = shared.look("Reading", key).await?,
            }
        }
        Err(BackendError::failed(
            "Reading",
            key.to_string(),
            Refused::NoBlob,
        ))
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        let found = self.shared.look("Looking at", key).await?;
        Ok(found.map(|found| found.meta()))
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        let shared = &self.shared;
        let object = key.to_string();
        let needs = shared.needed(key, needs).await?;
        let size = content.len() as u64;
        let pieces = vec![content];
        let digest = upload::digest(&object, pieces.clone()).await?;
        let blob = manifest::content(key, digest, size);
        if size > 0 {
            upload::push(shared, &object, &blob.digest, Content::Pieces(pieces)).await?;
        }
        let begun = Instant::now();
        let before = if existing == Existing::Replace && never_changes(key.kind()) {
            None
        } else {
            shared.look("Writing", key).await?
        };
        if existing == Existing::Keep && before.is_some() {
            return Err(BackendError::Exists { key: key.clone() });
        }
        let ours = shared.tag(key, blob, &needs).await?;
        match existing {
            Existing::Replace => {
                if let Some(old) = before {
                    shared.forget(key, &old).await;
                }
            }
            Existing::Keep => {
                if !shared.has_stayed(key, &ours, begun).await? {
                    shared.forget(key, &ours).await;
                    return Err(BackendError::Exists { key: key.clone() });
                }
            }
        }
        Ok(())
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        Ok(Box::new(OciWriter::new(self.shared.clone(), key.clone())))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        let tags = tags::list(&self.shared.registry, kind).await?;
        let looks = tags.into_iter().map(|key| async {
            let found = match self.shared.known("Listing", &key).await {
                Ok(found) => found,
                // Of our form, and somebody else's.
                Err(error) if failure::is_foreign(&error) => None,
                Err(error) => return Err(error),
            };
            Ok(found.map(|found| (key, found.meta())))
        });
        futures_util::stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .try_filter_map(|listed| async { Ok(listed) })
            .try_collect()
            .await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        let (shared, object) = (&self.shared, key.to_string());
        let tag = manifest::tag(key);
        let body = shared.registry.manifest("Deleting", &object, &tag).await?;
        shared.remember(key, None);
        let Some(body) = body else {
            return Ok(());
        };
        let digest = manifest::digest_of(&body);
        shared.registry.delete_manifest(&object, &digest).await
    }
}
