//! An object that is sent in chunks.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::failure::Refused;
use super::registry::Content;
use super::session::{CHUNK, Session};
use super::{Shared, manifest, upload};
use crate::Key;
use crate::backend::{BackendError, ObjectWriter};

/// One chunk is on its way while the next is gathered. What fits into one is sent in one piece.
#[derive(Debug)]
pub(super) struct OciWriter {
    shared: Arc<Shared>,
    key: Key,
    chunk: Vec<Bytes>,
    chunk_size: usize,
    /// What a chunk has to have.
    wanted: usize,
    size: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing has been sent.
    New,
    Idle(Box<Session>),
    Sending(JoinHandle<Result<Session, BackendError>>),
    /// After an error.
    Broken,
}

impl OciWriter {
    pub(super) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self {
            shared,
            key,
            chunk: Vec::new(),
            chunk_size: 0,
            wanted: CHUNK,
            size: 0,
            state: State::New,
        }
    }

    fn broken(&self) -> BackendError {
        BackendError::failed("Writing", self.key.to_string(), Refused::Broken)
    }

    /// The session when nothing is on its way, `None` before the first chunk. May be dropped while it waits,
    /// and called again. Leaves the writer broken until a state is set.
    async fn settle(&mut self) -> Result<Option<Session>, BackendError> {
        if let State::Sending(sending) = &mut self.state {
            let done = sending.await;
            self.state = State::Broken;
            let object = self.key.to_string();
            return done
                .map_err(|join| BackendError::failed("Writing", object, join))?
                .map(Some);
        }
        match std::mem::replace(&mut self.state, State::Broken) {
            State::New => Ok(None),
            State::Idle(session) => Ok(Some(*session)),
            State::Sending(_) | State::Broken => Err(self.broken()),
        }
    }

    async fn send(&mut self) -> Result<(), BackendError> {
        let session = match self.settle().await? {
            Some(session) => session,
            None => {
                let session = Session::begin(&self.shared, &self.key.to_string()).await?;
                self.wanted = session.chunk;
                if self.chunk_size < self.wanted {
                    self.state = State::Idle(Box::new(session));
                    return Ok(());
                }
                session
            }
        };
        if let Some(error) = session.is_stuck() {
            return Err(error);
        }
        let pieces = std::mem::take(&mut self.chunk);
        self.chunk_size = 0;
        let shared = self.shared.clone();
        self.state = State::Sending(tokio::spawn(
            async move { session.send(&shared, pieces).await },
        ));
        Ok(())
    }

    async fn complete(&mut self) -> Result<(), BackendError> {
        let (shared, object) = (self.shared.clone(), self.key.to_string());
        let pieces = std::mem::take(&mut self.chunk);
        let digest = match self.settle().await? {
            Some(mut session) => {
                if !pieces.is_empty() {
                    session = session.send(&shared, pieces).await?;
                }
                session.finish(&shared).await?
            }
            None => {
                let digest = upload::digest(&object, pieces.clone()).await?;
                let push = || {
                    let content = Content::Pieces(pieces.clone());
                    upload::push(&shared, &object, &digest, content)
                };
                if self.size > 0 {
                    shared.retry.run(push).await?;
                }
                digest
            }
        };
        let blob = manifest::content(&self.key, digest, self.size);
        let tag = || shared.tag(&self.key, blob.clone(), &[]);
        shared.retry.run(tag).await.map(drop)
    }
}

#[async_trait]
impl ObjectWriter for OciWriter {
    async fn write(&mut self, mut bytes: Bytes) -> Result<(), BackendError> {
        if matches!(self.state, State::Broken) {
            return Err(self.broken());
        }
        self.size += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.wanted.saturating_sub(self.chunk_size);
            let piece = bytes.split_to(bytes.len().min(room.max(1)));
            self.chunk_size += piece.len();
            self.chunk.push(piece);
            if self.chunk_size >= self.wanted {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), BackendError> {
        self.complete().await
    }

    async fn abort(mut self: Box<Self>) {
        if let Ok(Some(session)) = self.settle().await {
            session.cancel(&self.shared).await;
        }
    }
}

impl Drop for OciWriter {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Broken);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let shared = self.shared.clone();
        match state {
            State::New | State::Broken => {}
            State::Idle(session) => {
                runtime.spawn(async move { session.cancel(&shared).await });
            }
            State::Sending(sending) => {
                runtime.spawn(async move {
                    if let Ok(Ok(session)) = sending.await {
                        session.cancel(&shared).await;
                    }
                });
            }
        }
    }
}
