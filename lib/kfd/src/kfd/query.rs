//! Questions that change nothing.

use std::os::fd::{AsFd, BorrowedFd};

use rocferry_topology::{ActualGpuId, UserGpuId};

use super::abi::{Aperture, AperturesArgs, AvailableMemory, DmabufInfoArgs, Version};
use super::criu::zeroed;
use super::restore::fd_field;
use crate::ioctl::{address_mut, call};
use crate::{BoFlags, Kfd, KfdError};

/// How often the list of GPUs is asked for again because it grew in between.
const ROUNDS: u32 = 8;

/// What a dma-buf of amdgpu is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmabufInfo {
    /// Bytes.
    pub size: u64,
    /// The GPU whose memory it is.
    pub gpu: ActualGpuId,
    /// Its allocation flags, as far as the driver reports them.
    pub flags: BoFlags,
}

impl Kfd {
    /// The version of the interface.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn version(&self) -> Result<Version, KfdError> {
        let mut args = Version::default();
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "GET_VERSION", &mut args) }?;
        Ok(args)
    }

    /// The GPUs that the calling process can use: those that its device cgroup let it see when it first
    /// opened the device.
    ///
    /// # Errors
    /// [`KfdError::Call`]; [`KfdError::BadAnswer`] when the list keeps growing.
    pub fn apertures(&self) -> Result<Vec<ActualGpuId>, KfdError> {
        const OP: &str = "GET_PROCESS_APERTURES_NEW";
        let mut room = self.count_apertures(OP)?;
        for _ in 0..ROUNDS {
            if room == 0 {
                return Ok(Vec::new());
            }
            let mut records = zeroed::<Aperture>(OP, u64::from(room))?;
            let mut args = AperturesArgs {
                records: address_mut(&mut records),
                count: room,
                pad: 0,
            };
            // SAFETY: the array is borrowed for writing until the call returns and has `count` entries.
            unsafe { call(self.as_fd(), OP, &mut args) }?;
            let now = self.count_apertures(OP)?;
            if now <= room {
                records.truncate(args.count as usize);
                return Ok(records.iter().map(|r| ActualGpuId(r.gpu_id)).collect());
            }
            room = now;
        }
        Err(KfdError::BadAnswer {
            op: OP,
            what: "the number of GPUs keeps growing",
        })
    }

    fn count_apertures(&self, op: &'static str) -> Result<u32, KfdError> {
        let mut args = AperturesArgs::default();
        // SAFETY: with room for no record the kernel only writes the count.
        unsafe { call(self.as_fd(), op, &mut args) }?;
        Ok(args.count)
    }

    /// Bytes of VRAM that can be allocated on a GPU of the calling process.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL for a GPU that the process cannot use.
    pub fn available_memory(&self, gpu: UserGpuId) -> Result<u64, KfdError> {
        let mut args = AvailableMemory {
            gpu_id: gpu.get(),
            ..AvailableMemory::default()
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "AVAILABLE_MEMORY", &mut args) }?;
        Ok(args.available)
    }

    /// What a dma-buf is, without its metadata.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when it is none of amdgpu.
    pub fn dmabuf_info(&self, dmabuf: BorrowedFd<'_>) -> Result<DmabufInfo, KfdError> {
        const OP: &str = "GET_DMABUF_INFO";
        let mut args = DmabufInfoArgs {
            dmabuf_fd: fd_field(dmabuf, OP)?,
            ..DmabufInfoArgs::default()
        };
        // SAFETY: the address for metadata is 0 and its room 0 bytes: none is written.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        Ok(DmabufInfo {
            size: args.size,
            gpu: ActualGpuId(args.gpu_id),
            flags: BoFlags::from_bits_retain(args.flags),
        })
    }
}
