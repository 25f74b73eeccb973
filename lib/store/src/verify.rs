//! Looking whether a store is in order.
//!
//! *Quick* reads manifests, indexes and all small objects: every pack that a checkpoint needs is there with the
//! size that its index says, and every block of a checkpoint is where the manifest says. *Deep* reads all
//! blocks as well, each once, and the ends of all packs: then no byte of the store is left out.
//!
//! Nothing is written and no lease is taken, so credentials that can only read are enough. What is deleted
//! meanwhile is no fault.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZero;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use rocferry_image::manifest::{CheckpointId, DataKeyId, PackId};
use serde::Serialize;

use crate::envelope::TrustPolicy;
use crate::gc::Amount;
use crate::progress::Progress;
use crate::serial::display_all;
use crate::{Store, StoreError};

mod blocks;
mod fault;
mod manifest;
mod objects;
mod pack;

pub use fault::{Defect, Fault};

use fault::Faults;
use pack::Checked;

/// What to look at.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Whether to read all blocks.
    pub deep: bool,
    /// The checkpoints and nothing else; empty: everything in the store.
    pub checkpoints: Vec<CheckpointId>,
    /// Whose checkpoints are in order.
    pub policy: TrustPolicy,
    /// Packs that are read at a time, each with 8 MiB of memory.
    pub parallel: usize,
    /// Faults that are kept; those after them are counted.
    pub max_faults: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            deep: false,
            checkpoints: Vec::new(),
            policy: TrustPolicy::default(),
            parallel: std::thread::available_parallelism().map_or(2, NonZero::get),
            max_faults: 1000,
        }
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct VerifyReport {
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// Faults that are not among these, since they are too many.
    pub more_faults: u64,
    /// Checkpoints that cannot be restored because of them.
    #[serde(serialize_with = "display_all")]
    pub broken: BTreeSet<CheckpointId>,
    /// Checkpoints that were looked at, those with faults as well.
    pub checkpoints: u64,
    /// Packs that were looked at.
    pub packs: Amount,
    /// Blocks that were read, those with faults as well.
    pub blocks: u64,
    /// Packs that no checkpoint needs, if everything was looked at. No fault: an upload may run, or garbage
    /// collection takes them.
    pub orphans: Amount,
    /// Packs without an index object. No fault: they say the same themselves, and the next upload writes it.
    pub unindexed: u64,
    /// Data keys that somebody put into the store for whom no key of the store vouches. They are never used.
    #[serde(serialize_with = "display_all")]
    pub foreign_keys: Vec<DataKeyId>,
    /// Data keys that nothing unwraps that was given: what is sealed by them cannot be looked at.
    #[serde(serialize_with = "display_all")]
    pub locked_keys: Vec<DataKeyId>,
}

impl VerifyReport {
    /// Whether there are no faults.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.faults.is_empty() && self.more_faults == 0
    }
}

/// Blocks of packs, by their places.
type Places = HashMap<PackId, HashSet<u64>>;

impl Store {
    /// Looks whether checkpoints are in order, see the [module](crate::verify). `progress` counts the bytes of
    /// blocks that are read and packs that are done.
    ///
    /// # Errors
    /// What keeps it from looking: [`StoreError::Backend`] when the store does not answer or refuses the
    /// credentials, [`StoreError::NoCheckpoint`] for a checkpoint that is asked for. Faults are no errors.
    pub async fn verify(
        &self,
        options: VerifyOptions,
        progress: &Progress,
    ) -> Result<VerifyReport, StoreError> {
        let everything = options.checkpoints.is_empty();
        let mut faults = Faults::new(options.max_faults);
        let mut report = VerifyReport {
            foreign_keys: self.keyring().foreign().collect(),
            locked_keys: self.keyring().locked().collect(),
            ..VerifyReport::default()
        };
        let mut ids = options.checkpoints.clone();
        if everything {
            self.check_objects(&mut faults).await?;
            // Before packs: those that they need are among the packs then.
            ids = self
                .checkpoint_ids()
                .await?
                .into_iter()
                .map(|(id, _)| id)
                .collect();
        }
        for id in &options.checkpoints {
            self.check_exists(id).await?;
        }
        let wanted = match everything {
            true => None,
            false => Some(self.wanted(&ids, &options.policy).await?),
        };
        let packs = self
            .check_packs(wanted, &options, progress, &mut faults)
            .await?;
        for (pack, checked) in &packs {
            report.packs.add(checked.size);
            report.blocks += checked.blocks;
            report.unindexed += u64::from(checked.unindexed);
            tracing::trace!(%pack, damaged = checked.damaged.len(), "Pack looked at");
        }
        let packs = Arc::new(packs);
        let needed = self
            .check_manifests(ids, &options, &packs, &mut faults)
            .await?;
        report.checkpoints = needed.checkpoints;
        report.broken = needed.broken;
        if everything {
            for (pack, checked) in packs.iter() {
                if !needed.packs.contains(pack) {
                    report.orphans.add(checked.size);
                }
            }
        }
        (report.faults, report.more_faults) = faults.into_parts();
        Ok(report)
    }

    /// Looks at packs: all, or those that are wanted.
    async fn check_packs(
        &self,
        wanted: Option<Places>,
        options: &VerifyOptions,
        progress: &Progress,
        faults: &mut Faults,
    ) -> Result<HashMap<PackId, Checked>, StoreError> {
        let mut wanted = wanted;
        let mut found = Vec::new();
        for (pack, meta) in self.packs().await? {
            match &mut wanted {
                None => found.push((pack, meta, None)),
                Some(wanted) => {
                    let places = wanted.remove(&pack);
                    found.extend(places.map(|places| (pack, meta, Some(places))));
                }
            }
        }
        let mut checks = stream::iter(found)
            .map(|(pack, meta, places)| async move {
                let done = self
                    .check_pack(pack, meta, places, options.deep, progress)
                    .await;
                done.map(|done| (pack, done))
            })
            .buffer_unordered(options.parallel.max(1));
        let mut packs = HashMap::new();
        while let Some((pack, (checked, found))) = checks.try_next().await? {
            faults.extend(found);
            packs.extend(checked.map(|checked| (pack, checked)));
        }
        Ok(packs)
    }
}
