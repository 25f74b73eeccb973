//! Cutting buffer objects into pieces, and putting small ones together.

use std::ops::Range;

use super::copy::MAX_PARTS;
use super::digest::BLOCK;
use super::transfer::{BoSpec, GpuTransfer};
use super::{BlockIndex, PipelineError, RingLayout};

/// The copy engine gets at most this much of an object at once, so that what the GPU's page tables need for
/// it does not grow with the object. A multiple of [`BLOCK`].
const SPAN: u64 = 1 << 30;

/// Objects smaller than this share a read, a slot and a job: there the fixed costs of these would count for
/// more than the bytes.
const SMALL: u64 = 64 << 10;

/// Most bytes of small objects that are put together.
const GROUP: u64 = 1 << 20;

/// A part of an object that is made known to the copy engine in one go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) bo: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A block of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) span: usize,
    pub(super) bo: usize,
    /// Within the object.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) file_offset: u64,
    /// Is it a whole small object?
    small: bool,
}

impl Piece {
    /// Number of the block within its object.
    pub(super) fn block(&self) -> u64 {
        self.offset / BLOCK
    }
}

/// What one reader or writer handles from start to end, in order: a block, or several small objects that
/// lie behind one another in the file and fit into one slot.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) pieces: Range<usize>,
    pub(super) len: u64,
    pub(super) file_offset: u64,
}

/// What goes through one slot at once: a unit, or a part of one that is larger than a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// The unit's number in the plan.
    pub(super) unit: usize,
    /// First byte within the unit.
    pub(super) at: u64,
    pub(super) len: usize,
}

/// The share of one piece in a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The piece's number in the plan.
    pub(super) piece: usize,
    /// First byte within the piece.
    pub(super) at: u64,
    /// First byte within the slot.
    pub(super) slot_at: usize,
    pub(super) len: usize,
    /// Does the piece end with it?
    pub(super) last: bool,
}

impl Part {
    /// Where its bytes lie in the slot.
    pub(super) fn range(&self) -> Range<usize> {
        self.slot_at..self.slot_at + self.len
    }
}

/// All of one GPU's transfer, in the order of the file.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) spans: Vec<Span>,
    pub(super) pieces: Vec<Piece>,
    pub(super) units: Vec<Unit>,
    pub(super) layout: RingLayout,
    /// Bytes of all objects.
    pub(super) bytes: u64,
    /// Where in the file the last object ends.
    pub(super) file_end: u64,
}

impl Plan {
    /// Plans a transfer through a ring of so many bytes; checks the sizes, and the shape of the index if
    /// there is one.
    pub(super) fn new(job: &GpuTransfer<'_>, ring_bytes: u64) -> Result<Self, PipelineError> {
        let refuse = |bo, what| PipelineError::BadRequest {
            gpu: job.gpu,
            bo,
            what,
        };
        if let Some(index) = job.index {
            check_index(index, &job.bos).map_err(|(bo, what)| refuse(bo, what))?;
        }
        let mut plan = Self {
            spans: Vec::new(),
            pieces: Vec::new(),
            units: Vec::new(),
            layout: RingLayout::new(ring_bytes, 0, 0),
            bytes: 0,
            file_end: 0,
        };
        let mut order: Vec<usize> = (0..job.bos.len()).collect();
        order.sort_by_key(|bo| job.bos[*bo].file_offset);
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
            plan.cut(bo, spec);
        }
        let largest = plan.pieces.iter().map(|piece| piece.len).max().unwrap_or(0);
        let small: u64 = plan
            .pieces
            .iter()
            .filter(|piece| piece.small)
            .map(|piece| piece.len)
            .sum();
        let slot = largest.max(small.min(GROUP));
        plan.layout = RingLayout::new(ring_bytes, plan.pieces.len(), slot);
        plan.group();
        Ok(plan)
    }

    /// Cuts an object into spans and blocks.
    fn cut(&mut self, bo: usize, spec: &BoSpec<'_>) {
        let mut offset = 0;
        while offset < spec.size {
            let span = self.spans.len();
            let len = (spec.size - offset).min(SPAN);
            self.spans.push(Span { bo, offset, len });
            let end = offset + len;
            while offset < end {
                let len = (end - offset).min(BLOCK);
                self.pieces.push(Piece {
                    span,
                    bo,
                    offset,
                    len,
                    file_offset: spec.file_offset + offset,
                    small: spec.size < SMALL,
                });
                offset += len;
            }
        }
    }

    /// Makes units of the pieces.
    fn group(&mut self) {
        let room = GROUP.min(self.layout.slot_bytes as u64);
        for (number, piece) in self.pieces.iter().enumerate() {
            if let Some(unit) = self.units.last_mut()
                && piece.small
                && self.pieces[unit.pieces.start].small
                && unit.file_offset + unit.len == piece.file_offset
                && unit.len + piece.len <= room
                && unit.pieces.len() < MAX_PARTS
            {
                unit.pieces.end = number + 1;
                unit.len += piece.len;
            } else {
                self.units.push(Unit {
                    pieces: number..number + 1,
                    len: piece.len,
                    file_offset: piece.file_offset,
                });
            }
        }
    }

    /// The chunks of a unit.
    pub(super) fn chunks(&self, unit: usize) -> impl Iterator<Item = Chunk> + use<> {
        let (len, slot) = (self.units[unit].len, self.layout.slot_bytes);
        let step = slot as u64;
        (0..len.div_ceil(step)).map(move |chunk| {
            let at = chunk * step;
            // Not longer than a slot.
            let len = usize::try_from(len - at).unwrap_or(slot).min(slot);
            Chunk { unit, at, len }
        })
    }

    /// All chunks.
    pub(super) fn all_chunks(&self) -> impl Iterator<Item = Chunk> {
        (0..self.units.len()).flat_map(|unit| self.chunks(unit))
    }

    /// Where in the file a chunk lies.
    pub(super) fn file_offset(&self, chunk: Chunk) -> u64 {
        self.units[chunk.unit].file_offset + chunk.at
    }

    /// What a chunk holds: a part of one piece, or several whole ones.
    pub(super) fn parts(&self, chunk: Chunk) -> impl Iterator<Item = Part> {
        let unit = &self.units[chunk.unit];
        let alone = unit.pieces.len() == 1;
        unit.pieces.clone().map(move |number| {
            let piece = &self.pieces[number];
            if alone {
                return Part {
                    piece: number,
                    at: chunk.at,
                    slot_at: 0,
                    len: chunk.len,
                    last: chunk.at + chunk.len as u64 == piece.len,
                };
            }
            // Several fit into a slot together, so each number does into a usize.
            let small = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
            Part {
                piece: number,
                at: 0,
                slot_at: small(piece.file_offset - unit.file_offset),
                len: small(piece.len),
                last: true,
            }
        })
    }

    /// The object, and the byte in it, at a place in the file within a chunk.
    pub(super) fn object_at(&self, chunk: Chunk, file_offset: u64) -> (usize, u64) {
        let unit = &self.units[chunk.unit];
        let pieces = &self.pieces[unit.pieces.clone()];
        let piece = pieces
            .iter()
            .rev()
            .find(|piece| piece.file_offset <= file_offset)
            .unwrap_or(&pieces[0]);
        (
            piece.bo,
            piece.offset + file_offset.saturating_sub(piece.file_offset),
        )
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rocferry_topology::UserGpuId;

    use super::super::testing::MemoryEngine;
    use super::*;
    use crate::pipeline::FdFile;

    /// The plan of objects of these sizes, one behind the other but for gaps of one byte after those listed.
    fn plan(sizes: &[u64], gaps: &[usize], ring_bytes: u64) -> Plan {
        let null = std::fs::File::open("/dev/null").unwrap();
        let file = FdFile::new(&null, "null");
        let mut engine = MemoryEngine::new();
        let mut file_offset = 8;
        let mut bos = Vec::new();
        for (bo, &size) in sizes.iter().enumerate() {
            bos.push(BoSpec {
                dmabuf: null.as_fd(),
                size,
                file_offset,
            });
            file_offset += size + u64::from(gaps.contains(&bo));
        }
        let job = GpuTransfer {
            gpu: UserGpuId(1),
            engine: &mut engine,
            file: &file,
            bos,
            index: None,
        };
        let plan = Plan::new(&job, ring_bytes).unwrap();
        let mut covered = vec![0; sizes.len()];
        for chunk in plan.all_chunks() {
            assert!(chunk.len <= plan.layout.slot_bytes);
            let mut end = 0;
            for part in plan.parts(chunk) {
                assert_eq!(part.slot_at, end);
                end += part.len;
                let piece = plan.pieces[part.piece];
                let span = plan.spans[piece.span];
                assert_eq!(span.bo, piece.bo);
                assert_eq!(covered[piece.bo], piece.offset + part.at);
                covered[piece.bo] += part.len as u64;
                assert!(covered[piece.bo] <= span.offset + span.len);
                let at = plan.file_offset(chunk) + part.slot_at as u64;
                assert_eq!(
                    plan.object_at(chunk, at),
                    (piece.bo, piece.offset + part.at)
                );
            }
            assert_eq!(end, chunk.len);
        }
        assert_eq!(covered, sizes);
        plan
    }

    #[test]
    fn large_objects_are_attached_in_parts() {
        let plan = plan(&[SPAN * 2 + BLOCK + 4096], &[], 128 << 20);
        assert_eq!(plan.spans.len(), 3);
        assert_eq!(plan.units.len() as u64, SPAN * 2 / BLOCK + 2);
    }

    #[test]
    fn small_objects_share_a_chunk() {
        let plan = plan(&[4096; 1000], &[], 128 << 20);
        assert_eq!(plan.units.len(), 1000_usize.div_ceil(MAX_PARTS));
        assert_eq!(plan.layout.slot_bytes, 1 << 20);
        let plan = self::plan(&[60 << 10; 40], &[], 128 << 20);
        assert_eq!(plan.units.len(), 40_usize.div_ceil(17));
    }

    #[test]
    fn what_is_large_or_elsewhere_in_the_file_does_not() {
        let plan = plan(
            &[4096, 4096, SMALL, 4096, 4096, 4096, 0, 4096],
            &[4],
            128 << 20,
        );
        let units: Vec<_> = plan.units.iter().map(|unit| unit.pieces.clone()).collect();
        assert_eq!(units, [0..2, 2..3, 3..5, 5..7]);
        // Nor more than a slot holds.
        let plan = self::plan(&[4096; 10], &[], 16 << 10);
        assert_eq!(plan.units.len(), 5);
    }
}
