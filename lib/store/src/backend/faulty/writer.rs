//! A writer that fails as it is told.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Faulty, Injected, Operation};
use crate::backend::{BackendError, ObjectWriter};

#[derive(Debug)]
pub(super) struct FaultyWriter {
    faulty: Faulty,
    /// None once the connection is cut, or a write has failed.
    writer: Option<Box<dyn ObjectWriter>>,
    object: String,
    /// Bytes that still get through.
    left: Option<u64>,
}

impl FaultyWriter {
    pub(super) fn new(
        faulty: Faulty,
        writer: Box<dyn ObjectWriter>,
        object: String,
        cut: Option<u64>,
    ) -> Self {
        Self {
            faulty,
            writer: Some(writer),
            object,
            left: cut,
        }
    }
}

#[async_trait]
impl ObjectWriter for FaultyWriter {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), BackendError> {
        let size = bytes.len() as u64;
        let through = self.left.map_or(size, |left| left.min(size));
        self.left = self.left.map(|left| left - through);
        let cut = self.left.is_some() && through < size;
        let writer = self.writer.take();
        let work = async {
            let Some(mut writer) = writer else {
                return Err(self
                    .faulty
                    .error(Operation::Write, &self.object, Injected::Cut));
            };
            // At most what it has.
            bytes.truncate(usize::try_from(through).unwrap_or(usize::MAX));
            writer.write(bytes).await?;
            if cut {
                return Err(self
                    .faulty
                    .error(Operation::Write, &self.object, Injected::Cut));
            }
            Ok(writer)
        };
        let object = self.object.clone();
        let done = self
            .faulty
            .call(Operation::Write, object, work, |_| size)
            .await;
        self.writer = Some(done?);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), BackendError> {
        let Self {
            faulty,
            writer,
            object,
            ..
        } = *self;
        let work = async {
            match writer {
                Some(writer) => writer.finish().await,
                None => Err(faulty.error(Operation::Finish, &object, Injected::Cut)),
            }
        };
        faulty
            .call(Operation::Finish, object.clone(), work, |()| 0)
            .await
    }

    async fn abort(self: Box<Self>) {
        if let Some(writer) = self.writer {
            writer.abort().await;
        }
    }
}
