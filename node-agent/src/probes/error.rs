//! Why probes cannot be answered.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Probes that cannot be answered: freezing the container would get it killed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The file with the containers.
    #[error("Cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It says something else.
    #[error("{} does not describe containers: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A probe that nobody in the namespace can answer.
    #[error("The {kind} probe of container {container} cannot be answered: {reason}")]
    Unanswerable {
        /// `liveness` or `readiness`.
        kind: &'static str,
        /// The container.
        container: String,
        /// Why not.
        reason: String,
    },
    /// The process whose network it is.
    #[error("Cannot enter the network namespace of process {pid}")]
    Namespace {
        /// The process.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// It is the node's own.
    #[error(
        "Process {pid} has the node's own network: what is dropped there is dropped for the node"
    )]
    HostNetwork {
        /// The process.
        pid: u32,
    },
    /// A socket.
    #[error("Cannot listen in the network namespace of process {pid}")]
    Listen {
        /// The process.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// The rules.
    #[error("nft refuses the rules: {reason}")]
    Rules {
        /// The first line of what it says.
        reason: String,
    },
    /// From which addresses probes come is not known.
    #[error("From which address the node probes is not known: name it with --node-address")]
    NoAddress,
    /// A certificate.
    #[error("Cannot make a certificate: {reason}")]
    Certificate {
        /// What the library says.
        reason: String,
    },
}
