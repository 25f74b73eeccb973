//! Pods of containerd, made through CRI as a kubelet makes them, after a plain `install`.

mod gone;
mod node;
mod plain;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 2] = [plain::CASES, gone::CASES];
