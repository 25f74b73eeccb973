//! CRIU's part, and the end of what it has made if that is not whole.

use std::fs::File;
use std::time::Duration;

use rocferry_image::RestoreResult;

use crate::checkpoint::KILL_LIMIT;
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::interrupt::Interrupt;
use crate::journal::Entry;
use crate::process::ProcessId;
use crate::runtime::{Job, RestoreOptions, Runtime, RuntimeError, tail};

/// How long CRIU gets to end after it was told to.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Name that runtimes give to CRIU's log.
const LOG: &str = "restore.log";

/// Restores; the pid of the first process. Whatever ends it otherwise, CRIU has ended when this returns.
pub(super) async fn restore(
    driver: &dyn Runtime,
    options: &RestoreOptions,
    stop: &mut Interrupt,
) -> Result<u32, Error> {
    let (command, images) = (driver.restore(options)?, &options.images);
    let mut job = match driver.words(options) {
        None => Job::start("Restore", command, images),
        Some(words) => Job::start_apart("Restore", command, images, words),
    }?;
    let ended: Result<(), Error> = match pass(Point::RestoreStarted) {
        Ok(()) => tokio::select! {
            done = job.wait() => done.map_err(|error| explained(driver, options, error).into()),
            why = stop.wait() => {
                cancel(driver, options, &mut job).await;
                Err(RuntimeError::Stopped { what: "Restore", why }.into())
            }
        },
        Err(fault) => {
            cancel(driver, options, &mut job).await;
            Err(fault.into())
        }
    };
    ended?;
    let pid = driver.restored(options)?;
    whole(driver, options)?;
    let alive = ProcessId::of(pid).is_ok_and(ProcessId::is_alive);
    match alive {
        true => Ok(pid),
        false => Err(Error::Incomplete {
            reason: format!("process {pid} ended at once"),
        }),
    }
}

async fn cancel(driver: &dyn Runtime, options: &RestoreOptions, job: &mut Job) {
    if driver.interrupt(options) && tokio::time::timeout(GIVE_UP, job.wait()).await.is_ok() {
        return;
    }
    job.cancel(GIVE_UP).await;
}

/// An engine names a log that is gone when somebody looks: its end belongs into the error, while it is there.
fn explained(driver: &dyn Runtime, options: &RestoreOptions, error: RuntimeError) -> RuntimeError {
    let RuntimeError::Failed {
        what,
        how,
        tail: said,
    } = error
    else {
        return error;
    };
    let log = driver.workplace(options).map(|work| work.join(LOG));
    let tail = match log.filter(|log| log.is_file()) {
        Some(log) => format!("{said} | {}", tail(&log, &log)),
        None => said,
    };
    RuntimeError::Failed { what, how, tail }
}

/// CRIU does not say whether GPU queues run again; the plugin's result file does.
fn whole(driver: &dyn Runtime, options: &RestoreOptions) -> Result<(), Error> {
    let work = driver
        .workplace(options)
        .unwrap_or_else(|| options.work.clone());
    let unreadable = |source| Error::Image {
        dir: work.clone(),
        source,
    };
    let dir = File::open(&work).map_err(|source| Error::Read {
        path: work.clone(),
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
