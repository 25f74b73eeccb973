//! Several processes, threads, ways of calling CRIU, and processes that have no GPU.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};
use crate::proc;

const fn case(name: &'static str, on: On, limit_s: u32, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on,
        limit_s,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("tree/child_without_gpu", On::Newest, 60, |lab| {
        with_child(lab, "plain")
    }),
    case("tree/child_with_its_own_gpu_state", On::All, 60, |lab| {
        with_child(lab, "gpu")
    }),
    case(
        "tree/child_that_inherits_gpu_files",
        On::Newest,
        60,
        |lab| with_child(lab, "inherit"),
    ),
    case(
        "tree/thirty_threads_in_a_pid_namespace",
        On::All,
        60,
        thirty_threads,
    ),
    case(
        "tree/two_processes_restored_50_times",
        On::Newest,
        300,
        fifty_restores,
    ),
    case(
        "tree/leave_running_twice",
        On::Newest,
        60,
        leave_running_twice,
    ),
    case("tree/pre_dump", On::Newest, 60, pre_dump),
    case("tree/work_dir_is_not_the_image_dir", On::All, 60, work_dir),
    case("tree/no_kfd_on_the_machine", On::All, 60, no_kfd),
    case(
        "tree/no_gpu_in_the_process",
        On::Newest,
        60,
        no_gpu_in_the_process,
    ),
    case("tree/foreign_device", On::All, 60, foreign_device),
];

/// First in its own pid namespace and session; the wrapper stays outside until it ends. What `unshare` says
/// then (the one of util-linux 2.38 complains) must not get into the file that is the workload's fd 2.
const PID_NAMESPACE: &[&str] = &[
    "sh",
    "-c",
    r#"exec unshare --pid --fork sh -c 'exec setsid "$@" 2>&3 3>&-' sh "$@" 3>&2 2>/dev/null"#,
    "sh",
];

fn with_child(lab: &mut Lab, kind: &str) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let args: Vec<_> = ["--child", kind].iter().chain(SMALL).copied().collect();
    let mut workload = lab.workload(&args)?;
    lab.round_trip(&mut workload, Some(&format!("preset=gfx90a-2 {OTHER}")))?;
    if kind == "gpu" {
        let child = workload.child()?;
        child.prove()?;
        child.advances()?;
        workload.finish()?;
        ensure!(!child.is_alive(), "the child goes on without its parent");
        return Ok(());
    }
    workload.finish()
}

/// The tasks of the tree make their threads with fixed ids at the same time as the plugin has its helpers.
fn thirty_threads(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let args: Vec<_> = ["--threads", "30"].iter().chain(SMALL).copied().collect();
    let mut workload = lab.workload_under(PID_NAMESPACE, &args)?;
    lab.round_trip(&mut workload, Some(&format!("preset=gfx90a-2 {OTHER}")))?;
    workload.finish()
}

/// Two GPU processes in one pid namespace. The child makes its threads while its parent still copies, with
/// helper threads that get the lowest free ids unless they are told not to: those of the child's threads. In
/// the first restores the copies are slow and the helpers as many as the ids, so that they would meet for
/// sure. (The other way round they never meet: the root of a tree waits for the files of all others.)
fn fifty_restores(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let args = [
        "--child",
        "gpu",
        "--threads",
        "12",
        "--bo",
        "vram:64K:48",
        "--child-bo",
        "vram:64K",
    ];
    let mut workload = lab.workload_under(PID_NAMESPACE, &args)?;
    let mut dump = lab.dump(&workload)?;
    while dump.caught_a_writer() {
        lab.restore(&mut workload, &dump)?;
        dump = lab.dump(&workload)?;
    }
    let usual = lab.criu.clone();
    // 24 slots, and a reader for each.
    let many = usual.with_env("KFD_MAX_BUFFER_SIZE", "1536K");
    let many = many.with_env("ROCFERRY_READERS", "24");
    for nth in 1..=50 {
        let slow = nth <= 3;
        lab.criu = if slow { many.clone() } else { usual.clone() };
        lab.sim
            .set("delay_us_per_mib", if slow { "400000" } else { "0" })?;
        let restored = lab
            .restore(&mut workload, &dump)
            .with_context(|| format!("restore {nth}"))?;
        lab.sim.set("delay_us_per_mib", "0")?;
        let helped = restored.log.matches("Helper threads take ids").count();
        ensure!(helped == 2, "{helped} of two tasks had helper threads");
        if nth % 10 == 0 {
            workload
                .prove()
                .and_then(|()| workload.advances())
                .with_context(|| format!("after restore {nth}"))?;
        }
        if nth < 50 {
            proc::kill_tree(workload.pid)?;
        }
    }
    workload.finish()
}

/// A dumped process may go on, be dumped again, and the later images are good.
fn leave_running_twice(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let mut workload = lab.workload(SMALL)?;
    lab.dump_with(&workload, &["--leave-running"])?;
    workload.prove()?;
    workload.advances()?;
    let mut dump = lab.dump_with(&workload, &["--leave-running"])?;
    while dump.caught_a_writer() {
        dump = lab.dump_with(&workload, &["--leave-running"])?;
    }
    workload.advances()?;
    proc::kill_tree(workload.pid)?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

/// A pre-dump leaves the GPU alone; the dump on top of it holds everything.
fn pre_dump(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let mut workload = lab.workload(SMALL)?;
    let before = lab.folder("pre-dump")?;
    lab.sim.reset_counters()?;
    lab.criu.pre_dump(workload.pid, &before, &[])?.ok()?;
    lab.calls_were(&[("process_info", 0), ("unpause", 0)])?;
    workload.advances()?;
    let name = before
        .file_name()
        .and_then(|name| name.to_str())
        .context("name")?;
    let previous = format!("../{name}");
    let dump = lab.dump_with(&workload, &["--track-mem", "--prev-images-dir", &previous])?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

/// CRIU stands in the work directory, not in that of the images (F17).
pub(super) fn work_dir(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let mut workload = lab.workload(SMALL)?;
    let folder = lab.folder("work")?;
    let work = folder.to_str().context("path")?;
    let dump = lab.dump_with(&workload, &["-W", work])?;
    let strays = crate::image_files::named(&folder, "amdgpu-")?;
    ensure!(
        strays.is_empty(),
        "images in the work directory: {strays:?}"
    );
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    lab.restore_with(&mut workload, &dump, &["-W", work])?;
    let stray = dump.images.join("rocferry-result.json");
    ensure!(!stray.exists(), "the result is among the images");
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

/// The plugin is installed, the machine has no GPU: other processes are none of its business (F9).
fn no_kfd(lab: &mut Lab) -> Result<()> {
    ensure!(!std::fs::exists("/dev/kfd")?, "there is a /dev/kfd");
    plain_round_trip(lab)
}

/// The same with GPUs on the machine.
fn no_gpu_in_the_process(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    plain_round_trip(lab)?;
    lab.calls_were(&[("process_info", 0), ("unpause", 0), ("resume", 0)])
}

fn plain_round_trip(lab: &mut Lab) -> Result<()> {
    let child = Command::new("setsid")
        .args(["sleep", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    let pid = i32::try_from(child.id())?;
    proc::reap_later(child);
    let result = plain_dump_and_restore(lab, pid);
    proc::kill_tree(pid)?;
    result
}

fn plain_dump_and_restore(lab: &mut Lab, pid: i32) -> Result<()> {
    let images = lab.folder("images")?;
    let dump = lab.criu.dump(pid, &images, &[])?.ok()?;
    proc::wait_reaped(pid)?;
    let (restore, now) = lab.criu.try_restore(&images, &[])?;
    let restore = restore.ok()?;
    ensure!(
        now == Some(pid) && proc::is_alive(pid),
        "it has not come back"
    );
    for log in [&dump.log, &restore.log] {
        let word = log
            .lines()
            .find(|line| line.contains("amdgpu_plugin:") && line.contains("Error"));
        ensure!(word.is_none(), "the plugin complains: {word:?}");
    }
    let ours = crate::image_files::named(&images, "rocferry-")?;
    ensure!(ours.is_empty(), "the plugin has left {ours:?}");
    Ok(())
}

/// A device that nobody can dump, held by a GPU process: CRIU says so, the plugin does not claim it (F9).
pub(super) fn foreign_device(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let args: Vec<_> = ["--foreign"].iter().chain(SMALL).copied().collect();
    let workload = lab.workload(&args)?;
    let images = lab.folder("images")?;
    let ended = lab
        .criu
        .dump(workload.pid, &images, &[])?
        .refused(&["Can't dump file"])?;
    let blame = ended
        .log
        .lines()
        .find(|line| line.contains("amdgpu_plugin:") && line.contains("Error"));
    ensure!(blame.is_none(), "the plugin takes the blame: {blame:?}");
    lab.calls_were(&[("process_info", 1), ("unpause", 1)])?;
    workload.advances()?;
    workload.prove()?;
    workload.finish()
}
