//! What becomes of the container: as it was after a failure, as it was asked for after success.

use std::time::Duration;

use rocferry_image::manifest::CheckpointId;

use super::args::FREEZE_LIMIT;
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::journal::{After, Entry, Phase, Record};
use crate::pod::hold;

/// How long processes may take to end after they were killed: memory of GPUs is given back then.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(60);

/// After a failure. What cannot be undone stays in the journal, and is said.
pub(super) fn undo(entry: Entry) {
    let undone = run_again(entry.record()).map_err(|error| causes(&error));
    let closed = undone.and_then(|()| entry.finish().map_err(|error| causes(&error)));
    if let Err(error) = closed {
        // The first error is the answer; this one must not be lost either.
        tracing::error!(%error, "The container could not be put back; `rocferry-agent recover` tries again");
    }
}

/// It runs, unless it was frozen by somebody before.
pub(crate) fn run_again(record: &Record) -> Result<(), Error> {
    if let Some(pod) = &record.pod {
        return hold::release(record, pod);
    }
    match &record.subject.cgroup {
        Some(cgroup) if !record.was_frozen && cgroup.exists() => Ok(cgroup.thaw(FREEZE_LIMIT)?),
        _ => Ok(()),
    }
}

/// It is killed, all of it, and gone when this returns.
pub(crate) fn end(record: &Record) -> Result<(), Error> {
    if let Some(pod) = &record.pod {
        return hold::end(record, pod);
    }
    match &record.subject.cgroup {
        Some(cgroup) if cgroup.exists() => {
            cgroup.kill(KILL_LIMIT)?;
            // Nobody is in it: whoever uses it again is not to be met by our freeze.
            Ok(cgroup.thaw(FREEZE_LIMIT)?)
        }
        _ => Ok(()),
    }
}

/// After the checkpoint is listed.
pub(super) fn settle(mut entry: Entry, id: &CheckpointId) -> Result<(), Error> {
    let stored = |source: Error| Error::Unsettled {
        checkpoint: id.to_string(),
        source: Box::new(source),
    };
    entry
        .change(|record| {
            record.phase = Phase::Stored;
            record.checkpoint = Some(id.to_string());
        })
        .map_err(|error| stored(error.into()))?;
    let settled = || -> Result<(), Error> {
        pass(Point::CheckpointStored)?;
        match entry.record().after {
            After::LeaveRunning => {}
            After::KeepFrozen => {
                entry.remove_spool()?;
                entry.advance(Phase::Held)?;
                pass(Point::CheckpointSettled)?;
                return Ok(());
            }
            After::Stop => end(entry.record())?,
        }
        if entry.record().keeps_others_out() {
            entry.remove_spool()?;
            entry.advance(Phase::Held)?;
            pass(Point::CheckpointSettled)?;
            return Ok(());
        }
        pass(Point::CheckpointSettled)?;
        Ok(entry.finish()?)
    };
    settled().map_err(stored)
}
