//! Contents of VRAM and GTT from the pages files.
//!
//! From a folder all GPUs are filled side by side, by several threads. CRIU's image streamer delivers one
//! file after the other: there each GPU's index and contents are read to their end before the next is opened.

use std::os::fd::OwnedFd;

use rocferry_image::{
    BlockIndex, FileId, GpuPages, ImageError, KfdImage, check_pages, names, read_image,
};

use super::gpus::TaskGpu;
use super::tids;
use crate::bulk::{self, PagesFile};
use crate::config::Config;
use crate::error::RestoreError;
use crate::host::{Host, log_at};
use crate::pipeline::{self, GpuTransfer};
use crate::threads;

/// Fills all BOs of the task. `ours` says that our plugin wrote the images: then each pages file has an
/// index, and every block is checked before the restore counts as good.
pub(super) fn fill(
    host: &dyn Host,
    config: &Config,
    (id, ours): (FileId, bool),
    image: &KfdImage,
    gpus: &[TaskGpu],
    dmabufs: &[Option<OwnedFd>],
) -> Result<(), RestoreError> {
    let layout = image.pages_layout();
    if host.images().is_stream() {
        log_at!(
            host,
            Info,
            "The images are a stream: one GPU is filled after the other, by one thread"
        );
        for pages in &layout.files {
            let source = Source::open(host, config, (id, ours), pages)?;
            load(
                host,
                config,
                false,
                std::slice::from_ref(&source),
                gpus,
                dmabufs,
            )?;
            source.file.read_to_end(&source.name)?;
        }
        return Ok(());
    }
    // Every file is looked at, also that of a GPU without BOs: a damaged set is refused as a whole.
    let sources = layout
        .files
        .iter()
        .map(|pages| Source::open(host, config, (id, ours), pages));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let contents = sources.iter().any(|source| !source.pages.parts.is_empty());
    let helpers = contents && config.readers > 0 && tids::reserve(host);
    let result = load(host, config, helpers, &sources, gpus, dmabufs);
    if helpers {
        threads::wait_until(host, Some(1));
    }
    result
}

/// Where the contents of one GPU come from.
struct Source<'a> {
    pages: &'a GpuPages,
    name: String,
    index: Option<pipeline::BlockIndex>,
    file: PagesFile,
}

impl<'a> Source<'a> {
    /// Opens the pages file of a GPU, and reads its index before that: a stream has one file open at a time.
    fn open(
        host: &dyn Host,
        config: &Config,
        (id, ours): (FileId, bool),
        pages: &'a GpuPages,
    ) -> Result<Self, RestoreError> {
        let index = read_index(host, id, pages, ours)?;
        let name = names::pages(id, pages.gpu);
        let fd = host
            .images()
            .open(&name)
            .map_err(ImageError::io(&name, "open"))?;
        let fd = fd.ok_or_else(|| RestoreError::MissingImage { name: name.clone() })?;
        let fd = check_pages(fd, &name, pages.total)?;
        let file = PagesFile::new(fd, &name, config.stream_timeout)
            .map_err(ImageError::io(&name, "stat"))?;
        Ok(Self {
            pages,
            name,
            index,
            file,
        })
    }
}

/// Loads these GPUs side by side, with helper threads if they are allowed.
fn load(
    host: &dyn Host,
    config: &Config,
    threads: bool,
    sources: &[Source<'_>],
    gpus: &[TaskGpu],
    dmabufs: &[Option<OwnedFd>],
) -> Result<(), RestoreError> {
    let mut open = Vec::with_capacity(sources.len());
    for source in sources {
        let pages = source.pages;
        if pages.parts.is_empty() {
            continue;
        }
        let gpu = gpus.iter().find(|gpu| gpu.user == pages.gpu);
        let minor = gpu.map(|gpu| gpu.minor);
        let minor = minor.ok_or_else(|| RestoreError::MissingImage {
            name: source.name.clone(),
        })?;
        open.push((source, bulk::open_engine(pages.gpu, minor)?));
    }
    let mut transfers = Vec::with_capacity(open.len());
    for (source, engine) in &mut open {
        let pages = source.pages;
        let bos = bulk::bo_specs(pages, dmabufs)?;
        transfers.push(GpuTransfer {
            gpu: pages.gpu,
            engine,
            file: source.file.engine(),
            bos,
            index: source.index.as_ref(),
        });
    }
    if transfers.is_empty() {
        return Ok(());
    }
    let reports = pipeline::load(transfers, &bulk::options(host, config, threads))?;
    for ((source, _), report) in open.iter().zip(reports) {
        bulk::log_report(host, "restored", source.pages, &report);
    }
    Ok(())
}

fn read_index(
    host: &dyn Host,
    id: FileId,
    pages: &GpuPages,
    ours: bool,
) -> Result<Option<pipeline::BlockIndex>, RestoreError> {
    let name = names::index(id, pages.gpu);
    let Some(index) = read_image::<BlockIndex>(host.images(), &name)? else {
        return if ours {
            Err(RestoreError::MissingImage { name })
        } else {
            Ok(None)
        };
    };
    let index = bulk::index_of_image(pages, &index);
    index
        .map(Some)
        .map_err(|reason| RestoreError::WrongIndex { name, reason })
}
