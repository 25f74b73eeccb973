//! What is left of operations that did not end in order, and what must not be left out or believed.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::failures::MACHINE;
use super::refusals::at_dump;
use super::round_trip::SMALL;
use crate::case::{Case, Lab, On};
use crate::proc;

const fn case(name: &'static str, limit_s: u32, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("corner_cases/dump_killed", 120, dump_killed),
    case(
        "corner_cases/mapping_without_a_file",
        60,
        mapping_without_a_file,
    ),
    case("corner_cases/old_result", 60, old_result),
    case(
        "corner_cases/result_cannot_be_written",
        60,
        unwritable_result,
    ),
];

/// CRIU is killed while a copy hangs, and nobody sends UNPAUSE. The next dump ends that pause before its own:
/// on this kernel each PROCESS_INFO stops the queues once more.
fn dump_killed(lab: &mut Lab) -> Result<()> {
    lab.sim.load(&format!("{MACHINE} evict_every_info=1"))?;
    let mut workload = lab.workload(&[SMALL, &["--interval", "50"]].concat())?;
    lab.sim.fault("sdma hang 1")?;
    let images = lab.folder("killed")?;
    let mut criu = lab
        .criu
        .background(
            &["dump", "--shell-job", "-t", &workload.pid.to_string()],
            &images,
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let paused = until(|| Ok(lab.sim.processes()?.contains(" paused=1")));
    sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(i32::try_from(criu.id())?).context("no pid")?;
    kill_process(pid, Signal::KILL)?;
    criu.wait()?;
    paused?;
    ensure!(
        lab.sim.processes()?.contains(" paused=1"),
        "the process is not paused any more"
    );
    lab.sim.clear_faults()?;
    until(|| Ok(proc::is_alive(workload.pid)))?;

    let images = lab.folder("images")?;
    lab.sim.reset_counters()?;
    let ended = lab
        .criu
        .dump(workload.pid, &images, &["--leave-running"])?
        .ok()?;
    ensure!(
        ended.log.contains("was still paused by a dump"),
        "the log does not tell: {}",
        ended.story()
    );
    lab.calls_were(&[("process_info", 1), ("unpause", 2)])?;
    workload.advances()?;
    lab.round_trip(&mut workload, None)?;
    workload.finish()
}

/// A process that has closed its GPU files keeps its GPU state, and CRIU shows no file of it.
fn mapping_without_a_file(lab: &mut Lab) -> Result<()> {
    let words = ["cannot be restored", "has closed its own /dev/kfd"];
    at_dump(lab, MACHINE, &["--child", "closed"], &words)
}

/// A restore that ends before it has a result leaves none of an earlier one.
fn old_result(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(SMALL)?;
    let dump = lab.dump(&workload)?;
    let result = dump.images.join("rocferry-result.json");
    let old = r#"{"version":1,"tasks":[{"pid":1,"restored":true,"contents":true,"resume":"ok"}]}"#;
    fs::write(&result, old)?;
    let name = format!("rocferry-task-{}.img", workload.pid);
    let (record, away) = (dump.images.join(&name), lab.dir.join(&name));
    fs::rename(&record, &away)?;
    lab.failing_restore(&dump.images, workload.pid, &[], &[&name, "is missing"])?;
    ensure!(!result.exists(), "the old result is still there");
    fs::rename(&away, &record)?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// No room for the result: the process is well, and lives; there is no file to say so.
fn unwritable_result(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(SMALL)?;
    let dump = lab.dump(&workload)?;
    fs::create_dir(dump.images.join(".rocferry-result.json.tmp"))?;
    let (ended, pid) = lab.criu.try_restore(&dump.images, &[])?;
    let ended = ended.ok()?;
    workload.pid = pid.context("CRIU wrote no pid file")?;
    ensure!(
        ended.log.contains("No result file"),
        "the log does not tell: {}",
        ended.story()
    );
    ensure!(
        !dump.images.join("rocferry-result.json").exists(),
        "there is a result"
    );
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

/// Waits until it is so.
fn until(mut so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !so()? {
        ensure!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not come about in 20 s"
        );
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
