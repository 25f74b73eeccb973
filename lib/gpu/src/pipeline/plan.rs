//! Cutting buffer objects into pieces.

use std::ops::Range;

use super::digest::BLOCK;
use super::transfer::{BoSpec, GpuTransfer};
use super::{BlockIndex, PipelineError};

/// The copy engine gets at most this much of an object at once, so that what the GPU's page tables need for
/// it does not grow with the object. A multiple of [`BLOCK`].
const SPAN: u64 = 1 << 30;

/// A part of an object that is made known to the copy engine in one go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) bo: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A block: what one reader or writer handles from start to end, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) span: usize,
    pub(super) bo: usize,
    /// Within the object.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) file_offset: u64,
}

impl Unit {
    /// Number of the block within its object.
    pub(super) fn block(&self) -> u64 {
        self.offset / BLOCK
    }

    /// Its pieces of at most `slot_bytes`, relative to its start.
    pub(super) fn pieces(&self, slot_bytes: usize) -> impl Iterator<Item = Range<u64>> + use<> {
        let (len, step) = (self.len, slot_bytes as u64);
        (0..len.div_ceil(step)).map(move |piece| piece * step..((piece + 1) * step).min(len))
    }
}

/// All pieces of one GPU's transfer, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) spans: Vec<Span>,
    pub(super) units: Vec<Unit>,
    /// Bytes of all objects.
    pub(super) bytes: u64,
    /// Where in the file the last object ends.
    pub(super) file_end: u64,
    /// Bytes of the largest unit.
    pub(super) largest: u64,
}

impl Plan {
    /// Plans a transfer; checks the sizes, and the shape of the index if there is one.
    pub(super) fn new(job: &GpuTransfer<'_>) -> Result<Self, PipelineError> {
        let refuse = |bo, what| PipelineError::BadRequest {
            gpu: job.gpu,
            bo,
            what,
        };
        if let Some(index) = job.index {
            check_index(index, &job.bos).map_err(|(bo, what)| refuse(bo, what))?;
        }
        let mut order: Vec<usize> = (0..job.bos.len()).collect();
        order.sort_by_key(|bo| job.bos[*bo].file_offset);
        let mut plan = Self::default();
        for bo in order {
            let spec = &job.bos[bo];
            let end = spec
                .file_offset
                .checked_add(spec.size)
                .filter(|end| i64::try_from(*end).is_ok())
                .ok_or_else(|| refuse(bo, "it does not fit into a file"))?;
            plan.file_end = plan.file_end.max(end);
            plan.bytes = plan
                .bytes
                .checked_add(spec.size)
                .ok_or_else(|| refuse(bo, "the objects are too large together"))?;
            plan.add(bo, spec);
        }
        Ok(plan)
    }

    fn add(&mut self, bo: usize, spec: &BoSpec<'_>) {
        let mut offset = 0;
        while offset < spec.size {
            let span = self.spans.len();
            let len = (spec.size - offset).min(SPAN);
            self.spans.push(Span { bo, offset, len });
            let end = offset + len;
            while offset < end {
                let len = (end - offset).min(BLOCK);
                self.units.push(Unit {
                    span,
                    bo,
                    offset,
                    len,
                    file_offset: spec.file_offset + offset,
                });
                self.largest = self.largest.max(len);
                offset += len;
            }
        }
    }
}

/// Has the index a digest for each block?
fn check_index(index: &BlockIndex, bos: &[BoSpec<'_>]) -> Result<(), (usize, &'static str)> {
    if index.bos.len() != bos.len() {
        return Err((bos.len(), "the index has another number of objects"));
    }
    for (bo, (spec, blocks)) in bos.iter().zip(&index.bos).enumerate() {
        if blocks.len() as u64 != spec.size.div_ceil(BLOCK) {
            return Err((bo, "the index has another number of blocks"));
        }
    }
    Ok(())
}
