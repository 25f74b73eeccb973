//! Devices and device mappings of a process.

use std::collections::HashSet;

use prost::Message;
use rocferry_topology::{ActualGpuId, RenderMinor, UserGpuId};

use crate::file_record::check_version;
use crate::walk::{decode, need};
use crate::{FileId, FormatError, Image, PAGE_SIZE, TaskPid, wire};

const MESSAGE: &str = "rocferry-task";
const VERSION: u32 = 1;

/// Content of `rocferry-task-%d.img`, one for each process with GPU state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// The process.
    pub pid: TaskPid,
    /// The /dev/kfd file whose kfd image holds its state.
    pub kfd_file: FileId,
    /// Its GPUs as they were on the dumped machine.
    pub devices: Vec<TaskDevice>,
    /// Its mappings of /dev/kfd and render nodes.
    pub vmas: Vec<DeviceVma>,
}

/// A GPU of the process on the dumped machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskDevice {
    /// What the process calls it.
    pub user: UserGpuId,
    /// What the machine called it.
    pub actual: ActualGpuId,
    /// Its render node there.
    pub render_minor: RenderMinor,
    /// `gfx_target_version` of the topology.
    pub gfx_target_version: Option<u32>,
    /// `num_xcc` of the topology.
    pub num_xcc: Option<u32>,
}

/// What a mapping maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VmaKind {
    /// /dev/kfd: doorbells, registers, the events page.
    Kfd,
    /// A render node: VRAM and GTT.
    Render,
}

/// A mapping of a device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceVma {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset in the file, in bytes (as the UPDATE_VMA_MAP hook passes it).
    pub pgoff: u64,
    /// What it maps.
    pub kind: VmaKind,
    /// The GPU; `None` for what belongs to none (the events page).
    pub gpu: Option<UserGpuId>,
    /// Index of the buffer object in the kfd image; `None` if it maps none of them.
    pub bo: Option<u32>,
    /// Protection: `PROT_*` bits.
    pub prot: u32,
    /// MAP_PRIVATE instead of MAP_SHARED.
    pub private: bool,
}

impl Image for TaskRecord {
    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let record: wire::TaskRecord = decode(MESSAGE, content)?;
        check_version(MESSAGE, need!(MESSAGE, None, record.version), VERSION)?;
        let devices = record.devices.into_iter().enumerate();
        let vmas = record.vmas.into_iter().enumerate();
        let record = Self {
            pid: TaskPid(need!(MESSAGE, None, record.pid)),
            kfd_file: FileId(need!(MESSAGE, None, record.kfd_file_id)),
            devices: devices.map(decode_device).collect::<Result<_, _>>()?,
            vmas: vmas.map(decode_vma).collect::<Result<_, _>>()?,
        };
        record.validate()?;
        Ok(record)
    }

    fn encode(&self) -> Vec<u8> {
        wire::TaskRecord {
            version: Some(VERSION),
            pid: Some(self.pid.0),
            kfd_file_id: Some(self.kfd_file.0),
            devices: self.devices.iter().map(encode_device).collect(),
            vmas: self.vmas.iter().map(encode_vma).collect(),
        }
        .encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        let mut users = HashSet::new();
        if let Some(twice) = self
            .devices
            .iter()
            .find(|device| !users.insert(device.user))
        {
            return Err(FormatError::DuplicateGpu { gpu: twice.user });
        }
        for (index, vma) in self.vmas.iter().enumerate() {
            let invalid = |field, value| {
                let (message, index) = (VMA_MESSAGE, Some(index));
                Err(FormatError::InvalidValue {
                    message,
                    index,
                    field,
                    value,
                })
            };
            if vma.start % PAGE_SIZE != 0 {
                return invalid("start", vma.start);
            }
            if vma.end <= vma.start || vma.end % PAGE_SIZE != 0 {
                return invalid("end", vma.end);
            }
            if vma.pgoff % PAGE_SIZE != 0 {
                return invalid("pgoff", vma.pgoff);
            }
            if let Some(gpu) = vma.gpu
                && !users.contains(&gpu)
            {
                return invalid("gpu_id", gpu.get().into());
            }
        }
        Ok(())
    }
}

const DEVICE_MESSAGE: &str = "rocferry-task device";
const VMA_MESSAGE: &str = "rocferry-task mapping";

fn decode_device((index, device): (usize, wire::TaskDevice)) -> Result<TaskDevice, FormatError> {
    let index = Some(index);
    Ok(TaskDevice {
        user: UserGpuId(need!(DEVICE_MESSAGE, index, device.user_gpu_id)),
        actual: ActualGpuId(need!(DEVICE_MESSAGE, index, device.actual_gpu_id)),
        render_minor: RenderMinor(need!(DEVICE_MESSAGE, index, device.drm_render_minor)),
        gfx_target_version: device.gfx_target_version,
        num_xcc: device.num_xcc,
    })
}

fn encode_device(device: &TaskDevice) -> wire::TaskDevice {
    wire::TaskDevice {
        user_gpu_id: Some(device.user.get()),
        actual_gpu_id: Some(device.actual.get()),
        drm_render_minor: Some(device.render_minor.get()),
        gfx_target_version: device.gfx_target_version,
        num_xcc: device.num_xcc,
    }
}

fn decode_vma((index, vma): (usize, wire::TaskVma)) -> Result<DeviceVma, FormatError> {
    let index = Some(index);
    let kind = match need!(VMA_MESSAGE, index, vma.kind) {
        1 => VmaKind::Kfd,
        2 => VmaKind::Render,
        kind => {
            let (message, field, value) = (VMA_MESSAGE, "kind", kind.into());
            return Err(FormatError::InvalidValue {
                message,
                index,
                field,
                value,
            });
        }
    };
    Ok(DeviceVma {
        start: need!(VMA_MESSAGE, index, vma.start),
        end: need!(VMA_MESSAGE, index, vma.end),
        pgoff: need!(VMA_MESSAGE, index, vma.pgoff),
        kind,
        gpu: vma.gpu_id.map(UserGpuId),
        bo: vma.bo,
        prot: need!(VMA_MESSAGE, index, vma.prot),
        private: need!(VMA_MESSAGE, index, vma.private),
    })
}

fn encode_vma(vma: &DeviceVma) -> wire::TaskVma {
    wire::TaskVma {
        start: Some(vma.start),
        end: Some(vma.end),
        pgoff: Some(vma.pgoff),
        kind: Some(match vma.kind {
            VmaKind::Kfd => 1,
            VmaKind::Render => 2,
        }),
        gpu_id: vma.gpu.map(UserGpuId::get),
        bo: vma.bo,
        prot: Some(vma.prot),
        private: Some(vma.private),
    }
}
