//! `rocferry-agent decide`.

use clap::{Subcommand, ValueEnum};

use super::file::Decisions;
use super::rule::{Decision, Source};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::node::StateArgs;
use crate::ticket::PodUid;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 it is written down, 2 it is not: it was decided otherwise, or cannot be written."
)]
pub(crate) struct DecideArgs {
    /// The pod on this node, source or target
    #[arg(long, value_name = "UID")]
    pod_uid: PodUid,
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The target goes on
    Commit {
        /// What is known of the source: without it a held target stays held
        #[arg(long, value_enum)]
        source: Option<SourceArg>,
    },
    /// The source goes on
    Abort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SourceArg {
    /// No process of it is left
    Gone,
    /// It stays frozen, and a reboot cannot start it
    Fenced,
    /// None is moved: the checkpoint is restored by itself
    NotMoved,
}

impl DecideArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let decisions = Decisions::below(self.state.folder());
        let (decision, source) = match &self.what {
            What::Abort => (Decision::Aborted, Source::Unknown),
            What::Commit { source } => (
                Decision::Committed,
                match source {
                    None => Source::Unknown,
                    Some(SourceArg::Gone) => Source::Gone,
                    Some(SourceArg::Fenced) => Source::Fenced,
                    Some(SourceArg::NotMoved) => Source::NotMoved,
                },
            ),
        };
        let decided = decisions.decide(&self.pod_uid, decision, source)?;
        Ok(Answer {
            text: format!("{}: {:?}\n", self.pod_uid, decided.decision),
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}
