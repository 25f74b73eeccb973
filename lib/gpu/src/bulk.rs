//! What dump and restore of contents share: open files, engines, and the log of a transfer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rocferry_image::{
    Block, BoBlocks, Digest, FRAME_HEADER, GpuPages, ImageError, PagePart, close_checked,
};
use rocferry_kfd::RenderNode;
use rocferry_topology::{RenderMinor, UserGpuId};
use rustix::fs::FileType;

use crate::config::Config;
use crate::host::{Host, LogLevel, log_at};
use crate::pipeline::{
    self, BLOCK, BlockDigest, BoSpec, Budget, FdFile, FileEngine, Options, PipelineError, Report,
    SdmaEngine, Stage, StreamFile,
};

/// A pages file, in whatever way it can be used.
pub(crate) enum PagesFile {
    /// A file of the image directory: any order, many at once.
    Regular(FdFile<File>),
    /// A pipe of CRIU's image streamer: from front to back.
    Stream(StreamFile<File>),
}

impl PagesFile {
    /// Wraps an open file that stands at the first byte of its content. `patience` is for streams: how long
    /// nothing may move.
    pub(crate) fn new(fd: OwnedFd, name: &str, patience: Duration) -> io::Result<Self> {
        let mode = rustix::fs::fstat(fd.as_fd())?.st_mode;
        let file = File::from(fd);
        Ok(if FileType::from_raw_mode(mode) == FileType::RegularFile {
            Self::Regular(FdFile::new(file, name))
        } else {
            Self::Stream(StreamFile::new(file, name, FRAME_HEADER, patience)?)
        })
    }

    pub(crate) fn engine(&self) -> &dyn FileEngine {
        match self {
            Self::Regular(file) => file,
            Self::Stream(file) => file,
        }
    }

    /// Reads what is left of a stream: CRIU's streamer gives up when it cannot deliver all of a file, and
    /// blocks of zeros at the end have not been asked for.
    pub(crate) fn read_to_end(self, name: &str) -> Result<(), ImageError> {
        match self {
            Self::Regular(_) => Ok(()),
            Self::Stream(file) => file
                .read_to_end()
                .map_err(io::Error::other)
                .map_err(ImageError::io(name, "read")),
        }
    }

    /// Closes it; a full disk may show only here.
    pub(crate) fn close(self, name: &str) -> Result<(), ImageError> {
        let file = match self {
            Self::Regular(file) => file.into_inner(),
            Self::Stream(file) => file.into_inner(),
        };
        close_checked(file).map_err(ImageError::io(name, "close"))
    }
}

/// A copy engine on a render node opened for it alone.
pub(crate) fn open_engine(gpu: UserGpuId, minor: RenderMinor) -> Result<SdmaEngine, PipelineError> {
    let node = RenderNode::open_minor(minor).map_err(Into::into);
    node.and_then(SdmaEngine::new)
        .map_err(|source| PipelineError::Staging { gpu, source })
}

/// How to transfer.
pub(crate) fn options(host: &dyn Host, config: &Config, threads: bool) -> Options {
    Options {
        readers: if threads { config.readers } else { 0 },
        budget: Budget::default().with_max_buffer_size(config.ring_bytes),
        copy_timeout: config.copy_timeout,
        timing: host.logs(LogLevel::Debug),
    }
}

/// What was done, and at debug level when each piece began and ended.
pub(crate) fn log_report(host: &dyn Host, verb: &str, pages: &GpuPages, report: &Report) {
    log_at!(
        host,
        Info,
        "GPU {}: {} bytes of {} BOs {verb} in {} copies",
        pages.gpu,
        report.bytes,
        pages.parts.len(),
        report.copies
    );
    for event in &report.events {
        let stage = match event.stage {
            Stage::Read => "read",
            Stage::Copy => "copy",
            Stage::Write => "write",
        };
        log_at!(
            host,
            Debug,
            "timing {stage} gpu {} bo {} offset {} len {} worker {} begin {} end {}",
            event.gpu,
            event.bo,
            event.offset,
            event.len,
            event.worker,
            event.begin_ns,
            event.end_ns
        );
    }
}

/// The index of a pages file as it lies on disk.
pub(crate) fn index_image(
    pages: &GpuPages,
    index: &pipeline::BlockIndex,
) -> rocferry_image::BlockIndex {
    let bos = pages.parts.iter().zip(&index.bos).map(|(part, blocks)| {
        let blocks = blocks.iter().map(|block| {
            if block.zero {
                Block::Zero
            } else {
                Block::Data(Digest(block.hash))
            }
        });
        BoBlocks::new(
            u32::try_from(part.bo).unwrap_or(u32::MAX),
            part.size,
            blocks,
        )
    });
    rocferry_image::BlockIndex {
        block_size: BLOCK,
        bos: bos.collect(),
    }
}

/// The index for a transfer, or why the one on disk does not belong to these pages.
pub(crate) fn index_of_image(
    pages: &GpuPages,
    image: &rocferry_image::BlockIndex,
) -> Result<pipeline::BlockIndex, &'static str> {
    if image.block_size != BLOCK {
        return Err("its blocks have another size than this version reads");
    }
    if image.bos.len() != pages.parts.len() {
        return Err("it lists another number of BOs");
    }
    let bos = pages.parts.iter().zip(&image.bos).map(|(part, blocks)| {
        if u32::try_from(part.bo) != Ok(blocks.bo()) || blocks.size() != part.size {
            return Err("it lists other BOs");
        }
        let digest = |block: Block, len: u64| match block {
            Block::Data(Digest(hash)) => BlockDigest { hash, zero: false },
            Block::Zero => BlockDigest::of_zeros(len),
        };
        (0..blocks.len())
            .map(|at| {
                let begin = BLOCK * at as u64;
                let block = blocks.get(at).ok_or("it lacks a block")?;
                Ok(digest(block, part.size.saturating_sub(begin).min(BLOCK)))
            })
            .collect()
    });
    Ok(pipeline::BlockIndex {
        bos: bos.collect::<Result<_, _>>()?,
    })
}

/// Where in the file each BO's contents go.
pub(crate) fn bo_specs<'a>(
    pages: &GpuPages,
    dmabufs: &'a [Option<OwnedFd>],
) -> Result<Vec<BoSpec<'a>>, PipelineError> {
    let spec = |part: &PagePart| {
        let dmabuf = dmabufs.get(part.bo).and_then(Option::as_ref);
        let dmabuf = dmabuf.ok_or(PipelineError::BadRequest {
            gpu: pages.gpu,
            bo: part.bo,
            what: "the kernel gave no dma-buf for it",
        })?;
        let file_offset = FRAME_HEADER + part.offset;
        Ok(BoSpec {
            dmabuf: dmabuf.as_fd(),
            size: part.size,
            file_offset,
        })
    };
    pages.parts.iter().map(spec).collect()
}
