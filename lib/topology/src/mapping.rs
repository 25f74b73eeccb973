//! The mapping from the GPUs of a checkpoint to those of the system at hand.
//!
//! What is decided here: every source GPU gets one destination GPU that may replace it by
//! [`compare_gpus`]. The rules that span devices (CPU links and NUMA, hives into hives) are not applied
//! yet, so [`Checks::numa`] has no effect here; nothing that those rules would accept is rejected.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::explain::Summary;
use crate::matching::{Candidates, assign};
use crate::{
    ActualGpuId, Checks, GpuNode, RejectedCandidate, RejectedGpu, SourceGpu, System, UserGpuId,
    compare_gpus,
};

/// Which GPU of this system stands in for which GPU of the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pairs: Vec<(UserGpuId, ActualGpuId)>,
}

impl Mapping {
    /// From pairs, each id at most once on its side (`None` otherwise).
    #[must_use]
    pub fn from_pairs(pairs: Vec<(UserGpuId, ActualGpuId)>) -> Option<Self> {
        let users: HashSet<_> = pairs.iter().map(|pair| pair.0).collect();
        let actuals: HashSet<_> = pairs.iter().map(|pair| pair.1).collect();
        (users.len() == pairs.len() && actuals.len() == pairs.len()).then_some(Self { pairs })
    }

    /// The GPU that stands in for `user`.
    #[must_use]
    pub fn actual(&self, user: UserGpuId) -> Option<ActualGpuId> {
        self.pairs
            .iter()
            .find(|pair| pair.0 == user)
            .map(|pair| pair.1)
    }

    /// The GPU of the checkpoint for which `actual` stands in.
    #[must_use]
    pub fn user(&self, actual: ActualGpuId) -> Option<UserGpuId> {
        self.pairs
            .iter()
            .find(|pair| pair.1 == actual)
            .map(|pair| pair.0)
    }

    /// All pairs, in the order of the source GPUs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (UserGpuId, ActualGpuId)> {
        self.pairs.iter().copied()
    }

    /// Number of pairs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True for a mapping without GPUs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Every GPU stands in for itself.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.pairs
            .iter()
            .all(|(user, actual)| user.get() == actual.get())
    }
}

/// Why there is no mapping. [`MappingError::lines`] has the details.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    /// The kernel restores a process onto exactly as many GPUs as it had.
    #[error("Checkpoint holds {source_gpus} GPUs, but {usable} are usable here")]
    CountMismatch {
        /// GPUs in the checkpoint.
        source_gpus: usize,
        /// GPUs that the restored task can open.
        usable: usize,
    },
    /// A usable GPU is not in the topology that was read.
    #[error("GPU {gpu} is usable, but not in the topology")]
    NotInTopology {
        /// The GPU.
        gpu: ActualGpuId,
    },
    /// The same source GPU is given twice.
    #[error("GPU {gpu} is twice in the checkpoint")]
    DuplicateSource {
        /// The GPU.
        gpu: UserGpuId,
    },
    /// The same destination GPU is given twice.
    #[error("GPU {gpu} is given twice as usable")]
    DuplicateDestination {
        /// The GPU.
        gpu: ActualGpuId,
    },
    /// Source GPUs that no usable GPU can replace.
    #[error("No usable GPU can replace {}{}", names(.gpus), Summary(.gpus))]
    NoCandidate {
        /// Those GPUs.
        gpus: Vec<RejectedGpu>,
    },
    /// Each source GPU has a candidate, but these share too few of them.
    #[error("{} GPUs of the checkpoint fit only {candidates} usable ones: {}{}", .gpus.len(), names(.gpus), Summary(.gpus))]
    TooFewCandidates {
        /// Those GPUs.
        gpus: Vec<RejectedGpu>,
        /// Number of GPUs here that any of them can use.
        candidates: usize,
    },
}

impl MappingError {
    /// The whole explanation, a line each: for each source GPU that could not be placed, why each
    /// candidate was rejected, with property, both values and the switch that would allow it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::NoCandidate { gpus } | Self::TooFewCandidates { gpus, .. } => {
                gpus.iter().flat_map(RejectedGpu::lines).collect()
            }
            other => vec![other.to_string()],
        }
    }
}

fn names(gpus: &[RejectedGpu]) -> String {
    const SHOWN: usize = 4;
    let mut names: Vec<String> = gpus
        .iter()
        .take(SHOWN)
        .map(|rejected| rejected.gpu.to_string())
        .collect();
    if gpus.len() > SHOWN {
        names.push(format!("{} more", gpus.len() - SHOWN));
    }
    names.join(", ")
}

/// Maps the GPUs of a checkpoint onto `usable`, the GPUs of `system` that the restored task can open.
///
/// All usable GPUs are used, since the kernel wants exactly as many as the process had. Each source GPU
/// keeps its own id wherever that is valid for it and leaves the others a place; the rest goes in node
/// order to the first that fits. The answer depends on nothing but the arguments, and not on
/// the order of `source` and `usable`.
///
/// # Errors
/// [`MappingError`], with the reason for each candidate of each GPU that could not be placed.
pub fn map_gpus(
    source: &[SourceGpu],
    usable: &[ActualGpuId],
    system: &System,
    checks: &Checks,
) -> Result<Mapping, MappingError> {
    let mut sources: Vec<&SourceGpu> = source.iter().collect();
    sources.sort_by_key(|gpu| (gpu.node, gpu.id));
    let destinations = destinations(usable, system)?;
    let mut seen = HashSet::new();
    if let Some(gpu) = sources
        .iter()
        .map(|gpu| gpu.id)
        .find(|id| !seen.insert(*id))
    {
        return Err(MappingError::DuplicateSource { gpu });
    }
    if sources.len() != destinations.len() {
        return Err(MappingError::CountMismatch {
            source_gpus: sources.len(),
            usable: destinations.len(),
        });
    }

    let table: Vec<Vec<Vec<_>>> = sources
        .iter()
        .map(|s| {
            destinations
                .iter()
                .map(|d| compare_gpus(s, d, checks))
                .collect()
        })
        .collect();
    let explain = |row: usize| RejectedGpu {
        gpu: sources[row].id,
        rejected: (0..destinations.len())
            .filter(|column| !table[row][*column].is_empty())
            .map(|column| RejectedCandidate {
                gpu: destinations[column].id,
                differences: table[row][column].clone(),
            })
            .collect(),
        contended: (0..destinations.len())
            .filter(|column| table[row][*column].is_empty())
            .map(|column| destinations[column].id)
            .collect(),
    };

    let alone: Vec<RejectedGpu> = (0..sources.len())
        .filter(|row| {
            table[*row]
                .iter()
                .all(|differences| !differences.is_empty())
        })
        .map(explain)
        .collect();
    if !alone.is_empty() {
        return Err(MappingError::NoCandidate { gpus: alone });
    }

    let candidates = Candidates {
        of: table
            .iter()
            .map(|row| {
                (0..row.len())
                    .filter(|column| row[*column].is_empty())
                    .collect()
            })
            .collect(),
        destinations: destinations.len(),
    };
    let own: Vec<(usize, usize)> = sources
        .iter()
        .enumerate()
        .filter_map(|(row, s)| {
            let column = destinations.iter().position(|d| d.id.get() == s.id.get())?;
            Some((row, column))
        })
        .collect();
    let chosen = assign(&candidates, &own).map_err(|starved| MappingError::TooFewCandidates {
        gpus: starved.sources.into_iter().map(explain).collect(),
        candidates: starved.destinations.len(),
    })?;
    let placed: HashMap<UserGpuId, ActualGpuId> = sources
        .iter()
        .zip(chosen)
        .map(|(gpu, column)| (gpu.id, destinations[column].id))
        .collect();
    let pairs = source
        .iter()
        .filter_map(|gpu| Some((gpu.id, *placed.get(&gpu.id)?)))
        .collect();
    Ok(Mapping { pairs })
}

/// The usable GPUs in node order.
fn destinations<'a>(
    usable: &[ActualGpuId],
    system: &'a System,
) -> Result<Vec<&'a GpuNode>, MappingError> {
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(usable.len());
    for gpu in usable.iter().copied() {
        if !seen.insert(gpu) {
            return Err(MappingError::DuplicateDestination { gpu });
        }
        found.push(system.gpu(gpu).ok_or(MappingError::NotInTopology { gpu })?);
    }
    found.sort_by_key(|gpu| (gpu.node, gpu.id));
    Ok(found)
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
