//! A container that must not be created.

use serde::{Deserialize, Serialize};

/// Version of the format that is written, and the newest that is read.
pub const FENCE_VERSION: u32 = 1;

/// Keeps a container from being created while it is under migration: its frozen original must not get a cold twin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fence {
    /// [`FENCE_VERSION`].
    pub version: u32,
    /// What the container is fenced for, for people: the request's name.
    pub request: String,
    /// When it was put up: milliseconds since 1970, UTC.
    pub since_ms: u64,
}
