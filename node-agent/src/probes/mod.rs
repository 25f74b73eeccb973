//! `rocferry-agent answer-probes`: answers the kubelet in the place of frozen containers.
//!
//! The kubelet counts a liveness probe that gets no answer, and in the end kills the container and starts a cold one. So
//! while a container is frozen or held, its probes are answered in the pod's own network namespace: liveness with success,
//! readiness with failure. Who is not the node gets no answer and no connection: a listening socket with connections in
//! its queue cannot be dumped, and nobody should take the answers for the service's.
//!
//! ```text
//! node ──SYN to probe port──▶ prerouting: redirected to a listener of ours ──▶ 200, SERVING, accepted
//! others ─────────────────▶ input: dropped while new
//! ```
//!
//! It is in place before the freeze, and away before the thaw.

mod answer;
mod args;
mod error;
mod grpc;
mod listen;
mod namespace;
mod port;
mod room;
mod rules;
mod spec;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use args::Args;
pub use error::ProbeError;
pub(crate) use room::{Room, rooms};

/// Takes away what an answerer that was killed has left in the network of a process.
pub(crate) fn clear(pid: u32) -> Result<(), ProbeError> {
    namespace::Namespace::of(pid)?.rules(&rules::none())
}
