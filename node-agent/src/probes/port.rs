//! A port and what is asked there.

use std::collections::BTreeSet;

/// What means that a container lives. Everything else is answered with failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Port {
    /// Paths, with what follows the question mark.
    pub(super) paths: BTreeSet<String>,
    /// Names of services in gRPC's health protocol.
    pub(super) services: BTreeSet<String>,
    /// Whether it may be asked over TLS.
    pub(super) tls: bool,
}
