//! The codec as a whole: what is written is read again, and nothing else is.

mod damage;
mod damaged_blocks;
mod sample;

use proptest::prelude::*;
use prost::Message;
use sample::{any_manifest, block, id, pack, small};

use super::*;

/// Byte for byte, as docs/store.md says.
#[test]
fn the_format_stays() {
    let manifest = Manifest {
        id: id("20261130t014415-0123456789ab"),
        created_ms: 1,
        parent: None,
        binding: Binding::Free,
        source: Source::default(),
        data_key: None,
        packs: vec![PackId([0xaa; 16])],
        files: vec![FileEntry {
            path: "a".to_owned(),
            mode: 0o600,
            uid: 0,
            gid: 1,
            modified_ms: 2,
            content: Content::Regular(vec![Span {
                size: u64::from(BLOCK_SIZE) + 1,
                label: None,
                blocks: Blocks::from(vec![
                    BlockRef::Zero,
                    BlockRef::Stored {
                        id: BlockId([0xbb; 32]),
                        pack: 0,
                        offset: PACK_HEADER,
                        stored: 1,
                        encoding: Encoding::Raw,
                    },
                ]),
            }]),
        }],
    };
    let span: Vec<u8> = [
        // size
        &[0x08, 0x81, 0x80, 0x80, 0x02][..],
        // zero_blocks, ids
        &[0x1a, 1, 0b01, 0x22, 32],
        &[0xbb; 32],
        // packs, offsets, stored, encodings
        &[0x2a, 1, 0, 0x32, 1, 40, 0x3a, 1, 1, 0x42, 1, 0],
    ]
    .concat();
    let file = [
        &[
            0x0a, 1, b'a', 0x10, 0x80, 0x03, 0x18, 0, 0x20, 1, 0x28, 2, 0x30, 3, 0x42, 54,
        ][..],
        &span,
    ]
    .concat();
    let golden = [
        // version, block_size
        &[0x08, 1, 0x10, 0x80, 0x80, 0x80, 0x02, 0x1a, 28][..],
        b"20261130t014415-0123456789ab",
        // created_ms, binding, source, packs
        &[0x20, 1, 0x32, 2, 0x08, 1, 0x3a, 0, 0x4a, 16],
        &[0xaa; 16],
        &[0x52, 70],
        &file,
    ]
    .concat();
    assert_eq!((span.len(), file.len()), (54, 70));
    assert_eq!(manifest.encode(), Ok(golden.clone()));
    assert_eq!(Manifest::decode(&golden), Ok(manifest));
}

proptest! {
    #[test]
    fn what_is_written_is_read(manifest in any_manifest()) {
        let bytes = manifest.encode().expect("valid");
        prop_assert_eq!(Manifest::decode(&bytes), Ok(manifest));
    }

    #[test]
    fn unknown_fields_are_skipped(manifest in any_manifest(), value in any::<u64>()) {
        #[derive(Clone, PartialEq, Message)]
        struct Later {
            #[prost(uint64, tag = "1000")]
            number: u64,
            #[prost(bytes = "vec", tag = "1001")]
            bytes: Vec<u8>,
            #[prost(fixed32, tag = "1002")]
            fixed: u32,
        }
        let later = Later { number: value, bytes: vec![1, 2, 3], fixed: 7 }.encode_to_vec();
        let bytes = [later.clone(), manifest.encode().expect("valid"), later].concat();
        prop_assert_eq!(Manifest::decode(&bytes), Ok(manifest));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Manifest::decode(&bytes);
    }

    /// What is read from damaged bytes is as valid as anything, and can be written again.
    #[test]
    fn damage_is_refused_or_makes_another_valid_one(
        manifest in any_manifest(),
        place in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let mut bytes = manifest.encode().expect("valid");
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        if let Ok(other) = Manifest::decode(&bytes) {
            let again = other.encode().expect("valid");
            prop_assert_eq!(Manifest::decode(&again), Ok(other));
        }
    }

    #[test]
    fn positions_follow_each_other(manifest in any_manifest()) {
        for file in &manifest.files {
            let mut end = 0;
            for placed in file.blocks() {
                prop_assert_eq!(placed.position, end);
                prop_assert!(placed.size > 0 && placed.size <= BLOCK_SIZE);
                end += u64::from(placed.size);
            }
            prop_assert_eq!(end, file.size());
        }
        let totals = manifest.totals();
        prop_assert_eq!(totals.plain, manifest.plain_size());
        prop_assert_eq!(totals.blocks, manifest.blocks().count() as u64);
        prop_assert!(totals.zero <= totals.plain);
    }
}

#[test]
fn sizes_count_each_stored_block_once() {
    let mut manifest = small();
    let FileEntry { content, .. } = &mut manifest.files[1];
    let Content::Regular(spans) = content else {
        panic!("regular file");
    };
    let twin = spans[0].clone();
    spans.push(twin);
    let totals = manifest.totals();
    let block = u64::from(BLOCK_SIZE);
    assert_eq!(totals.plain, 2 * (2 * block + 10));
    assert_eq!(totals.zero, 2 * block);
    assert_eq!(totals.blocks, 6);
    assert_eq!(totals.stored_blocks, 2);
    assert_eq!(totals.stored, block + 10);
    assert_eq!(manifest.stored_size(), block + 10);
    assert_eq!(totals.files, 3);
}

/// 200 GiB in blocks of 4 MiB, a third of them zero: little more than the ids.
#[test]
fn a_large_checkpoint_is_compact() {
    let count = 51_200u32;
    let blocks = (0..count).map(|number| match number % 3 {
        0 => BlockRef::Zero,
        _ => block(number, number / 32, 40 + u64::from(number % 32) * 4_194_304),
    });
    let mut manifest = small();
    manifest.packs = (0..count.div_ceil(32)).map(pack).collect();
    manifest.files = vec![FileEntry {
        path: "pages-1.img".to_owned(),
        mode: 0o600,
        uid: 0,
        gid: 0,
        modified_ms: 0,
        content: Content::Regular(vec![Span {
            size: u64::from(count) * u64::from(BLOCK_SIZE),
            label: None,
            blocks: blocks.collect(),
        }]),
    }];
    let bytes = manifest.encode().expect("valid");
    let stored = count as usize * 2 / 3;
    assert!(bytes.len() < stored * 46, "{} bytes", bytes.len());
    assert_eq!(Manifest::decode(&bytes), Ok(manifest));
}

/// What claims to be large, but is not, takes no memory: each of these would be terabytes.
#[test]
fn claims_take_no_memory() {
    for size in [u64::MAX, 1 << 62, 1 << 50] {
        for zero in [None, Some(vec![0xff; 16])] {
            let mut message = sample::wire(&small());
            let spans = &mut message.1[1].spans;
            spans[0].size = Some(size);
            spans[0].zero_blocks = zero;
            Manifest::decode(&sample::bytes(&message)).expect_err("a claim");
        }
    }
}
