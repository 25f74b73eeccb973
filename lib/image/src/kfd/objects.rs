//! Queues, events and SVM ranges in the kernel's private data (version 1, kernels 6.1 to 7.2).

use std::collections::BTreeSet;

use rocferry_topology::UserGpuId;

use super::KfdImage;

/// Size of a queue's record, without the saved state of the queue that follows it.
const QUEUE: usize = 120;
/// Size of an event's record.
const EVENT: usize = 64;
/// Size of the fixed part of the record of an SVM range.
const SVM: usize = 24;
/// Attributes of an SVM range besides one for each GPU.
const SVM_ATTRIBUTES: usize = 4;

/// See [`KfdImage::sdma_gpus`].
pub(super) fn sdma_gpus(image: &KfdImage) -> BTreeSet<UserGpuId> {
    let mut found = BTreeSet::new();
    let gpus = image.system.gpus().count();
    let Ok(mut at) = usize::try_from(image.objects_at()) else {
        return found;
    };
    for _ in 0..image.num_objects {
        let Some(record) = image.priv_data.get(at..) else {
            break;
        };
        let length = match number(record, 0) {
            Some(0) => queue(record, &mut found),
            Some(1) => Some(EVENT),
            Some(2) => Some(SVM + 8 * (SVM_ATTRIBUTES + gpus)),
            _ => None,
        };
        let Some(end) = length.and_then(|length| at.checked_add(length)) else {
            break;
        };
        at = end;
    }
    found
}

/// Notes the queue's GPU if it is an SDMA queue. Length of the record with what follows it.
fn queue(record: &[u8], found: &mut BTreeSet<UserGpuId>) -> Option<usize> {
    let control_stack = usize::try_from(number(record, 108)?).ok()?;
    let state = usize::try_from(number(record, 112)?).ok()?;
    // The kernel's own numbering: 0 compute, 1 SDMA, 4 SDMA over XGMI, 5 SDMA of a chosen engine.
    if let (gpu, 1 | 4 | 5) = (number(record, 64)?, number(record, 68)?) {
        found.insert(UserGpuId(gpu));
    }
    QUEUE.checked_add(state)?.checked_add(control_stack)
}

fn number(record: &[u8], at: usize) -> Option<u32> {
    let bytes = record.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use rocferry_topology::{GpuNode, Node, NodeId, System};

    use super::*;
    use crate::TaskPid;

    const COMPUTE: u32 = 0;
    const SDMA: u32 = 1;
    const XGMI: u32 = 4;

    fn put(record: &mut [u8], at: usize, value: u32) {
        record[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn queue(gpu: u32, kind: u32, state: u32, control_stack: u32) -> Vec<u8> {
        let mut record = vec![0; QUEUE];
        put(&mut record, 64, gpu);
        put(&mut record, 68, kind);
        put(&mut record, 108, control_stack);
        put(&mut record, 112, state);
        let more = (state + control_stack) as usize;
        record.resize(QUEUE + more, 0xff);
        record
    }

    fn event() -> Vec<u8> {
        let mut record = vec![0xee; EVENT];
        put(&mut record, 0, 1);
        record
    }

    fn svm(gpus: usize) -> Vec<u8> {
        let mut record = vec![0xdd; SVM + 8 * (4 + gpus)];
        put(&mut record, 0, 2);
        record
    }

    /// Of a process with three GPUs and no buffer objects.
    fn image(objects: &[Vec<u8>]) -> KfdImage {
        let nodes = (1..4).map(|id| {
            Node::Gpu(GpuNode {
                node: NodeId(id),
                id: UserGpuId(id),
                ..GpuNode::default()
            })
        });
        let mut priv_data = vec![0xaa; 8 + 3 * 8];
        priv_data.extend(objects.concat());
        KfdImage {
            pid: TaskPid(1),
            system: System::new(nodes.collect(), vec![]),
            bos: vec![],
            num_objects: u32::try_from(objects.len()).expect("few"),
            shared_mem_size: 0,
            shared_mem_magic: 0,
            priv_data,
        }
    }

    fn found(image: &KfdImage) -> Vec<u32> {
        image.sdma_gpus().into_iter().map(UserGpuId::get).collect()
    }

    #[test]
    fn only_gpus_with_sdma_queues_are_named() {
        let objects = [
            queue(1, COMPUTE, 512, 0x3000),
            event(),
            queue(3, SDMA, 512, 0),
            svm(3),
            queue(3, SDMA, 512, 0),
            queue(2, XGMI, 8, 4),
        ];
        assert_eq!(found(&image(&objects)), [2, 3]);
        assert_eq!(found(&image(&objects[..2])), [0_u32; 0]);
        assert_eq!(found(&image(&[])), [0_u32; 0]);
    }

    #[test]
    fn damage_ends_the_list() {
        let objects = [queue(3, SDMA, 512, 0), event(), queue(1, SDMA, 512, 0)];
        let whole = image(&objects);
        for length in 0..whole.priv_data.len() {
            let cut = KfdImage {
                priv_data: whole.priv_data[..length].to_vec(),
                ..whole.clone()
            };
            assert!(
                found(&cut).iter().all(|gpu| [1, 3].contains(gpu)),
                "{length}"
            );
        }
        let more = KfdImage {
            num_objects: u32::MAX,
            ..whole.clone()
        };
        assert_eq!(found(&more), [1, 3]);
        let unknown = [vec![9; 64], queue(1, SDMA, 0, 0)];
        assert_eq!(found(&image(&unknown)), [0_u32; 0]);
        let endless = [
            queue(3, SDMA, 0, 0),
            queue(2, SDMA, 0, 0),
            queue(1, SDMA, 0, 0),
        ];
        let mut endless = image(&endless);
        let at = endless.priv_data.len() - 2 * QUEUE;
        put(&mut endless.priv_data, at + 112, u32::MAX);
        assert_eq!(found(&endless), [2, 3]);
    }
}
