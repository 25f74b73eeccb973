//! `stop`: what is held is killed.

use super::verb::{Held, no, yes};
use crate::checkpoint::end;
use crate::cli::Answer;
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::journal::{After, Phase, Work};
use crate::node::StateArgs;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 nothing of it is left, 1 it is not held or has no checkpoint, 2 it failed: `recover` tries again."
)]
pub(crate) struct StopArgs {
    /// The container or pod as it was named when it was checkpointed, its id, or the record that `status` shows
    name: String,
    #[command(flatten)]
    state: StateArgs,
}

impl StopArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        let held = match Held::find(&journal, &self.name)? {
            Ok(held) => held,
            Err(why) => return Ok(no(why)),
        };
        let stored = |record: &&crate::journal::Record| record.work == Work::Checkpoint;
        if !held.records.iter().any(|record| stored(&record)) {
            return Ok(no(format!(
                "{} has no checkpoint: thaw it, or checkpoint it with --stop",
                self.name
            )));
        }
        let mut entries = match held.take(&journal)? {
            Ok(entries) => entries,
            Err(why) => return Ok(no(why)),
        };
        // All say so before anything is done: none may be held to what it was.
        for entry in &mut entries {
            entry.change(|record| {
                record.work = Work::Checkpoint;
                record.after = After::Stop;
                record.phase = Phase::Stored;
            })?;
        }
        pass(Point::StopBegun)?;
        for mut entry in entries {
            end(entry.record())?;
            match entry.record().keeps_others_out() {
                true => entry.advance(Phase::Held)?,
                false => entry.finish()?,
            }
        }
        Ok(yes(format!("{} is stopped\n", self.name)))
    }
}
