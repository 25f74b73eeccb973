//! Copies that take longer than they may: the dump or restore ends soon after the time-out, not with the copy.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::failures;
use crate::case::{Case, Lab, On};
use crate::criu::Ended;
use crate::standing::Calls;

pub(crate) const CASES: &[Case] = &[
    failures::case("failures/dump_slow_copies", On::All, 240, dump),
    failures::case("failures/restore_slow_copies", On::All, 240, restore),
];

/// Microseconds for a MiB: an hour, so that 64 KiB take four minutes.
const SLOW: &str = "3600000000";
/// More than a loaded host makes of the time-out of a second and the rest of a dump.
const SOON: Duration = Duration::from_secs(100);
/// What the log has to say.
const WORDS: &[&str] = &["Copy ", " of GPU 0x", "has not ended within 1s"];

fn dump(lab: &mut Lab) -> Result<()> {
    let mut workload = failures::start(lab)?;
    lab.sim.set("delay_us_per_mib", SLOW)?;
    let ended = lab.failing_dump(&workload, &[], WORDS, Calls::Each(1))?;
    ended_soon(&ended)?;
    lab.sim.set("delay_us_per_mib", "0")?;
    lab.again(&mut workload)?;
    workload.prove()?;
    workload.finish()
}

fn restore(lab: &mut Lab) -> Result<()> {
    let mut workload = failures::start(lab)?;
    let dump = lab.dump(&workload)?;
    lab.sim.set("delay_us_per_mib", SLOW)?;
    let ended = lab.failing_restore(&dump.images, workload.pid, &[], WORDS)?;
    ended_soon(&ended)?;
    lab.sim.set("delay_us_per_mib", "0")?;
    lab.restore(&mut workload, &dump)
        .context("the next restore")?;
    workload.prove()?;
    workload.finish()
}

fn ended_soon(ended: &Ended) -> Result<()> {
    ensure!(
        ended.took < SOON,
        "CRIU went on for {:?} with a copy that had a second",
        ended.took
    );
    Ok(())
}
