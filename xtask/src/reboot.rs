//! Cases across a sudden reboot: the first half in a machine that loses its power, the second in one that is started with
//! the same disk.

use std::time::Duration;

use anyhow::{Result, bail};
use rocferry_vm::{Lab, Stream, Userland};

use crate::guest::{self, Programs};
use crate::test::Tally;

/// Their names.
pub(crate) const CASES: [&str; 1] = ["reboot/held"];

/// Runs those with these names.
pub(crate) fn run(
    lab: &Lab,
    programs: &Programs,
    names: &[String],
    tally: &mut Tally,
) -> Result<()> {
    println!("[test] machines that lose their power");
    for case in names {
        one(lab, programs, case, tally)?;
    }
    Ok(())
}

fn one(lab: &Lab, programs: &Programs, case: &str, tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = folder.path().join("disk.img");
    for half in ["before", "after"] {
        let session = guest::start_with_disk(lab, Userland::Sid, programs, &disk)?;
        let script = format!("/host/bin/scenarios half {case} {half}");
        let mut good = false;
        session.exec_with(&script, Duration::from_secs(900), &mut |stream, line| {
            guest::show(stream, &format!("  {half}: {line}"));
            good |= stream == Stream::Stdout && line.starts_with("ok ");
            if half == "after" || !line.starts_with("ok ") {
                tally.count("sid", stream, line);
            }
        })?;
        // No farewell: what is not on the disk is lost.
        session.kill();
        if !good {
            if tally.failed.is_empty() {
                bail!("{case} has no result");
            }
            return Ok(());
        }
    }
    Ok(())
}
