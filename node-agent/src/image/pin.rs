//! `image pin` and `image unpin`.

use rocferry_image::manifest::CheckpointId;

use super::access::Access;
use crate::cli::{Answer, Exit};
use crate::error::Error;

#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    #[command(flatten)]
    access: Access,
    /// The checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    id: CheckpointId,
    /// Why, for people
    #[arg(long, default_value = "")]
    reason: String,
}

impl PinArgs {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        store.pin(&self.id, &self.reason).await?;
        Ok(done(format!("{} pinned\n", self.id)))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnpinArgs {
    #[command(flatten)]
    access: Access,
    /// The checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    id: CheckpointId,
}

impl UnpinArgs {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        Ok(match store.unpin(&self.id).await? {
            true => done(format!("{} unpinned\n", self.id)),
            false => done(format!("{} was not pinned\n", self.id)),
        })
    }
}

const fn done(text: String) -> Answer {
    Answer {
        text,
        notes: Vec::new(),
        exit: Exit::Yes,
    }
}
