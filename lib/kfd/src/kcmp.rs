//! Whether two descriptors are one open file.

use std::io;

use rustix::process::Pid;

/// `KCMP_FILE` of `linux/kcmp.h`.
const KCMP_FILE: libc::c_int = 0;

/// Do descriptor `fd_a` of process `a` and descriptor `fd_b` of process `b` stand for one open file
/// description (kcmp, Linux 3.5)? The caller may be one of the two; pids are those of its own namespace.
///
/// # Errors
/// ESRCH or EBADF when a process or descriptor is gone, EPERM without the right to trace a process.
pub fn same_open_file(a: Pid, fd_a: i32, b: Pid, fd_b: i32) -> io::Result<bool> {
    let number =
        |fd: i32| libc::c_ulong::try_from(fd).map_err(|_| io::Error::from(rustix::io::Errno::BADF));
    let (fd_a, fd_b) = (number(fd_a)?, number(fd_b)?);
    let (a, b) = (a.as_raw_nonzero().get(), b.as_raw_nonzero().get());
    // SAFETY: kcmp takes numbers alone and touches no memory of the caller.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_FILE, fd_a, fd_b) };
    if order < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(order == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn copies_are_the_same_file_and_second_opens_are_not() {
        let own = rustix::process::getpid();
        let first = File::open("/dev/null").unwrap();
        let copy = first.try_clone().unwrap();
        let second = File::open("/dev/null").unwrap();
        assert!(same_open_file(own, first.as_raw_fd(), own, copy.as_raw_fd()).unwrap());
        assert!(!same_open_file(own, first.as_raw_fd(), own, second.as_raw_fd()).unwrap());
        same_open_file(own, first.as_raw_fd(), own, -1).unwrap_err();
    }
}
