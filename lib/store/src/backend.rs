//! Where objects are kept.
//!
//! A backend keeps whole objects under [`Key`]s. It knows nothing of what is in them. Every implementation
//! passes one conformance suite.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Key, Kind};

mod directory;
mod error;
pub mod faulty;
mod http;
mod memory;
pub mod object;
pub mod oci;
mod retry;
mod url;
mod variables;

pub use directory::Directory;
pub(crate) use error::OutOfRange;
pub use error::{BackendError, ErrorClass, Source};
pub use faulty::Faulty;
pub use memory::Memory;
pub use object::S3;
pub use oci::Oci;
pub use retry::{RetryPolicy, Retrying};
pub use url::{Options, open, open_with};
pub use variables::Variables;

/// What is known of an object without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Bytes.
    pub size: u64,
    /// When it was written, by the clock of whoever keeps it (a registry that does not tell: `None`).
    pub modified: Option<SystemTime>,
}

/// What to do when the object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Fail with [`BackendError::Exists`], and leave it as it is. Of several that write at once one wins.
    Keep,
    /// Replace it. A reader sees the old one or the new one, whole.
    Replace,
}

/// A place for objects. Calls may be made from many tasks at once; dropping a call's future stops it.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// The whole object, or `range` of it (which must lie inside).
    ///
    /// # Errors
    /// [`BackendError::NotFound`]; [`BackendError::TooLarge`] when more than `limit` bytes would come.
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError>;

    /// Size and age; `None` if there is no such object.
    ///
    /// # Errors
    /// [`BackendError`].
    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError>;

    /// Writes a whole object: durable when the call returns, never seen in part. `needs` are the objects
    /// without which this one makes no sense (the packs of a manifest); a registry keeps those alive, others
    /// ignore it.
    ///
    /// # Errors
    /// [`BackendError::Exists`] for [`Existing::Keep`].
    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError>;

    /// Begins an object whose size is not known yet. Nothing is seen of it before it is finished.
    ///
    /// # Errors
    /// [`BackendError`].
    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError>;

    /// All objects of a kind, in no particular order. An object that was written before the call began is in
    /// the list.
    ///
    /// # Errors
    /// [`BackendError`].
    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError>;

    /// Removes an object; one that is not there counts as removed.
    ///
    /// # Errors
    /// [`BackendError`].
    async fn delete(&self, key: &Key) -> Result<(), BackendError>;
}

/// An object that is being written. Dropping it leaves nothing that a [`Backend::list`] would show; remains
/// on the server go with [`ObjectWriter::abort`] or in the server's own time.
#[async_trait]
pub trait ObjectWriter: Send + fmt::Debug {
    /// Adds bytes at the end. Returns when they are taken over; errors of earlier ones may come here.
    ///
    /// # Errors
    /// [`BackendError`]; the writer is then of no more use.
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError>;

    /// Makes the object: durable and whole when the call returns. An object of that name is replaced.
    ///
    /// # Errors
    /// [`BackendError`].
    async fn finish(self: Box<Self>) -> Result<(), BackendError>;

    /// Gives it up and removes what was written.
    async fn abort(self: Box<Self>);
}

/// Bytes in `range` if it lies inside an object of this size.
fn range_length(range: &Range<u64>, size: u64) -> Option<u64> {
    if range.end > size {
        return None;
    }
    range.end.checked_sub(range.start)
}

#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        (**self).get(key, range, limit).await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        (**self).head(key).await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        (**self).put(key, content, existing, needs).await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        (**self).writer(key).await
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        (**self).list(kind).await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        (**self).delete(key).await
    }
}
