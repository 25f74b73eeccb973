//! Programs that are killed in the middle of a held restore.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::tool::{Container, Taken, Wrapper, case, folder_of};
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll};
use crate::proc;

pub(super) const CASES: &[Case] = &[case("wrapper/killed_midway", killed_midway)];

/// The wrapper and the runtime at each stage of CRIU's; CRIU itself where its tasks do not run on without it.
const KILLS: &[(&str, &str)] = &[
    ("wrapper", "pre-restore"),
    ("wrapper", "post-restore"),
    ("wrapper", "pre-resume"),
    ("runc", "pre-restore"),
    ("runc", "post-restore"),
    ("runc", "pre-resume"),
    ("criu", "pre-restore"),
    ("criu", "post-restore"),
];

/// Nothing has run, nothing is left after the `delete` that engines do then, and the next try works.
fn killed_midway(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load("preset=gfx90a-2")?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    let scratch = lab.folder("stops")?;
    wrapper.ticket("id_held", &taken.images, &json!({}))?;
    for (who, stage) in KILLS {
        let what = || format!("{who} at {stage}");
        one(&wrapper, &taken, &scratch, who, stage).with_context(what)?;
    }
    let container = Container("held");
    wrapper.create(container.0, &taken.bundle)?;
    taken.has_not_run()?;
    wrapper.thaw("id_held")?;
    taken.goes_on(&container).map(drop)
}

fn one(wrapper: &Wrapper, taken: &Taken, scratch: &Path, who: &str, stage: &str) -> Result<()> {
    let container = Container("held");
    let dir = scratch.to_str().context("path")?;
    let (here, go) = (scratch.join("here"), scratch.join("go"));
    for file in [&here, &go] {
        let _ = fs::remove_file(file);
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &go,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )?;
    // The script stops at the stage, says so, and goes on when told.
    let before = format!(
        "mv $1/rocferry-hold $1/real; echo $$ > {dir}/runc; cat > $1/rocferry-hold <<X\n#!/bin/bash\n\
         if [ \"\\$CRTOOLS_SCRIPT_ACTION\" = {stage} ] && [ ! -e {dir}/here ]; then echo \\$PPID > {dir}/criu; mv {dir}/criu {dir}/here; read x < {dir}/go; fi\n\
         exec -a $1/rocferry-hold $(readlink $1/real)\nX\nchmod +x $1/rocferry-hold"
    );
    let broken = wrapper.with_runtime(container.0, &before)?;
    let words = ["create", "--bundle", folder_of(&taken.bundle)?, container.0];
    let mut create = broken.start(&words)?;
    let begun = Instant::now();
    while !here.exists() {
        if let Some(status) = create.try_wait()? {
            bail!(
                "create ended before the stage: {status}: {}",
                broken.reason()
            );
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "the stage is never reached"
        );
        std::thread::yield_now();
    }
    let number = |file: &Path| -> Result<i32> { Ok(fs::read_to_string(file)?.trim().parse()?) };
    let criu = number(&here)?;
    let victim = match who {
        "wrapper" => i32::try_from(create.id())?,
        "runc" => number(&scratch.join("runc"))?,
        _ => criu,
    };
    kill_process(Pid::from_raw(victim).context("pid")?, Signal::KILL)?;
    // The script waits to be told, is about to, or has gone: opened like this, and kept open, what is told waits too.
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
    let go = rustix::fs::open(&go, flags, rustix::fs::Mode::empty())?;
    rustix::io::write(&go, b"\n")?;
    create.wait()?;
    ensure!(
        proc::wait_gone(criu, Duration::from_secs(60)) || who == "wrapper",
        "CRIU stays"
    );
    taken.has_not_run()?;
    wrapper.ok(&["delete", "--force", container.0])?;
    ensure!(!container.is_known()?, "runc still knows it");
    ensure!(!wrapper.place(container.0).exists(), "something is left");
    // An orphan of a script ends by itself.
    let procs = Path::new("/sys/fs/cgroup/held/cgroup.procs");
    while fs::read_to_string(procs).is_ok_and(|procs| !procs.is_empty()) {
        ensure!(
            begun.elapsed() < Duration::from_secs(90),
            "processes are left"
        );
        std::thread::yield_now();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(
        !mounts.contains("criu-root") && !mounts.contains("cgyard"),
        "mounts are left: {mounts}"
    );
    taken.has_not_run()
}
