//! The three answers of a hook.

/// What a hook has to say to CRIU. The plugin turns it into a return code in one place, so that an ioctl's
/// errno can never be taken for "not mine" (`-ENOTSUP` and `EOPNOTSUPP` are one number on Linux).
#[derive(Debug)]
pub enum Outcome<T, E> {
    /// The object belongs to somebody else: CRIU asks the next plugin.
    NotMine,
    /// Done; the value is what the hook returns.
    Done(T),
    /// Ours, and failed: the dump or restore has to fail.
    Failed(E),
}

impl<T, E> From<Result<Option<T>, E>> for Outcome<T, E> {
    fn from(result: Result<Option<T>, E>) -> Self {
        match result {
            Ok(Some(value)) => Self::Done(value),
            Ok(None) => Self::NotMine,
            Err(error) => Self::Failed(error),
        }
    }
}
