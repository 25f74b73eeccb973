//! Podman's containers through a store and back, and Podman's own archives.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tool::{Agent, case, nobody_runs};
use crate::case::{Case, Lab};
use crate::cases::containers::COMMAND;
use crate::cases::round_trip::OTHER;
use crate::containers::{Bundle, Device, PluginForAll, Podman, Resident, Runtime, Traces, run};

pub(crate) const CASES: &[Case] = &[
    case("agent/podman_there_and_back_with_crun", 1800, |lab| {
        there_and_back(lab, Runtime::Crun, &[0, 1])
    }),
    case("agent/podman_there_and_back_with_runc", 1800, |lab| {
        there_and_back(lab, Runtime::Runc, &[0])
    }),
    case(
        "agent/an_archive_of_podman_in_a_bundle_and_in_podman",
        480,
        archive,
    ),
];

const MACHINE: &str = "preset=gfx90a-2";

/// Two generations: from one machine to another with other GPU ids, render minors and number of /dev/kfd, and back.
///
/// With crun it has all GPUs: crun does not keep it to a part of them while it restores.
fn there_and_back(lab: &mut Lab, runtime: Runtime, gpus: &[usize]) -> Result<()> {
    let machines = [MACHINE, &format!("{MACHINE} {OTHER}")];
    lab.sim.load(machines[0])?;
    let _plugin = PluginForAll::install()?;
    let a = Agent::new(lab)?;
    let b = a.elsewhere(lab)?;
    let scratch = lab.folder("podman")?;
    let mut podman = Podman::new(runtime, &scratch)?;
    podman.start("gpu-0", &Device::of_gpus(&lab.sim, gpus)?, COMMAND)?;
    let mut resident = Resident::new(podman.pid("gpu-0")?)?;
    let traces = resident.leave_traces()?;
    let mut environment = environment(&podman, "gpu-0")?;
    for (from, to, machine, name) in [
        (&a, &b, machines[1], ["gpu-0", "gpu-1"]),
        (&b, &a, machines[0], ["gpu-1", "gpu-2"]),
    ] {
        let program = podman.wrapper()?;
        let report = from.run(&checkpoint(&program, name[0]))?.is(0)?.json()?;
        let id = report["id"].as_str().context("no id")?.to_owned();
        from.is_idle()?;
        drop(resident);
        drop(podman);
        lab.sim.load(machine)?;
        podman = Podman::new(runtime, &scratch)?;
        let program = podman.wrapper()?;
        let words = restore(&program, name[1], &id);
        if name[1] == "gpu-1" {
            fails_cleanly(lab, to, &podman, &words)?;
        }
        let report = to.run(&words)?.is(0)?.json()?;
        let pid = podman.pid(name[1])?;
        ensure!(report["pid"] == pid, "{pid} is not in {report}");
        resident = Resident::new(pid)?;
        resident.is_as(&traces)?;
        to.is_idle()?;
        // It has the GPUs of this machine, and no more of anything than before.
        let now = self::environment(&podman, name[1])?;
        ensure!(now == environment, "{now:?} was {environment:?}");
        environment = now;
        lab.no_stray_access()?;
    }
    podman
        .run(&["exec", "gpu-2", "/bin/busybox", "true"])?
        .ok()?;
    podman.run(&["kill", "--signal", "TERM", "gpu-2"])?.ok()?;
    let status = podman.run(&["wait", "gpu-2"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    Ok(())
}

/// A restore that the kernel refuses: with the plugin's reason, and nothing left.
fn fails_cleanly(lab: &mut Lab, agent: &Agent, podman: &Podman, words: &[&str]) -> Result<()> {
    lab.sim.fault("kfd.criu_op.restore 1 EINVAL")?;
    agent.run(words)?.is(2)?.says(&["CRIU_OP RESTORE"])?;
    lab.sim.clear_faults()?;
    let nothing_is_left = || -> Result<()> {
        agent.is_idle()?;
        let left = podman.run(&["ps", "--all", "--quiet"])?.ok()?;
        ensure!(left.is_empty(), "a container is left: {left}");
        nobody_runs()
    };
    nothing_is_left()?;
    // An agent that is killed: what it has begun ends.
    for point in ["restore-started", "restore-done"] {
        agent
            .run_with(&format!("{point}=kill"), words)?
            .is(-9)
            .with_context(|| point)?;
        let done = agent.recover().with_context(|| point)?;
        ensure!(done == ["ended"], "{point}: {done:?}");
        nothing_is_left().with_context(|| point)?;
    }
    Ok(())
}

/// Words that have a container of Podman's stored and stopped.
pub(crate) fn checkpoint<'a>(program: &'a str, name: &'a str) -> [&'a str; 8] {
    [
        "checkpoint",
        "--runtime",
        "podman",
        "--runtime-program",
        program,
        "--json",
        "--stop",
        name,
    ]
}

/// Words that restore it under this name.
pub(crate) fn restore<'a>(program: &'a str, name: &'a str, id: &'a str) -> [&'a str; 9] {
    [
        "restore",
        "--runtime",
        "podman",
        "--runtime-program",
        program,
        "--json",
        "--name",
        name,
        id,
    ]
}

/// The variables of a container, in order.
fn environment(podman: &Podman, name: &str) -> Result<Vec<String>> {
    let text = podman.inspect(name, "{{json .Config.Env}}")?;
    let list: Vec<String> = serde_json::from_str(&text)?;
    let mut names: Vec<_> = list.iter().map(|one| one.split('=').next()).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    ensure!(names.len() == count, "twice in the environment: {list:?}");
    Ok(list)
}

/// Deletes what was restored into the bundle, when dropped.
pub(crate) struct Restored(pub(crate) &'static str);

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = run(&["runc", "delete", "--force", self.0]);
    }
}

/// What `podman container checkpoint --export` has written, restored by the agent: into a bundle of runc, and as a
/// container of Podman, on other GPUs.
fn archive(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let scratch = lab.folder("podman")?;
    let file = scratch.join("archive.tar.gz");
    let file = file.to_str().context("path")?.to_owned();
    let here = Podman::new(Runtime::Runc, &scratch)?;
    here.start("gpu", &Device::of_gpus(&lab.sim, &[0])?, COMMAND)?;
    let resident = Resident::new(here.pid("gpu")?)?;
    let traces = resident.leave_traces()?;
    here.checkpoint("gpu", &["--compress", "gzip", "--export", &file])?
        .ok()?;
    drop(resident);
    drop(here);

    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let agent = Agent::new(lab)?;
    let settings = settings(&scratch)?;
    let settings = settings.to_str().context("path")?;
    let common = [
        "--json",
        "--unsigned",
        "--settings",
        settings,
        "--from",
        &file,
    ];
    let podman = Podman::new(Runtime::Runc, &scratch)?;
    let program = podman.wrapper()?;
    let own = [
        "restore",
        "--runtime",
        "podman",
        "--runtime-program",
        &program,
    ];
    let words = [own.as_slice(), &["--name", "again"], &common].concat();
    let refused: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| *word != "--unsigned")
        .collect();
    agent.run(&refused)?.is(2)?.says(&["is not signed"])?;
    agent.run(&words)?.is(0)?;
    let resident = Resident::new(podman.pid("again")?)?;
    resident.is_as(&traces)?;
    agent.is_idle()?;
    lab.no_stray_access()?;
    drop(resident);
    drop(podman);

    let given = Device::of_gpus(&lab.sim, &[1])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, &given)?;
    mounts_as_podman(&bundle, &agent, &file)?;
    // That of a root file system which Podman makes; CRIU compares it.
    fs::set_permissions(bundle.root(), fs::Permissions::from_mode(0o555))?;
    let path = bundle.path().to_str().context("path")?;
    let _restored = Restored("from-podman");
    let own = ["restore", "--runtime", "runc", "--bundle", path];
    let words = [own.as_slice(), &["--name", "from-podman"], &common].concat();
    let report: Value = agent.run(&words)?.is(0)?.json()?;
    let pid = i32::try_from(report["pid"].as_i64().context("no pid")?)?;
    let resident = Resident::in_root(pid, &bundle.root())?;
    is_as_but_for_pipes(&resident, &traces)?;
    resident.workload.advances()?;
    agent.is_idle()?;
    lab.no_stray_access()
}

/// All is as it was but for the pipes to its engine, which is not there.
pub(crate) fn is_as_but_for_pipes(resident: &Resident, traces: &Traces) -> Result<()> {
    let proof = resident
        .is_as(traces)
        .err()
        .context("it has pipes to nobody")?;
    let proof = format!("{proof:#}");
    let mut failures = proof.lines().filter_map(|line| line.strip_prefix("fail: "));
    ensure!(
        proof.contains("fail: ") && failures.all(|line| line.ends_with("is /dev/null, was pipe:*")),
        "{proof}"
    );
    Ok(())
}

/// What an administrator writes who trusts whoever makes archives here.
pub(crate) fn settings(scratch: &Path) -> Result<PathBuf> {
    let path = scratch.join("agent.json");
    fs::write(&path, "{\"unsignedArchives\": true}")?;
    Ok(path)
}

/// A bundle must have the mounts of the container: those of Podman, whose sources are folders of this machine here.
fn mounts_as_podman(bundle: &Bundle, _agent: &Agent, archive: &str) -> Result<()> {
    let file = bundle.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let text = run(&["tar", "-xzOf", archive, "spec.dump"])?.ok()?;
    let dumped: Value = serde_json::from_str(&text)?;
    let mut mounts = dumped["mounts"].as_array().context("no mounts")?.clone();
    for (index, mount) in mounts.iter_mut().enumerate() {
        if mount["type"] != "bind" {
            continue;
        }
        let source = bundle.path().join(format!("source-{index}"));
        if mount["destination"] == "/dev/shm" {
            fs::create_dir_all(&source)?;
        } else {
            fs::write(&source, "")?;
        }
        mount["source"] = source.to_str().context("path")?.into();
    }
    config["mounts"] = Value::Array(mounts);
    config["linux"]["maskedPaths"] = dumped["linux"]["maskedPaths"].clone();
    config["linux"]["readonlyPaths"] = dumped["linux"]["readonlyPaths"].clone();
    Ok(fs::write(file, config.to_string())?)
}
