//! `image diff`.

use rocferry_image::manifest::CheckpointId;
use rocferry_store::diff::{Change, Diff, diff};

use super::access::Access;
use super::names::{size, table};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 done, 2 a checkpoint cannot be read, or they cannot be compared."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The older checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    old: CheckpointId,
    /// The newer one
    #[arg(value_parser = super::checkpoint_id)]
    new: CheckpointId,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let old = self.access.checkpoint(&store, &self.old).await?;
        let new = self.access.checkpoint(&store, &self.new).await?;
        let difference = diff(&old.manifest, &new.manifest)?;
        Ok(Answer {
            text: render(self.output, &difference, || describe(&difference))?,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

fn describe(diff: &Diff) -> String {
    let word = |change: Change| match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Changed => "changed",
        Change::Metadata => "same content",
    };
    let mut rows = vec![
        ["FILE", "CHANGE", "OLD", "NEW", "NEW BLOCKS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for file in &diff.files {
        rows.push(vec![
            file.path.clone(),
            word(file.change).to_owned(),
            size(file.old_size),
            size(file.new_size),
            format!("{} ({})", file.blocks.new, size(file.blocks.new_bytes)),
        ]);
    }
    let mut text = table(&rows);
    if !diff.spans.is_empty() {
        let mut rows = vec![
            ["OBJECT", "CHANGE", "OLD", "NEW", "CHANGED"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for span in &diff.spans {
            rows.push(vec![
                span.label.clone(),
                word(span.change).to_owned(),
                size(span.old_size),
                size(span.new_size),
                format!(
                    "{} blocks ({})",
                    span.changed_blocks,
                    size(span.changed_bytes)
                ),
            ]);
        }
        text.push('\n');
        text.push_str(&table(&rows));
    }
    text.push_str(&format!(
        "\n{} files and {} objects unchanged; {} blocks shared, {} new ({}), {} zero\n",
        diff.unchanged_files,
        diff.unchanged_spans,
        diff.blocks.shared,
        diff.blocks.new,
        size(diff.blocks.new_bytes),
        diff.blocks.zero
    ));
    text
}
