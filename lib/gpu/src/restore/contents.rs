//! Contents of VRAM and GTT from the pages files.

use std::os::fd::{AsFd, OwnedFd};

use rocferry_image::{
    BlockIndex, FRAME_HEADER, FileId, ImageError, KfdImage, check_pages, names, read_image,
};

use super::task::TaskGpu;
use super::tids;
use crate::bulk::{self, PagesFile};
use crate::config::Config;
use crate::error::RestoreError;
use crate::host::Host;
use crate::pipeline::{self, BoSpec, GpuTransfer, PipelineError};

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
    let mut open = Vec::new();
    // Every file is looked at, also that of a GPU without BOs: a damaged set is refused as a whole.
    for pages in &layout.files {
        let name = names::pages(id, pages.gpu);
        let fd = host
            .images()
            .open(&name)
            .map_err(ImageError::io(&name, "open"))?;
        let fd = fd.ok_or_else(|| RestoreError::MissingImage { name: name.clone() })?;
        let fd = check_pages(fd, &name, pages.total)?;
        let file = PagesFile::new(fd, &name).map_err(ImageError::io(&name, "stat"))?;
        let index = read_index(host, id, pages, ours)?;
        if pages.parts.is_empty() {
            continue;
        }
        let gpu = gpus.iter().find(|gpu| gpu.user == pages.gpu);
        let minor = gpu
            .map(|gpu| gpu.minor)
            .ok_or(RestoreError::MissingImage { name })?;
        open.push((pages, file, index, bulk::open_engine(pages.gpu, minor)?));
    }
    let mut transfers = Vec::with_capacity(open.len());
    for (pages, file, index, engine) in &mut open {
        let spec = |part: &rocferry_image::PagePart| {
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
        let bos = pages
            .parts
            .iter()
            .map(spec)
            .collect::<Result<_, PipelineError>>()?;
        let (file, index) = (file.engine(), index.as_ref());
        transfers.push(GpuTransfer {
            gpu: pages.gpu,
            engine,
            file,
            bos,
            index,
        });
    }
    if transfers.is_empty() {
        return Ok(());
    }
    let threads = config.readers > 0 && tids::reserve(host);
    let result = pipeline::load(transfers, &bulk::options(host, config, threads));
    if threads {
        tids::wait_until_alone(host);
    }
    for ((pages, ..), report) in open.iter().zip(result?) {
        bulk::log_report(host, "restored", pages, &report);
    }
    Ok(())
}

fn read_index(
    host: &dyn Host,
    id: FileId,
    pages: &rocferry_image::GpuPages,
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
