//! A backend that fails as it is told, and remembers what was asked of it: for tests of what is above.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Backend, BackendError, Existing, Meta, ObjectWriter};
use crate::{Key, Kind};

mod writer;

use writer::FaultyWriter;

/// What goes wrong. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// So many first tries of each distinct operation (what is done, to which object) fail for now and have
    /// no effect.
    pub first_tries: u32,
    /// So many first tries of each distinct change (put, finish, delete) that get through are done, and the
    /// caller is told that they failed for now.
    pub lost_answers: u32,
    /// What those errors ask the caller to wait.
    pub retry_after: Option<Duration>,
    /// The call of this number, counted from 1 over all operations, fails for good.
    pub permanent_at: Option<u64>,
    /// Every call takes this much longer.
    pub delay: Duration,
    /// The connection of the first writers is cut.
    pub cut: Option<Cut>,
    /// A list is as the one before it was; the first is as it should be.
    pub stale_lists: bool,
}

/// Writers that break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// After so many bytes, which reach the backend.
    pub after: u64,
    /// So many writers.
    pub writers: u32,
}

/// What is asked of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Backend::get`].
    Get,
    /// [`Backend::head`].
    Head,
    /// [`Backend::put`].
    Put,
    /// [`Backend::writer`].
    Writer,
    /// [`ObjectWriter::write`].
    Write,
    /// [`ObjectWriter::finish`].
    Finish,
    /// [`Backend::list`].
    List,
    /// [`Backend::delete`].
    Delete,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "Reading",
            Self::Head => "Looking at",
            Self::Put | Self::Writer | Self::Write | Self::Finish => "Writing",
            Self::List => "Listing",
            Self::Delete => "Deleting",
        }
    }

    const fn changes(self) -> bool {
        matches!(self, Self::Put | Self::Finish | Self::Delete)
    }
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What.
    pub operation: Operation,
    /// The object, or the kind that was listed.
    pub object: String,
    /// Bytes that it carried: of `put`, `write`, and of the answer to `get`.
    pub bytes: u64,
    /// What the caller was told; a lost answer counts as failed.
    pub succeeded: bool,
}

/// See the [module](self). Clones share what they remember.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: Arc<dyn Backend>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    number: u64,
    tries: HashMap<(Operation, String), u32>,
    lost: HashMap<(Operation, String), u32>,
    cut: u32,
    lists: HashMap<Kind, Vec<(Key, Meta)>>,
    calls: Vec<Call>,
}

#[derive(Debug, thiserror::Error)]
enum Injected {
    #[error("Injected: try again")]
    TryAgain,
    #[error("Injected: the answer is lost")]
    LostAnswer,
    #[error("Injected: the connection is cut")]
    Cut,
    #[error("Injected: for good")]
    Permanent,
}

impl Faulty {
    /// Calls go to `inner` unless something goes wrong.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, faults: Faults) -> Self {
        Self {
            inner,
            state: Arc::new(Mutex::new(State {
                faults,
                ..State::default()
            })),
        }
    }

    /// Other faults from now on. What counts tries and calls goes on counting.
    pub fn set_faults(&self, faults: Faults) {
        self.with(|state| state.faults = faults);
    }

    /// All calls that have ended, in that order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.with(|state| state.calls.clone())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // No use of the state leaves it half changed.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails as the faults say before a call does anything.
    async fn before(&self, operation: Operation, object: &str) -> Result<(), BackendError> {
        let delay = self.with(|state| state.faults.delay);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let fault = self.with(|state| {
            state.number += 1;
            if state.faults.permanent_at == Some(state.number) {
                return Some(Injected::Permanent);
            }
            let tries = state
                .tries
                .entry((operation, object.to_owned()))
                .or_default();
            if *tries < state.faults.first_tries {
                *tries += 1;
                return Some(Injected::TryAgain);
            }
            None
        });
        fault.map_or(Ok(()), |fault| Err(self.error(operation, object, fault)))
    }

    /// Replaces the answer of a change that was done, as the faults say.
    fn after(&self, operation: Operation, object: &str) -> Result<(), BackendError> {
        let lost = self.with(|state| {
            let lost = state
                .lost
                .entry((operation, object.to_owned()))
                .or_default();
            let lose = operation.changes() && *lost < state.faults.lost_answers;
            *lost += u32::from(lose);
            lose
        });
        if lost {
            return Err(self.error(operation, object, Injected::LostAnswer));
        }
        Ok(())
    }

    fn error(&self, operation: Operation, object: &str, fault: Injected) -> BackendError {
        let (operation, object) = (operation.name(), object.to_owned());
        match fault {
            Injected::Permanent => BackendError::failed(operation, object, fault),
            _ => BackendError::Unavailable {
                operation,
                object,
                retry_after: self.with(|state| state.faults.retry_after),
                source: Box::new(fault),
            },
        }
    }

    /// One call with its faults, remembered. `bytes` are those of its answer.
    async fn call<T>(
        &self,
        operation: Operation,
        object: String,
        work: impl Future<Output = Result<T, BackendError>>,
        bytes: impl Fn(&T) -> u64,
    ) -> Result<T, BackendError> {
        let done = async {
            self.before(operation, &object).await?;
            let answer = work.await?;
            self.after(operation, &object)?;
            Ok(answer)
        };
        let done = done.await;
        let call = Call {
            operation,
            object,
            bytes: done.as_ref().map_or(0, bytes),
            succeeded: done.is_ok(),
        };
        self.with(|state| state.calls.push(call));
        done
    }
}

#[async_trait]
impl Backend for Faulty {
    async fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, BackendError> {
        let work = self.inner.get(key, range, limit);
        self.call(Operation::Get, key.to_string(), work, |content| {
            content.len() as u64
        })
        .await
    }

    async fn head(&self, key: &Key) -> Result<Option<Meta>, BackendError> {
        let work = self.inner.head(key);
        self.call(Operation::Head, key.to_string(), work, |_| 0)
            .await
    }

    async fn put(
        &self,
        key: &Key,
        content: Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        let size = content.len() as u64;
        let work = self.inner.put(key, content, existing, needs);
        self.call(Operation::Put, key.to_string(), work, |()| size)
            .await
    }

    async fn writer(&self, key: &Key) -> Result<Box<dyn ObjectWriter>, BackendError> {
        let work = self.inner.writer(key);
        let writer = self
            .call(Operation::Writer, key.to_string(), work, |_| 0)
            .await?;
        let cut = self.with(|state| {
            let cut = state.faults.cut.filter(|cut| state.cut < cut.writers);
            state.cut += u32::from(cut.is_some());
            cut.map(|cut| cut.after)
        });
        Ok(Box::new(FaultyWriter::new(
            self.clone(),
            writer,
            key.to_string(),
            cut,
        )))
    }

    async fn list(&self, kind: Kind) -> Result<Vec<(Key, Meta)>, BackendError> {
        let work = async {
            let list = self.inner.list(kind).await?;
            Ok(self.with(|state| {
                let before = state.lists.insert(kind, list.clone());
                before.filter(|_| state.faults.stale_lists).unwrap_or(list)
            }))
        };
        self.call(Operation::List, kind.dir().to_owned(), work, |_| 0)
            .await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        let work = self.inner.delete(key);
        self.call(Operation::Delete, key.to_string(), work, |()| 0)
            .await
    }
}
