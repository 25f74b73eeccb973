//! State of one process that has /dev/kfd open.

mod objects;

use std::collections::{BTreeSet, HashSet};

use prost::Message;
use rocferry_topology::{System, UserGpuId};

use crate::bo::NO_HANDLE;
use crate::walk::{Field, decode, fields, malformed, required};
use crate::wire::{CriuKfd, KfdBoEntry, KfdDeviceEntry};
use crate::{
    BoEntry, BoFlags, FormatError, Image, MAX_CONTENT, PAGE_SIZE, PagesLayout, TaskPid, device,
};

const MESSAGE: &str = "criu_kfd";
const BO_MESSAGE: &str = "kfd_bo_entry";

/// More nodes than any machine has, and far fewer than would cost memory.
const MAX_NODES: usize = 4096;
/// Bytes of an encoded node with a link to each other node.
const MAX_NODE_BYTES: usize = 64 * 1024;
/// Version of the kernel's private data (`KFD_CRIU_PRIV_VERSION`, 6.12).
const PRIVATE_VERSION: u32 = 1;

/// Content of `amdgpu-kfd-%d.img` (`criu_kfd`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KfdImage {
    /// The process.
    pub pid: TaskPid,
    /// CPUs of the machine and GPUs of the process, in the order of the image.
    pub system: System<UserGpuId>,
    /// Its buffer objects, in the kernel's order: the private data have a record for each in the same
    /// order.
    pub bos: Vec<BoEntry>,
    /// Queues, events and SVM ranges.
    pub num_objects: u32,
    /// Size of `/dev/shm/hsakmt_shared_mem` in bytes, 0 if there is none.
    pub shared_mem_size: u64,
    /// Its first 4 bytes, 0 if there is none.
    pub shared_mem_magic: u32,
    /// What the kernel wants back at restore.
    pub priv_data: Vec<u8>,
}

impl KfdImage {
    /// Which buffer objects lie where in the pages files. Only for an image that validates.
    #[must_use]
    pub fn pages_layout(&self) -> PagesLayout {
        PagesLayout::new(self.system.gpus().map(|gpu| gpu.id), &self.bos)
    }

    fn check_nodes(&self) -> Result<(), FormatError> {
        let mut nodes = HashSet::new();
        let mut gpus = HashSet::new();
        for node in &self.system.nodes {
            if !nodes.insert(node.id()) {
                return Err(FormatError::DuplicateNode { node: node.id() });
            }
            let Some(gpu) = node.as_gpu() else { continue };
            if gpu.id.get() == 0 {
                // On disk it would be a CPU.
                let (message, field) = ("kfd_device_entry", "gpu_id");
                return Err(FormatError::InvalidValue {
                    message,
                    index: None,
                    field,
                    value: 0,
                });
            }
            if !gpus.insert(gpu.id) {
                return Err(FormatError::DuplicateGpu { gpu: gpu.id });
            }
        }
        if nodes.len() > MAX_NODES {
            return Err(FormatError::TooMany {
                field: "device_entries",
                limit: MAX_NODES,
            });
        }
        if gpus.is_empty() {
            Err(FormatError::NoGpus)
        } else {
            Ok(())
        }
    }

    fn check_bos(&self) -> Result<(), FormatError> {
        let gpus: HashSet<UserGpuId> = self.system.gpus().map(|gpu| gpu.id).collect();
        check_bo_count(self.bos.len() as u64)?;
        let mut sum = 0u64;
        for (index, bo) in self.bos.iter().enumerate() {
            if !gpus.contains(&bo.gpu) {
                return Err(FormatError::BoUnknownGpu { index, gpu: bo.gpu });
            }
            if bo.size == 0 || bo.size % PAGE_SIZE != 0 {
                return Err(FormatError::BoSize {
                    index,
                    size: bo.size,
                });
            }
            if bo.addr.checked_add(bo.size).is_none() {
                return Err(FormatError::BoWraps {
                    index,
                    addr: bo.addr,
                    size: bo.size,
                });
            }
            sum = sum.checked_add(bo.size).ok_or(FormatError::BoSumOverflow)?;
        }
        Ok(())
    }

    /// Whether the process ran with XNACK, which the kernel notes in its private data.
    #[must_use]
    pub fn xnack(&self) -> Option<bool> {
        let (_, rest) = self.priv_data.split_first_chunk::<4>()?;
        let mode = rest.first_chunk().copied()?;
        Some(u32::from_le_bytes(mode) != 0)
    }

    /// GPUs on which the process had SDMA queues, by the records of queues in the kernel's private data. A record
    /// that does not fit ends the list: the kernel will refuse it.
    #[must_use]
    pub fn sdma_gpus(&self) -> BTreeSet<UserGpuId> {
        objects::sdma_gpus(self)
    }

    /// Where the records of queues, events and SVM ranges begin in the private data: after the header, a record
    /// for each device and a record for each buffer object. The counts are bounded.
    fn objects_at(&self) -> u64 {
        let gpus = self.system.gpus().count() as u64;
        8 + 8 * gpus + 272 * self.bos.len() as u64
    }

    /// The kernel checks these only after it has evicted queues and allocated objects.
    fn check_private_data(&self) -> Result<(), FormatError> {
        let expected = self.objects_at();
        let actual = self.priv_data.len() as u64;
        match self.priv_data.first_chunk() {
            Some(version) if actual >= expected => match u32::from_le_bytes(*version) {
                PRIVATE_VERSION => Ok(()),
                version => Err(FormatError::PrivateDataVersion { version }),
            },
            _ => Err(FormatError::PrivateDataShort { expected, actual }),
        }
    }
}

/// The kernel's count of objects has 32 bits.
fn check_bo_count(count: u64) -> Result<(), FormatError> {
    if count > u64::from(u32::MAX) {
        let field = "num_of_bos";
        return Err(FormatError::InvalidValue {
            message: MESSAGE,
            index: None,
            field,
            value: count,
        });
    }
    Ok(())
}

impl Image for KfdImage {
    const MAX: u64 = MAX_CONTENT;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let mut head = CriuKfd::default();
        let mut nodes = Vec::new();
        let mut bos = Vec::new();
        let mut priv_data = None;
        fields(MESSAGE, content, |number, field| {
            match number {
                1 => head.pid = Some(field.u32(MESSAGE)?),
                2 => head.num_of_gpus = Some(field.u32(MESSAGE)?),
                3 => head.num_of_cpus = Some(field.u32(MESSAGE)?),
                4 => nodes.push(decode_node(nodes.len(), &field)?),
                5 => head.num_of_bos = Some(field.u64(MESSAGE)?),
                6 => bos.push(decode_bo(bos.len(), field.bytes(MESSAGE)?)?),
                7 => head.num_of_objects = Some(field.u32(MESSAGE)?),
                8 => head.shared_mem_size = Some(field.u64(MESSAGE)?),
                9 => head.shared_mem_magic = Some(field.u32(MESSAGE)?),
                10 => priv_data = Some(field.bytes(MESSAGE)?),
                _ => {}
            }
            Ok(())
        })?;
        let gpus = required(MESSAGE, None, "num_of_gpus", head.num_of_gpus)?;
        let cpus = required(MESSAGE, None, "num_of_cpus", head.num_of_cpus)?;
        let bo_count = required(MESSAGE, None, "num_of_bos", head.num_of_bos)?;
        let image = Self {
            pid: TaskPid(required(MESSAGE, None, "pid", head.pid)?),
            system: System::new(nodes, Vec::new()),
            bos,
            num_objects: required(MESSAGE, None, "num_of_objects", head.num_of_objects)?,
            shared_mem_size: required(MESSAGE, None, "shared_mem_size", head.shared_mem_size)?,
            shared_mem_magic: required(MESSAGE, None, "shared_mem_magic", head.shared_mem_magic)?,
            priv_data: required(MESSAGE, None, "priv_data", priv_data)?.to_vec(),
        };
        let count = |field, stated: u64, actual: usize| {
            let actual = actual as u64;
            if stated == actual {
                Ok(())
            } else {
                Err(FormatError::Count {
                    field,
                    stated,
                    actual,
                })
            }
        };
        check_bo_count(bo_count)?;
        count("num_of_gpus", gpus.into(), image.system.gpus().count())?;
        count("num_of_cpus", cpus.into(), image.system.cpus().count())?;
        count("num_of_bos", bo_count, image.bos.len())?;
        image.validate()?;
        Ok(image)
    }

    fn encode(&self) -> Vec<u8> {
        // Counts are bounded by `validate`; saturating keeps a value that does not pass it visible.
        let count = |count: usize| Some(u32::try_from(count).unwrap_or(u32::MAX));
        CriuKfd {
            pid: Some(self.pid.0),
            num_of_gpus: count(self.system.gpus().count()),
            num_of_cpus: count(self.system.cpus().count()),
            device_entries: self.system.nodes.iter().map(device::to_entry).collect(),
            num_of_bos: Some(self.bos.len() as u64),
            bo_entries: self.bos.iter().map(bo_entry).collect(),
            num_of_objects: Some(self.num_objects),
            shared_mem_size: Some(self.shared_mem_size),
            shared_mem_magic: Some(self.shared_mem_magic),
            priv_data: Some(self.priv_data.clone()),
        }
        .encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        self.check_nodes()?;
        self.check_bos()?;
        self.check_private_data()
    }
}

fn decode_node(
    index: usize,
    field: &Field<'_>,
) -> Result<rocferry_topology::Node<UserGpuId>, FormatError> {
    if index >= MAX_NODES {
        return Err(FormatError::TooMany {
            field: "device_entries",
            limit: MAX_NODES,
        });
    }
    let content = field.bytes(MESSAGE)?;
    if content.len() > MAX_NODE_BYTES {
        return Err(malformed("kfd_device_entry", "entry too long"));
    }
    device::from_entry(
        index,
        decode::<KfdDeviceEntry>("kfd_device_entry", content)?,
    )
}

fn decode_bo(index: usize, content: &[u8]) -> Result<BoEntry, FormatError> {
    let entry: KfdBoEntry = decode(BO_MESSAGE, content)?;
    let index = Some(index);
    Ok(BoEntry {
        addr: required(BO_MESSAGE, index, "addr", entry.addr)?,
        size: required(BO_MESSAGE, index, "size", entry.size)?,
        offset: required(BO_MESSAGE, index, "offset", entry.offset)?,
        flags: BoFlags::from_bits_retain(required(
            BO_MESSAGE,
            index,
            "alloc_flags",
            entry.alloc_flags,
        )?),
        gpu: UserGpuId(required(BO_MESSAGE, index, "gpu_id", entry.gpu_id)?),
        handle: entry.handle.filter(|handle| *handle != NO_HANDLE),
    })
}

fn bo_entry(bo: &BoEntry) -> KfdBoEntry {
    KfdBoEntry {
        addr: Some(bo.addr),
        size: Some(bo.size),
        offset: Some(bo.offset),
        alloc_flags: Some(bo.flags.bits()),
        gpu_id: Some(bo.gpu.get()),
        // Newer C plugins refuse an entry without it; older ones skip it.
        handle: Some(bo.handle.unwrap_or(NO_HANDLE)),
    }
}

#[cfg(test)]
mod tests;
