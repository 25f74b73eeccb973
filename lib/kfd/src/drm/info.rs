//! What kind of GPU is behind a render node.

use std::ops::Range;
use std::os::fd::AsFd;

use zerocopy::{FromBytes, IntoBytes};

use super::abi::{DevInfoRaw, HwIpInfo, INFO_DEV, INFO_HW_IP, Info};
use crate::ioctl::{address_mut, call};
use crate::{KfdError, RenderNode};

/// A GPU family by the driver's numbering, which grows with the generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family(pub u32);

impl Family {
    /// Volcanic Islands: the last families with the old SDMA packets.
    pub const VI: Self = Self(130);
    /// Vega and CDNA: the first family with SDMA 4.
    pub const AI: Self = Self(141);
}

/// What INFO says of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevInfo {
    /// PCI device id.
    pub device_id: u32,
    /// GPU family.
    pub family: Family,
    /// Lowest GPU virtual address that user space may map.
    pub va_start: u64,
    /// End (exclusive) of the lower part of the addresses that user space may map.
    pub va_end: u64,
    /// Alignment of mappings, bytes.
    pub va_alignment: u64,
}

impl DevInfo {
    /// The lower part of the address space.
    #[must_use]
    pub fn va_range(&self) -> Range<u64> {
        self.va_start..self.va_end
    }
}

impl RenderNode {
    /// Family and address range of the GPU.
    ///
    /// # Errors
    /// [`KfdError::Call`]; [`KfdError::BadAnswer`] when the address range is empty.
    pub fn dev_info(&self) -> Result<DevInfo, KfdError> {
        const OP: &str = "INFO DEV_INFO";
        let raw: DevInfoRaw = self.info(OP, INFO_DEV, [0; 4])?;
        if raw.virtual_address_max <= raw.virtual_address_offset {
            return Err(KfdError::BadAnswer {
                op: OP,
                what: "empty range of virtual addresses",
            });
        }
        Ok(DevInfo {
            device_id: raw.device_id,
            family: Family(raw.family),
            va_start: raw.virtual_address_offset,
            va_end: raw.virtual_address_max,
            va_alignment: u64::from(raw.virtual_address_alignment),
        })
    }

    /// What one engine type (`HW_IP_` constants of [`super::abi`]) can do.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn hw_ip_info(&self, ip_type: u32) -> Result<HwIpInfo, KfdError> {
        self.info("INFO HW_IP_INFO", INFO_HW_IP, [ip_type, 0, 0, 0])
    }

    fn info<T: FromBytes + IntoBytes>(
        &self,
        op: &'static str,
        query: u32,
        args: [u32; 4],
    ) -> Result<T, KfdError> {
        let mut answer = T::new_zeroed();
        let bytes = answer.as_mut_bytes();
        let return_size = u32::try_from(bytes.len()).map_err(|_| KfdError::BadArgument {
            op,
            what: "answer too large",
        })?;
        let mut info = Info {
            return_pointer: address_mut(bytes),
            return_size,
            query,
            args,
        };
        // SAFETY: the answer is borrowed for writing until the call returns, and the kernel writes at
        // most `return_size` bytes, of any value.
        unsafe { call(self.as_fd(), op, &mut info) }?;
        Ok(answer)
    }
}
