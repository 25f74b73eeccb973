//! A file that is written piece by piece.
//!
//! It goes past the page cache: packs are large, and a node that only sends them elsewhere, or keeps them for
//! later, should not lose other files from its memory for them.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::failure::Failure;
use super::place::Place;
use super::temporary::Temporary;
use crate::Key;
use crate::aligned::Aligned;
use crate::backend::{BackendError, Existing, ObjectWriter};

/// Bytes that are written at once: as long as a block.
const STAGE: usize = 4 << 20;

/// One piece is on its way to the file while the caller makes the next one.
#[derive(Debug)]
pub(super) struct DirectoryWriter {
    key: Key,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle(Staged),
    Writing(JoinHandle<io::Result<Staged>>),
    /// After an error.
    Broken,
}

/// The file, and what is still to be written to it.
#[derive(Debug)]
struct Staged {
    temporary: Temporary,
    stage: Aligned,
    filled: usize,
}

impl Staged {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(STAGE - self.filled));
            let end = self.filled + now.len();
            self.stage.room(STAGE)[self.filled..end].copy_from_slice(now);
            (self.filled, bytes) = (end, later);
            if self.filled == STAGE {
                self.filled = 0;
                self.temporary.write_direct(self.stage.room(STAGE))?;
            }
        }
        Ok(())
    }

    fn commit(mut self, name: &str) -> io::Result<bool> {
        self.temporary.write(self.stage.room(self.filled))?;
        self.temporary.commit(name, Existing::Replace)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("An earlier write failed")]
struct Broken;

impl DirectoryWriter {
    pub(super) fn new(key: Key, temporary: Temporary) -> Self {
        Self {
            key,
            state: State::Idle(Staged {
                temporary,
                stage: Aligned::default(),
                filled: 0,
            }),
        }
    }

    /// The file when nothing is on its way any more. May be dropped while it waits, and called again.
    async fn settle(&mut self) -> Result<Staged, BackendError> {
        let done = match &mut self.state {
            State::Writing(running) => match running.await {
                Ok(done) => done,
                Err(join) => Err(io::Error::other(join)),
            },
            State::Idle(_) | State::Broken => {
                match std::mem::replace(&mut self.state, State::Broken) {
                    State::Idle(staged) => Ok(staged),
                    _ => Err(io::Error::other(Broken)),
                }
            }
        };
        self.state = State::Broken;
        done.map_err(|error| self.error(error))
    }

    fn error(&self, error: io::Error) -> BackendError {
        Failure::from(error).into_error("Writing", self.key.to_string())
    }
}

#[async_trait]
impl ObjectWriter for DirectoryWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        let mut staged = self.settle().await?;
        self.state = State::Writing(tokio::task::spawn_blocking(move || {
            staged.write(&bytes)?;
            Ok(staged)
        }));
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), BackendError> {
        let staged = self.settle().await?;
        let name = Place::file_name(&self.key);
        let done = tokio::task::spawn_blocking(move || staged.commit(&name)).await;
        match done {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.error(error)),
            Err(join) => Err(self.error(io::Error::other(join))),
        }
    }

    async fn abort(mut self: Box<Self>) {
        // Dropping the file removes it.
        let _ = self.settle().await;
    }
}
