//! Saves and loads buffer objects of real (or simulated) GPUs through SDMA and compares every byte through
//! CPU mappings. Arguments: render nodes. Meant for a machine whose GPUs do nothing else.
//!
//! With the simulator's debugfs it also lets copies fail and hang, and checks that no copy touched a byte
//! outside of a mapping.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rocferry_gpu::pipeline::{
    BoSpec, Budget, CopyEngine, FdFile, GpuTransfer, Options, PipelineError, Report, RingLayout,
    SdmaEngine, Slot, Staging, load, save,
};
use rocferry_kfd::RenderNode;
use rocferry_kfd::drm::abi::{DOMAIN_GTT, DOMAIN_VRAM};
use rocferry_topology::UserGpuId;
use rustix::fs::{MemfdFlags, memfd_create};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: usize = 4096;
const DEBUGFS: &str = "/sys/kernel/debug/kfd-sim";

/// An object of the "application", with the CPU's view of it.
struct Object {
    dmabuf: OwnedFd,
    view: Slot,
}

/// A GPU with objects on a file of their own.
struct Gpu {
    path: PathBuf,
    id: UserGpuId,
    app: RenderNode,
    objects: Vec<Object>,
}

impl Gpu {
    fn new(path: &Path) -> Result<Self> {
        let app = RenderNode::open(path)?;
        let id = UserGpuId(app.minor().get());
        Ok(Self {
            path: path.to_owned(),
            id,
            app,
            objects: Vec::new(),
        })
    }

    fn add(&mut self, pages: usize, domain: u64) -> Result<()> {
        let len = pages * PAGE;
        let handle = self.app.gem_create(len as u64, domain)?;
        let view = self.app.gem_map(handle, len)?;
        let view = Staging::new(
            view,
            RingLayout {
                slot_bytes: len,
                slots: 1,
            },
        )?
        .into_slots();
        let dmabuf = self.app.prime_handle_to_fd(handle)?;
        let view = view.into_iter().next().ok_or("no view")?;
        self.objects.push(Object { dmabuf, view });
        Ok(())
    }

    fn specs(&self) -> Vec<BoSpec<'_>> {
        let mut file_offset = 8;
        let mut specs = Vec::new();
        for object in &self.objects {
            let size = object.view.len() as u64;
            specs.push(BoSpec {
                dmabuf: object.dmabuf.as_fd(),
                size,
                file_offset,
            });
            file_offset += size;
        }
        specs
    }

    fn fill(&mut self, seed: u64) {
        for (object, number) in self.objects.iter_mut().zip(0..) {
            pattern(object.view.bytes_mut(), seed + number * 1000);
        }
    }

    fn check(&self, seed: u64) -> Result<()> {
        let mut expected = Vec::new();
        for (object, number) in self.objects.iter().zip(0..) {
            expected.resize(object.view.len(), 0);
            pattern(&mut expected, seed + number * 1000);
            if let Some(at) = expected
                .iter()
                .zip(object.view.bytes())
                .position(|(a, b)| a != b)
            {
                return Err(
                    format!("GPU {}: object {number} differs at byte {at}", self.id).into(),
                );
            }
        }
        Ok(())
    }
}

/// Different in every 8 bytes; every fourth page is zero.
fn pattern(bytes: &mut [u8], seed: u64) {
    for (page, number) in bytes.chunks_mut(PAGE).zip(seed..) {
        if number % 4 == 3 {
            page.fill(0);
            continue;
        }
        for (word, at) in page.chunks_mut(8).zip(0_u64..) {
            let value = (number << 20 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

fn transfer(
    gpus: &[Gpu],
    files: &[FdFile<File>],
    reports: Option<&[Report]>,
    options: &Options,
) -> std::result::Result<Vec<Report>, Box<dyn Error>> {
    let mut engines = Vec::new();
    for gpu in gpus {
        engines.push(SdmaEngine::new(RenderNode::open(&gpu.path)?)?);
    }
    let jobs = gpus.iter().zip(&mut engines).zip(files).enumerate();
    let jobs = jobs.map(|(number, ((gpu, engine), file))| GpuTransfer {
        gpu: gpu.id,
        engine: engine as &mut dyn CopyEngine,
        file,
        bos: gpu.specs(),
        index: reports.map(|reports| &reports[number].index),
    });
    let jobs = jobs.collect();
    Ok(if reports.is_some() {
        load(jobs, options)?
    } else {
        save(jobs, options)?
    })
}

fn new_files(count: usize) -> Result<Vec<FdFile<File>>> {
    (0..count)
        .map(|_| {
            let file = File::from(memfd_create("pages", MemfdFlags::CLOEXEC)?);
            file.write_all_at(&[0; 8], 0)?;
            Ok(FdFile::new(file, "pages"))
        })
        .collect()
}

fn round_trip(gpus: &mut [Gpu], options: &Options, out: &mut impl Write) -> Result<()> {
    let files = new_files(gpus.len())?;
    for (gpu, number) in gpus.iter_mut().zip(0..) {
        gpu.fill(1 << 30 | number << 24);
    }
    let began = Instant::now();
    let reports = transfer(gpus, &files, None, options)?;
    let saved = began.elapsed();
    for gpu in gpus.iter_mut() {
        gpu.objects
            .iter_mut()
            .for_each(|object| object.view.bytes_mut().fill(0x5a));
    }
    let began = Instant::now();
    transfer(gpus, &files, Some(&reports), options)?;
    let loaded = began.elapsed();
    for (gpu, number) in gpus.iter().zip(0..) {
        gpu.check(1 << 30 | number << 24)?;
    }
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    writeln!(
        out,
        "ok: {} readers, ring {} KiB: {} GPUs, {} objects, {} bytes, {} copies; saved in {saved:?}, loaded in {loaded:?}",
        options.readers,
        options.budget.per_gpu / 1024,
        gpus.len(),
        gpus.iter().map(|gpu| gpu.objects.len()).sum::<usize>(),
        sum(|report| report.bytes),
        sum(|report| report.copies),
    )?;
    Ok(())
}

/// Arms a fault, expects the transfer to fail because of it, and lets the next one succeed.
fn faults(gpus: &mut [Gpu], out: &mut impl Write) -> Result<()> {
    let debugfs = Path::new(DEBUGFS);
    for (fault, what) in [
        ("sdma fail 3", "Copy"),
        ("sdma hang 3", "TimedOut"),
        ("drm.wait_cs 2 ECANCELED", "Copy"),
        ("drm.cs 2 ENOMEM", "Copy"),
        ("drm.prime_fd_to_handle 2 ENOMEM", "Attach"),
        ("drm.gem_va 70 EINVAL", ""),
        ("drm.gem_create 1 ENOMEM", "Staging"),
    ] {
        for readers in [0, 3] {
            let files = new_files(gpus.len())?;
            let options = Options {
                readers,
                budget: Budget {
                    per_gpu: 1 << 20,
                    ..Budget::default()
                },
                copy_timeout: Duration::from_secs(2),
                timing: false,
            };
            if let Err(error) = std::fs::write(debugfs.join("fault"), fault) {
                return Err(format!("cannot arm {fault:?}: {error}").into());
            }
            let result = transfer(gpus, &files, None, &options);
            std::fs::write(debugfs.join("fault"), "clear")?;
            let Err(error) = result else {
                return Err(format!("{fault:?} with {readers} readers went unnoticed").into());
            };
            let kind = error
                .downcast_ref::<PipelineError>()
                .map(|error| format!("{error:?}"));
            if !kind.as_ref().is_some_and(|kind| kind.starts_with(what)) {
                return Err(format!("{fault:?} gave {error:?}").into());
            }
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            writeln!(out, "ok: {fault:?}, {readers} readers: {error}: {cause}")?;
        }
    }
    Ok(())
}

/// No access outside of a mapping, and what was registered.
fn counters(gpus: usize, out: &mut impl Write) -> Result<()> {
    let text = std::fs::read_to_string(Path::new(DEBUGFS).join("counters"))?;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else {
            continue;
        };
        if name.contains("fault") && value != "0" {
            return Err(format!("accesses outside of a mapping: {line}").into());
        }
        let shown = ["userptr", "gtt", "import", "submit"]
            .iter()
            .any(|part| name.contains(part));
        if shown
            && (!name.starts_with("gpu")
                || (0..gpus).any(|n| name.starts_with(&format!("gpu{n}."))))
        {
            writeln!(out, "counter {line}")?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut out = std::io::stdout();
    let mut gpus = Vec::new();
    for path in std::env::args().skip(1) {
        gpus.push(Gpu::new(Path::new(&path))?);
    }
    for (gpu, more) in gpus.iter_mut().zip(0..) {
        let info = gpu.app.dev_info()?;
        writeln!(
            out,
            "{}: family {}, addresses {:#x}..{:#x}",
            gpu.path.display(),
            info.family.0,
            info.va_start,
            info.va_end
        )?;
        for pages in [1, 1025, 3, 2048 + more, 511, 700] {
            gpu.add(pages, DOMAIN_VRAM)?;
        }
        for pages in [5, 1500] {
            gpu.add(pages, DOMAIN_GTT)?;
        }
        for _ in 0..400 {
            gpu.add(1, DOMAIN_VRAM)?;
        }
    }
    let fds = || std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    let before = fds()?;
    for readers in [0, 1, 4] {
        for per_gpu in [60 << 10, 1 << 20, 128 << 20] {
            let options = Options {
                readers,
                budget: Budget {
                    per_gpu,
                    ..Budget::default()
                },
                copy_timeout: Duration::from_secs(20),
                timing: false,
            };
            round_trip(&mut gpus, &options, &mut out)?;
        }
    }
    // The same object twice: one handle serves both, and must live until the second is done.
    for gpu in &mut gpus {
        let dmabuf = gpu.objects[1].dmabuf.try_clone()?;
        let twice = [&gpu.objects[1].dmabuf, &dmabuf].map(|dmabuf| BoSpec {
            dmabuf: dmabuf.as_fd(),
            size: gpu.objects[1].view.len() as u64,
            file_offset: 0,
        });
        let mut engine = SdmaEngine::new(RenderNode::open(&gpu.path)?)?;
        let file = FdFile::new(
            File::from(memfd_create("pages", MemfdFlags::CLOEXEC)?),
            "pages",
        );
        let job = GpuTransfer {
            gpu: gpu.id,
            engine: &mut engine,
            file: &file,
            bos: twice.to_vec(),
            index: None,
        };
        save(vec![job], &Options::default())?;
    }
    writeln!(out, "ok: one object listed twice")?;
    if Path::new(DEBUGFS).exists() {
        counters(gpus.len(), &mut out)?;
        faults(&mut gpus, &mut out)?;
        round_trip(&mut gpus, &Options::default(), &mut out)?;
        counters(gpus.len(), &mut out)?;
    }
    if fds()? != before {
        return Err("descriptors were left open".into());
    }
    writeln!(out, "all ok")?;
    Ok(())
}
