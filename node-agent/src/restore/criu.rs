//! CRIU's part, and the end of what it has made if that is not whole.

use std::fs::File;
use std::time::Duration;

use rocferry_image::RestoreResult;

use crate::checkpoint::KILL_LIMIT;
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::interrupt::Interrupt;
use crate::journal::Entry;
use crate::process::{self, ProcessId};
use crate::runtime::{Job, RestoreOptions, Runtime, RuntimeError};

/// How long CRIU gets to end after it was told to.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Restores; the pid of the first process. Whatever ends it otherwise, CRIU has ended when this returns.
pub(super) async fn restore(
    driver: &dyn Runtime,
    options: &RestoreOptions,
    stop: &mut Interrupt,
) -> Result<u32, Error> {
    let mut job = Job::start("Restore", driver.restore(options)?, &options.images)?;
    let ended = match pass(Point::RestoreStarted) {
        Ok(()) => tokio::select! {
            done = job.wait() => done.map_err(Error::from),
            why = stop.wait() => {
                job.cancel(GIVE_UP).await;
                Err(RuntimeError::Stopped { what: "Restore", why }.into())
            }
        },
        Err(fault) => {
            job.cancel(GIVE_UP).await;
            Err(fault.into())
        }
    };
    ended?;
    let pid = pid(options)?;
    whole(options)?;
    let alive = ProcessId::of(pid).is_ok_and(ProcessId::is_alive);
    match alive {
        true => Ok(pid),
        false => Err(Error::Incomplete {
            reason: format!("process {pid} ended at once"),
        }),
    }
}

fn pid(options: &RestoreOptions) -> Result<u32, Error> {
    let path = &options.pid_file;
    let text = process::read(path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    text.trim().parse().map_err(|_| Error::Incomplete {
        reason: format!("{} holds no pid", path.display()),
    })
}

/// CRIU does not say whether GPU queues run again; the plugin's result file does.
fn whole(options: &RestoreOptions) -> Result<(), Error> {
    let unreadable = |source| Error::Image {
        dir: options.work.clone(),
        source,
    };
    let dir = File::open(&options.work).map_err(|source| Error::Read {
        path: options.work.clone(),
        source,
    })?;
    let result = RestoreResult::read(&dir).map_err(unreadable)?;
    let gpu = crate::topology::has_gpus(&options.images)?;
    match result {
        Some(result) if result.is_success() => Ok(()),
        None if !gpu => Ok(()),
        Some(result) => {
            let bad = result
                .tasks
                .iter()
                .map(|task| format!("process {}: {:?}", task.pid, task.resume))
                .collect::<Vec<_>>();
            Err(Error::Incomplete {
                reason: format!("the GPU plugin says so: {}", bad.join(", ")),
            })
        }
        None => Err(Error::Incomplete {
            reason: "the GPU plugin has left no result".to_owned(),
        }),
    }
}

/// After a failure: ends what was restored. What cannot be done stays in the journal, and is said.
pub(super) fn clear(entry: Entry, driver: &dyn Runtime) {
    let cleared = || -> Result<(), Error> {
        let record = entry.record();
        match &record.subject.cgroup {
            Some(cgroup) if cgroup.exists() => {
                cgroup.kill(KILL_LIMIT)?;
                cgroup.remove()?;
            }
            _ if record.phase == crate::journal::Phase::Criu => {
                driver.discard(&record.subject.id)?;
            }
            _ => {}
        }
        Ok(())
    };
    let done = cleared().and_then(|()| Ok(entry.finish()?));
    if let Err(error) = done {
        tracing::error!(
            error = causes(&error),
            "What was restored so far could not be removed; `rocferry-agent recover` tries again"
        );
    }
}
