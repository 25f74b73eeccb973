//! Kfd images: topology nodes (device entries), buffer objects, private data.

use rocferry_image::{BoEntry, Image, KfdImage, TaskPid};
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
    let _ = image.system.hives();
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
    // Version 1, and a record for each GPU and each object.
    let mut priv_data = vec![0; 8 + 8 * system.gpus().count() + 272 * bos.len()];
    priv_data[0] = 1;
    KfdImage {
        pid: TaskPid(4711),
        system,
        bos,
        num_objects: 2,
        shared_mem_size: 4096,
        shared_mem_magic: 0x4b66_6453,
        priv_data,
    }
}
