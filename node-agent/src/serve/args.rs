//! The arguments, and the order of things.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::answer::answer;
use super::health::Health;
use super::tend::tend;
use crate::archives::Watcher;
use crate::cli::{Answer, Exit};
use crate::counters::Counters;
use crate::error::Error;
use crate::http;
use crate::image::duration;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::node::{CriuArgs, StateArgs};
use crate::settings::SettingsArgs;

/// Nobody but this machine, unless somebody says so.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9559);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs until SIGTERM or SIGINT, ends what it has begun, and then with 0. \"Ready\" in the log says that what an earlier \
agent has left is put right. Exit status 2: it cannot start."
)]
pub(crate) struct Args {
    /// Where /healthz, /readyz and /metrics are; without it, where the settings say, else 127.0.0.1:9559
    #[arg(long, env = "ROCFERRY_LISTEN", value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// How often to look for what an agent has left that is gone
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    interval: Duration,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    criu: CriuArgs,
}

/// What the daemon looks after.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) state: PathBuf,
    pub(super) journal: Journal,
    pub(super) counters: Counters,
    pub(super) health: Health,
}

impl Node {
    pub(super) fn new(state: &Path) -> Result<Self, Error> {
        Ok(Self {
            state: state.to_owned(),
            journal: Journal::open(state)?,
            counters: Counters::new(state),
            health: Health::new(),
        })
    }
}

impl Args {
    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let mut stop = Interrupt::new(None)?;
        let settings = self.settings.read()?;
        let node = Arc::new(Node::new(self.state.folder())?);
        let address = self.listen.or(settings.listen).unwrap_or(LISTEN);
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Error::Listen { address, source })?;
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!(%address, state = %node.state.display(), "Started");
        let telling = tokio::spawn(tell(listener, Arc::clone(&node)));
        let interval = self.interval.max(Duration::from_millis(100));
        let rules = settings.archives;
        let watcher = Watcher::new(rules, &node.state, node.journal.spool());
        let watching = tokio::spawn(watcher.run(interval));
        let why = tend(&node, &self.criu.criu(), interval, &mut stop).await;
        // An archive that is being sent is sent again, but for the blocks that are there.
        watching.abort();
        telling.abort();
        tracing::info!(why, "Ended");
        Ok(Answer {
            text: String::new(),
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

/// Answers those who watch, for ever.
async fn tell(listener: TcpListener, node: Arc<Node>) {
    http::accept(listener, |stream| {
        let node = Arc::clone(&node);
        http::converse(stream, move |request| answer(Arc::clone(&node), request))
    })
    .await;
}
