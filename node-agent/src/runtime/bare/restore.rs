//! `criu restore` of a process tree.

use super::Bare;
use crate::runtime::{Cancel, Invocation, RestoreOptions, RuntimeError};

/// Name of CRIU's log.
const LOG: &str = "restore.log";

/// CRIU enters the cgroup first, and what it restores stays there: so that half a tree can be found and ended.
pub(super) fn command(bare: &Bare, options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
    let cgroup = options.cgroup.as_ref().ok_or(RuntimeError::Needed {
        what: "a cgroup to restore in",
    })?;
    let prepare =
        r#"echo $$ >"$ROCFERRY_CGROUP/cgroup.procs" || exit 125; unset ROCFERRY_CGROUP; "#;
    let mut command = bare
        .criu
        .command("restore", &options.images, &options.work, LOG, prepare);
    command
        .env("ROCFERRY_CGROUP", cgroup.path())
        .arg("--restore-detached")
        .arg("--pidfile")
        .arg(&options.pid_file)
        .args(bare.common(options.tcp)?);
    Ok(Invocation {
        command,
        log: options.work.join(LOG),
        cancel: Cancel::Limit,
    })
}
