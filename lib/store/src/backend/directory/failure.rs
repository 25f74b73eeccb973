//! What a file operation's failure means for a store.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::Key;
use crate::backend::{BackendError, OutOfRange};

/// Why an operation on files did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    NotFound(Key),
    Exists(Key),
    TooLarge(Key, u64),
    Range(Range<u64>, u64),
    /// Something that is no regular file has the object's name.
    Foreign,
    /// The store's directory itself is gone: to be told apart from a missing object.
    NoRoot(PathBuf),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// The object's name belongs to something else.
#[derive(Debug, thiserror::Error)]
#[error("Not a regular file")]
struct NotAFile;

/// A volume that is not mounted, most likely.
#[derive(Debug, thiserror::Error)]
#[error("{} is not there any more", .0.display())]
struct NoRoot(PathBuf);

impl Failure {
    pub(super) fn into_error(self, operation: &'static str, object: String) -> BackendError {
        match self {
            Self::NotFound(key) => BackendError::NotFound { key },
            Self::Exists(key) => BackendError::Exists { key },
            Self::TooLarge(key, limit) => BackendError::TooLarge { key, limit },
            Self::Range(range, size) => {
                BackendError::failed(operation, object, OutOfRange { range, size })
            }
            Self::Foreign => BackendError::failed(operation, object, NotAFile),
            Self::NoRoot(root) => BackendError::failed(operation, object, NoRoot(root)),
            Self::Io(error) => classify(operation, object, error),
        }
    }
}

fn classify(operation: &'static str, object: String, error: io::Error) -> BackendError {
    let source = Box::new(error);
    match Errno::from_io_error(&source) {
        // FBIG: the process may not write files of this size (`ulimit -f`).
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => BackendError::Full { object, source },
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => BackendError::Denied {
            operation,
            object,
            source,
        },
        // Those of network file systems whose server is away, and of a process or system that is short of
        // something for a moment. An I/O error is not among them: a disk gives the same again.
        Some(
            Errno::AGAIN
            | Errno::INTR
            | Errno::BUSY
            | Errno::STALE
            | Errno::TIMEDOUT
            | Errno::NOTCONN
            | Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::SHUTDOWN
            | Errno::REMOTEIO
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM,
        ) => BackendError::Unavailable {
            operation,
            object,
            retry_after: None,
            source,
        },
        _ => BackendError::Failed {
            operation,
            object,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: Errno) -> BackendError {
        Failure::from(errno).into_error("Writing", "packs/x".to_owned())
    }

    #[test]
    fn errors_of_the_system_have_classes() {
        assert!(matches!(of(Errno::NOSPC), BackendError::Full { .. }));
        assert!(matches!(of(Errno::DQUOT), BackendError::Full { .. }));
        assert!(matches!(of(Errno::ACCESS), BackendError::Denied { .. }));
        assert!(matches!(of(Errno::ROFS), BackendError::Denied { .. }));
        assert!(!of(Errno::STALE).is_permanent());
        assert!(of(Errno::IO).is_permanent());
        assert_eq!(
            of(Errno::NOSPC).to_string(),
            "No room for packs/x",
            "the source is not repeated"
        );
    }
}
