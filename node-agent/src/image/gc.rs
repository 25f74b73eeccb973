//! `image gc`.

use std::time::Duration;

use rocferry_store::gc::{Amount, GcOptions, GcReport};

use super::access::Access;
use super::names::{duration, size, table};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 done, 2 the store cannot be read, or not all of it: nothing is removed then."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// How old a pack must be before it is condemned, and its condemnation before it is deleted
    #[arg(long, default_value = "1h", value_parser = duration)]
    grace: Duration,
    /// Change nothing, and say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let options = GcOptions {
            grace: self.grace,
            dry_run: self.dry_run,
        };
        let report = store.gc(options).await?;
        Ok(Answer {
            text: render(self.output, &report, || describe(&report))?,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

fn describe(report: &GcReport) -> String {
    let row = |what: &str, amount: &Amount| {
        let packs = amount.packs.to_string();
        vec![what.to_owned(), packs, size(amount.bytes)]
    };
    let would = |what: &str| match report.dry_run {
        true => format!("would be {what}"),
        false => what.to_owned(),
    };
    let mut text = table(&[
        vec!["PACKS".to_owned(), "NUMBER".to_owned(), "SIZE".to_owned()],
        row("needed", &report.needed),
        row("needed, though condemned", &report.needed_condemned),
        row("too young", &report.young),
        row(&would("condemned"), &report.condemned),
        row("condemned before, not long enough", &report.waiting),
        row("held by leases", &report.held),
        row(&would("deleted"), &report.deleted),
    ]);
    for holder in &report.holders {
        text.push_str(&format!("held by {holder}\n"));
    }
    text.push_str(&format!(
        "left over and {}: {} indexes, {} condemnations, {} leases\n",
        would("removed"),
        report.indexes,
        report.condemnations,
        report.leases
    ));
    text
}
