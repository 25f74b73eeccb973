//! An object that is sent in parts.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use super::Shared;
use super::failure::{Refused, failure, is_no_such_upload};
use crate::Key;
use crate::backend::{BackendError, ObjectWriter};

/// Bytes of each part but the last: some servers want them all of one size, and at least 5 MiB.
const PART: usize = 8 << 20;
/// Parts on their way at the same time. One more is being filled.
const IN_FLIGHT: usize = 3;
/// What the protocol allows.
const MOST_PARTS: usize = 10_000;

/// Holds at most ([`IN_FLIGHT`] + 1) × [`PART`] bytes. What fits into one part is one plain write.
#[derive(Debug)]
pub(super) struct S3Writer {
    shared: Arc<Shared>,
    key: Key,
    path: Path,
    part: Vec<Bytes>,
    part_size: usize,
    size: u64,
    /// Once there is more than a part.
    upload: Option<String>,
    running: JoinSet<Result<(usize, PartId), BackendError>>,
    parts: Vec<Option<PartId>>,
    broken: bool,
}

impl S3Writer {
    pub(super) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self {
            path: shared.path(&key),
            shared,
            key,
            part: Vec::new(),
            part_size: 0,
            size: 0,
            upload: None,
            running: JoinSet::new(),
            parts: Vec::new(),
            broken: false,
        }
    }

    fn refused(&self, why: Refused) -> BackendError {
        BackendError::failed("Writing", self.key.to_string(), why)
    }

    async fn take(&mut self, mut bytes: Bytes) -> Result<(), BackendError> {
        self.size += bytes.len() as u64;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PART - self.part_size));
            self.part_size += piece.len();
            self.part.push(piece);
            if self.part_size == PART {
                self.send_part().await?;
            }
        }
        Ok(())
    }

    /// Sends what has been gathered, once fewer than [`IN_FLIGHT`] are on their way.
    async fn send_part(&mut self) -> Result<(), BackendError> {
        let number = self.parts.len();
        if number == MOST_PARTS {
            return Err(self.refused(Refused::Parts(MOST_PARTS)));
        }
        let upload = match &self.upload {
            Some(upload) => upload.clone(),
            None => self.begin().await?,
        };
        while self.running.len() >= IN_FLIGHT {
            self.settle_one().await?;
        }
        let payload: PutPayload = std::mem::take(&mut self.part).into_iter().collect();
        self.part_size = 0;
        self.parts.push(None);
        let (shared, path, key) = (self.shared.clone(), self.path.clone(), self.key.clone());
        self.running.spawn(async move {
            let send = || async {
                let part = shared.s3.put_part(&path, &upload, number, payload.clone());
                // An upload that is not known is no missing object.
                part.await
                    .map_err(|error| failure("Writing", None, key.to_string(), error))
            };
            Ok((number, shared.retry.run(send).await?))
        });
        Ok(())
    }

    async fn begin(&mut self) -> Result<String, BackendError> {
        let (s3, path, key) = (&self.shared.s3, &self.path, &self.key);
        let begin = || async move {
            let upload = s3.create_multipart(path).await;
            upload.map_err(|error| failure("Writing", None, key.to_string(), error))
        };
        let upload = self.shared.retry.run(begin).await?;
        self.upload = Some(upload.clone());
        Ok(upload)
    }

    async fn settle_one(&mut self) -> Result<(), BackendError> {
        let (number, part) = match self.running.join_next().await {
            Some(Ok(done)) => done?,
            Some(Err(join)) => {
                return Err(BackendError::failed("Writing", self.key.to_string(), join));
            }
            None => return Ok(()),
        };
        if let Some(place) = self.parts.get_mut(number) {
            *place = Some(part);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<(), BackendError> {
        if self.upload.is_none() {
            let payload: PutPayload = std::mem::take(&mut self.part).into_iter().collect();
            let write = || async {
                let done = self.shared.s3.put(&self.path, payload.clone()).await;
                done.map(drop)
                    .map_err(|error| failure("Writing", None, self.key.to_string(), error))
            };
            return self.shared.retry.run(write).await;
        }
        if self.part_size > 0 {
            self.send_part().await?;
        }
        while !self.running.is_empty() {
            self.settle_one().await?;
        }
        let Some(parts) = self.parts.drain(..).collect::<Option<Vec<_>>>() else {
            return Err(self.refused(Refused::Broken));
        };
        let upload = self.upload.clone().unwrap_or_default();
        let mut tries = 0u32;
        let (shared, path, key, size) = (&self.shared, &self.path, &self.key, self.size);
        let complete = || {
            let again = tries > 0;
            tries = tries.saturating_add(1);
            let (parts, upload) = (parts.clone(), &upload);
            async move {
                let done = shared.s3.complete_multipart(path, upload, parts).await;
                let error = match done {
                    Ok(_) => return Ok(()),
                    Err(error) => failure("Writing", None, key.to_string(), error),
                };
                // It may have been completed by a try whose answer got lost.
                if again && is_no_such_upload(&error) {
                    let found = shared.s3.head(path).await;
                    if found.is_ok_and(|found| found.size == size) {
                        return Ok(());
                    }
                }
                Err(error)
            }
        };
        shared.retry.run(complete).await?;
        self.upload = None;
        Ok(())
    }
}

#[async_trait]
impl ObjectWriter for S3Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        if self.broken {
            return Err(self.refused(Refused::Broken));
        }
        // Also when this future is dropped half way: what it has taken is gone then.
        self.broken = true;
        self.take(bytes).await?;
        self.broken = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), BackendError> {
        if self.broken {
            return Err(self.refused(Refused::Broken));
        }
        self.complete().await
    }

    async fn abort(mut self: Box<Self>) {
        self.running.shutdown().await;
        if let Some(upload) = self.upload.take() {
            // In the server's own time, if it does not work now.
            let _ = self.shared.s3.abort_multipart(&self.path, &upload).await;
        }
    }
}

impl Drop for S3Writer {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut running = std::mem::take(&mut self.running);
        let (shared, path) = (self.shared.clone(), self.path.clone());
        runtime.spawn(async move {
            running.shutdown().await;
            let _ = shared.s3.abort_multipart(&path, &upload).await;
        });
    }
}
