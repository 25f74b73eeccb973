//! Dump and restore that have to give everything back: kinds of objects, numbers of GPUs, machines.

use anyhow::{Context, Result, ensure};

use super::clocks::monotonic_offset_ns;
use crate::case::{Case, Lab, On};

/// Another machine than the plain preset: other ids, render minors and order of the nodes.
pub(super) const OTHER: &str = "renumber=7 minor_skip=5 reverse_minors=1";

/// BOs of every kind that take little time to prove.
pub(super) const SMALL: &[&str] = &[
    "--bo",
    "vram:192K:2",
    "--bo",
    "gtt:64K",
    "--bo",
    "userptr:64K",
];

const fn case(name: &'static str, on: On, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on,
        limit_s: 120,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("round_trip/one_gpu_one_bo", On::All, one_gpu_one_bo),
    case("round_trip/same_machine", On::All, same_machine),
    case("round_trip/renumbered", On::All, renumbered),
    case("round_trip/four_gpus", On::Newest, four_gpus),
    case("round_trip/eight_gpus", On::Newest, eight_gpus),
    case("round_trip/unlike_gpus", On::Newest, unlike_gpus),
    case(
        "round_trip/three_generations",
        On::Newest,
        three_generations,
    ),
    case(
        "round_trip/queues_and_events",
        On::Newest,
        queues_and_events,
    ),
    case("round_trip/svm_ranges", On::Newest, svm_ranges),
    case("round_trip/bo_variants", On::Newest, bo_variants),
    case("round_trip/no_bos", On::Newest, no_bos),
    case("round_trip/bo_larger_than_the_ring", On::Newest, large_bo),
    case("round_trip/gfx8_count_encoding", On::Newest, gfx8),
    case("round_trip/mi300x_aql_queue", On::Newest, |lab| {
        there(lab, "preset=mi300x-hive8 gpus=1", SMALL)
    }),
    case("round_trip/buffer_size_of_one_page", On::Newest, |lab| {
        buffer_size(lab, "4096", None)
    }),
    case("round_trip/buffer_size_of_1m", On::Newest, |lab| {
        buffer_size(lab, "1M", None)
    }),
    case("round_trip/buffer_size_is_no_number", On::Newest, |lab| {
        buffer_size(lab, "64Mx", Some("KFD_MAX_BUFFER_SIZE"))
    }),
    case("round_trip/no_readers", On::Newest, no_readers),
    case(
        "round_trip/copies_overlap_reads",
        On::Newest,
        copies_overlap_reads,
    ),
];

/// The smallest whole path: one GPU, one VRAM BO with a mapping.
fn one_gpu_one_bo(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let mut workload = lab.workload(&["--bo", "vram:1M"])?;
    lab.round_trip(&mut workload, None)?;
    workload.finish()
}

/// The workload's usual set of objects, restored where it was dumped.
fn same_machine(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let mut workload = lab.workload(&[])?;
    lab.round_trip(&mut workload, None)?;
    workload.finish()
}

/// The same on a machine with other ids, minors and order.
fn renumbered(lab: &mut Lab) -> Result<()> {
    there(lab, "preset=gfx90a-2", &[])
}

fn four_gpus(lab: &mut Lab) -> Result<()> {
    there(lab, "preset=gfx90a-4", SMALL)
}

fn eight_gpus(lab: &mut Lab) -> Result<()> {
    there(lab, "preset=gfx90a-8", SMALL)
}

/// Contents on some GPUs only, and of unlike sizes: each pages file has its own positions (F2).
pub(super) fn unlike_gpus(lab: &mut Lab) -> Result<()> {
    let bos = [
        "--bo",
        "vram:300K:3:gpu=0",
        "--bo",
        "gtt:4K:gpu=0",
        "--bo",
        "vram:1M:gpu=2",
        "--bo",
        "vram:8K:9:gpu=3",
        "--no-heartbeat",
    ];
    there(lab, "preset=gfx90a-4", &bos)
}

/// SVM ranges are private data of the kernel that take effect only with RESUME: attributes that name a GPU by
/// the id that the process knows come back on a machine where it has another.
fn svm_ranges(lab: &mut Lab) -> Result<()> {
    let description = lab.dir.join("svm");
    // The capability of that model, and the SVM bit.
    std::fs::write(
        &description,
        "cpu c0\ngpu g[0-1] model=gfx90a capability=0x2c77a280\n",
    )?;
    let machine = format!("description={}", description.display());
    there(lab, &machine, &[SMALL, &["--svm"]].concat())
}

/// Dump, restore on other ids, dump again, restore on yet other ids, and a third time back (F11).
pub(super) fn three_generations(lab: &mut Lab) -> Result<()> {
    let first = "preset=gfx90a-2";
    lab.sim.load(first)?;
    let mut workload = lab.workload(SMALL)?;
    let ids = workload.values()?.get("gpu_ids").cloned();
    for machine in [
        format!("{first} {OTHER}"),
        format!("{first} renumber=11 minor_skip=2"),
        first.to_owned(),
    ] {
        lab.round_trip(&mut workload, Some(&machine))
            .with_context(|| format!("on {machine}"))?;
        let now = workload.values()?.get("gpu_ids").cloned();
        ensure!(
            now == ids,
            "the process knows its GPUs by {now:?}, did so by {ids:?}"
        );
    }
    workload.finish()
}

/// All kinds of queues, several of each, and events in every resting state.
fn queues_and_events(lab: &mut Lab) -> Result<()> {
    let args = [
        "--queues",
        "compute=2,aql=2,sdma=2",
        "--events",
        "40",
        "--threads",
        "4",
        "--bo",
        "vram:64K",
    ];
    there(lab, "preset=gfx90a-2", &args)
}

/// Every way in which a BO can be mapped, or not.
fn bo_variants(lab: &mut Lab) -> Result<()> {
    let kinds = [
        "vram:96K:2:nomap",
        "gtt:96K:nomap",
        "vram:96K:unmapped-gpu",
        "gtt:96K:unmapped-gpu",
        "vram:96K:ro",
        "vram:96K:private-none",
        "vram:96K:shared-none",
        "vram:96K:twice",
        "gtt:96K:twice",
        "vram:96K:no-va",
        "vram:96K:peers",
        "vram:3M:zero",
        "vram:3M:last",
    ];
    let args: Vec<_> = kinds.iter().flat_map(|kind| ["--bo", kind]).collect();
    there(lab, "preset=gfx90a-2", &args)
}

/// A process without contents: its pages files are empty.
fn no_bos(lab: &mut Lab) -> Result<()> {
    there(
        lab,
        "preset=gfx90a-2",
        &["--no-bo", "--bare", "--events", "3"],
    )
}

/// A BO of many times the size of the staging ring, with blocks of zeros between.
fn large_bo(lab: &mut Lab) -> Result<()> {
    lab.criu = lab.criu.with_env("KFD_MAX_BUFFER_SIZE", "8M");
    there(lab, "preset=gfx90a-1", &["--bare", "--bo", "vram:64M"])
}

/// The older family takes the count itself in a copy packet, the newer ones one less (F13).
pub(super) fn gfx8(lab: &mut Lab) -> Result<()> {
    there(lab, "preset=gfx8-1", SMALL)
}

/// The variable of the C plugin, with values that it could not take (F30).
pub(super) fn buffer_size(lab: &mut Lab, value: &str, warning: Option<&str>) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    lab.criu = lab.criu.with_env("KFD_MAX_BUFFER_SIZE", value);
    let mut workload = lab.workload(&["--bare", "--bo", "vram:200K:2", "--bo", "gtt:64K"])?;
    let dump = lab.dump(&workload)?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    let restore = lab.restore(&mut workload, &dump)?;
    for log in [&dump.ended.log, &restore.log] {
        let warned = log
            .lines()
            .find(|line| line.contains("amdgpu_plugin") && line.contains("KFD_MAX_BUFFER_SIZE"));
        ensure!(
            warned.is_some() == warning.is_some(),
            "KFD_MAX_BUFFER_SIZE={value}: the warning is {warned:?}"
        );
    }
    workload.prove()?;
    lab.no_stray_access()?;
    workload.finish()
}

/// Without helper threads one thread reads and copies.
fn no_readers(lab: &mut Lab) -> Result<()> {
    lab.criu = lab.criu.with_env("ROCFERRY_READERS", "0");
    there(lab, "preset=gfx90a-2", SMALL)
}

/// With a delay per copied MiB, reads of the pages file complete while a copy runs. Both are told in
/// CLOCK_MONOTONIC: the reads by the plugin's debug log, the copies by the simulator.
fn copies_overlap_reads(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    lab.criu = lab.criu.with_env("KFD_MAX_BUFFER_SIZE", "16M");
    let mut workload = lab.workload(&["--bare", "--bo", "vram:64M", "--no-background"])?;
    let dump = lab.dump(&workload)?;
    lab.sim.set("delay_us_per_mib", "25000")?;
    let restore = lab.restore(&mut workload, &dump)?;
    let copies = lab.sim.copies()?;
    lab.sim.set("delay_us_per_mib", "0")?;
    // The plugin works in the task, whose clock goes on from the dump's.
    let ahead = monotonic_offset_ns(workload.pid)?;
    let copies: Vec<(u64, u64)> = copies.lines().filter_map(begin_and_end).collect();
    let reads: Vec<u64> = restore
        .log
        .lines()
        .filter_map(|line| end_of_read(line)?.checked_add_signed(-ahead))
        .collect();
    ensure!(
        reads.len() >= 8 && copies.len() >= 8,
        "{} reads and {} copies: the BO was not cut into pieces",
        reads.len(),
        copies.len()
    );
    let during = reads
        .iter()
        .filter(|end| copies.iter().any(|(from, to)| from < *end && *end < to));
    let during = during.count();
    // The first four fill the ring before there is anything to copy.
    ensure!(
        during * 2 >= reads.len(),
        "only {during} of {} reads completed while a copy ran: reads end at {reads:?}, copies run at {copies:?}",
        reads.len()
    );
    workload.prove()?;
    workload.finish()
}

/// `begin end bytes gpu` of the simulator's list of copies.
fn begin_and_end(line: &str) -> Option<(u64, u64)> {
    let mut numbers = line
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// When a read ended, of a line `timing read … end N` of the plugin.
fn end_of_read(line: &str) -> Option<u64> {
    let (_, timing) = line.split_once("amdgpu_plugin: timing read ")?;
    timing.rsplit_once(" end ")?.1.trim().parse().ok()
}

/// From a machine to its renumbered like, with everything in place.
pub(super) fn there(lab: &mut Lab, machine: &str, args: &[&str]) -> Result<()> {
    lab.sim.load(machine)?;
    let mut workload = lab.workload(args)?;
    lab.round_trip(&mut workload, Some(&format!("{machine} {OTHER}")))?;
    workload.finish()
}
