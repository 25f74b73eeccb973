//! `criu dump` of a process tree.

use super::Bare;
use crate::runtime::{Cancel, Container, DumpOptions, Invocation, RuntimeError};

/// Name of CRIU's log.
const LOG: &str = "dump.log";

/// It is left as it was: CRIU freezes the cgroup again if it was frozen.
pub(super) fn command(
    bare: &Bare,
    container: &Container,
    options: &DumpOptions,
) -> Result<Invocation, RuntimeError> {
    let mut command = bare
        .criu
        .command("dump", &options.images, &options.work, LOG, "");
    command
        .arg("-t")
        .arg(container.init.pid.to_string())
        .arg("--leave-running")
        .args(bare.common(options.tcp)?);
    if let Some(cgroup) = &container.cgroup {
        command.arg("--freeze-cgroup").arg(cgroup.path());
    }
    Ok(Invocation {
        command,
        log: options.work.join(LOG),
        cancel: Cancel::Limit,
    })
}
