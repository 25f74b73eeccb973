//! Kfd images: topology nodes (device entries), buffer objects, private data.

use rocferry_image::{BoEntry, Image, KfdImage, TaskPid, source_system};
use rocferry_topology::{BoFlags, System, UserGpuId};

use crate::{MAX_SEED, Seed, checkpoints};

/// Decodes an image; true if it is one. What is accepted can be written, and is the same after that.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let Ok(image) = KfdImage::decode(data) else {
        return false;
    };
    image.validate().expect("accepted, then not valid");
    let layout = image.pages_layout();
    assert_eq!(layout.files.len(), image.system.gpus().count());
    let source = source_system(&image, None);
    assert_eq!(source.hives(), image.system.hives());
    let _ = image.sdma_gpus();
    let written = image.encode();
    let again = KfdImage::decode(&written).expect("written by us");
    assert_eq!(again.bos, image.bos);
    assert_eq!(again.priv_data, image.priv_data);
    // Links that lead nowhere are not written: only from here on nothing changes any more.
    assert_eq!(again.system.hives(), image.system.hives());
    assert_eq!(again.encode(), written);
    true
}

/// A process with all GPUs of each machine, and one without buffer objects.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let image = |(name, system): (String, System<UserGpuId>)| Seed {
        content: process(system, 3).encode(),
        name,
    };
    let mut seeds: Vec<Seed> = checkpoints().into_iter().map(image).collect();
    if let Some((_, system)) = checkpoints().pop() {
        seeds.push(Seed {
            name: "no-objects".to_owned(),
            content: process(system, 0).encode(),
        });
    }
    seeds.retain(|seed| seed.content.len() <= MAX_SEED);
    seeds
}

fn process(system: System<UserGpuId>, bos_each: u32) -> KfdImage {
    let kinds = [
        BoFlags::VRAM | BoFlags::WRITABLE,
        BoFlags::GTT,
        BoFlags::USERPTR,
    ];
    let mut bos = Vec::new();
    for gpu in system.gpus() {
        for (number, flags) in (1..=bos_each).zip(kinds) {
            bos.push(BoEntry {
                addr: 0x7f00_0000_0000 + (u64::from(number) << 32),
                size: 4096 << number,
                offset: u64::from(number) << 28,
                flags,
                gpu: gpu.id,
                handle: (number == 1).then_some(7),
            });
        }
    }
    let gpus = system.gpus().count();
    // Version 1, and a record for each GPU and each BO.
    let mut priv_data = vec![0; 8 + 8 * gpus + 272 * bos.len()];
    priv_data[0] = 1;
    // An SDMA queue with 24 bytes of state, an event, an SVM range.
    let mut queue = vec![0; 120 + 24];
    let first = system.gpus().next().map_or(0, |gpu| gpu.id.get());
    for (at, value) in [(64, first), (68, 1), (108, 8), (112, 16)] {
        queue[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    for (kind, object) in [
        (0, queue),
        (1, vec![0; 64]),
        (2, vec![0; 24 + 8 * (4 + gpus)]),
    ] {
        let start = priv_data.len();
        priv_data.extend(object);
        priv_data[start] = kind;
    }
    KfdImage {
        pid: TaskPid(4711),
        system,
        bos,
        num_objects: 3,
        shared_mem_size: 4096,
        shared_mem_magic: 0x4b66_6453,
        priv_data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_hold_queues() {
        for seed in seeds() {
            let image = KfdImage::decode(&seed.content).expect("written by us");
            assert_eq!(image.sdma_gpus().len(), 1, "{}", seed.name);
        }
    }
}
