//! `rocferry-agent image`.

mod access;
mod archives;
mod bar;
mod cuts;
mod diff;
mod gc;
mod inspect;
mod keys;
mod ls;
mod names;
mod pin;
mod prune;
mod pull;
mod push;
mod rm;
mod verify;

pub(crate) use access::{StoreKeys, signer};
pub(crate) use bar::Bar;
pub(crate) use cuts::GpuCuts;
pub(crate) use names::{age, duration, size, table};
pub(crate) use push::Storing;

use clap::Subcommand;
use rocferry_image::manifest::CheckpointId;

use crate::cli::{Answer, block_on};
use crate::error::Error;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the checkpoints of a store
    Ls(ls::Args),
    /// Show what a checkpoint consists of
    Inspect(inspect::Args),
    /// Check that checkpoints are whole
    ///
    /// Without --deep: that all packs are there and hold the blocks where the checkpoints say. With --deep every block
    /// is read and verified. All faults are reported, not the first one alone.
    Verify(verify::Args),
    /// Compare two checkpoints: files, blocks, and GPU buffer objects by address
    Diff(diff::Args),
    /// Delete checkpoints
    ///
    /// Their blocks go with the next garbage collections, see `image gc`.
    Rm(rm::Args),
    /// Remove blocks that no checkpoint needs
    ///
    /// Safe beside running uploads and restores. A pack goes in two steps: one collection condemns it, a later one, at
    /// least the grace apart, deletes it.
    Gc(gc::Args),
    /// Protect a checkpoint from being deleted
    Pin(pin::PinArgs),
    /// Let a checkpoint be deleted again
    Unpin(pin::UnpinArgs),
    /// Show, rotate or rewrap the keys of a sealed store
    Keys(keys::Args),
    /// Delete old checkpoints by rules
    ///
    /// Checkpoints of the same container form a group. Of each group the newest one stays in any case, as do pinned ones.
    Prune(prune::Args),
    /// Store the directory of a checkpoint
    ///
    /// Blocks that the store has are not sent again, also those of an upload that was broken off.
    Push(push::Args),
    /// Write a checkpoint to a directory
    ///
    /// A copy that was broken off goes on from where it was.
    Pull(pull::Args),
    /// Write a checkpoint as an archive that Podman, CRI-O or containerd restores
    Export(archives::ExportArgs),
    /// Store an archive of Podman, CRI-O or containerd
    Import(archives::ImportArgs),
}

impl Command {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        block_on(async {
            match self {
                Self::Ls(args) => args.run().await,
                Self::Inspect(args) => args.run().await,
                Self::Verify(args) => args.run().await,
                Self::Diff(args) => args.run().await,
                Self::Rm(args) => args.run().await,
                Self::Gc(args) => args.run().await,
                Self::Pin(args) => args.run().await,
                Self::Unpin(args) => args.run().await,
                Self::Keys(args) => args.run().await,
                Self::Prune(args) => args.run().await,
                Self::Push(args) => args.run().await,
                Self::Pull(args) => args.run().await,
                Self::Export(args) => args.run().await,
                Self::Import(args) => args.run().await,
            }
        })
    }
}

/// A checkpoint on the command line.
pub(crate) fn checkpoint_id(text: &str) -> Result<CheckpointId, String> {
    let wanted = "the name of a checkpoint is expected, as `image ls` shows it";
    text.parse().map_err(|_| wanted.to_owned())
}
