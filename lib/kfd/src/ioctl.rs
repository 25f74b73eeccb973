//! One way to issue an ioctl: typed, with a bounded repeat.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

use crate::KfdError;

/// How often a call that the kernel asked to repeat is repeated.
const ATTEMPTS: u32 = 200;
/// After this many refusals with EAGAIN the thread sleeps between two attempts.
const SPIN: u32 = 8;
/// The length of that sleep: all attempts together take less than a second.
const PAUSE: Duration = Duration::from_millis(2);

/// A structure that is the argument of exactly one ioctl.
///
/// # Safety
/// `OPCODE` is a request that reads and writes at most `size_of::<Self>()` bytes at its argument, and
/// any bytes that the kernel writes there are a valid `Self`.
pub(crate) unsafe trait Request: Sized {
    /// The request number.
    const OPCODE: Opcode;
}

/// States that a structure is the argument of a request.
macro_rules! requests {
    ($($ty:ty = $opcode:expr;)*) => {$(
        // SAFETY: number and structure are the kernel's pair (golden test in tests/layout.rs), and
        // the structure has only integers, of which every bit pattern is valid.
        unsafe impl $crate::ioctl::Request for $ty {
            const OPCODE: rustix::ioctl::Opcode = $opcode;
        }
    )*};
}
pub(crate) use requests;

/// The argument of one call.
struct Call<'a, T>(&'a mut T);

// SAFETY: `Request` promises that opcode and argument fit together; the pointer comes from a reference
// that lives as long as the value.
unsafe impl<T: Request> Ioctl for Call<'_, T> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        T::OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Issues the request of `T` on `fd`, again while the kernel says EINTR or EAGAIN, within a bound.
///
/// # Errors
/// [`KfdError::Call`] with `op` and the kernel's errno.
///
/// # Safety
/// Every address in `arg` that the kernel follows is 0 or that of memory which is valid, for as many
/// bytes as `arg` says, for reading or exclusively for writing, as the request needs it.
pub(crate) unsafe fn call<T: Request>(
    fd: BorrowedFd<'_>,
    op: &'static str,
    arg: &mut T,
) -> Result<(), KfdError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        // SAFETY: `Request` covers the argument itself, the caller what it points to.
        let result = unsafe { rustix::ioctl::ioctl(fd, Call(&mut *arg)) };
        match result {
            Ok(()) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) if attempt < ATTEMPTS => {
                if attempt > SPIN {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(errno) => return Err(KfdError::Call { op, errno }),
        }
    }
}

/// The address of the first element, as ioctl structures carry it.
pub(crate) fn address_mut<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr().expose_provenance() as u64
}

/// The address of the first element of something that the kernel only reads.
pub(crate) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().expose_provenance() as u64
}
