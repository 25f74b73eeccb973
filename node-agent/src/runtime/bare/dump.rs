//! `criu dump` of a process tree.

use super::Bare;
use crate::runtime::{Cancel, Container, DumpOptions, Invocation, RuntimeError};

/// Name of CRIU's log.
const LOG: &str = "dump.log";

/// Makes a dump fail when a file grows beyond 64 MiB, in blocks of 512 bytes: more than CRIU needs for the memory
/// through which it works in a task, and little beside what a GPU holds.
pub(super) const LITTLE: &str = "ulimit -f 131072; ";

/// It is left as it was: CRIU freezes the cgroup again if it was frozen.
pub(super) fn command(
    bare: &Bare,
    container: &Container,
    options: &DumpOptions,
    prepare: &str,
) -> Result<Invocation, RuntimeError> {
    let mut command = bare
        .criu
        .command("dump", &options.images, &options.work, LOG, prepare);
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
