//! `image prune`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocferry_store::retention::{Candidate, Expired, ExpiredReason, RetentionPolicy};

use super::access::Access;
use super::ls::bound_to;
use super::names::{bytes, duration};
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 done, 1 some could not be deleted, 2 the store cannot be read."
)]
#[group(id = "rules", required = true, multiple = true, args = ["keep_last", "keep_within", "keep_bytes"])]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// Keep so many of each container
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,
    /// Keep those that are not older
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep_within: Option<Duration>,
    /// Keep at most so many stored bytes in all
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    keep_bytes: Option<u64>,
    /// Delete nothing, and say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let mut notes = Vec::new();
        let mut candidates = Vec::new();
        for one in store.list().await? {
            match &one.overview {
                Ok(overview) => candidates.push(Candidate {
                    id: one.id.clone(),
                    created_ms: overview.created_ms,
                    bytes: overview.totals.stored,
                    pinned: one.pin.is_some(),
                    group: bound_to(&overview.binding),
                }),
                Err(error) => notes.push(format!("{} is left alone: {}", one.id, causes(error))),
            }
        }
        let policy = RetentionPolicy {
            last: self.keep_last,
            within: self.keep_within,
            bytes: self.keep_bytes,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let mut expired = policy.expired(&candidates, now);
        let mut exit = Exit::Yes;
        if !self.dry_run {
            let mut deleted = Vec::new();
            for one in expired {
                match store.delete(&one.id).await {
                    Ok(()) => deleted.push(one),
                    Err(error) => {
                        notes.push(causes(&error));
                        exit = Exit::No;
                    }
                }
            }
            expired = deleted;
        }
        Ok(Answer {
            text: render(self.output, &expired, || self.describe(&expired))?,
            notes,
            exit,
        })
    }

    fn describe(&self, expired: &[Expired]) -> String {
        let done = match self.dry_run {
            true => "would be deleted",
            false => "deleted",
        };
        let lines = expired.iter().map(|one| {
            let reason = match one.reason {
                ExpiredReason::Rules => "there are newer ones, or it is too old",
                ExpiredReason::Bytes => "all together are too large",
            };
            format!("{} {done}: {reason}\n", one.id)
        });
        lines.collect()
    }
}
