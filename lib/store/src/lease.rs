//! Leases: what garbage collection must leave alone, since something runs that relies on it.
//!
//! A lease is an object that is renewed while its holder lives. It is written before its holder looks at
//! what there is; [collection](crate::gc) deletes a pack only when no lease is left that may be older than
//! the pack's condemnation. A holder that could not renew in time has to assume the worst.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocferry_image::manifest::{CheckpointId, Manifest, PackId};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backend::Existing;
use crate::envelope::{Lease, LeaseKind};
use crate::seal::new_lease_id;
use crate::store::now_ms;
use crate::{Key, LeaseId, Store, StoreError};

/// A lease that is renewed until it is released or dropped.
#[derive(Debug)]
pub(crate) struct Held {
    id: LeaseId,
    store: Store,
    renewed: Renewed,
    stop: Arc<Notify>,
    renewing: Option<JoinHandle<()>>,
}

/// When a lease was renewed the last time: before that was sent.
#[derive(Clone, Debug)]
struct Renewed(Arc<Mutex<Moment>>);

/// A moment by both clocks. One stands still while a machine is paused, the other one may be set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    steady: Instant,
    wall_ms: u64,
}

impl Moment {
    fn now() -> Self {
        Self {
            steady: Instant::now(),
            wall_ms: now_ms(),
        }
    }

    /// What is left of this time since then, by the clock that says less.
    fn left(self, length: Duration) -> Duration {
        let steady = length.saturating_sub(self.steady.elapsed());
        let passed = now_ms().saturating_sub(self.wall_ms);
        steady.min(length.saturating_sub(Duration::from_millis(passed)))
    }
}

impl Renewed {
    fn get(&self) -> Moment {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

impl Held {
    /// Writes a lease.
    pub(crate) async fn take(
        store: &Store,
        kind: LeaseKind,
        packs: Vec<PackId>,
        checkpoints: Vec<CheckpointId>,
    ) -> Result<Self, StoreError> {
        let id = new_lease_id()?;
        let now = now_ms();
        let length = store.options().lease;
        let lease = Lease {
            kind,
            started_ms: now,
            expires_ms: now.saturating_add(milliseconds(length)),
            holder: store.options().holder.clone(),
            packs,
            checkpoints,
        };
        let renewed = Renewed(Arc::new(Mutex::new(Moment::now())));
        let key = Key::Lease(id);
        store.put_small(&key, &lease, Existing::Replace).await?;
        let stop = Arc::new(Notify::new());
        let work = renew(store.clone(), id, lease, renewed.clone(), Arc::clone(&stop));
        Ok(Self {
            id,
            store: store.clone(),
            renewed,
            stop,
            renewing: Some(tokio::spawn(work)),
        })
    }

    /// Keeps what a checkpoint consists of as long as it is read.
    pub(crate) async fn reading(store: &Store, manifest: &Manifest) -> Result<Self, StoreError> {
        let (packs, id) = (manifest.packs.clone(), manifest.id.clone());
        let lease = Self::take(store, LeaseKind::Restore, packs, vec![id.clone()]).await?;
        // It may have been deleted before the lease was there, and its packs may be going already.
        match store.backend().head(&Key::Checkpoint(id.clone())).await {
            Ok(Some(_)) => Ok(lease),
            Ok(None) => {
                lease.release().await;
                Err(StoreError::NoCheckpoint { checkpoint: id })
            }
            Err(error) => {
                lease.release().await;
                Err(error.into())
            }
        }
    }

    /// Fails if the lease was not renewed in time. Once it fails it does so for good.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.renewed.get().left(self.store.options().lease) {
            Duration::ZERO => Err(StoreError::LeaseLost { lease: self.id }),
            _ => Ok(()),
        }
    }

    /// Ends the lease. One that cannot be removed runs out by itself.
    pub(crate) async fn release(mut self) {
        self.stop.notify_one();
        if let Some(renewing) = self.renewing.take() {
            // A renewal that is on its way must not come after the removal.
            let _ = renewing.await;
        }
        if let Err(error) = self.store.backend().delete(&Key::Lease(self.id)).await {
            tracing::warn!(lease = %self.id, %error, "Lease not removed; it runs out by itself");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(renewing) = &self.renewing {
            renewing.abort();
        }
    }
}

async fn renew(store: Store, id: LeaseId, mut lease: Lease, renewed: Renewed, stop: Arc<Notify>) {
    let length = store.options().lease;
    loop {
        tokio::select! {
            () = stop.notified() => return,
            () = tokio::time::sleep(length / 4) => {}
        }
        let begun = Moment::now();
        let left = renewed.get().left(length);
        if left.is_zero() {
            // Somebody may have acted on that already: renewing it would hide it.
            return;
        }
        lease.expires_ms = now_ms().saturating_add(milliseconds(length));
        let key = Key::Lease(id);
        let write = store.put_small(&key, &lease, Existing::Replace);
        match tokio::time::timeout(left, write).await {
            Ok(Ok(())) => renewed.set(begun),
            Ok(Err(error)) => tracing::warn!(lease = %id, %error, "Lease not renewed"),
            Err(_) => tracing::warn!(lease = %id, "Lease not renewed in time"),
        }
    }
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
