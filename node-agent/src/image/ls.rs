//! `image ls`.

use rocferry_image::manifest::Binding;
use rocferry_store::Listed;

use super::access::Access;
use super::names::{age, size, table};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 done, 1 some checkpoints cannot be read, 2 the store cannot be read."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let listed = store.list().await?;
        let unreadable = listed.iter().filter(|listed| listed.overview.is_err());
        let exit = match unreadable.count() {
            0 => Exit::Yes,
            _ => Exit::No,
        };
        Ok(Answer {
            text: render(self.output, &listed, || rows(&listed))?,
            notes: Vec::new(),
            exit,
        })
    }
}

fn rows(listed: &[Listed]) -> String {
    let head = [
        "CHECKPOINT",
        "AGE",
        "SIZE",
        "STORED",
        "FOR",
        "NODE",
        "SIGNED",
        "NOTE",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    for one in listed {
        let mut row = vec![one.id.to_string()];
        let mut note = match &one.pin {
            Some(Ok(pin)) if pin.reason.is_empty() => "pinned".to_owned(),
            Some(Ok(pin)) => format!("pinned: {}", pin.reason),
            Some(Err(error)) => format!("pinned ({error})"),
            None => String::new(),
        };
        match &one.overview {
            Ok(overview) => row.extend([
                age(overview.created_ms, now),
                size(overview.totals.plain),
                size(overview.totals.stored),
                bound_to(&overview.binding),
                overview.node.clone().unwrap_or_else(|| "-".to_owned()),
                if overview.signer.is_some() {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
            ]),
            Err(error) => {
                row.extend(["-", "-", "-", "-", "-", "-"].map(str::to_owned));
                note = format!("{note} {}", crate::error::causes(error));
            }
        }
        row.push(note.trim().to_owned());
        rows.push(row);
    }
    table(&rows)
}

pub(super) fn bound_to(binding: &Binding) -> String {
    match binding {
        Binding::Free => "anybody".to_owned(),
        Binding::Pod {
            namespace,
            pod,
            container,
            ..
        } => format!("{namespace}/{pod}/{container}"),
    }
}
