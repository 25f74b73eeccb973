//! CRIU restores a tree in a time namespace of its own, whose clocks go on from the moment of the dump. The
//! host's may be far behind them (another machine, booted later) or far ahead, and a GPU driver takes
//! points in time on the host's.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};
use crate::proc;
use crate::trip::Dump;
use crate::workload::Workload;

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 60,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("clocks/ahead_of_the_host", |lab| {
        restored_with(lab, 500_000)
    }),
    case("clocks/behind_the_host", |lab| restored_with(lab, 0)),
    case("clocks/hung_copy_is_found", hung_copy),
];

fn dumped(lab: &mut Lab, seconds: u64) -> Result<(Workload, Dump)> {
    lab.sim.load("preset=gfx90a-2")?;
    let workload = lab.workload(SMALL)?;
    let dump = lab.dump(&workload)?;
    set_monotonic(&dump.images.join("timens-0.img"), seconds)?;
    Ok((workload, dump))
}

fn restored_with(lab: &mut Lab, seconds: u64) -> Result<()> {
    let (mut workload, dump) = dumped(lab, seconds)?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    lab.restore(&mut workload, &dump)?;
    let off = monotonic_offset_ns(workload.pid)?;
    ensure!(
        (off > 0) == (seconds > 0) && off.abs() > 1_000_000_000,
        "the clock of the restored process is off by {off} ns: CRIU has not taken the images' time"
    );
    workload.prove()?;
    workload.advances()?;
    workload.finish()
}

/// The limit of a copy is one on the task's clock, whatever the host's says.
fn hung_copy(lab: &mut Lab) -> Result<()> {
    let (workload, dump) = dumped(lab, 500_000)?;
    lab.criu = lab.criu.with_env("ROCFERRY_COPY_TIMEOUT_S", "1");
    lab.sim.fault("sdma hang 1")?;
    let (ended, _) = lab.criu.try_restore(&dump.images, &[])?;
    let ended = ended.refused(&["has not ended within 1s"])?;
    ensure!(
        ended.took < Duration::from_secs(30),
        "found after {:?} only",
        ended.took
    );
    proc::wait_reaped(workload.pid)
}

/// By how much the monotonic clock of a process is ahead of the host's, in ns.
pub(super) fn monotonic_offset_ns(pid: i32) -> Result<i64> {
    let path = format!("/proc/{pid}/timens_offsets");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find(|line| line.starts_with("monotonic"));
    let words = line
        .context("no monotonic offset")?
        .split_ascii_whitespace();
    let numbers: Vec<i64> = words.skip(1).map(str::parse).collect::<Result<_, _>>()?;
    match *numbers.as_slice() {
        [seconds, ns] => Ok(seconds * 1_000_000_000 + ns),
        _ => bail!("{path} says {text:?}"),
    }
}

/// Sets the seconds of the monotonic clock in CRIU's image of it: two magic numbers, a 32 bit length, and a
/// message whose field 1 is `{ 1: seconds, 2: nanoseconds }`.
fn set_monotonic(image: &Path, seconds: u64) -> Result<()> {
    let bytes = fs::read(image).with_context(|| image.display().to_string())?;
    let (magic, rest) = bytes.split_at_checked(8).context("no magic numbers")?;
    let (_, message) = rest.split_at_checked(4).context("no length")?;
    let [0x0a, len, ..] = *message else {
        bail!("field 1 is not the first: {message:x?}");
    };
    let clock = message.get(2..2 + usize::from(len)).context("cut off")?;
    let seconds_end = clock.iter().skip(1).position(|byte| byte & 0x80 == 0);
    let after_seconds = &clock[seconds_end.context("no seconds")? + 2..];
    let mut new_clock = vec![0x08];
    let mut left = seconds;
    while left >= 0x80 {
        new_clock.push(u8::try_from(left & 0x7f)? | 0x80);
        left >>= 7;
    }
    new_clock.push(u8::try_from(left)?);
    new_clock.extend(after_seconds);
    let mut new_message = vec![0x0a, u8::try_from(new_clock.len())?];
    new_message.extend(new_clock);
    new_message.extend(&message[2 + usize::from(len)..]);
    let len = u32::try_from(new_message.len())?.to_le_bytes();
    let whole = [magic, &len, &new_message].concat();
    Ok(fs::write(image, whole)?)
}
