//! Devices and device mappings of a process.

use std::collections::HashSet;
use std::str::FromStr;

use prost::Message;
use rocferry_topology::{ActualGpuId, ComputePartition, MemoryPartition, RenderMinor, UserGpuId};

use crate::file_record::check_version;
use crate::walk::{decode, fields, need};
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
    /// How its card was divided, where the kernel said so.
    pub compute_partition: Option<ComputePartition>,
    /// How the memory of its card was divided, where the kernel said so.
    pub memory_partition: Option<MemoryPartition>,
    /// Which partition of its card it was, from 0. `None` for a whole card.
    pub partition_index: Option<u32>,
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
    const MAX: u64 = 256 << 20;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let mut head = wire::TaskRecord::default();
        let (mut devices, mut vmas) = (Vec::new(), Vec::new());
        fields(MESSAGE, content, |number, field| {
            match number {
                1 => {
                    // It comes first, so that entries of a later version are not called damaged.
                    let version = field.u32(MESSAGE)?;
                    check_version(MESSAGE, version, VERSION)?;
                    head.version = Some(version);
                }
                2 => head.pid = Some(field.u32(MESSAGE)?),
                3 => head.kfd_file_id = Some(field.u32(MESSAGE)?.cast_signed()),
                4 => devices.push(decode_device(devices.len(), field.bytes(MESSAGE)?)?),
                5 => vmas.push(decode_vma(vmas.len(), field.bytes(MESSAGE)?)?),
                _ => {}
            }
            Ok(())
        })?;
        need!(MESSAGE, None, head.version);
        let record = Self {
            pid: TaskPid(need!(MESSAGE, None, head.pid)),
            kfd_file: FileId(need!(MESSAGE, None, head.kfd_file_id)),
            devices,
            vmas,
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

fn decode_device(index: usize, content: &[u8]) -> Result<TaskDevice, FormatError> {
    let device: wire::TaskDevice = decode(DEVICE_MESSAGE, content)?;
    let index = Some(index);
    Ok(TaskDevice {
        user: UserGpuId(need!(DEVICE_MESSAGE, index, device.user_gpu_id)),
        actual: ActualGpuId(need!(DEVICE_MESSAGE, index, device.actual_gpu_id)),
        render_minor: RenderMinor(need!(DEVICE_MESSAGE, index, device.drm_render_minor)),
        gfx_target_version: device.gfx_target_version,
        num_xcc: device.num_xcc,
        // A mode that a later version knows counts as not recorded.
        compute_partition: mode(device.compute_partition.as_deref()),
        memory_partition: mode(device.memory_partition.as_deref()),
        partition_index: device.partition_index,
    })
}

fn mode<T: FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}

fn encode_device(device: &TaskDevice) -> wire::TaskDevice {
    wire::TaskDevice {
        user_gpu_id: Some(device.user.get()),
        actual_gpu_id: Some(device.actual.get()),
        drm_render_minor: Some(device.render_minor.get()),
        gfx_target_version: device.gfx_target_version,
        num_xcc: device.num_xcc,
        compute_partition: device.compute_partition.map(|mode| mode.to_string()),
        memory_partition: device.memory_partition.map(|mode| mode.to_string()),
        partition_index: device.partition_index,
    }
}

fn decode_vma(index: usize, content: &[u8]) -> Result<DeviceVma, FormatError> {
    let vma: wire::TaskVma = decode(VMA_MESSAGE, content)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The field to be named, and how to damage it.
    type Change = (&'static str, fn(&mut DeviceVma));

    fn sample() -> TaskRecord {
        TaskRecord {
            pid: TaskPid(7),
            kfd_file: FileId(3),
            devices: vec![
                TaskDevice {
                    user: UserGpuId(0xa1),
                    actual: ActualGpuId(0xb1),
                    render_minor: RenderMinor(128),
                    gfx_target_version: Some(90_010),
                    num_xcc: None,
                    compute_partition: None,
                    memory_partition: Some(MemoryPartition::Nps1),
                    partition_index: None,
                },
                TaskDevice {
                    user: UserGpuId(0xa2),
                    actual: ActualGpuId(0xb2),
                    render_minor: RenderMinor(129),
                    gfx_target_version: None,
                    num_xcc: Some(8),
                    compute_partition: Some(ComputePartition::Cpx),
                    memory_partition: Some(MemoryPartition::Nps4),
                    partition_index: Some(3),
                },
            ],
            vmas: vec![
                DeviceVma {
                    start: 0x7000_0000,
                    end: 0x7000_2000,
                    pgoff: 0x1_0000_0000,
                    kind: VmaKind::Render,
                    gpu: Some(UserGpuId(0xa2)),
                    bo: Some(4),
                    prot: 3,
                    private: false,
                },
                DeviceVma {
                    start: 0x8000_0000,
                    end: 0x8000_1000,
                    pgoff: 1 << 63,
                    kind: VmaKind::Kfd,
                    gpu: None,
                    bo: None,
                    prot: 0,
                    private: true,
                },
            ],
        }
    }

    #[test]
    fn records_come_back() {
        assert_eq!(TaskRecord::decode(&sample().encode()), Ok(sample()));
        let empty = TaskRecord {
            devices: vec![],
            vmas: vec![],
            ..sample()
        };
        assert_eq!(empty.encode(), [0x08, 1, 0x10, 7, 0x18, 3]);
        assert_eq!(TaskRecord::decode(&[0x08, 1, 0x10, 7, 0x18, 3]), Ok(empty));
    }

    #[test]
    fn damage_is_refused() {
        let mut twice = sample();
        twice.devices[1].user = UserGpuId(0xa1);
        let error = Err(FormatError::DuplicateGpu {
            gpu: UserGpuId(0xa1),
        });
        assert_eq!(TaskRecord::decode(&twice.encode()), error);
        let changes: [Change; 6] = [
            ("start", |vma| vma.start += 1),
            ("end", |vma| vma.end -= 1),
            ("end", |vma| vma.end = vma.start),
            ("end", |vma| vma.end = 0),
            ("pgoff", |vma| vma.pgoff += 8),
            ("gpu_id", |vma| vma.gpu = Some(UserGpuId(0xb2))),
        ];
        for (name, change) in changes {
            let mut record = sample();
            change(&mut record.vmas[1]);
            let error = TaskRecord::decode(&record.encode()).expect_err("damaged");
            assert!(
                matches!(error, FormatError::InvalidValue { field, index: Some(1), .. } if field == name),
                "{error}"
            );
        }
        let mut message: wire::TaskRecord = decode(MESSAGE, &sample().encode()).expect("own");
        message.vmas[0].kind = Some(3);
        assert!(matches!(
            TaskRecord::decode(&message.encode_to_vec()),
            Err(FormatError::InvalidValue {
                field: "kind",
                value: 3,
                index: Some(0),
                ..
            })
        ));
        message.vmas[0].kind = None;
        let (index, field) = (Some(0), "kind");
        let error = FormatError::MissingField {
            message: VMA_MESSAGE,
            index,
            field,
        };
        assert_eq!(TaskRecord::decode(&message.encode_to_vec()), Err(error));
        message.version = Some(2);
        let error = FormatError::Version {
            message: MESSAGE,
            version: 2,
            supported: 1,
        };
        assert_eq!(TaskRecord::decode(&message.encode_to_vec()), Err(error));
    }

    proptest! {
        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..100), at in any::<prop::sample::Index>(), byte: u8) {
            let _ = TaskRecord::decode(&content);
            let mut damaged = sample().encode();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            if let Ok(record) = TaskRecord::decode(&damaged) {
                prop_assert_eq!(record.validate(), Ok(()));
            }
        }
    }
}
