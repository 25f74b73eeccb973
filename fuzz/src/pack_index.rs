//! Index objects of packs, and with them what a pack ends with.

use std::collections::BTreeSet;
use std::sync::Arc;

use rocferry_image::manifest::{BLOCK_SIZE, MAX_PACK, PACK_HEADER, PackId};
use rocferry_store::pack::{
    BlockEncoder, BlockIndex, Compression, FOOTER, HEADER, INDEX_START, MAX_BLOCKS, PackBuilder,
    PackIndex,
};
use rocferry_store::seal::{Keyring, Keys};

use crate::Seed;
use crate::checks::{check_value, keyring};

const PACK: PackId = PackId([5; 16]);

/// Decodes an index object as it is, and once more with a right check value, which in a store without sealing
/// anybody can make; true if it is one then. Its blocks are without gaps, once each, and can be found.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let keyring = keyring();
    if let Ok(index) = PackIndex::decode(PACK, data, &keyring) {
        check(&index);
    }
    let Some(fixed) = with_check(data) else {
        return false;
    };
    match PackIndex::decode(PACK, &fixed, &keyring) {
        Ok(index) => {
            check(&index);
            // The same from the end of the pack.
            let (header, tail) = fixed[INDEX_START..].split_at(HEADER);
            let range = PackIndex::tail(PACK, index.size, &tail[tail.len() - FOOTER..]);
            let range = range.expect("accepted, then not found");
            assert_eq!(range, index.size - tail.len() as u64..index.size);
            let read = PackIndex::from_pack(PACK, index.size, header, tail, &keyring);
            assert_eq!(read.expect("accepted, then not valid"), index);
            true
        }
        Err(error) => {
            assert!(error.to_string().len() < 1000, "{error}");
            false
        }
    }
}

fn check(index: &PackIndex) {
    assert!((1..=MAX_BLOCKS).contains(&index.entries.len()));
    let mut end = PACK_HEADER;
    for entry in &index.entries {
        assert_eq!(entry.offset, end);
        assert!((1..=BLOCK_SIZE).contains(&entry.plain));
        end += u64::from(entry.stored);
    }
    assert!(end < index.size && end <= MAX_PACK);
    let ids: BTreeSet<_> = index.entries.iter().map(|entry| entry.id).collect();
    assert_eq!(ids.len(), index.entries.len());
    let mut blocks = BlockIndex::new();
    blocks.add(index);
    for entry in &index.entries {
        let found = blocks.get(&entry.id).expect("added");
        let place = (found.offset, found.stored, found.plain, found.encoding);
        assert_eq!(
            place,
            (entry.offset, entry.stored, entry.plain, entry.encoding)
        );
    }
}

fn with_check(data: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = data.to_vec();
    let (rest, footer) = fixed.split_last_chunk_mut::<FOOTER>()?;
    let (header, trailer) = rest.get(INDEX_START..)?.split_at_checked(HEADER)?;
    let (check, end) = footer.split_at_mut(32);
    check.copy_from_slice(&check_value(&[header, &end[..8], trailer]));
    Some(fixed)
}

/// Packs of blocks of both encodings.
///
/// # Panics
/// Never: there is room for them.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let keyring: Keyring = keyring();
    let keys: &Arc<Keys> = keyring.current();
    let mut encoder = BlockEncoder::new(Compression::default()).expect("zstd");
    let mut seed = |name: &str, sizes: &[usize]| {
        let (mut pack, _) = PackBuilder::new(PACK, Arc::clone(keys), 1 << 30);
        for (number, size) in (0u8..).zip(sizes) {
            let plain = vec![number; *size];
            let id = keys.block_id(&plain);
            let block = encoder.encode(keys, id, &plain.into()).expect("fits");
            pack.push(block).expect("room");
        }
        Seed {
            name: name.to_owned(),
            content: pack.finish().expect("blocks").index_object.to_vec(),
        }
    };
    let many: Vec<usize> = (1..200).collect();
    vec![
        seed("one", &[1]),
        seed("few", &[1, 1000, 4 << 20, 5000]),
        seed("many", &many),
        seed("large", &[4 << 20; 8]),
    ]
}

/// What is hard to guess.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let sizes = [
        0u32,
        1,
        16,
        17,
        BLOCK_SIZE - 1,
        BLOCK_SIZE,
        BLOCK_SIZE + 1,
        u32::MAX,
    ];
    let sizes = sizes.into_iter().map(|size| size.to_le_bytes().to_vec());
    let magics = [&b"RFPACK01"[..], b"RFPACKEN", b"RFINDEX1"];
    sizes.chain(magics.map(<[u8]>::to_vec)).collect()
}
