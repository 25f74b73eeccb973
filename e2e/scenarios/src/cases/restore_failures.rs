//! Restores that fail at one step after another.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::failures::{COPY_FAULTS, Fault, MACHINE, NodeAway, case, fault, start};
use super::round_trip::SMALL;
use crate::case::{Case, Lab, On};

pub(crate) const CASES: &[Case] = &[
    case(
        "failures/restore_kernel_calls",
        On::All,
        120,
        restore_kernel_calls,
    ),
    case("failures/restore_resume", On::All, 90, restore_resume),
    case(
        "failures/restore_copy_engine",
        On::Newest,
        240,
        restore_copy_engine,
    ),
    case(
        "failures/restore_render_node_gone",
        On::Newest,
        60,
        restore_render_node_gone,
    ),
    case(
        "failures/restore_vram_too_small",
        On::Newest,
        90,
        restore_vram_too_small,
    ),
    case(
        "failures/restore_predecessor_dying",
        On::Newest,
        90,
        restore_predecessor_dying,
    ),
];

fn restore_kernel_calls(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let dump = lab.dump(&workload)?;
    let faults = [
        fault(
            "kfd.criu_op.restore 1 EINVAL",
            &[
                "while restoring process",
                "CRIU_OP RESTORE failed",
                "Invalid argument",
            ],
        ),
        fault(
            "kfd.criu_op.restore 1 EOPNOTSUPP",
            &["CRIU_OP RESTORE failed", "Operation not supported"],
        ),
        fault(
            "kfd.get_process_apertures_new 1 ENOMEM forever",
            &["while restoring process", "Cannot allocate memory"],
        ),
        fault(
            "kfd.get_version 1 EFAULT forever",
            &["while restoring process", "Bad address"],
        ),
    ];
    for Fault { arm, words } in faults {
        lab.sim.fault(arm)?;
        lab.failing_restore(&dump.images, workload.pid, &[], words)
            .context(arm)?;
        lab.sim.clear_faults()?;
    }
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// CRIU does not look at what this hook says; a task whose queues stay stopped must not go on (F3, F28).
pub(super) fn restore_resume(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let dump = lab.dump(&workload)?;
    lab.sim.fault("kfd.criu_op.resume 1 ESRCH")?;
    let words = [
        format!("Process {} is killed", workload.pid),
        "CRIU_OP RESUME failed".to_owned(),
        "No such process".to_owned(),
    ];
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    lab.failing_restore(&dump.images, workload.pid, &[], &words)?;
    let result = fs::read_to_string(dump.images.join("rocferry-result.json"))?;
    ensure!(
        result.contains("CRIU_OP RESUME failed") && !result.contains("\"ok\""),
        "the result file does not tell: {result}"
    );
    lab.sim.clear_faults()?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

fn restore_copy_engine(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let dump = lab.dump(&workload)?;
    for fault in COPY_FAULTS {
        lab.sim.fault(fault.arm)?;
        lab.failing_restore(&dump.images, workload.pid, &[], fault.words)
            .context(fault.arm)?;
        lab.sim.clear_faults()?;
    }
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// The node cannot be opened: that is what the message says, not that an ioctl failed (F21).
pub(super) fn restore_render_node_gone(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let dump = lab.dump(&workload)?;
    lab.sim.reset_counters()?;
    let node = NodeAway::new(lab)?;
    let words = [&node.name(), "No such file or directory"];
    lab.failing_restore(&dump.images, workload.pid, &[], &words)?;
    ensure!(
        lab.sim.calls("kfd.criu_op.restore")? == 0,
        "RESTORE was sent with a file that could not be opened"
    );
    drop(node);
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// Both numbers are in the message.
fn restore_vram_too_small(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let dump = lab.dump(&workload)?;
    lab.sim.set("vram_limit", "1 65536")?;
    let ended = lab.failing_restore(&dump.images, workload.pid, &[], &["of memory free"])?;
    let line = ended
        .log
        .lines()
        .find(|line| line.contains("of memory free"));
    let numbers: Vec<u64> = line
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    ensure!(
        matches!(numbers[..], [free, needed, ..] if free <= 65536 && needed > (2 * 192) << 10),
        "the numbers in {line:?} are {numbers:?}"
    );
    lab.sim.set("vram_limit", "1 0")?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// The process that was dumped still holds its SDMA numbers and memory when the restore begins.
fn restore_predecessor_dying(lab: &mut Lab) -> Result<()> {
    lab.sim.load(&format!("{MACHINE} teardown_delay_ms=1500"))?;
    let args = [SMALL, &["--queues", "sdma=2,aql=1"]].concat();
    let mut workload = lab.workload(&args)?;
    let dump = lab.dump(&workload)?;
    let restore = lab.restore(&mut workload, &dump)?;
    ensure!(
        restore.took.as_millis() >= 700,
        "the predecessor was gone at once: {:?}",
        restore.took
    );
    fs::write("/sys/module/amdgpu/parameters/teardown_delay_ms", "0")?;
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}
