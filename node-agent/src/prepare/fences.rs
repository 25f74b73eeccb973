//! `rocferry-agent fence` and `unfence`.

use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::journal::now_ms;
use crate::node::StateArgs;
use crate::ticket::{ContainerName, FENCE_VERSION, Fence, Key, PodUid, TicketFolder};

/// Which container.
#[derive(Debug, clap::Args)]
struct Which {
    /// The pod
    #[arg(long, value_name = "UID")]
    pod_uid: PodUid,
    /// Its name in the pod
    #[arg(long, value_name = "NAME", required = true)]
    container: Vec<ContainerName>,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 the wrapper makes no such container, 2 it failed.")]
pub(crate) struct FenceArgs {
    #[command(flatten)]
    which: Which,
    /// What for: it is in the reason that whoever makes the container gets
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    request: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 there is no fence, 2 it failed.")]
pub(crate) struct UnfenceArgs {
    #[command(flatten)]
    which: Which,
}

impl Which {
    fn each(
        &self,
        act: impl Fn(&TicketFolder, &Key) -> Result<(), Error>,
    ) -> Result<Answer, Error> {
        let tickets = TicketFolder::new(self.state.folder());
        for container in &self.container {
            let key = Key::Pod {
                uid: self.pod_uid.clone(),
                container: container.clone(),
            };
            act(&tickets, &key)?;
        }
        Ok(Answer {
            text: String::new(),
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

impl FenceArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let fence = Fence {
            version: FENCE_VERSION,
            request: self.request.clone(),
            since_ms: now_ms(),
        };
        self.which
            .each(|tickets, key| Ok(tickets.put_up_fence(key, &fence)?))
    }
}

impl UnfenceArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        self.which
            .each(|tickets, key| Ok(tickets.take_down_fence(key)?))
    }
}
