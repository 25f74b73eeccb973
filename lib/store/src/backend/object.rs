//! Objects in a bucket of S3, or of a server that speaks its protocol.
//!
//! ```text
//! s3://BUCKET/PREFIX      PREFIX/NAME/store
//!                         PREFIX/NAME/packs/5f3c…
//! ```
//!
//! Consistency: an object appears whole. [`Existing::Keep`] is a conditional write (`If-None-Match: *`). A
//! server that does not know it is found out when the first object is kept: the same write is made again and
//! has to be refused. Where it is not, [`S3::conditional_writes`] says so, and from then on it is looked
//! whether the object exists before it is written: two that write at the same moment may then both succeed.
//!
//! Integrity: over TLS what TLS gives. Without, each request carries the SHA-256 of its body in its signature,
//! and the server refuses a body that is another. `AWS_UNSIGNED_PAYLOAD` chooses otherwise.
//!
//! Crash: parts of an unfinished upload stay on the server, where no list shows them, until a lifecycle rule
//! of the bucket removes them. Retry: parts of an object that is being written are sent again by the
//! [`RetryPolicy`]; everything else is the caller's ([`Retrying`](super::Retrying)). Cancellation: dropping
//! a future drops its request; dropping a writer gives its upload up in the background.
//!
//! Credentials are looked for as other tools do: environment, web identity, profile, container, instance.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
};
use tokio::sync::OnceCell;

use super::{
    Backend, BackendError, Existing, Meta, ObjectWriter, OutOfRange, RetryPolicy, Variables,
};
use crate::{Key, Kind, StoreName};

mod connect;
mod failure;
mod profile;
mod watch;
mod writer;

pub use connect::{Location, Style};
use failure::{Refused, failure};
use writer::S3Writer;

/// A tenant's part of a bucket, see the [module](self). Clones share connections.
#[derive(Clone, Debug)]
pub struct S3 {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    s3: AmazonS3,
    /// Prefix and tenant.
    root: String,
    retry: RetryPolicy,
    conditional: AtomicU8,
    /// Set once the credentials have been had.
    credentials: OnceCell<()>,
}

/// Whether the server makes conditional writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConditionalWrites {
    /// Nothing has been kept yet.
    Unknown,
    /// Of several that keep at once one wins.
    Yes,
    /// It looks before it writes, and two at once may both succeed.
    No,
}

impl S3 {
    /// The part of the bucket that belongs to `name`. Credentials and settings come from `variables`
    /// (`AWS_…`), and from files that they name.
    ///
    /// # Errors
    /// [`BackendError::Url`] when the settings make no sense.
    pub fn open(
        location: &Location,
        name: &StoreName,
        variables: &Variables,
        retry: RetryPolicy,
    ) -> Result<Self, BackendError> {
        let s3 = connect::connect(location, variables)?;
        let root = match location.prefix.as_str() {
            "" => name.to_string(),
            prefix => format!("{prefix}/{name}"),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                s3,
                root,
                retry,
                conditional: AtomicU8::new(ConditionalWrites::Unknown as u8),
                credentials: OnceCell::new(),
            }),
        })
    }

    /// What is known of the server.
    #[must_use]
    pub fn conditional_writes(&self) -> ConditionalWrites {
        match self.shared.conditional.load(Ordering::Relaxed) {
            known if known == ConditionalWrites::Yes as u8 => ConditionalWrites::Yes,
            known if known == ConditionalWrites::No as u8 => ConditionalWrites::No,
            _ => ConditionalWrites::Unknown,
        }
    }

    fn found_out(&self, known: ConditionalWrites) {
        let before = self.shared.conditional.swap(known as u8, Ordering::Relaxed);
        if known == ConditionalWrites::No && before != known as u8 {
            tracing::warn!(
                "the S3 server makes no conditional writes: two that create an object at the same \
                 moment may both succeed"
            );
        }
    }

    async fn keep(&self, key: &Key, content: Bytes) -> Result<(), BackendError> {
        let known = self.conditional_writes();
        if known != ConditionalWrites::Yes && self.head(key).await?.is_some() {
            return Err(BackendError::Exists { key: key.clone() });
        }
        if known == ConditionalWrites::No {
            return self.shared.put(key, content, PutMode::Overwrite).await;
        }
        match self.shared.put(key, content.clone(), PutMode::Create).await {
            Ok(()) if known == ConditionalWrites::Unknown => {}
            Err(BackendError::Exists { key }) => {
                self.found_out(ConditionalWrites::Yes);
                return Err(BackendError::Exists { key });
            }
            Err(error) if failure::is_unknown_condition(&error) => {
                self.found_out(ConditionalWrites::No);
                return self.shared.put(key, content, PutMode::Overwrite).await;
            }
            done => return done,
        }
        // Some servers ignore the condition without a word. This one writes what is there already.
        match self.shared.put(key, content, PutMode::Create).await {
            Ok(()) => self.found_out(ConditionalWrites::No),
            Err(BackendError::Exists { .. }) => self.found_out(ConditionalWrites::Yes),
            // Found out another time.
            Err(_) => {}
        }
        Ok(())
    }
}

impl Shared {
    fn path(&self, key: &Key) -> Path {
        Path::from(format!("{}/{key}", self.root))
    }

    /// Credentials that are nowhere to be had are a permanent error, and the first request would only say
    /// that a service of the cloud's machines did not answer.
    async fn ready(&self, operation: &'static str, object: &str) -> Result<(), BackendError> {
        let had = async {
            let provider = self.s3.credentials();
            provider.get_credential().await.map(drop)
        };
        match self.credentials.get_or_try_init(|| had).await {
            Ok(()) => Ok(()),
            Err(error) => Err(BackendError::Denied {
                operation,
                object: object.to_owned(),
                source: Box::new(error),
            }),
        }
    }

    async fn look(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        match self.s3.head(&self.path(key)).await {
            Ok(found) => Ok(Some(meta(&found))),
            Err(error) => missing(failure("Looking at", Some(key), key.to_string(), error)),
        }
    }

    /// The answer to `HEAD` has no body: 404 may mean that there is no such bucket, or, with versitygw, no
    /// such access key. Reading says which.
    async fn look_closer(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        match self.s3.get_opts(&self.path(key), options).await {
            // Written just now.
            Ok(found) => Ok(Some(meta(&found.meta))),
            Err(error) => {
                let error = failure("Looking at", Some(key), key.to_string(), error);
                if failure::is_out_of_range(&error) {
                    // The same, and empty.
                    return self.look(key).await;
                }
                missing(error)
            }
        }
    }

    async fn put(&self, key: &Key, content: Bytes, mode: PutMode) -> Result<(), BackendError> {
        let path = self.path(key);
        let payload = PutPayload::from(content);
        match self.s3.put_opts(&path, payload, mode.into()).await {
            Ok(_) => Ok(()),
            Err(error) => Err(failure("Writing", Some(key), key.to_string(), error)),
        }
    }
}

/// An object that is not there is an answer as well.
fn missing<T>(error: BackendError) -> Result<Option<T>, BackendError> {
    match error {
        BackendError::NotFound { .. } => Ok(None),
        error => Err(error),
    }
}

fn meta(found: &ObjectMeta) -> Meta {
    let modified: SystemTime = found.last_modified.into();
    Meta {
        size: found.size,
        // What the library makes of an answer without a time.
        modified: (modified > UNIX_EPOCH).then_some(modified),
    }
}

#[async_trait]
impl Backend for S3 {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        const READING: &str = "Reading";
        let outside = |range: Range<u64>, size: u64| {
            BackendError::failed(READING, key.to_string(), OutOfRange { range, size })
        };
        let too_large = || BackendError::TooLarge {
            key: key.clone(),
            limit,
        };
        self.shared.ready(READING, &key.to_string()).await?;
        if let Some(range) = &range {
            match range.end.checked_sub(range.start) {
                Some(length) if length > limit => return Err(too_large()),
                // No request asks for no bytes.
                None | Some(0) => {
                    let found = self.head(key).await?;
                    let size = found
                        .ok_or_else(|| BackendError::NotFound { key: key.clone() })?
                        .size;
                    return match super::range_length(range, size) {
                        Some(_) => Ok(Bytes::new()),
                        None => Err(outside(range.clone(), size)),
                    };
                }
                Some(_) => {}
            }
        }
        let options = GetOptions {
            range: range.clone().map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let error = |error| failure(READING, Some(key), key.to_string(), error);
        let found = self
            .shared
            .s3
            .get_opts(&self.shared.path(key), options)
            .await;
        let found = found.map_err(error)?;
        let size = found.meta.size;
        let wanted = range.unwrap_or(0..size);
        if found.range != wanted {
            return Err(outside(wanted, size));
        }
        let length = wanted.end - wanted.start;
        if length > limit {
            return Err(too_large());
        }
        let length = usize::try_from(length).map_err(|_| too_large())?;
        let mut content = BytesMut::with_capacity(length);
        let mut stream = found.into_stream();
        while let Some(piece) = stream.try_next().await.map_err(error)? {
            content.extend_from_slice(&piece);
            if content.len() > length {
                break;
            }
        }
        if content.len() != length {
            // The connection ended early without saying so.
            return Err(BackendError::Unavailable {
                operation: READING,
                object: key.to_string(),
                retry_after: None,
                source: Box::new(Refused::Length {
                    wanted: length,
                    got: content.len(),
                }),
            });
        }
        Ok(content.freeze())
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        self.shared.ready("Looking at", &key.to_string()).await?;
        match self.shared.look(key).await? {
            Some(found) => Ok(Some(found)),
            None => self.shared.look_closer(key).await,
        }
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        _needs: &[Key],
    ) -> Result<(), BackendError> {
        self.shared.ready("Writing", &key.to_string()).await?;
        match existing {
            Existing::Replace => self.shared.put(key, content, PutMode::Overwrite).await,
            Existing::Keep => self.keep(key, content).await,
        }
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        self.shared.ready("Writing", &key.to_string()).await?;
        Ok(Box::new(S3Writer::new(self.shared.clone(), key.clone())))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        self.shared.ready("Listing", kind.dir()).await?;
        if kind == Kind::Store {
            let found = self.head(&Key::Store).await?;
            return Ok(found.map(|meta| (Key::Store, meta)).into_iter().collect());
        }
        let dir = Path::from(format!("{}/{}", self.shared.root, kind.dir()));
        // With a delimiter, what lies in folders below is not listed.
        let found = self.shared.s3.list_with_delimiter(Some(&dir)).await;
        let found =
            found.map_err(|error| failure("Listing", None, kind.dir().to_owned(), error))?;
        let ours = found.objects.iter().filter_map(|object| {
            let key = Key::from_parts(kind, object.location.filename()?)?;
            // Not one of that name somewhere else.
            (self.shared.path(&key) == object.location).then(|| (key, meta(object)))
        });
        Ok(ours.collect())
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.shared.ready("Deleting", &key.to_string()).await?;
        match self.shared.s3.delete(&self.shared.path(key)).await {
            Ok(()) => Ok(()),
            Err(error) => match failure("Deleting", Some(key), key.to_string(), error) {
                BackendError::NotFound { .. } => Ok(()),
                error => Err(error),
            },
        }
    }
}
