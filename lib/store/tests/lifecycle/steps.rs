//! A backend that stops before a given call, so that others can do what they want in between.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use rocferry_store::backend::{Backend, BackendError, Existing, Meta, ObjectWriter};
use rocferry_store::{Key, Kind};
use tokio::sync::Notify;

/// Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    inner: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    made: AtomicU64,
    stop: AtomicU64,
    reached: Notify,
    go: Notify,
}

impl Steps {
    /// Stops before the call of this number, counted from 1 from now on.
    pub(crate) fn new(inner: &Arc<dyn Backend>, stop: u64) -> Self {
        Self {
            inner: Arc::clone(inner),
            shared: Arc::new(Shared {
                made: AtomicU64::new(0),
                stop: AtomicU64::new(stop),
                reached: Notify::new(),
                go: Notify::new(),
            }),
        }
    }

    /// Counts anew.
    pub(crate) fn stop_at(&self, stop: u64) {
        self.shared.made.store(0, Ordering::SeqCst);
        self.shared.stop.store(stop, Ordering::SeqCst);
    }

    /// Waits until somebody stands before that call.
    pub(crate) async fn reached(&self) {
        self.shared.reached.notified().await;
    }

    /// Lets them make it.
    pub(crate) fn go(&self) {
        self.shared.go.notify_one();
    }

    async fn step(&self) {
        let number = self.shared.made.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.shared.stop.load(Ordering::SeqCst) {
            self.shared.reached.notify_one();
            self.shared.go.notified().await;
        }
    }
}

#[async_trait]
impl Backend for Steps {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        self.step().await;
        self.inner.get(key, range, limit).await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        self.step().await;
        self.inner.head(key).await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        self.step().await;
        self.inner.put(key, content, existing, needs).await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        let inner = self.inner.writer(key).await?;
        let steps = self.clone();
        Ok(Box::new(Writer { steps, inner }))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        self.step().await;
        self.inner.list(kind).await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.step().await;
        self.inner.delete(key).await
    }
}

/// Only its end is seen by others.
#[derive(Debug)]
struct Writer {
    steps: Steps,
    inner: Box<dyn ObjectWriter>,
}

#[async_trait]
impl ObjectWriter for Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<(), BackendError> {
        self.steps.step().await;
        self.inner.finish().await
    }

    async fn abort(self: Box<Self>) {
        self.inner.abort().await;
    }
}
