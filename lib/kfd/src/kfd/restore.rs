//! The restore side of CRIU_OP.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rocferry_topology::{ActualGpuId, UserGpuId};

use super::abi::{BoBucket, CRIU_RESTORE, CriuArgs, DeviceBucket, NO_FD};
use super::criu::{close_on_exec, own_dmabuf};
use crate::ioctl::{address, address_mut, call};
use crate::{BoFlags, Kfd, KfdError};

/// A GPU of the process that is restored.
#[derive(Debug, Clone, Copy)]
pub struct RestoreDevice<'a> {
    /// The id that the application knows.
    pub user: UserGpuId,
    /// The GPU that takes its place here.
    pub actual: ActualGpuId,
    /// An open render node of that GPU. The kernel makes its VM the process's and keeps the file.
    pub render: BorrowedFd<'a>,
}

/// A buffer object to be made again, as CHECKPOINT reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreBo {
    /// GPU virtual address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Mapping offset at the dump.
    pub offset: u64,
    /// The GPU, by the id that the application knows.
    pub gpu: UserGpuId,
    /// Allocation flags, unknown bits included.
    pub flags: BoFlags,
}

/// A buffer object made again. Its contents are not: VRAM holds anything until they are written.
#[derive(Debug)]
pub struct RestoredBo {
    /// Mapping offset now: of the render node for VRAM and GTT, of `/dev/kfd` for doorbells and MMIO.
    pub restored_offset: u64,
    /// A dma-buf of the object (close-on-exec), for VRAM and GTT.
    pub dmabuf: Option<OwnedFd>,
}

impl Kfd {
    /// Builds the GPU state of the calling process, which opened this file and has none yet. The
    /// result is in the order of `bos`. On an error no descriptor stays open, but parts of the state
    /// do: it cannot be tried again in this process.
    ///
    /// # Errors
    /// [`KfdError::Call`] with the kernel's errno (`specs` of CRIU_OP RESTORE; EINVAL covers a number of
    /// GPUs other than the process can use, EBUSY an SDMA queue number still taken, ENOMEM VRAM still
    /// taken). [`KfdError::BadArgument`] when a count does not fit.
    pub fn restore(
        &self,
        devices: &[RestoreDevice<'_>],
        bos: &[RestoreBo],
        priv_data: &[u8],
        num_objects: u32,
    ) -> Result<Vec<RestoredBo>, KfdError> {
        const OP: &str = "CRIU_OP RESTORE";
        let count = |len: usize, what| {
            u32::try_from(len).map_err(|_| KfdError::BadArgument { op: OP, what })
        };
        let num_devices = count(devices.len(), "too many devices")?;
        let num_bos = count(bos.len(), "too many buffer objects")?;
        let mut device_buckets = Vec::with_capacity(devices.len());
        for device in devices {
            device_buckets.push(DeviceBucket {
                user_gpu_id: device.user.get(),
                actual_gpu_id: device.actual.get(),
                drm_fd: fd_field(device.render, OP)?,
                pad: 0,
            });
        }
        let mut buckets: Vec<_> = bos
            .iter()
            .map(|bo| BoBucket {
                addr: bo.addr,
                size: bo.size,
                offset: bo.offset,
                restored_offset: 0,
                gpu_id: bo.gpu.get(),
                alloc_flags: bo.flags.bits(),
                dmabuf_fd: NO_FD,
                pad: 0,
            })
            .collect();
        let mut args = CriuArgs {
            devices: address_mut(&mut device_buckets),
            bos: address_mut(&mut buckets),
            priv_data: address(priv_data),
            priv_data_size: priv_data.len() as u64,
            num_devices,
            num_bos,
            num_objects,
            pid: 0,
            op: CRIU_RESTORE,
            pad: 0,
        };
        // SAFETY: the bucket arrays are borrowed for writing and the private data, which the kernel
        // only reads here, for reading, until the call returns; the counts are their lengths.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        // Own all descriptors before anything can fail.
        let owned: Vec<_> = buckets
            .iter()
            .map(|bucket| own_dmabuf(bucket.dmabuf_fd))
            .collect();
        buckets
            .iter()
            .zip(owned)
            .map(|(bucket, dmabuf)| {
                let dmabuf = dmabuf.map(|fd| close_on_exec(fd, OP)).transpose()?;
                Ok(RestoredBo {
                    restored_offset: bucket.restored_offset,
                    dmabuf,
                })
            })
            .collect()
    }
}

/// A descriptor as the kernel's structures carry it.
pub(super) fn fd_field(fd: BorrowedFd<'_>, op: &'static str) -> Result<u32, KfdError> {
    u32::try_from(fd.as_raw_fd()).map_err(|_| KfdError::BadArgument {
        op,
        what: "negative descriptor",
    })
}
