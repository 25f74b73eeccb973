//! `image inspect`.

use rocferry_image::manifest::CheckpointId;
use rocferry_store::envelope::ManifestObject;
use rocferry_store::inspect::Inspection;

use super::access::Access;
use super::ls::bound_to;
use super::names::{size, table};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 done, 2 the checkpoint cannot be read.")]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    id: CheckpointId,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let object = self.access.checkpoint(&store, &self.id).await?;
        let inspection = Inspection::of(&object);
        Ok(Answer {
            text: render(self.output, &inspection, || describe(&object, &inspection))?,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

fn describe(object: &ManifestObject, inspection: &Inspection) -> String {
    let manifest = &object.manifest;
    let none = || "-".to_owned();
    let (source, totals) = (&manifest.source, &inspection.totals);
    let facts = [
        ("checkpoint", manifest.id.to_string()),
        (
            "parent",
            manifest
                .parent
                .as_ref()
                .map_or_else(none, ToString::to_string),
        ),
        ("for", bound_to(&manifest.binding)),
        (
            "signed by",
            object.signer.map_or_else(none, |signer| signer.to_string()),
        ),
        (
            "data key",
            manifest.data_key.map_or_else(none, |key| key.to_string()),
        ),
        ("image", source.image.clone().unwrap_or_else(none)),
        ("runtime", source.runtime.clone().unwrap_or_else(none)),
        ("node", source.node.clone().unwrap_or_else(none)),
        ("kernel", source.kernel_version.clone().unwrap_or_else(none)),
        ("CRIU", source.criu_version.clone().unwrap_or_else(none)),
        (
            "size",
            format!(
                "{} in {} files, {} of it zero",
                size(totals.plain),
                totals.files,
                size(totals.zero)
            ),
        ),
        (
            "stored",
            format!(
                "{} in {} blocks of {} packs",
                size(totals.stored),
                totals.stored_blocks,
                manifest.packs.len()
            ),
        ),
    ];
    let facts: Vec<_> = facts
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    let mut rows = vec![
        ["FILE", "SIZE", "STORED", "WHAT"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for file in &inspection.files {
        let stored = file.spans.iter().map(|span| span.stored).sum();
        let what = file
            .target
            .as_ref()
            .map_or_else(String::new, |target| format!("-> {target}"));
        rows.push(vec![file.path.clone(), size(file.size), size(stored), what]);
        for span in file.spans.iter().filter(|span| span.label.is_some()) {
            let label = span.label.clone().unwrap_or_default();
            rows.push(vec![
                String::new(),
                size(span.size),
                size(span.stored),
                label,
            ]);
        }
    }
    format!("{}\n{}", table(&facts), table(&rows))
}
