//! The dump side of CRIU_OP, and RESUME.
//!
//! Order for one process: PROCESS_INFO once, CHECKPOINT, copy the contents, and UNPAUSE once when its
//! host memory has been dumped too. A failed PROCESS_INFO needs no UNPAUSE; after a successful one the
//! process's queues stand still until UNPAUSE succeeds, whoever dies meanwhile.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rocferry_topology::{ActualGpuId, UserGpuId};
use rustix::io::FdFlags;
use zerocopy::FromZeros;

use super::abi::{
    self, BoBucket, CRIU_CHECKPOINT, CRIU_PROCESS_INFO, CRIU_RESUME, CRIU_UNPAUSE, CriuArgs,
    DeviceBucket,
};
use super::{CheckpointedBo, CheckpointedDevice};
use crate::ioctl::{address_mut, call};
use crate::{BoFlags, Kfd, KfdError};

/// What PROCESS_INFO reports: how much state the process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The process in its own, innermost pid namespace.
    pub pid: u32,
    /// GPUs that the process can use.
    pub devices: u32,
    /// Buffer objects.
    pub bos: u32,
    /// Queues, events and SVM ranges.
    pub objects: u32,
    /// Bytes of private data.
    pub priv_data_size: u64,
}

/// What CHECKPOINT hands out. Dropping it closes the dma-bufs.
#[derive(Debug)]
pub struct Checkpoint {
    /// The GPUs of the process.
    pub devices: Vec<CheckpointedDevice>,
    /// Its buffer objects, in the kernel's order.
    pub bos: Vec<CheckpointedBo>,
    /// The kernel's own record of everything else; opaque.
    pub priv_data: Vec<u8>,
}

impl Kfd {
    /// Stops the queues of the process whose file this is and counts its state. The caller traces the
    /// process's lead thread. To be called once until [`Kfd::unpause`] has succeeded: some kernels
    /// evict a second time, which one UNPAUSE does not undo.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EBADF when the caller is not the tracer, EACCES without the capability,
    /// ENODEV when the process can use no GPU, EOPNOTSUPP for a queue that cannot be dumped. The queues
    /// then run on.
    pub fn process_info(&self) -> Result<Counts, KfdError> {
        let mut args = CriuArgs {
            op: CRIU_PROCESS_INFO,
            ..CriuArgs::default()
        };
        // SAFETY: the operation follows no address; all are 0.
        unsafe { call(self.as_fd(), "CRIU_OP PROCESS_INFO", &mut args) }?;
        Ok(Counts {
            pid: args.pid,
            devices: args.num_devices,
            bos: args.num_bos,
            objects: args.num_objects,
            priv_data_size: args.priv_data_size,
        })
    }

    /// Takes the state of the paused process. `counts` is what [`Kfd::process_info`] said. On any error
    /// no descriptor stays open.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when the process is not paused or its state has changed, EMFILE when
    /// the dma-bufs do not fit into the caller's table, and others. [`KfdError::OutOfMemory`] when there
    /// is no room for the answer.
    pub fn checkpoint(&self, counts: &Counts) -> Result<Checkpoint, KfdError> {
        const OP: &str = "CRIU_OP CHECKPOINT";
        let mut devices = zeroed::<DeviceBucket>(OP, u64::from(counts.devices))?;
        let mut buckets = zeroed::<BoBucket>(OP, u64::from(counts.bos))?;
        // A bucket that the kernel leaves alone must not pass for descriptor 0, which is the caller's.
        for bucket in &mut buckets {
            bucket.dmabuf_fd = abi::NO_FD;
        }
        let mut priv_data = zeroed::<u8>(OP, counts.priv_data_size)?;
        let mut args = CriuArgs {
            devices: address_mut(&mut devices),
            bos: address_mut(&mut buckets),
            priv_data: address_mut(&mut priv_data),
            priv_data_size: counts.priv_data_size,
            num_devices: counts.devices,
            num_bos: counts.bos,
            num_objects: counts.objects,
            pid: 0,
            op: CRIU_CHECKPOINT,
            pad: 0,
        };
        // SAFETY: the three arrays are borrowed for writing until the call returns and have at least
        // the number of entries that the argument says.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        // The kernel has put the descriptors into our table: own every one before anything can fail.
        buckets.truncate(counts.bos as usize);
        let owned: Vec<_> = buckets
            .iter()
            .map(|bucket| own_dmabuf(bucket.dmabuf_fd))
            .collect();
        let mut bos = Vec::with_capacity(owned.len());
        for (bucket, dmabuf) in buckets.iter().zip(owned) {
            let dmabuf = dmabuf.map(|fd| close_on_exec(fd, OP)).transpose()?;
            bos.push(CheckpointedBo {
                addr: bucket.addr,
                size: bucket.size,
                offset: bucket.offset,
                gpu: UserGpuId(bucket.gpu_id),
                flags: BoFlags::from_bits_retain(bucket.alloc_flags),
                dmabuf,
            });
        }
        devices.truncate(counts.devices as usize);
        priv_data.truncate(usize::try_from(counts.priv_data_size).unwrap_or(usize::MAX));
        let devices = devices
            .iter()
            .map(|bucket| CheckpointedDevice {
                user: UserGpuId(bucket.user_gpu_id),
                actual: ActualGpuId(bucket.actual_gpu_id),
            })
            .collect();
        Ok(Checkpoint {
            devices,
            bos,
            priv_data,
        })
    }

    /// Lets the queues of the paused process run again.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when it is not paused (also the second time), else the error of
    /// putting the queues back, after which it is still paused.
    pub fn unpause(&self) -> Result<(), KfdError> {
        let mut args = CriuArgs {
            op: CRIU_UNPAUSE,
            ..CriuArgs::default()
        };
        // SAFETY: the operation follows no address; all are 0.
        unsafe { call(self.as_fd(), "CRIU_OP UNPAUSE", &mut args) }
    }

    /// Starts the queues of process `pid` (in the caller's pid namespace), whose RESTORE has succeeded
    /// and whose mappings are all in place. This file is the caller's own, not the target's.
    ///
    /// To be sent exactly once, and to such processes only: on others kernel 6.12 leaves their queues
    /// stopped for good or crashes.
    ///
    /// # Errors
    /// [`KfdError::Call`]: ESRCH when there is no such process or it has no GPU state, EINVAL when it is
    /// not waiting for RESUME. Queues are started later; a failure of that is not seen here.
    pub fn resume(&self, pid: u32) -> Result<(), KfdError> {
        let mut args = CriuArgs {
            op: CRIU_RESUME,
            pid,
            ..CriuArgs::default()
        };
        // SAFETY: the operation follows no address; all are 0.
        unsafe { call(self.as_fd(), "CRIU_OP RESUME", &mut args) }
    }
}

/// An array for an answer of the kernel, never empty: the kernel wants an address even for nothing.
pub(crate) fn zeroed<T: FromZeros>(op: &'static str, count: u64) -> Result<Vec<T>, KfdError> {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    let count = usize::try_from(count.max(1)).map_err(|_| KfdError::OutOfMemory { op, bytes })?;
    T::new_vec_zeroed(count).map_err(|_| KfdError::OutOfMemory { op, bytes })
}

/// Takes over a descriptor that a bucket carries.
pub(super) fn own_dmabuf(fd: u32) -> Option<OwnedFd> {
    // Invalid values are those that are no positive int, NO_FD among them.
    let fd = i32::try_from(fd).ok()?;
    // SAFETY: the kernel has just put this descriptor into our table for us alone.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// KFD makes its dma-bufs without the flag; children of the application must not inherit them.
pub(super) fn close_on_exec(fd: OwnedFd, op: &'static str) -> Result<OwnedFd, KfdError> {
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|errno| KfdError::Call { op, errno })?;
    Ok(fd)
}

const _: () = assert!(abi::NO_FD > i32::MAX as u32);
