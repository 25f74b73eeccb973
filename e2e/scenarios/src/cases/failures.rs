//! Dumps that fail at one step after another.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};
use crate::criu::Version;
use crate::image_files;
use crate::proc;
use crate::standing::Calls;
use crate::workload::Workload;

pub(super) const fn case(
    name: &'static str,
    on: On,
    limit_s: u32,
    run: fn(&mut Lab) -> Result<()>,
) -> Case {
    Case {
        name,
        on,
        limit_s,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case(
        "failures/dump_kernel_calls",
        On::All,
        120,
        dump_kernel_calls,
    ),
    case("failures/dump_copy_engine", On::All, 240, dump_copy_engine),
    case(
        "failures/dump_one_gpu_of_four",
        On::Newest,
        120,
        dump_one_gpu_of_four,
    ),
    case(
        "failures/dump_two_processes",
        On::Newest,
        120,
        dump_two_processes,
    ),
    case(
        "failures/dump_render_node_gone",
        On::Newest,
        60,
        dump_render_node_gone,
    ),
    case("failures/dump_later_file", On::All, 60, dump_later_file),
    case("failures/dump_disk_full", On::Newest, 300, dump_disk_full),
    case(
        "failures/dump_post_dump_script",
        On::All,
        60,
        dump_post_dump_script,
    ),
    case(
        "failures/dump_criu_timeout",
        On::Newest,
        60,
        dump_criu_timeout,
    ),
];

/// Two GPUs, little to copy, no reports slower than the tests.
pub(super) const MACHINE: &str = "preset=gfx90a-2";

/// Something that goes wrong, and what the log has to say about it.
pub(super) struct Fault {
    /// The simulator's command.
    pub(super) arm: &'static str,
    /// Object and cause.
    pub(super) words: &'static [&'static str],
}

pub(super) const fn fault(arm: &'static str, words: &'static [&'static str]) -> Fault {
    Fault { arm, words }
}

pub(super) const PROCESS_INFO: Fault = fault(
    "kfd.criu_op.process_info 1 EPERM",
    &[
        "while dumping process",
        "CRIU_OP PROCESS_INFO failed",
        "Operation not permitted",
    ],
);
const CHECKPOINT: Fault = fault(
    "kfd.criu_op.checkpoint 1 ENOMEM",
    &[
        "while dumping process",
        "CRIU_OP CHECKPOINT failed",
        "Cannot allocate memory",
    ],
);

/// Everything between the open of the render node and the end of a copy.
pub(super) const COPY_FAULTS: &[Fault] = &[
    fault(
        "drm.info 1 EIO",
        &["copy engine of GPU 0x", "Input/output error"],
    ),
    fault(
        "drm.ctx 1 ENOMEM",
        &["copy engine of GPU 0x", "Cannot allocate memory"],
    ),
    fault(
        "drm.gem_create 1 ENOMEM",
        &["copy engine of GPU 0x", "Cannot allocate memory"],
    ),
    fault(
        "drm.gem_mmap 2 ENOMEM",
        &["copy engine of GPU 0x", "Cannot allocate memory"],
    ),
    fault(
        "drm.gem_va 1 ENOSPC",
        &["copy engine of GPU 0x", "No space left on device"],
    ),
    fault(
        "drm.prime_fd_to_handle 1 ENOMEM",
        &["Cannot reach BO ", " of GPU 0x", "Cannot allocate memory"],
    ),
    fault(
        "drm.cs 2 ECANCELED",
        &["Cannot copy ", " of GPU 0x", "Operation canceled"],
    ),
    fault(
        "drm.wait_cs 2 EIO",
        &["Cannot copy ", " of GPU 0x", "Input/output error"],
    ),
    SDMA_FAILS,
    fault(
        "sdma hang 2",
        &["Copy ", " of GPU 0x", "has not ended within 1s"],
    ),
];
pub(super) const SDMA_FAILS: Fault = fault("sdma fail 1", &["Cannot copy ", " of GPU 0x"]);

/// A workload on a machine with two GPUs.
pub(super) fn start(lab: &mut Lab) -> Result<Workload> {
    lab.sim.load(MACHINE)?;
    lab.criu = lab.criu.with_env("ROCFERRY_COPY_TIMEOUT_S", "1");
    let args = [SMALL, &["--interval", "50"]].concat();
    lab.workload(&args)
}

/// Arms a fault, dumps in vain, and disarms it.
pub(super) fn fails_by(
    lab: &mut Lab,
    workload: &Workload,
    fault: &Fault,
    calls: Calls,
) -> Result<()> {
    lab.sim.fault(fault.arm)?;
    lab.failing_dump(workload, &[], fault.words, calls)
        .with_context(|| fault.arm)?;
    lab.sim.clear_faults()
}

fn dump_kernel_calls(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    // The kernel lets the queues run again itself when PROCESS_INFO fails.
    fails_by(lab, &workload, &PROCESS_INFO, Calls::NotPaused)?;
    lab.again(&mut workload)?;
    fails_by(lab, &workload, &CHECKPOINT, Calls::Each(1))?;
    lab.again(&mut workload)?;
    workload.prove()?;
    workload.finish()
}

fn dump_copy_engine(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    for fault in COPY_FAULTS {
        fails_by(lab, &workload, fault, Calls::Each(1))?;
        lab.again(&mut workload).context(fault.arm)?;
    }
    workload.prove()?;
    workload.finish()
}

/// An error on one GPU while the others copy (F38).
pub(super) fn dump_one_gpu_of_four(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-4")?;
    let args = [SMALL, &["--interval", "50"]].concat();
    let mut workload = lab.workload(&args)?;
    for arm in ["sdma fail 1", "sdma fail 6", "drm.ctx 3 ENOMEM"] {
        let fault = Fault {
            arm,
            words: &["Cannot ", "GPU 0x"],
        };
        fails_by(lab, &workload, &fault, Calls::Each(1))?;
    }
    let dump = lab.dump(&workload)?;
    for arm in ["sdma fail 1", "sdma fail 6", "drm.ctx 3 ENOMEM"] {
        lab.sim.fault(arm)?;
        lab.failing_restore(&dump.images, workload.pid, &[], &["Cannot ", "GPU 0x"])
            .with_context(|| arm)?;
        lab.sim.clear_faults()?;
    }
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// Both are resumed, whichever fails.
fn dump_two_processes(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let args = [SMALL, &["--interval", "50", "--child", "gpu"]].concat();
    let mut workload = lab.workload(&args)?;
    let second = Fault {
        arm: "kfd.criu_op.checkpoint 2 ENOMEM",
        words: CHECKPOINT.words,
    };
    fails_by(lab, &workload, &second, Calls::Each(2))?;
    // To forget it would end it.
    let child = workload.child()?;
    child.advances()?;
    // The first UNPAUSE at the end fails: the second is sent all the same. Before the dump each process was
    // asked whether it was paused already.
    lab.sim.reset_counters()?;
    lab.sim.fault("kfd.criu_op.unpause 3 EIO")?;
    let script = script(lab, "post-dump")?;
    let images = lab.folder("failed")?;
    let ended = lab
        .criu
        .dump(workload.pid, &images, &["--action-script", &script])?;
    let ended = ended.refused(&["its GPU queues stay stopped", "CRIU_OP UNPAUSE failed"])?;
    lab.calls_were(&[("process_info", 2)])
        .with_context(|| ended.story())?;
    ensure!(
        lab.sim.calls("kfd.criu_op.unpause")? == 4,
        "the second process was not tried"
    );
    let paused = lab.sim.processes()?.matches(" paused=1").count();
    ensure!(paused == 1, "{paused} processes are paused");
    proc::kill_tree(workload.pid)?;
    lab.sim.clear_faults()?;
    workload = lab.workload(&args)?;
    lab.again(&mut workload)?;
    drop(child);
    let child = workload.child()?;
    child.prove()?;
    workload.prove()?;
    workload.finish()
}

/// The node of a GPU cannot be opened: the message names it, and not an ioctl (F20).
pub(super) fn dump_render_node_gone(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let node = NodeAway::new(lab)?;
    let words = [
        "copy engine of GPU 0x",
        &node.name(),
        "No such file or directory",
    ];
    lab.failing_dump(&workload, &[], &words, Calls::Each(1))?;
    drop(node);
    lab.again(&mut workload)?;
    workload.prove()?;
    workload.finish()
}

/// A descriptor that CRIU refuses, with a number above those of the GPU files: the plugin has done all of
/// its work by then (F5).
pub(super) fn dump_later_file(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let args = [SMALL, &["--interval", "50", "--foreign-fd", "300"]].concat();
    let workload = lab.workload(&args)?;
    for _ in 0..2 {
        lab.failing_dump(&workload, &[], &["Can't dump file"], Calls::Each(1))?;
    }
    workload.prove()?;
    workload.finish()?;
    if lab.criu.version < Version(4, 2) {
        return Ok(());
    }
    // One that CRIU refuses only as long as it is not asked for; older ones cannot leave the network alone.
    let args = [SMALL, &["--interval", "50", "--foreign-fd", "300:tcp"]].concat();
    let mut workload = lab.workload(&args)?;
    lab.failing_dump(&workload, &[], &["tcp-established"], Calls::Each(1))?;
    let allow = ["--tcp-established", "--network-lock", "skip"];
    let dump = lab.dump_with(&workload, &allow).context("the next dump")?;
    lab.restore_with(&mut workload, &dump, &allow)?;
    workload.prove()?;
    workload.finish()
}

/// Images on file systems of all sizes: each kind of image is the first that does not fit, once.
fn dump_disk_full(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let args = [
        "--bare",
        "--bo",
        "vram:8K",
        "--queues",
        "sdma=1",
        "--interval",
        "20",
    ];
    let mut workload = lab.workload(&args)?;
    let mut missed = vec![
        "amdgpu-pages-",
        "Cannot write BO ",
        "rocferry-index-",
        "amdgpu-kfd-",
        "rocferry-task-",
        "rocferry-file-",
        "amdgpu-renderD-",
    ];
    let mut kib = 4;
    // Past the last of the plugin's images the disk fills while CRIU writes its own.
    let mut later = 0;
    while later < 2 {
        ensure!(kib < 4096, "never full: {missed:?}");
        let log = dump_on_disk_of(lab, &workload, kib)?;
        match log
            .lines()
            .find(|line| line.contains("amdgpu_plugin: DUMP_EXT_FILE"))
        {
            Some(line) => missed.retain(|word| !line.contains(word)),
            None if log.contains("amdgpu_plugin: ") => later += 1,
            None => {}
        }
        kib += if later == 0 { 4 } else { 64 };
    }
    ensure!(
        missed.is_empty(),
        "no disk was too small just for {missed:?}"
    );
    lab.again(&mut workload)?;
    workload.prove()?;
    workload.finish()
}

/// A dump onto a full disk; its log.
fn dump_on_disk_of(lab: &mut Lab, workload: &Workload, kib: u32) -> Result<String> {
    let disk = Disk::new(lab, kib)?;
    let work = lab.folder("work")?;
    let args = ["-W", work.to_str().context("path")?];
    let ended = lab
        .failing_dump_into(workload, &disk.0, &args, &[], Calls::Balanced)
        .with_context(|| format!("on {kib} KiB"))?;
    ensure!(
        ended.log.contains("No space left on device"),
        "{kib} KiB: the log does not say why: {}",
        ended.story()
    );
    Ok(ended.log)
}

/// What CRIU runs after the dump says no (F5). The queues still stand at that point (F32).
pub(super) fn dump_post_dump_script(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let script = script(lab, "post-dump")?;
    let args = ["--action-script", &script];
    lab.failing_dump(&workload, &args, &["post-dump"], Calls::Each(1))?;
    lab.again(&mut workload)?;
    workload.prove()?;
    workload.finish()
}

/// CRIU's own time limit covers the time until the tree is frozen: no copy, however slow, breaks it.
fn dump_criu_timeout(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let mut workload = lab.workload(&["--bare", "--bo", "vram:1M:2", "--queues", "sdma=1"])?;
    lab.sim.set("delay_us_per_mib", "1000000")?;
    let dump = lab.dump_with(&workload, &["--timeout", "1"])?;
    lab.sim.set("delay_us_per_mib", "0")?;
    ensure!(
        dump.ended.took.as_secs() >= 2,
        "the copies took no time: {:?}",
        dump.ended.took
    );
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// An action script that fails at one of CRIU's points.
pub(super) fn script(lab: &Lab, point: &str) -> Result<String> {
    script_that(lab, &format!("[ \"$CRTOOLS_SCRIPT_ACTION\" != {point} ]"))
}

/// An action script.
pub(super) fn script_that(lab: &Lab, commands: &str) -> Result<String> {
    let path = lab.dir.join("action.sh");
    fs::write(&path, format!("#!/bin/sh\n{commands}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path.to_str().context("path")?.to_owned())
}

/// A render node that has lost its name, until dropped.
pub(super) struct NodeAway {
    path: PathBuf,
}

impl NodeAway {
    /// Of the last GPU.
    pub(super) fn new(lab: &Lab) -> Result<Self> {
        let last = lab.sim.counter("gpus")? - 1;
        let minor = lab.sim.counter(&format!("gpu{last}.render_minor"))?;
        let path = PathBuf::from(format!("/dev/dri/renderD{minor}"));
        fs::rename(&path, path.with_extension("away"))?;
        Ok(Self { path })
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

impl Drop for NodeAway {
    fn drop(&mut self) {
        let _ = fs::rename(self.path.with_extension("away"), &self.path);
    }
}

/// A file system of a certain size, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    pub(super) fn new(lab: &mut Lab, kib: u32) -> Result<Self> {
        let path = lab.folder("disk")?;
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "disk"])
            .arg(&path)
            .status()?;
        ensure!(status.success(), "cannot mount a tmpfs of {kib} KiB");
        Ok(Self(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An old, longer image must not show through a new one (F7).
pub(super) fn dump_over_longer_images(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let images = lab.folder("images")?;
    let first = lab.dump_into(&workload, images.clone(), &["--leave-running"])?;
    drop(first);
    for image in ours(&images)? {
        let mut bytes = fs::read(&image)?;
        bytes.extend([0xa5; 8192]);
        fs::write(&image, bytes)?;
    }
    let dump = lab.dump_into(&workload, images.clone(), &[])?;
    for image in ours(&images)? {
        let (length, framed) = (
            fs::metadata(&image)?.len(),
            image_files::framed_length(&image)?,
        );
        if length != framed {
            bail!(
                "{} has {length} bytes, its header says {framed}",
                image.display()
            );
        }
    }
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// All images of the plugin.
pub(super) fn ours(images: &Path) -> Result<Vec<PathBuf>> {
    let mut found = image_files::named(images, "amdgpu-")?;
    found.extend(
        image_files::named(images, "rocferry-")?
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "img")),
    );
    ensure!(!found.is_empty(), "no images in {}", images.display());
    Ok(found)
}
