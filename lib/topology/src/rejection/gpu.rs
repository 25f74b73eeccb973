//! Why single GPUs could not be placed.

use std::fmt;

use serde::Serialize;

use super::text::list;
use crate::{ActualGpuId, Difference, UserGpuId};

/// A destination GPU that a source GPU may not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedCandidate {
    /// The destination GPU.
    pub gpu: ActualGpuId,
    /// Everything that differs; never empty.
    pub differences: Vec<Difference>,
}

/// A source GPU for which no destination was left, with the reason for each candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedGpu {
    /// The source GPU.
    pub gpu: UserGpuId,
    /// Destinations that differ too much.
    pub rejected: Vec<RejectedCandidate>,
    /// Destinations that would do, but which other source GPUs need.
    pub contended: Vec<ActualGpuId>,
}

impl RejectedGpu {
    /// One line for each group of candidates that fail for the same reasons.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut groups: Vec<(&[Difference], Vec<ActualGpuId>)> = Vec::new();
        for candidate in &self.rejected {
            match groups.iter_mut().find(|(d, _)| *d == candidate.differences) {
                Some((_, gpus)) => gpus.push(candidate.gpu),
                None => groups.push((&candidate.differences, vec![candidate.gpu])),
            }
        }
        let mut lines: Vec<String> = groups
            .into_iter()
            .map(|(differences, gpus)| {
                let reasons: Vec<String> = differences.iter().map(ToString::to_string).collect();
                format!(
                    "GPU {} cannot use {}: {}",
                    self.gpu,
                    list(&gpus),
                    reasons.join("; ")
                )
            })
            .collect();
        if !self.contended.is_empty() {
            let taken = list(&self.contended);
            lines.push(format!(
                "GPU {} could use {taken}, needed by other GPUs",
                self.gpu
            ));
        }
        lines
    }
}

/// The pair with the shortest list of reasons, for a one-line message.
pub(super) struct Closest<'a>(pub(super) &'a [RejectedGpu]);

impl fmt::Display for Closest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The candidate that comes closest says most about what would have to change.
        let closest = self
            .0
            .iter()
            .flat_map(|gpu| gpu.rejected.iter().map(move |candidate| (gpu, candidate)))
            .min_by_key(|(_, candidate)| candidate.differences.len());
        if let Some((gpu, candidate)) = closest
            && let Some(first) = candidate.differences.first()
        {
            write!(f, "; GPU {} on {}: {first}", gpu.gpu, candidate.gpu)?;
            match candidate.differences.len() - 1 {
                0 => {}
                1 => f.write_str(" and 1 more difference")?,
                more => write!(f, " and {more} more differences")?,
            }
        }
        Ok(())
    }
}
