//! Garbage collection: packs that no checkpoint needs go away, whatever runs meanwhile.
//!
//! A pack is deleted in two steps, in two collections. The first one *condemns* it: writes `condemned/ID`.
//! The second one deletes it, once the condemnation is older than the grace, no checkpoint and no lease needs
//! the pack, and no upload runs that may not know of the condemnation.
//!
//! **Why that is safe.** An upload writes its lease, then lists condemnations, then packs, and relies on no
//! condemned pack. So one that relies on a pack listed condemnations before that pack's was there to be seen,
//! and its lease began before that. The time in a condemnation is taken after it could be seen: it is
//! written twice, at first with [`Condemned::PENDING`], and with the time when that is acknowledged, however
//! long that takes. So every upload that may rely on the pack has a lease that began before that time, give or
//! take how far clocks are apart; while one of those counts, the pack stays. When it is over, its checkpoint
//! is there, or never will be: it checks its lease before and after it writes the manifest.
//!
//! **What is read when.** Indexes, condemnations, packs, leases, manifests, leases again.
//! - Condemnations before leases: an upload that began after the list was made knows of all that are in it.
//! - Leases before manifests: an upload that is not among the leases any more has written its manifest.
//! - Leases after manifests: a restore puts what it reads in its lease, and looks whether the manifest is
//!   still there afterwards. If the manifest is gone when manifests are read, the lease is there.
//! - Indexes and condemnations before packs: a pack is written before and deleted after its index, and deleted
//!   before its condemnation. What has no pack then is left over.
//!
//! **No way back.** A condemnation stays as long as its pack does, also if the pack turns out to be needed: by
//! a checkpoint that was being written when the pack was condemned. Such a pack is not deleted, but nothing new
//! relies on it, so its blocks may be sent once more. Taking the condemnation back would let an upload rely on
//! the pack while another collection, which has seen it condemned and without need, is about to delete it.
//! As it is, what a collection has found stays true for ever: collections may run side by side, stop anywhere,
//! and be as slow as they like. It is rare: a pack is not condemned while an upload runs that began before the
//! pack was old enough, so not the packs of that upload itself, nor those of a broken-off one that it goes on
//! with.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use rocferry_image::manifest::PackId;
use serde::Serialize;

use crate::backend::{BackendError, Existing};
use crate::envelope::Condemned;
use crate::store::now_ms;
use crate::{Key, Store, StoreError};

mod knowledge;
mod plan;

use plan::Plan;

/// Small objects that are read, written or deleted at a time.
const PARALLEL: usize = 8;

/// How to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcOptions {
    /// How long nothing must need a pack before it is condemned, by its age, and how long it stays after that.
    pub grace: Duration,
    /// Whether to say only what would be done.
    pub dry_run: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(60 * 60),
            dry_run: false,
        }
    }
}

/// Packs, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// How many.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.packs = self.packs.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What a collection did, or would do. Each pack is in one of the amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Needed by a checkpoint or a lease.
    pub needed: Amount,
    /// Needed, but condemned: nothing new relies on them, and they go when they are not needed any more.
    pub needed_condemned: Amount,
    /// Not needed, but too young to be condemned, or maybe of an upload that runs.
    pub young: Amount,
    /// Condemned by this collection, or by another one that runs.
    pub condemned: Amount,
    /// Condemned before, but not long enough.
    pub waiting: Amount,
    /// Condemned long enough, but something may rely on them that runs.
    pub held: Amount,
    /// Deleted.
    pub deleted: Amount,
    /// Who holds back what is held or young, for people.
    pub holders: Vec<String>,
    /// Indexes without a pack that were removed.
    pub indexes: u64,
    /// Condemnations without a pack that were removed.
    pub condemnations: u64,
    /// Leases that ran out long ago and were removed.
    pub leases: u64,
}

impl Store {
    /// Collects garbage, see the [module](crate::gc).
    ///
    /// # Errors
    /// [`StoreError::Collection`] when a manifest or a lease cannot be read: nothing is done then, since it is
    /// not known what is needed. [`StoreError::Backend`]: what was done until then is in order.
    pub async fn gc(&self, options: GcOptions) -> Result<GcReport, StoreError> {
        // Before anything is read: what counts as too young or as running then does not change meanwhile.
        let now = now_ms();
        let known = self.knowledge().await?;
        let plan = Plan::new(&known, now, options.grace, self.options().skew);
        let Plan { report, todo } = plan;
        let report = GcReport {
            dry_run: options.dry_run,
            ..report
        };
        if !options.dry_run {
            stream::iter(todo)
                .map(|action| self.carry_out(action))
                .buffer_unordered(PARALLEL)
                .try_for_each(|()| std::future::ready(Ok(())))
                .await?;
        }
        Ok(report)
    }

    async fn carry_out(&self, action: Action) -> Result<(), StoreError> {
        match action {
            Action::Condemn(pack) => self.condemn(pack).await,
            Action::Confirm(pack) => self.confirm(pack).await,
            Action::Delete(pack) => {
                // In this order what is left over after a crash is found: a pack without an index is one, a
                // condemnation without a pack says so.
                for key in [Key::Index(pack), Key::Pack(pack), Key::Condemned(pack)] {
                    self.backend().delete(&key).await?;
                }
                Ok(())
            }
            Action::Remove(key) => Ok(self.backend().delete(&key).await?),
        }
    }

    /// Condemns a pack, unless somebody else does.
    async fn condemn(&self, pack: PackId) -> Result<(), StoreError> {
        let key = Key::Condemned(pack);
        let pending = Condemned {
            created_ms: Condemned::PENDING,
        };
        match self.put_small(&key, &pending, Existing::Keep).await {
            Ok(()) => self.confirm(pack).await,
            Err(StoreError::Backend(BackendError::Exists { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts the time into a condemnation that everybody can see already.
    async fn confirm(&self, pack: PackId) -> Result<(), StoreError> {
        let created_ms = now_ms();
        let condemned = Condemned { created_ms };
        self.put_small(&Key::Condemned(pack), &condemned, Existing::Replace)
            .await
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// Condemn a pack.
    Condemn(PackId),
    /// Write a condemnation again that has no time, or an impossible one.
    Confirm(PackId),
    /// Delete a pack, its index and its condemnation.
    Delete(PackId),
    /// Remove something that is left over.
    Remove(Key),
}
