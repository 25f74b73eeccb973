//! The arguments, and the order of things.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::error::ProbeError;
use super::listen::serve;
use super::namespace::Namespace;
use super::port::Port;
use super::rules::{none, removal, rules};
use super::spec::{Container, ports};
use super::tls::acceptor;
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::interrupt::Interrupt;

/// Far more than the containers of a pod.
const MAX_FILE: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs until SIGINT or SIGTERM, takes everything away then, and ends with 0. \
\"Answering\" on standard error says that it is in place."
)]
pub(crate) struct Args {
    /// A process of the pod
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Containers of the pod, as in its specification: a JSON list. Without it there is nothing to be answered, and
    /// connections are kept away
    #[arg(long, value_name = "FILE")]
    containers: Option<PathBuf>,
    /// Address of the node as the pod sees it; without it, those of the pod's default routes
    #[arg(long, value_name = "ADDRESS")]
    node_address: Vec<IpAddr>,
}

impl Args {
    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let mut stop = Interrupt::new(None)?;
        let ports = match &self.containers {
            Some(file) => ports(&read(file)?)?,
            None => BTreeMap::new(),
        };
        let namespace = Namespace::of(self.pid)?;
        let node = match self.node_address.as_slice() {
            [] => namespace.gateways()?,
            given => given.to_vec(),
        };
        if node.is_empty() && !ports.is_empty() {
            return Err(ProbeError::NoAddress.into());
        }
        let mut answering = JoinSet::new();
        let listeners = start(self.pid, &namespace, ports, &mut answering)?;
        // Of an agent that was killed.
        namespace.rules(&none())?;
        namespace.rules(&rules(&listeners, &node))?;
        let addresses: Vec<String> = node.iter().map(ToString::to_string).collect();
        let answered: Vec<String> = listeners.keys().map(ToString::to_string).collect();
        eprintln!(
            "Answering {} in the network of process {} for {}",
            if answered.is_empty() {
                "nothing".to_owned()
            } else {
                answered.join(", ")
            },
            self.pid,
            addresses.join(", ")
        );
        stop.wait().await;
        // First the way to us, then we.
        namespace.rules(&removal())?;
        answering.shutdown().await;
        Ok(Answer {
            text: String::new(),
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

/// Begins to answer. Probe ports, and the ports that are listened on.
fn start(
    pid: u32,
    namespace: &Namespace,
    ports: BTreeMap<u16, Port>,
    answering: &mut JoinSet<()>,
) -> Result<BTreeMap<u16, u16>, ProbeError> {
    let failed = |source| ProbeError::Listen { pid, source };
    let tls = ports.values().any(|port| port.tls);
    let tls = tls.then(acceptor).transpose()?;
    let tls = tls.map(|(acceptor, _)| acceptor);
    let mut known = BTreeMap::new();
    let listeners = namespace.listeners(ports.len())?;
    for ((number, port), listener) in ports.into_iter().zip(listeners) {
        let own = listener.local_addr().map_err(failed)?.port();
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        answering.spawn(serve(listener, port, tls.clone()));
        known.insert(number, own);
    }
    Ok(known)
}

/// The file with the containers of a pod.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, ProbeError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|source| ProbeError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}

fn read(path: &Path) -> Result<Vec<Container>, ProbeError> {
    parse(path, &bytes(path)?)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Container>, ProbeError> {
    serde_json::from_slice(bytes).map_err(|error| ProbeError::Syntax {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
