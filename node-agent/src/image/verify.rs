//! `image verify`.

use rocferry_image::manifest::CheckpointId;
use rocferry_store::Progress;
use rocferry_store::verify::{VerifyOptions, VerifyReport};

use super::access::Access;
use super::bar::Bar;
use super::names::size;
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all is well, 1 there are faults, 2 the store cannot be read."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The checkpoints; without any, everything in the store
    #[arg(value_parser = super::checkpoint_id)]
    ids: Vec<CheckpointId>,
    /// Read every block
    #[arg(long)]
    deep: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let options = VerifyOptions {
            deep: self.deep,
            checkpoints: self.ids.clone(),
            policy: self.access.policy()?,
            ..VerifyOptions::default()
        };
        let progress = Progress::new();
        let bar = Bar::show("Verifying", &progress);
        let report = store.verify(options, &progress).await;
        drop(bar);
        let report = report?;
        Ok(Answer {
            text: render(self.output, &report, || describe(&report))?,
            notes: Vec::new(),
            exit: match report.is_ok() {
                true => Exit::Yes,
                false => Exit::No,
            },
        })
    }
}

fn describe(report: &VerifyReport) -> String {
    let mut text = String::new();
    for fault in &report.faults {
        let of = fault.checkpoint.as_ref();
        let of = of.map_or_else(String::new, |id| format!(" (checkpoint {id})"));
        text.push_str(&format!(
            "{}{of}: {}\n",
            fault.object,
            causes(&fault.defect)
        ));
    }
    if report.more_faults > 0 {
        text.push_str(&format!("and {} faults more\n", report.more_faults));
    }
    for id in &report.broken {
        text.push_str(&format!("{id} cannot be restored\n"));
    }
    for key in &report.foreign_keys {
        text.push_str(&format!(
            "data key {key} is somebody else's and never used\n"
        ));
    }
    for key in &report.locked_keys {
        text.push_str(&format!("data key {key} is not opened by what was given\n"));
    }
    text.push_str(&format!(
        "{} checkpoints, {} packs ({}), {} blocks read, {} packs that nothing needs ({}), {} without index\n",
        report.checkpoints,
        report.packs.packs,
        size(report.packs.bytes),
        report.blocks,
        report.orphans.packs,
        size(report.orphans.bytes),
        report.unindexed
    ));
    text.push_str(match report.is_ok() {
        true => "no faults\n",
        false => "there are faults\n",
    });
    text
}
