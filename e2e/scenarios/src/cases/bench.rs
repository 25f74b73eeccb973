//! Measurements that need the simulated GPUs. One JSON object a line on standard output, nothing else there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::agent::freeze_speed;
use crate::case::Lab;
use crate::criu::Criu;
use crate::proc;
use crate::run;
use crate::sim::Sim;

/// Where the host puts a disk: images of gigabytes belong neither in memory nor on the share.
const DISK: &str = "/data";

/// Runs one benchmark.
pub(crate) fn run(name: &str, args: &[String]) -> Result<bool> {
    run::prepare()?;
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    match name {
        "staging" => staging(number(0, 2048)?, number(1, 1)?),
        "freeze" => freeze_speed(&mut lab()?),
        "registrations" => {
            let gpus = number(0, 1)?;
            [256, 10_000]
                .into_iter()
                .try_for_each(|bos| registrations(bos, gpus))
        }
        _ => bail!("no benchmark {name}"),
    }?;
    Ok(true)
}

/// How much more memory a large BO needs than a small one, at dump and at restore.
fn staging(mib: u64, gpus: u64) -> Result<()> {
    let small = peaks(4, gpus)?;
    let large = peaks(mib, gpus)?;
    let extra = |large: u64, small: u64| large.saturating_sub(small).div_ceil(1 << 20);
    println!(
        "{{\"bench\":\"staging\",\"bo_mib\":{mib},\"gpus\":{gpus},\"dump_extra_rss_mib\":{},\"restore_extra_rss_mib\":{}}}",
        extra(large.0, small.0),
        extra(large.1, small.1)
    );
    Ok(())
}

/// Peaks of a dump and of a restore, in bytes: private and shared memory of CRIU and of the tasks that it
/// restores, and GTT allocated through render files.
fn peaks(mib: u64, gpus: u64) -> Result<(u64, u64)> {
    eprintln!("[bench] {gpus} GPUs with a BO of {mib} MiB each");
    let mut lab = lab()?;
    lab.sim
        .load(&format!("preset=gfx90a-{gpus} vram_mib={}", mib + 256))?;
    // Without a CPU mapping, filled by the copy engine: nothing of it is in the process's memory.
    let bo = format!("vram:{mib}M:1:nomap");
    let before = lab.workload(&["--bo", &bo, "--no-background"])?;
    let images = disk_folder()?;
    lab.sim.reset_counters()?;
    let (dump, memory) = watched(|| lab.criu.dump(before.pid, &images, &[]));
    dump?.ok()?;
    let dump_peak = memory + lab.sim.counter("gpu*.gtt_peak")?;
    lab.sim.reset_counters()?;
    let (restored, memory) = watched(|| lab.criu.restore(&images, &[]));
    let after = before.restored(restored?);
    let restore_peak = memory + lab.sim.counter("gpu*.gtt_peak")?;
    after.advances()?;
    drop(after);
    fs::remove_dir_all(&images)?;
    Ok((dump_peak, restore_peak))
}

/// How many pieces of memory are registered with the GPU, whatever the number of BOs.
fn registrations(bos: u64, gpus: u64) -> Result<()> {
    eprintln!("[bench] {gpus} GPUs with {bos} BOs each");
    let mut lab = lab()?;
    lab.sim.load(&format!("preset=gfx90a-{gpus}"))?;
    let bo = format!("vram:4K:{bos}");
    let before = lab.workload(&["--bo", &bo, "--no-background"])?;
    let images = disk_folder()?;
    let counted = |sim: &Sim| -> Result<u64> {
        Ok(sim.calls("drm.gem_create")? + sim.calls("drm.gem_userptr")?)
    };
    lab.sim.reset_counters()?;
    lab.criu.dump(before.pid, &images, &[])?.ok()?;
    let dump = counted(&lab.sim)?;
    lab.sim.reset_counters()?;
    let after = before.restored(lab.criu.restore(&images, &[])?);
    let restore = counted(&lab.sim)?;
    drop(after);
    fs::remove_dir_all(&images)?;
    println!(
        "{{\"bench\":\"registrations\",\"bos\":{bos},\"gpus\":{gpus},\"dump\":{dump},\"restore\":{restore}}}"
    );
    Ok(())
}

fn lab() -> Result<Lab> {
    Lab::new(Path::new("/run/rocferry/case"), Criu::install()?)
}

fn disk_folder() -> Result<PathBuf> {
    let path = Path::new(DISK).join("images");
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).with_context(|| format!("no disk at {DISK}"))?;
    Ok(path)
}

/// Runs something that starts CRIU, and watches its memory: the peak in bytes.
fn watched<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Acquire) {
                peak = peak.max(criu_memory());
                thread::sleep(Duration::from_millis(4));
            }
            peak
        });
        let result = work();
        done.store(true, Ordering::Release);
        (result, watcher.join().unwrap_or(u64::MAX))
    })
}

/// RssAnon + RssShmem of every CRIU and of all its descendants, in bytes. A task under restore is a child
/// of CRIU until CRIU has ended; RESUME comes before that.
fn criu_memory() -> u64 {
    let mut family: Vec<i32> = Vec::new();
    let mut memory = 0;
    let mut statuses: Vec<(i32, i32, u64)> = Vec::new();
    for (pid, command) in proc::all().unwrap_or_default() {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        let field = |name: &str| -> u64 {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        let parent = i32::try_from(field("PPid")).unwrap_or(0);
        let bytes = (field("RssAnon") + field("RssShmem")) << 10;
        if command.starts_with("criu ") {
            family.push(pid);
            memory += bytes;
        } else {
            statuses.push((pid, parent, bytes));
        }
    }
    // Children have higher places in the list only by chance: repeat until nothing is added.
    loop {
        let before = family.len();
        statuses.retain(|(pid, parent, bytes)| {
            let child = family.contains(parent);
            if child {
                family.push(*pid);
                memory += bytes;
            }
            !child
        });
        if family.len() == before {
            return memory;
        }
    }
}
