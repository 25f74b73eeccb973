//! Pods of containerd, made through CRI as a kubelet makes them, after a plain `install`.

mod gone;
mod moved;
mod native;
mod node;
mod plain;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 4] = [plain::CASES, gone::CASES, native::CASES, moved::CASES];
