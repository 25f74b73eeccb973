//! Contents of VRAM and GTT into the pages files.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rocferry_image::{FileId, ImageError, KfdImage, names, write_image};

use super::process::PausedProcess;
use crate::bulk::{self, PagesFile};
use crate::config::Config;
use crate::device::Devices;
use crate::error::DumpError;
use crate::host::Host;
use crate::pipeline::{self, GpuTransfer};
use crate::threads;

/// Saves the contents of a paused process: one pages file and one index for each of its GPUs, also for
/// those without a BO. The dma-bufs are closed afterwards, whatever happens.
pub(super) fn save(
    host: &dyn Host,
    process: &mut PausedProcess,
    id: FileId,
    image: &KfdImage,
    config: &Config,
    devices: &Devices,
) -> Result<(), DumpError> {
    let dmabufs: Vec<Option<OwnedFd>> = process
        .checkpoint
        .bos
        .iter_mut()
        .map(|bo| bo.dmabuf.take())
        .collect();
    let layout = image.pages_layout();
    let mut files = Vec::with_capacity(layout.files.len());
    let mut engines = Vec::new();
    for pages in &layout.files {
        let name = names::pages(id, pages.gpu);
        files.push((
            create(host, &name, pages.total, config.stream_timeout)?,
            name,
        ));
        if !pages.parts.is_empty() {
            let minor = image.system.gpu(pages.gpu).map(|gpu| gpu.render_minor);
            let minor = minor.filter(|minor| devices.gpu(*minor).is_some());
            let minor = minor.ok_or_else(|| DumpError::UnknownGpu {
                pid: process.pid().as_raw_nonzero().get(),
                gpu: pages.gpu.to_string(),
            })?;
            engines.push((pages.gpu, bulk::open_engine(pages.gpu, minor)?));
        }
    }
    let mut transfers = Vec::with_capacity(engines.len());
    for (gpu, engine) in &mut engines {
        let found = layout
            .files
            .iter()
            .zip(&files)
            .find(|(pages, _)| pages.gpu == *gpu);
        let Some((pages, (file, _))) = found else {
            continue;
        };
        let bos = bulk::bo_specs(pages, &dmabufs)?;
        transfers.push(GpuTransfer {
            gpu: *gpu,
            engine,
            file: file.engine(),
            bos,
            index: None,
        });
    }
    let saved_gpus: Vec<_> = transfers.iter().map(|transfer| transfer.gpu).collect();
    let before = threads::count(host);
    let saved = pipeline::save(transfers, &bulk::options(host, config, true));
    threads::wait_until(host, before);
    let reports = saved?;
    let done: Vec<_> = saved_gpus.into_iter().zip(reports).collect();
    drop(engines);
    for (pages, (file, name)) in layout.files.iter().zip(files) {
        let index = match done.iter().find(|(gpu, _)| *gpu == pages.gpu) {
            Some((_, report)) => {
                bulk::log_report(host, "saved", pages, report);
                &report.index
            }
            None => &pipeline::BlockIndex::default(),
        };
        file.close(&name)?;
        let index = bulk::index_image(pages, index);
        write_image(host.images(), &names::index(id, pages.gpu), &index)?;
    }
    Ok(())
}

/// A new pages file with its header.
fn create(
    host: &dyn Host,
    name: &str,
    total: u64,
    patience: Duration,
) -> Result<PagesFile, ImageError> {
    let fd = host
        .images()
        .create(name)
        .map_err(ImageError::io(name, "create"))?;
    let mut file = File::from(fd);
    file.write_all(&total.to_le_bytes())
        .map_err(ImageError::io(name, "write"))?;
    PagesFile::new(file.into(), name, patience).map_err(ImageError::io(name, "stat"))
}
