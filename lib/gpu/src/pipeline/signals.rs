//! Threads in which no signal handler runs.

use std::mem::MaybeUninit;

/// While it lives the calling thread has all signals blocked, and so has every thread that it makes, for
/// good. CRIU's handlers must only ever run in CRIU's own thread.
#[derive(Debug)]
pub(super) struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    /// Blocks them.
    pub(super) fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is ours to be written; sigfillset cannot fail on a valid address.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `all` was filled above and `before` is ours to be written. SIG_SETMASK with valid
        // addresses cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: a set is plain integers, and this one was zeroed before the kernel wrote it.
        let before = unsafe { before.assume_init() };
        Self { before }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let nothing = std::ptr::null_mut();
        // SAFETY: the set is one that the kernel gave us; no old set is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, nothing) };
    }
}
