//! Trying again: the one layer in which the store does so.
//!
//! What helps is a property of the error ([`BackendError::class`]), how long it is worth while one of the
//! caller's [`RetryPolicy`]. The libraries below have their own retries turned off. Pieces of an object that
//! is being written are tried again by the backend that sends them, by the same policy; [`Retrying`] does it
//! for whole calls.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use tokio::time::Instant;

use super::{Backend, BackendError, ErrorClass, Existing, Meta, ObjectWriter};
use crate::{Key, Kind};

/// When to try again, and when to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Pause before the second try. It doubles from try to try, and up to as much again is added at random,
    /// so that many clients do not come back at the same moment.
    pub first_pause: Duration,
    /// The longest pause, unless the server asks for a longer one.
    pub longest_pause: Duration,
    /// No try is begun later than this after the first one began. A try that runs is not cut short.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(15),
            deadline: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// One try.
    pub const NEVER: Self = Self {
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        deadline: Duration::ZERO,
    };

    /// Does `operation` until it succeeds, fails for good, or the time is over: then the last error comes.
    ///
    /// # Errors
    /// That of the last try.
    pub async fn run<T, F>(&self, operation: impl FnMut() -> F) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        let begun = Instant::now();
        let pauses = ExponentialBuilder::default()
            .with_min_delay(self.first_pause)
            .with_max_delay(self.longest_pause)
            .with_jitter()
            .without_max_times();
        operation
            .retry(pauses)
            .when(|error| !error.is_permanent())
            .adjust(|error, pause| {
                let asked = match error.class() {
                    ErrorClass::Temporary(asked) => asked.unwrap_or_default(),
                    ErrorClass::Permanent => return None,
                };
                let pause = pause?.max(asked);
                let end = begun.elapsed().checked_add(pause)?;
                (end < self.deadline).then_some(pause)
            })
            .await
    }
}

/// A backend whose calls are tried again.
///
/// An answer can get lost after the work was done. So when a second try of [`Existing::Keep`] finds that the
/// object exists, its content is compared: ours is a success. A writer whose end fails for now is looked for
/// in the same way. Its other errors go to the caller, who has to write the object again: what went through
/// the writer is not kept.
#[derive(Clone, Debug)]
pub struct Retrying {
    inner: Arc<dyn Backend>,
    policy: RetryPolicy,
}

impl Retrying {
    /// Tries calls of `inner` again.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, policy: RetryPolicy) -> Self {
        Self { inner, policy }
    }

    /// Whether the object is there with this content.
    async fn holds(&self, key: &Key, content: &Bytes) -> Result<bool, BackendError> {
        match self.inner.get(key, None, content.len() as u64).await {
            Ok(found) => Ok(found == content),
            Err(BackendError::NotFound { .. } | BackendError::TooLarge { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Backend for Retrying {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        self.policy
            .run(|| self.inner.get(key, range.clone(), limit))
            .await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        self.policy.run(|| self.inner.head(key)).await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        let mut tries = 0u32;
        self.policy
            .run(|| {
                let again = tries > 0;
                tries = tries.saturating_add(1);
                let content = content.clone();
                async move {
                    match self.inner.put(key, content.clone(), existing, needs).await {
                        Err(BackendError::Exists { key: found }) if again => {
                            if self.holds(key, &content).await? {
                                Ok(())
                            } else {
                                Err(BackendError::Exists { key: found })
                            }
                        }
                        done => done,
                    }
                }
            })
            .await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        let before = self.head(key).await?;
        let writer = self.policy.run(|| self.inner.writer(key)).await?;
        Ok(Box::new(RetryingWriter {
            writer,
            backend: self.clone(),
            key: key.clone(),
            before,
            size: 0,
        }))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        self.policy.run(|| self.inner.list(kind)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.policy.run(|| self.inner.delete(key)).await
    }
}

/// Looks whether the object is there when its end seems to have failed.
#[derive(Debug)]
struct RetryingWriter {
    writer: Box<dyn ObjectWriter>,
    backend: Retrying,
    key: Key,
    /// What there was of this name before.
    before: Option<Meta>,
    size: u64,
}

#[async_trait]
impl ObjectWriter for RetryingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        self.size += bytes.len() as u64;
        self.writer.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<(), BackendError> {
        let error = match self.writer.finish().await {
            Err(error) if !error.is_permanent() => error,
            done => return done,
        };
        // The first error tells more than one of looking for the object.
        match self.backend.head(&self.key).await {
            Ok(Some(meta)) if meta.size == self.size && Some(meta) != self.before => Ok(()),
            _ => Err(error),
        }
    }

    async fn abort(self: Box<Self>) {
        self.writer.abort().await;
    }
}
