//! Retry of page faults.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::abi::XnackArgs;
use crate::ioctl::call;
use crate::{Kfd, KfdError};

impl Kfd {
    /// May this process run with XNACK? Asked by turning it on and putting back what was; only while the
    /// process has no queues.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EBUSY when there are queues.
    pub fn xnack_possible(&self) -> Result<bool, KfdError> {
        let before = self.set_xnack(-1)?;
        if before == 1 {
            return Ok(true);
        }
        match self.set_xnack(1) {
            Ok(_) => {
                self.set_xnack(before)?;
                Ok(true)
            }
            Err(KfdError::Call { errno, .. }) if errno == Errno::PERM => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// 0 or 1 to set, -1 to ask. Returns what holds now.
    fn set_xnack(&self, enabled: i32) -> Result<i32, KfdError> {
        let mut args = XnackArgs { enabled };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "SET_XNACK_MODE", &mut args) }?;
        Ok(args.enabled)
    }
}
