//! A file that is written piece by piece.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::failure::Failure;
use super::place::Place;
use super::temporary::Temporary;
use crate::Key;
use crate::backend::{BackendError, Existing, ObjectWriter};

/// One piece is on its way to the file while the caller makes the next one.
#[derive(Debug)]
pub(super) struct DirectoryWriter {
    key: Key,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle(Temporary),
    Writing(JoinHandle<io::Result<Temporary>>),
    /// After an error.
    Broken,
}

#[derive(Debug, thiserror::Error)]
#[error("An earlier write failed")]
struct Broken;

impl DirectoryWriter {
    pub(super) fn new(key: Key, temporary: Temporary) -> Self {
        Self {
            key,
            state: State::Idle(temporary),
        }
    }

    /// The file when nothing is on its way any more. May be dropped while it waits, and called again.
    async fn settle(&mut self) -> Result<Temporary, BackendError> {
        let done = match &mut self.state {
            State::Writing(running) => match running.await {
                Ok(done) => done,
                Err(join) => Err(io::Error::other(join)),
            },
            State::Idle(_) | State::Broken => {
                match std::mem::replace(&mut self.state, State::Broken) {
                    State::Idle(temporary) => Ok(temporary),
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
        let mut temporary = self.settle().await?;
        self.state = State::Writing(tokio::task::spawn_blocking(move || {
            temporary.write(&bytes)?;
            Ok(temporary)
        }));
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), BackendError> {
        let temporary = self.settle().await?;
        let name = Place::file_name(&self.key);
        let done =
            tokio::task::spawn_blocking(move || temporary.commit(&name, Existing::Replace)).await;
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
