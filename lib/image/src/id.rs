//! Identifiers that CRIU gives.

use std::fmt;

/// CRIU's id of an open file: the number that its hooks pass and that image names hold. An `int` in the
/// C interface, printed with `%d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub i32);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Process id in the innermost pid namespace of the process, the one that `getpid()` returns inside.
/// Not unique among the tasks of a tree with several pid namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskPid(pub u32);

impl fmt::Display for TaskPid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
