//! The one place where a hook's result becomes a return code, and where a panic stops.

use std::error::Error;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rocferry_gpu::{Host, LogLevel, Outcome, chain};

/// "Not mine": CRIU asks the next plugin (`run_plugins()` stops at any other value).
pub(crate) const NOT_MINE: c_int = -libc::ENOTSUP;
/// The only failure code that leaves the plugin. An ioctl's own errno could be 95, which means "not mine".
pub(crate) const FAILED: c_int = -libc::EIO;

/// Runs a hook: a panic is caught and becomes a failure, a failure is logged with all its causes.
pub(crate) fn run<E: Error + 'static>(
    hook: &str,
    host: Option<&dyn Host>,
    body: impl FnOnce() -> Outcome<c_int, E>,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Outcome::Done(value)) => value.max(0),
        Ok(Outcome::NotMine) => NOT_MINE,
        Ok(Outcome::Failed(error)) => {
            if let Some(host) = host {
                host.log(LogLevel::Error, format_args!("{hook}: {}", chain(&error)));
            }
            FAILED
        }
        // The panic hook has logged what happened and where.
        Err(_) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn results_become_codes_that_criu_cannot_misread() {
        let run = |outcome| super::run::<io::Error>("hook", None, || outcome);
        assert_eq!(run(Outcome::Done(7)), 7);
        assert_eq!(run(Outcome::NotMine), -95);
        let not_supported = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        assert_eq!(run(Outcome::Failed(not_supported)), -5);
        assert_eq!(
            super::run::<io::Error>("hook", None, || panic!("on purpose")),
            -5
        );
    }
}
