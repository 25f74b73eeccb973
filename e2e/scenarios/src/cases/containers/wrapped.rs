//! `podman --runtime` with the runtime wrapper, for each runtime: containers that are none of ours, and one with a
//! ticket, through conmon.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{COMMAND, case};
use crate::case::{BIN, Case, Lab};
use crate::containers::{Device, PluginForAll, Podman, Resident, run};

pub(crate) const CASES: &[Case] = &[
    slow("containers/podman_through_rocferry_runc", |lab| {
        through(lab, "rocferry-runc")
    }),
    slow("containers/podman_through_rocferry_crun", |lab| {
        through(lab, "rocferry-crun")
    }),
];

/// Podman is called some thirty times, each for seconds without KVM.
const fn slow(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        limit_s: 1500,
        ..case(name, run)
    }
}

/// Where the wrapper looks for tickets: conmon gives it no environment that could name another folder.
const FOLDER: &str = "/var/lib/rocferry";

/// What the wrapper keeps, taken away when dropped.
struct Folder;

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in ["tickets", "fences"] {
            let _ = fs::remove_dir_all(Path::new(FOLDER).join(folder));
        }
    }
}

fn through(lab: &mut Lab, name: &str) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let _plugin = PluginForAll::install()?;
    let _folder = Folder;
    let scratch = lab.folder("podman")?;
    // The wrapper tells by its own name which runtime it is for.
    let program = scratch.join(name);
    symlink(format!("{BIN}/rocferry-runc"), &program)?;
    let program = program.to_str().context("path")?;
    let podman = Podman::through(program, &scratch)?;
    plain(&podman)?;
    restored(lab, &podman, &scratch)
}

/// They run as without it: detached, with a terminal, with descriptors of their own.
fn plain(podman: &Podman) -> Result<()> {
    let says = |words: &[&str]| podman.run(words)?.ok();
    let image = Podman::IMAGE;
    let command = ["/bin/sh", "-c", "echo said; exec busybox tail -f /dev/null"];
    for (container, more) in [
        ("plain", &[][..]),
        ("terminal", &["--tty", "--interactive"]),
    ] {
        let words = [
            "run",
            "-d",
            "--network",
            "none",
            "--init=false",
            "--name",
            container,
        ];
        says(&[&words, more, &[image], &command].concat())?;
        let begun = Instant::now();
        while says(&["logs", container])? != "said" {
            ensure!(
                begun.elapsed() < Duration::from_secs(60),
                "it never says anything"
            );
        }
        let terminal = says(&[
            "exec",
            container,
            "/bin/sh",
            "-c",
            "test -t 0 && echo yes || echo no",
        ])?;
        ensure!(
            terminal == "no",
            "exec has a terminal that nobody asked for"
        );
        let first = format!("/proc/{}/fd/1", podman.pid(container)?);
        let target = fs::read_link(&first)?;
        ensure!(
            target.starts_with("/dev/pts") == (container == "terminal"),
            "{container} writes to {}",
            target.display()
        );
        says(&["pause", container])?;
        says(&["unpause", container])?;
        says(&["stop", "--time", "0", container])?;
        says(&["start", container])?;
        podman.pid(container)?;
        says(&["rm", "--force", "--time", "0", container])?;
    }
    // Descriptor 3, which conmon hands on; and the exit status.
    let shell = "exec 3</dev/null; exec \"$@\"";
    let wrapper = podman.wrapper()?;
    for (applet, good) in [("true", true), ("false", false)] {
        let words = [
            "run",
            "--rm",
            "--network",
            "none",
            "--preserve-fds",
            "1",
            image,
            "/bin/busybox",
            applet,
        ];
        let ran = run(&[
            &["/bin/sh", "-c", shell, "sh", wrapper.as_str()],
            words.as_slice(),
        ]
        .concat())?;
        ensure!(ran.good == good, "{applet} ended otherwise: {}", ran.stderr);
    }
    Ok(())
}

/// A container that is created anew comes back as it was, held until its thaw.
fn restored(lab: &mut Lab, podman: &Podman, scratch: &Path) -> Result<()> {
    let devices = Device::of_gpus(&lab.sim, &[0, 1])?;
    podman.start("gpu", &devices, COMMAND)?;
    let resident = Resident::new(podman.pid("gpu")?)?;
    let archive = scratch.join("archive.tar");
    let archive = archive.to_str().context("path")?;
    podman
        .checkpoint("gpu", &["--compress", "none", "--export", archive])?
        .ok()?;
    drop(resident);
    podman.remove("gpu")?;
    let images = scratch.join("tree");
    fs::create_dir_all(&images)?;
    let tree = images.to_str().context("path")?;
    run(&["tar", "-C", tree, "-xf", archive])?.ok()?;

    let mut words = vec!["create", "--network", "none", "--name", "again"];
    for device in &devices {
        words.extend(["--device", &device.path]);
    }
    words.push(Podman::IMAGE);
    words.extend(COMMAND);
    let id = podman.run(&words)?.ok()?;
    let ticket = Path::new(FOLDER)
        .join("tickets")
        .join(format!("id_{id}.json"));
    fs::create_dir_all(ticket.parent().context("path")?)?;
    let content = json!({
        "version": 1, "checkpoint": "the-checkpoint", "images": images.join("checkpoint"), "held": true,
        "onContainerRestart": "Refuse", "state": { "is": "ready" },
        "criu": { "fileLocks": true }
    });
    fs::write(&ticket, content.to_string())?;
    let root = podman.run(&["mount", "again"])?.ok()?;
    run(&[
        "tar",
        "-C",
        &root,
        "-xf",
        &format!("{tree}/rootfs-diff.tar"),
    ])?
    .ok()?;
    // One that fails says why through conmon, and can be tried again.
    lab.sim.fault("kfd.criu_op.restore 1 EINVAL")?;
    let why = podman.run(&["start", "again"])?.failed()?;
    let reason = read(&ticket)?["lastError"].to_string();
    ensure!(
        reason.contains("CRIU_OP RESTORE"),
        "the reason is lost: {reason}"
    );
    // Under crun CRIU writes to the standard error as well, which is the container's; Podman shows its first lines alone.
    ensure!(
        podman.is_through("crun") || why.contains("CRIU_OP RESTORE"),
        "Podman does not show the reason: {why}"
    );
    let log = format!("/run/rocferry/logs/id_{id}.restore.log");
    let log = fs::read_to_string(&log).with_context(|| format!("no {log}"))?;
    ensure!(log.contains("CRIU_OP RESTORE"), "another reason: {log}");
    lab.sim.clear_faults()?;
    podman.run(&["start", "again"])?.ok()?;
    let now = read(&ticket)?;
    ensure!(now["state"]["is"] == "held", "{now}");
    let cgroup = PathBuf::from(now["state"]["cgroup"].as_str().context("no cgroup")?);
    let frozen = fs::read_to_string(cgroup.join("cgroup.freeze"))?;
    ensure!(frozen.trim() == "1", "it runs before its thaw");
    // As the agent does it: the ticket first.
    let mut used = now.clone();
    used["state"] = json!({ "is": "used", "container": now["state"]["container"] });
    fs::write(&ticket, used.to_string())?;
    fs::write(cgroup.join("cgroup.freeze"), "0")?;
    let resident = Resident::new(podman.pid("again")?)?;
    resident.workload.prove()?;
    resident.workload.advances()?;
    podman
        .run(&["exec", "again", "/bin/busybox", "true"])?
        .ok()?;
    podman.run(&["kill", "--signal", "TERM", "again"])?.ok()?;
    let status = podman.run(&["wait", "again"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    lab.no_stray_access()
}

fn read(ticket: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(ticket)?)?)
}
