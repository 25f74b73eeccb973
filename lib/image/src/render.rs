//! An open render node.

use std::collections::HashSet;

use prost::Message;
use rocferry_topology::{RenderMinor, UserGpuId};

use crate::walk::{decode, fields, malformed, need, required};
use crate::wire::{CriuRenderNode, DrmBoEntry, DrmVmEntry};
use crate::{FileId, FormatError, Image, KfdImage};

const MESSAGE: &str = "criu_render_node";
const BO_MESSAGE: &str = "drm_bo_entry";
/// Bytes of an encoded object: tens of thousands of mappings.
const MAX_BO_BYTES: usize = 1 << 20;

/// Content of `amdgpu-renderD-%d.img` (`criu_render_node`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderImage {
    /// The GPU behind the node.
    pub gpu: UserGpuId,
    /// CRIU's id of the file. Absent in images of C plugins up to CRIU 4.2, never relied on.
    pub file: Option<FileId>,
    /// Minor on the dumped machine. Absent likewise.
    pub render_minor: Option<RenderMinor>,
    /// GEM objects of the file. Only newer C plugins write any.
    pub bos: Vec<DrmBo>,
}

/// A GEM object (`drm_bo_entry`), as a newer C plugin records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrmBo {
    /// Address of its last mapping, 0 without any.
    pub addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// Offset for mmap at the time of the dump.
    pub offset: u64,
    /// GEM create flags.
    pub alloc_flags: u64,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Where it prefers to live.
    pub preferred_domains: u32,
    /// Handle in this file.
    pub handle: u32,
    /// It came in as a dma-buf.
    pub is_import: bool,
    /// Where it is mapped for the GPU.
    pub mappings: Vec<DrmMapping>,
}

/// A mapping of a GEM object into the file's GPU address space (`drm_vm_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrmMapping {
    /// GPU address.
    pub addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// Offset within the object in bytes.
    pub offset: u64,
    /// Page table flags.
    pub flags: u64,
}

impl RenderImage {
    /// Checks that the GPU is one of the process.
    ///
    /// # Errors
    /// [`FormatError::RenderUnknownGpu`].
    pub fn check_against(&self, process: &KfdImage) -> Result<(), FormatError> {
        match process.system.gpu(self.gpu) {
            Some(_) => Ok(()),
            None => Err(FormatError::RenderUnknownGpu { gpu: self.gpu }),
        }
    }
}

impl Image for RenderImage {
    const MAX: u64 = 64 << 20;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let mut head = CriuRenderNode::default();
        let mut bos = Vec::new();
        fields(MESSAGE, content, |number, field| {
            match number {
                1 => head.gpu_id = Some(field.u32(MESSAGE)?),
                2 => head.id = Some(field.u32(MESSAGE)?),
                3 => head.drm_render_minor = Some(field.u32(MESSAGE)?),
                4 => head.num_of_bos = Some(field.u64(MESSAGE)?),
                5 => bos.push(decode_bo(bos.len(), field.bytes(MESSAGE)?)?),
                _ => {}
            }
            Ok(())
        })?;
        let (stated, actual) = (head.num_of_bos.unwrap_or_default(), bos.len() as u64);
        if stated != actual {
            return Err(FormatError::Count {
                field: "num_of_bos",
                stated,
                actual,
            });
        }
        let image = Self {
            gpu: UserGpuId(required(MESSAGE, None, "gpu_id", head.gpu_id)?),
            file: head.id.map(|id| FileId(id.cast_signed())),
            render_minor: head.drm_render_minor.map(RenderMinor),
            bos,
        };
        image.validate()?;
        Ok(image)
    }

    fn encode(&self) -> Vec<u8> {
        CriuRenderNode {
            gpu_id: Some(self.gpu.get()),
            // Newer C plugins refuse a node without these three; older ones skip them.
            id: Some(self.file.map_or(u32::MAX, |file| file.0.cast_unsigned())),
            drm_render_minor: Some(self.render_minor.map_or(u32::MAX, RenderMinor::get)),
            num_of_bos: Some(self.bos.len() as u64),
            bo_entries: self.bos.iter().map(bo_entry).collect(),
        }
        .encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        if self.gpu.get() == 0 {
            let (message, field) = (MESSAGE, "gpu_id");
            return Err(FormatError::InvalidValue {
                message,
                index: None,
                field,
                value: 0,
            });
        }
        let mut handles = HashSet::new();
        match self.bos.iter().find(|bo| !handles.insert(bo.handle)) {
            Some(bo) => Err(FormatError::DuplicateHandle { handle: bo.handle }),
            None => Ok(()),
        }
    }
}

fn decode_bo(index: usize, content: &[u8]) -> Result<DrmBo, FormatError> {
    if content.len() > MAX_BO_BYTES {
        return Err(malformed(BO_MESSAGE, "entry too long"));
    }
    let entry: DrmBoEntry = decode(BO_MESSAGE, content)?;
    let index = Some(index);
    let stated = need!(BO_MESSAGE, index, entry.num_of_vms).into();
    let actual = entry.vm_entries.len() as u64;
    if stated != actual {
        return Err(FormatError::Count {
            field: "num_of_vms",
            stated,
            actual,
        });
    }
    let is_import = match need!(BO_MESSAGE, index, entry.is_import) {
        0 => false,
        1 => true,
        other => {
            let (message, field, value) = (BO_MESSAGE, "is_import", other.into());
            return Err(FormatError::InvalidValue {
                message,
                index,
                field,
                value,
            });
        }
    };
    let mappings = entry
        .vm_entries
        .into_iter()
        .enumerate()
        .map(|(number, vm)| {
            let index = Some(number);
            Ok(DrmMapping {
                addr: need!("drm_vm_entry", index, vm.addr),
                size: need!("drm_vm_entry", index, vm.size),
                offset: need!("drm_vm_entry", index, vm.offset),
                flags: need!("drm_vm_entry", index, vm.flags),
            })
        });
    Ok(DrmBo {
        addr: need!(BO_MESSAGE, index, entry.addr),
        size: need!(BO_MESSAGE, index, entry.size),
        offset: need!(BO_MESSAGE, index, entry.offset),
        alloc_flags: need!(BO_MESSAGE, index, entry.alloc_flags),
        alignment: need!(BO_MESSAGE, index, entry.alignment),
        preferred_domains: need!(BO_MESSAGE, index, entry.preferred_domains),
        handle: need!(BO_MESSAGE, index, entry.handle),
        is_import,
        mappings: mappings.collect::<Result<_, FormatError>>()?,
    })
}

fn bo_entry(bo: &DrmBo) -> DrmBoEntry {
    let vm_entries: Vec<DrmVmEntry> = bo
        .mappings
        .iter()
        .map(|vm| DrmVmEntry {
            addr: Some(vm.addr),
            size: Some(vm.size),
            offset: Some(vm.offset),
            flags: Some(vm.flags),
        })
        .collect();
    DrmBoEntry {
        addr: Some(bo.addr),
        size: Some(bo.size),
        offset: Some(bo.offset),
        alloc_flags: Some(bo.alloc_flags),
        alignment: Some(bo.alignment),
        preferred_domains: Some(bo.preferred_domains),
        handle: Some(bo.handle),
        is_import: Some(bo.is_import.into()),
        num_of_vms: Some(u32::try_from(vm_entries.len()).unwrap_or(u32::MAX)),
        vm_entries,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rocferry_topology::{GpuNode, Node, System};

    use super::*;
    use crate::TaskPid;

    /// A field and how to take it out of its message.
    type Removal<M> = (&'static str, fn(&mut M));

    fn plain() -> RenderImage {
        RenderImage {
            gpu: UserGpuId(0xa12f),
            file: Some(FileId(12)),
            render_minor: Some(RenderMinor(129)),
            bos: vec![],
        }
    }

    fn with_objects() -> RenderImage {
        let mapping = DrmMapping {
            addr: 1,
            size: 2,
            offset: 3,
            flags: 4,
        };
        let bo = DrmBo {
            addr: 1,
            size: 2,
            offset: 3,
            alloc_flags: 4,
            alignment: 5,
            preferred_domains: 6,
            handle: 7,
            is_import: true,
            mappings: vec![mapping, mapping],
        };
        RenderImage {
            bos: vec![
                bo.clone(),
                DrmBo {
                    handle: 8,
                    mappings: vec![],
                    ..bo
                },
            ],
            ..plain()
        }
    }

    /// gpu_id; id, minor and count, which newer C plugins require; written by hand.
    #[test]
    fn the_encoding_satisfies_every_c_plugin() {
        let golden = [0x08, 0xaf, 0xc2, 0x02, 0x10, 12, 0x18, 0x81, 0x01, 0x20, 0];
        assert_eq!(plain().encode(), golden);
        assert_eq!(RenderImage::decode(&golden), Ok(plain()));
        let golden = [
            &[0x08, 0xaf, 0xc2, 0x02, 0x10, 12, 0x18, 0x81, 0x01, 0x20, 2][..],
            &[
                0x2a, 38, 0x08, 1, 0x10, 2, 0x18, 3, 0x20, 4, 0x28, 5, 0x30, 6, 0x38, 7, 0x40, 1,
                0x48, 2,
            ],
            &[
                0x52, 8, 0x08, 1, 0x10, 2, 0x18, 3, 0x20, 4, 0x52, 8, 0x08, 1, 0x10, 2, 0x18, 3,
                0x20, 4,
            ],
            &[
                0x2a, 18, 0x08, 1, 0x10, 2, 0x18, 3, 0x20, 4, 0x28, 5, 0x30, 6, 0x38, 8, 0x40, 1,
                0x48, 0,
            ],
        ]
        .concat();
        assert_eq!(with_objects().encode(), golden);
        assert_eq!(RenderImage::decode(&golden), Ok(with_objects()));
    }

    #[test]
    fn images_of_older_c_plugins_have_the_gpu_only() {
        let decoded = RenderImage::decode(&[0x08, 0xaf, 0xc2, 0x02]).expect("older image");
        assert_eq!(
            decoded,
            RenderImage {
                file: None,
                render_minor: None,
                ..plain()
            }
        );
    }

    fn changed(change: impl FnOnce(&mut CriuRenderNode)) -> Result<RenderImage, FormatError> {
        let mut message: CriuRenderNode =
            decode(MESSAGE, &with_objects().encode()).expect("own encoding");
        change(&mut message);
        RenderImage::decode(&message.encode_to_vec())
    }

    #[test]
    fn damage_is_refused() {
        let missing = |message, index, field| {
            Err(FormatError::MissingField {
                message,
                index,
                field,
            })
        };
        let count = |field, stated, actual| {
            Err(FormatError::Count {
                field,
                stated,
                actual,
            })
        };
        assert_eq!(
            changed(|m| m.gpu_id = None),
            missing(MESSAGE, None, "gpu_id")
        );
        assert!(matches!(
            changed(|m| m.gpu_id = Some(0)),
            Err(FormatError::InvalidValue { .. })
        ));
        assert_eq!(
            changed(|m| m.num_of_bos = Some(3)),
            count("num_of_bos", 3, 2)
        );
        assert_eq!(changed(|m| m.num_of_bos = None), count("num_of_bos", 0, 2));
        assert_eq!(
            changed(|m| m.bo_entries[0].num_of_vms = Some(9)),
            count("num_of_vms", 9, 2)
        );
        let twice = changed(|m| m.bo_entries[1].handle = Some(7));
        assert_eq!(twice, Err(FormatError::DuplicateHandle { handle: 7 }));
        let removals: [Removal<DrmBoEntry>; 9] = [
            ("addr", |bo| bo.addr = None),
            ("size", |bo| bo.size = None),
            ("offset", |bo| bo.offset = None),
            ("alloc_flags", |bo| bo.alloc_flags = None),
            ("alignment", |bo| bo.alignment = None),
            ("preferred_domains", |bo| bo.preferred_domains = None),
            ("handle", |bo| bo.handle = None),
            ("is_import", |bo| bo.is_import = None),
            ("num_of_vms", |bo| bo.num_of_vms = None),
        ];
        for (field, remove) in removals {
            let decoded = changed(|m| remove(&mut m.bo_entries[1]));
            assert_eq!(decoded, missing(BO_MESSAGE, Some(1), field));
        }
        let removals: [Removal<DrmVmEntry>; 4] = [
            ("addr", |vm| vm.addr = None),
            ("size", |vm| vm.size = None),
            ("offset", |vm| vm.offset = None),
            ("flags", |vm| vm.flags = None),
        ];
        for (field, remove) in removals {
            let decoded = changed(|m| remove(&mut m.bo_entries[0].vm_entries[1]));
            assert_eq!(decoded, missing("drm_vm_entry", Some(1), field));
        }
    }

    #[test]
    fn the_gpu_must_be_one_of_the_process() {
        let gpu = GpuNode {
            id: UserGpuId(0xa12f),
            ..GpuNode::default()
        };
        let process = KfdImage {
            pid: TaskPid(1),
            system: System::new(vec![Node::Gpu(gpu)], vec![]),
            bos: vec![],
            num_objects: 0,
            shared_mem_size: 0,
            shared_mem_magic: 0,
            priv_data: vec![],
        };
        assert_eq!(plain().check_against(&process), Ok(()));
        let other = RenderImage {
            gpu: UserGpuId(0xa130),
            ..plain()
        };
        let error = FormatError::RenderUnknownGpu {
            gpu: UserGpuId(0xa130),
        };
        assert_eq!(other.check_against(&process), Err(error));
    }

    proptest! {
        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), byte: u8) {
            let _ = RenderImage::decode(&content);
            let mut damaged = with_objects().encode();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let _ = RenderImage::decode(&damaged);
        }
    }
}
