//! The dump, with the upload behind it.

use std::path::Path;
use std::time::Duration;

use rocferry_store::push::{Follower, Upload};
use tokio::time::{MissedTickBehavior, interval};

use super::args::{Making, make_private};
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::image::GpuCuts;
use crate::interrupt::Interrupt;
use crate::preflight;
use crate::runtime::{Container, DumpOptions, Job, Runtime, RuntimeError, Tcp};

/// How often the upload looks for more.
const LOOK: Duration = Duration::from_millis(400);

/// How long CRIU gets to give up before it is killed: at most what one write may take on a slow disk.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How long a dump of little may take.
const HEAL: Duration = Duration::from_secs(60);

/// What the plugin says when it has let a process's queues run again.
const RESUMED: &str = " is resumed";

/// Runs CRIU to its end. If anything else ends it, CRIU has given up when this returns, and the container is as it
/// was.
pub(super) async fn dump(
    making: &Making<'_>,
    upload: &mut Upload,
    follower: &mut Follower,
    stop: &mut Interrupt,
) -> Result<(), Error> {
    let invocation = making.driver.dump(making.container, &making.options())?;
    let mut job = Job::start("Dump", invocation, &making.images())?;
    let ended = match pass(Point::DumpStarted) {
        Ok(()) => follow(making, &mut job, upload, follower, stop).await,
        Err(fault) => Some(Err(fault.into())),
    };
    if let Some(ended) = ended {
        job.cancel(GIVE_UP).await;
        if job.was_killed() {
            let scratch = making.work.join("heal");
            heal(making.driver, making.container, &scratch).await;
        }
        return Err(match ended {
            Ok(why) => RuntimeError::Stopped { what: "Dump", why }.into(),
            Err(error) => error,
        });
    }
    let inventory = making.images().join("inventory.img");
    match inventory.is_file() {
        true => Ok(()),
        // Whoever says success without it has not made a checkpoint.
        false => Err(Error::Empty {
            path: making.images(),
            missing: "no inventory.img, although the dump said success",
            next_step: "Check which program is called as CRIU",
        }),
    }
}

/// `None`: CRIU has ended well. Else why it is to give up; CRIU's own failure is among the errors.
async fn follow(
    making: &Making<'_>,
    job: &mut Job,
    upload: &mut Upload,
    follower: &mut Follower,
    stop: &mut Interrupt,
) -> Option<Result<String, Error>> {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            done = job.wait() => return done.err().map(|error| Err(error.into())),
            why = stop.wait() => return Some(Ok(why)),
            _ = ticks.tick() => {
                let cuts = GpuCuts::so_far(making.tree);
                if let Err(error) = follower.look(upload, &cuts).await {
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

/// Puts a container right whose CRIU was killed: its GPU queues are stopped then. Nobody else can resume them than a
/// CRIU with the plugin.
pub(crate) async fn heal(driver: &dyn Runtime, container: &Container, scratch: &Path) {
    if !preflight::uses_gpu(&container.processes()) {
        return;
    }
    let options = DumpOptions {
        images: scratch.join("images"),
        work: scratch.to_owned(),
        tcp: Tcp::Established,
        has_tcp: true,
    };
    let healed = async {
        make_private(&options.images)?;
        let mut job = Job::start("Heal", driver.heal(container, &options)?, &options.images)?;
        match tokio::time::timeout(HEAL, job.wait()).await {
            // It fails on purpose where there is much to write; that it resumed the queues is what counts.
            Ok(_) if job.log_has(RESUMED) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(())) => Err(Error::Incomplete {
                reason: "the plugin has not said that it resumed the queues".to_owned(),
            }),
            Err(_) => {
                job.cancel(GIVE_UP).await;
                Err(Error::Stopped {
                    what: "It",
                    why: format!("not done after {} s", HEAL.as_secs()),
                })
            }
        }
    };
    let healed: Result<(), Error> = healed.await;
    match healed {
        Ok(()) => tracing::info!(
            container = container.name,
            "CRIU was killed; GPU queues run again"
        ),
        Err(error) => tracing::error!(
            container = container.name,
            error = causes(&error),
            "CRIU was killed, and GPU queues may be stopped until the next dump"
        ),
    }
}
