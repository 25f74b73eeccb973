//! `image rm`.

use rocferry_image::manifest::CheckpointId;

use super::access::Access;
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all are deleted, 1 some are not, 2 the store cannot be read."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The checkpoints
    #[arg(required = true, value_parser = super::checkpoint_id)]
    ids: Vec<CheckpointId>,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let mut answer = Answer {
            text: String::new(),
            notes: Vec::new(),
            exit: Exit::Yes,
        };
        for id in &self.ids {
            match store.delete(id).await {
                Ok(()) => answer.text.push_str(&format!("{id} deleted\n")),
                Err(error) => {
                    answer.notes.push(causes(&error));
                    answer.exit = Exit::No;
                }
            }
        }
        Ok(answer)
    }
}
