//! What is asked of a transfer, and what it reports.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rocferry_topology::UserGpuId;

use super::{BlockIndex, Budget, CopyEngine, Event, FileEngine};

/// A buffer object and where its contents lie in the file.
#[derive(Debug, Clone, Copy)]
pub struct BoSpec<'a> {
    /// A dma-buf of the object.
    pub dmabuf: BorrowedFd<'a>,
    /// Bytes.
    pub size: u64,
    /// Where its contents begin in the file.
    pub file_offset: u64,
}

/// The transfer of one GPU.
pub struct GpuTransfer<'a> {
    /// The GPU, for messages.
    pub gpu: UserGpuId,
    /// Its copy engine.
    pub engine: &'a mut dyn CopyEngine,
    /// The file with the contents of its objects.
    pub file: &'a dyn FileEngine,
    /// The objects.
    pub bos: Vec<BoSpec<'a>>,
    /// For [`super::load`]: the digests to be checked. [`super::save`] takes none.
    pub index: Option<&'a BlockIndex>,
}

impl fmt::Debug for GpuTransfer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuTransfer")
            .field("gpu", &self.gpu)
            .field("bos", &self.bos)
            .field("index", &self.index.is_some())
            .finish_non_exhaustive()
    }
}

/// How to do it.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Readers or writers of each GPU; 0 makes no thread at all, and several GPUs then take turns. A file
    /// that must be read in order gets one at most.
    pub readers: usize,
    /// Limits of the staging memory.
    pub budget: Budget,
    /// How long a copy may take before the transfer fails.
    pub copy_timeout: Duration,
    /// Collect [`Report::events`]?
    pub timing: bool,
}

impl Default for Options {
    /// Four readers, the default budget, a minute for a copy, no timing.
    fn default() -> Self {
        Self {
            readers: 4,
            budget: Budget::default(),
            copy_timeout: Duration::from_secs(60),
            timing: false,
        }
    }
}

/// What one GPU's transfer has done.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Bytes copied.
    pub bytes: u64,
    /// Copies made.
    pub copies: u64,
    /// Bytes that needed no writing because they are zero (in [`super::save`]).
    pub holes: u64,
    /// The digests: of [`super::save`] those of all blocks, of [`super::load`] none.
    pub index: BlockIndex,
    /// The timing, when asked for; in the order in which things ended within a stage and a worker.
    pub events: Vec<Event>,
}
