//! What cannot be restored yet is refused at the dump, by name, and the process goes on. What does not fit
//! the machine is refused at the restore, with both sides of it, and the images are good elsewhere.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::failures::MACHINE;
use super::round_trip::SMALL;
use crate::case::{Case, Lab, On};
use crate::criu::Ended;
use crate::proc;
use crate::standing::Calls;

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 60,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("refusals/gem_objects", |lab| gem_objects(lab, "")),
    case("refusals/gem_objects_that_are_listed", |lab| {
        gem_objects(lab, "list_handles=1")
    }),
    case("refusals/dma_buf", dma_buf),
    case("refusals/smi_events_are_not_ours", smi),
    case("refusals/mapping_inside_a_bo", |lab| {
        at_dump(
            lab,
            MACHINE,
            &["--bo", "vram:64K:split"],
            &["cannot be restored", "begins inside a BO"],
        )
    }),
    case("refusals/inherited_mapping", |lab| {
        at_dump(
            lab,
            MACHINE,
            &["--bo", "vram:64K:fork", "--child", "inherit"],
            &["cannot be restored", "inherited over fork"],
        )
    }),
    case("refusals/gpu_without_address_space", gpu_without_vm),
    case("refusals/render_node_alone", render_node_alone),
    case("refusals/more_gpus", |lab| {
        other_count(
            lab,
            "preset=gfx90a-2",
            "preset=gfx90a-4",
            &["holds 2 GPU", "4 are usable"],
        )
    }),
    case("refusals/fewer_gpus", |lab| {
        other_count(
            lab,
            "preset=gfx90a-2",
            "preset=gfx90a-1",
            &["holds 2 GPU", "1 are usable"],
        )
    }),
    case("refusals/another_model", another_model),
    case("refusals/another_kfd_version", another_kfd_version),
];

/// The dump is refused with these words, and the process is whole.
pub(super) fn at_dump(lab: &mut Lab, machine: &str, args: &[&str], words: &[&str]) -> Result<()> {
    let ended = refused(lab, machine, args, words)?;
    ensure!(
        ended.log.contains("Error") && words.iter().all(|word| plugin_says(&ended, word)),
        "the plugin does not say it: {}",
        ended.story()
    );
    Ok(())
}

fn refused(lab: &mut Lab, machine: &str, args: &[&str], words: &[&str]) -> Result<Ended> {
    lab.sim.load(machine)?;
    let args = [SMALL, &["--interval", "50"], args].concat();
    let workload = lab.workload(&args)?;
    let ended = lab.failing_dump(&workload, &[], words, Calls::Balanced)?;
    workload.prove()?;
    workload.finish()?;
    Ok(ended)
}

fn plugin_says(ended: &Ended, word: &str) -> bool {
    ended
        .log
        .lines()
        .any(|line| line.contains("amdgpu_plugin:") && line.contains(word))
}

fn gem_objects(lab: &mut Lab, option: &str) -> Result<()> {
    let words = ["holds GEM object ", "renderD", "not restored yet"];
    at_dump(lab, &format!("{MACHINE} {option}"), &["--gem", "2"], &words)
}

fn dma_buf(lab: &mut Lab) -> Result<()> {
    at_dump(
        lab,
        MACHINE,
        &["--dmabuf"],
        &["is a dma-buf of ", "not restored yet"],
    )
}

/// CRIU itself cannot dump it, and says so; the plugin has nothing to do with it (F9).
fn smi(lab: &mut Lab) -> Result<()> {
    let ended = refused(lab, MACHINE, &["--smi"], &["Can't dump file"])?;
    let blame = ended
        .log
        .lines()
        .find(|line| line.contains("amdgpu_plugin:") && line.contains("Error"));
    ensure!(blame.is_none(), "the plugin takes the blame: {blame:?}");
    Ok(())
}

/// The kernel would dereference a null pointer: CHECKPOINT is never sent.
fn gpu_without_vm(lab: &mut Lab) -> Result<()> {
    let words = ["address space", "never acquired"];
    at_dump(lab, MACHINE, &["--acquire", "1"], &words)?;
    ensure!(
        lab.sim.calls("kfd.criu_op.checkpoint")? == 0,
        "CHECKPOINT was sent"
    );
    lab.calls_were(&[("would_oops", 0)])
}

/// A process that has a render node open and has never heard of KFD.
fn render_node_alone(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let minor = lab.sim.counter("gpu0.render_minor")?;
    let script = format!("exec 7<>/dev/dri/renderD{minor}; exec sleep 1000");
    let child = Command::new("setsid")
        .args(["bash", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    let pid = i32::try_from(child.id())?;
    proc::reap_later(child);
    // The shell has the file open before it becomes sleep.
    let link = format!("/proc/{pid}/fd/7");
    for _ in 0..500 {
        if std::fs::read_link(&link).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let images = lab.folder("failed")?;
    let result = lab.criu.dump(pid, &images, &[]).and_then(|ended| {
        ended.refused(&[
            "has no KFD context",
            "without /dev/kfd cannot be restored yet",
            &format!("renderD{minor}"),
        ])
    });
    let alive = proc::is_alive(pid);
    proc::kill_tree(pid)?;
    result?;
    ensure!(alive, "the process is gone");
    lab.calls_were(&[("process_info", 0), ("unpause", 0)])
}

/// The kernel wants as many GPUs as there were; the message says both numbers.
fn other_count(lab: &mut Lab, before: &str, after: &str, words: &[&str]) -> Result<()> {
    at_restore(lab, before, after, words).map(|_| ())
}

/// A line for each GPU that does not fit, with the property and both values.
fn another_model(lab: &mut Lab) -> Result<()> {
    let ended = at_restore(
        lab,
        MACHINE,
        "preset=vega20",
        &["GPUs of this task do not fit"],
    )?;
    let reasons: Vec<_> = ended
        .log
        .lines()
        .filter(|line| line.contains("amdgpu_plugin: GPU ") && line.contains(" cannot use "))
        .collect();
    ensure!(reasons.len() >= 2, "{} reasons: {reasons:?}", reasons.len());
    let wanted = "device_id differs: checkpoint 0x740c, here 0x66a1";
    ensure!(
        reasons.iter().all(|reason| reason.contains(wanted)),
        "no {wanted:?} in {reasons:?}"
    );
    Ok(())
}

/// Refused there; restored on the machine of the dump afterwards, from the same images.
fn at_restore(lab: &mut Lab, before: &str, after: &str, words: &[&str]) -> Result<Ended> {
    lab.sim.load(before)?;
    let mut workload = lab.workload(SMALL)?;
    let dump = lab.dump(&workload)?;
    lab.sim.load(after)?;
    let ended = lab.failing_restore(&dump.images, workload.pid, &[], words)?;
    lab.sim.load(before)?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()?;
    Ok(ended)
}

/// The kernel's private data have had one version since they exist, so an image is good on a kernel with
/// another version of the interface, in both directions.
fn another_kfd_version(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(SMALL)?;
    for minor in ["23", "17"] {
        let machine = format!("{MACHINE} kfd_minor={minor}");
        lab.round_trip(&mut workload, Some(&machine))
            .with_context(|| machine.clone())?;
    }
    workload.finish()
}
