//! Contexts and jobs.

use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::GemHandle;
use super::abi::{
    BoListEntry, BoListIn, CHUNK_BO_HANDLES, CHUNK_IB, CTX_ALLOC, CTX_FREE, Chunk, ChunkIb, Cs,
    Ctx, HW_IP_DMA, WaitCs,
};
use crate::ioctl::{address, call};
use crate::{KfdError, RenderNode};

/// A submission context of one open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context(u32);

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It is done, and what it wrote is visible to the CPU.
    Done,
    /// It was not done when the time was over.
    Busy,
}

/// A copy of a block takes a fraction of a millisecond, and more than one is under way at a time.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// More would be felt in the time of a transfer, less in the CPU's.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

impl RenderNode {
    /// Makes a context.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn ctx_alloc(&self) -> Result<Context, KfdError> {
        let mut args = Ctx {
            op: CTX_ALLOC,
            ..Ctx::default()
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "CTX ALLOC", &mut args) }?;
        Ok(Context(args.op))
    }

    /// Drops a context. Closing the file drops those that are left.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when it is unknown.
    pub fn ctx_free(&self, ctx: Context) -> Result<(), KfdError> {
        let mut args = Ctx {
            op: CTX_FREE,
            ctx_id: ctx.0,
            ..Ctx::default()
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "CTX FREE", &mut args) }
    }

    /// Submits the commands at the GPU virtual address `ib_va` to the first SDMA ring. `touched` names
    /// every object that they reach, the one that holds them included. Returns the job's number.
    ///
    /// An address that is not mapped is no error here, and often none of the job either.
    ///
    /// # Errors
    /// [`KfdError::Call`]; [`KfdError::BadArgument`] when there are too many objects.
    pub fn submit_dma(
        &self,
        ctx: Context,
        ib_va: u64,
        ib_bytes: u32,
        touched: &[GemHandle],
    ) -> Result<u64, KfdError> {
        const OP: &str = "CS";
        let entries: Vec<_> = touched
            .iter()
            .map(|handle| BoListEntry {
                handle: handle.0,
                priority: 0,
            })
            .collect();
        let ib = [ChunkIb {
            va_start: ib_va,
            ib_bytes,
            ip_type: HW_IP_DMA,
            ..ChunkIb::default()
        }];
        let list = [BoListIn {
            // The two fields have a meaning for BO_LIST alone.
            operation: u32::MAX,
            list_handle: u32::MAX,
            bo_number: u32::try_from(entries.len()).map_err(|_| KfdError::BadArgument {
                op: OP,
                what: "too many objects",
            })?,
            bo_info_size: size_of_u32::<BoListEntry>(),
            bo_info: address(&entries),
        }];
        let chunks = [
            Chunk {
                id: CHUNK_IB,
                length_dw: size_of_u32::<ChunkIb>() / 4,
                data: address(&ib),
            },
            Chunk {
                id: CHUNK_BO_HANDLES,
                length_dw: size_of_u32::<BoListIn>() / 4,
                data: address(&list),
            },
        ];
        let pointers = chunks
            .each_ref()
            .map(|chunk| address(std::slice::from_ref(chunk)));
        let mut args = Cs {
            ctx_id: ctx.0,
            num_chunks: 2,
            chunks: address(&pointers),
            ..Cs::default()
        };
        // SAFETY: pointers, chunks, their data and the entries live until the call returns, have the
        // lengths stated, and are only read.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        // The answer covers the first two fields.
        Ok(u64::from(args.bo_list_handle) << 32 | u64::from(args.ctx_id))
    }

    /// Waits for a job of [`RenderNode::submit_dma`], for `timeout` at most.
    ///
    /// Asks again and again instead of waiting in the kernel: `WAIT_CS` takes a point in the host's
    /// monotonic time, and CRIU restores a task in a time namespace whose clock goes on from the dump's.
    /// Seen from there that point could be long ago or days ahead.
    ///
    /// # Errors
    /// [`KfdError::Call`]: the job failed or was cancelled, for instance by a reset of the GPU.
    pub fn wait_dma(
        &self,
        ctx: Context,
        job: u64,
        timeout: Duration,
    ) -> Result<JobState, KfdError> {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let state = self.poll_dma(ctx, job)?;
            let left = timeout.saturating_sub(begun.elapsed());
            if state == JobState::Done || left.is_zero() {
                return Ok(state);
            }
            sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// How a job stands now.
    fn poll_dma(&self, ctx: Context, job: u64) -> Result<JobState, KfdError> {
        let mut args = WaitCs {
            handle_or_status: job,
            // A point in the past on every clock.
            timeout: 0,
            ip_type: HW_IP_DMA,
            ip_instance: 0,
            ring: 0,
            ctx_id: ctx.0,
        };
        // An interrupted call leaves the argument as it was, so it can be issued again.
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "WAIT_CS", &mut args) }?;
        match args.handle_or_status {
            0 => Ok(JobState::Done),
            1 => Ok(JobState::Busy),
            _ => Err(KfdError::BadAnswer {
                op: "WAIT_CS",
                what: "status neither 0 nor 1",
            }),
        }
    }
}

/// A small structure's size, as the kernel's fields carry it.
const fn size_of_u32<T: IntoBytes>() -> u32 {
    assert!(size_of::<T>() < 4096);
    #[expect(clippy::cast_possible_truncation, reason = "checked in the line above")]
    let size = size_of::<T>() as u32;
    size
}
