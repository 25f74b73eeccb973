//! Manifests against packs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use rocferry_image::manifest::{BlockRef, CheckpointId, Manifest, PackId};

use super::fault::{Defect, Fault, Faults, fatal};
use super::pack::{Checked, Standing};
use super::{Places, VerifyOptions};
use crate::envelope::TrustPolicy;
use crate::{Key, Store, StoreError};

/// Faults of one manifest that are told: one that is wrong all over is told a few times.
const PER_MANIFEST: usize = 100;

/// What the manifests came to.
#[derive(Debug, Default)]
pub(super) struct Needed {
    pub(super) checkpoints: u64,
    pub(super) packs: HashSet<PackId>,
    pub(super) broken: BTreeSet<CheckpointId>,
}

/// What one manifest came to.
struct Findings {
    packs: Vec<PackId>,
    faults: Vec<Fault>,
    broken: bool,
}

impl Store {
    /// The places of all blocks of these checkpoints. Manifests that cannot be read are left out here.
    pub(super) async fn wanted(
        &self,
        ids: &[CheckpointId],
        policy: &TrustPolicy,
    ) -> Result<Places, StoreError> {
        let read = self.digest_checkpoints(ids.to_vec(), policy.clone(), |object| {
            places(&object.manifest)
        });
        let mut read = std::pin::pin!(read);
        let mut wanted = Places::new();
        while let Some((_, places)) = read.next().await {
            match places {
                Ok(places) => {
                    for (pack, places) in places {
                        wanted.entry(pack).or_default().extend(places);
                    }
                }
                Err(error) => drop(fatal(error)?),
            }
        }
        Ok(wanted)
    }

    /// Looks whether the packs have what manifests need.
    pub(super) async fn check_manifests(
        &self,
        ids: Vec<CheckpointId>,
        options: &VerifyOptions,
        packs: &Arc<HashMap<PackId, Checked>>,
        faults: &mut Faults,
    ) -> Result<Needed, StoreError> {
        let packs = Arc::clone(packs);
        let read = self.digest_checkpoints(ids, options.policy.clone(), move |object| {
            findings(&object.manifest, &packs)
        });
        let mut read = std::pin::pin!(read);
        let mut needed = Needed::default();
        while let Some((id, findings)) = read.next().await {
            needed.checkpoints += 1;
            match findings {
                Ok(findings) => {
                    needed.packs.extend(findings.packs);
                    if findings.broken && self.is_there(&id).await? {
                        faults.extend(findings.faults);
                        needed.broken.insert(id);
                    }
                }
                Err(error) => {
                    let key = Key::Checkpoint(id.clone());
                    faults.push(Fault::new(key, fatal(error)?));
                    needed.broken.insert(id);
                }
            }
        }
        Ok(needed)
    }

    /// Whether a checkpoint is still there. If not, what it needed may have gone after it.
    async fn is_there(&self, id: &CheckpointId) -> Result<bool, StoreError> {
        match self.check_exists(id).await {
            Ok(()) => Ok(true),
            Err(StoreError::NoCheckpoint { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn places(manifest: &Manifest) -> Places {
    let mut places = Places::new();
    for (_, placed) in manifest.blocks() {
        if let BlockRef::Stored { pack, offset, .. } = placed.block
            && let Some(pack) = manifest.packs.get(*pack as usize)
        {
            places.entry(*pack).or_default().insert(*offset);
        }
    }
    places
}

fn findings(manifest: &Manifest, packs: &HashMap<PackId, Checked>) -> Findings {
    let mut found = Findings {
        packs: manifest.packs.clone(),
        faults: Vec::new(),
        broken: false,
    };
    let mut fault = |object, defect| {
        if found.faults.len() < PER_MANIFEST {
            found.faults.push(Fault {
                object,
                checkpoint: Some(manifest.id.clone()),
                defect,
            });
        }
        found.broken = true;
    };
    for pack in &manifest.packs {
        if !packs.contains_key(pack) {
            fault(Key::Pack(*pack), Defect::Missing);
        }
    }
    let mut damaged = false;
    for (file, placed) in manifest.blocks() {
        let BlockRef::Stored {
            id,
            pack,
            offset,
            stored,
            encoding,
        } = *placed.block
        else {
            continue;
        };
        let pack = manifest.packs.get(pack as usize);
        let Some((pack, checked)) = pack.and_then(|pack| Some((pack, packs.get(pack)?))) else {
            continue;
        };
        match checked.standing(id, offset, stored, placed.size, encoding) {
            Standing::Good => {}
            Standing::Damaged => damaged = true,
            Standing::Absent => {
                let file = manifest.files.get(file);
                let path = file.map(|file| file.path.clone()).unwrap_or_default();
                let block = id;
                let defect = Defect::Place {
                    path,
                    block,
                    offset,
                };
                fault(Key::Pack(*pack), defect);
            }
        }
    }
    found.broken |= damaged;
    found
}
