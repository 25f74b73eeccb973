//! Packs and their blocks.

use std::sync::Arc;

use bytes::Bytes;
use rocferry_image::manifest::{BLOCK_SIZE, BlockId, Encoding, PackId};
use rocferry_store::pack::{
    BlockDecoder, BlockEncoder, Compression, FOOTER, HEADER, MAX_BLOCKS, MAX_INDEX_OBJECT,
    PackBuilder, PackError, PackHeader, PackIndex,
};
use rocferry_store::seal::{Keyring, new_pack_id};

use crate::samples::{
    Pack, SECRET, keyring, leaks, noise, pack, pack_with, read_blocks, read_pack, text,
};

fn rings() -> [Keyring; 2] {
    [keyring(None), keyring(Some(1))]
}

/// Small ones of both encodings.
fn few() -> Vec<Bytes> {
    vec![
        text(1, 300),
        noise(1, 50),
        text(2, 900),
        noise(2, 1),
        text(3, 200_000),
    ]
}

fn id(pack: &Pack) -> PackId {
    pack.finished.index.pack
}

#[test]
fn what_is_put_in_comes_out() {
    let whole = BLOCK_SIZE as usize;
    let blocks = [noise(1, whole), text(1, whole), noise(2, 5), text(2, 4097)];
    for ring in rings() {
        for compression in [
            Compression::Off,
            Compression::default(),
            Compression::Zstd(3),
        ] {
            let pack = pack_with(&ring, &blocks, compression);
            assert_eq!(
                read_pack(id(&pack), &pack.bytes, &ring).expect("reads"),
                blocks
            );
            let index = PackIndex::decode(id(&pack), &pack.finished.index_object, &ring);
            let index = index.expect("reads");
            assert_eq!(index, pack.finished.index);
            assert_eq!(
                read_blocks(&index, &pack.bytes, &ring).expect("reads"),
                blocks
            );
            let zstd = index
                .entries
                .iter()
                .filter(|entry| entry.encoding == Encoding::Zstd);
            let expected = if compression == Compression::Off {
                0
            } else {
                2
            };
            assert_eq!(zstd.count(), expected);
        }
    }
}

/// A sealed pack read with the eyes of somebody without the key.
#[test]
fn a_secret_is_not_found_in_a_sealed_pack() {
    let blocks = [
        Bytes::from_static(SECRET),
        text(1, 300),
        text(2, 1 << 20),
        noise(1, 1000),
    ];
    for compression in [Compression::Off, Compression::default()] {
        let [plain, sealed] = rings().map(|ring| pack_with(&ring, &blocks, compression));
        assert!(leaks(&plain.bytes), "the test would see it");
        assert!(!leaks(&sealed.bytes));
        assert!(!leaks(&sealed.finished.index_object));
        // Nor the names of its blocks, by which one could ask whether it has a known one.
        for entry in &sealed.finished.index.entries {
            for bytes in [&sealed.bytes, &sealed.finished.index_object.to_vec()] {
                assert!(!bytes.windows(8).any(|window| window == &entry.id.0[..8]));
            }
        }
    }
    let names = rings().map(|ring| ring.current().block_id(SECRET));
    assert_ne!(names[0], names[1]);
}

#[test]
fn every_change_of_a_pack_is_noticed() {
    for ring in rings() {
        let pack = pack(&ring, &few());
        let id = id(&pack);
        let check = |bytes: &[u8], what: &str, place: usize| {
            let read = read_pack(id, bytes, &ring);
            let error = read.expect_err(&format!("{what} {place} of {}", bytes.len()));
            assert!(error.is_permanent());
        };
        for place in 0..pack.bytes.len() {
            for bit in [0x01, 0x20] {
                let mut changed = pack.bytes.clone();
                changed[place] ^= bit;
                check(&changed, "changed", place);
            }
            check(&pack.bytes[..place], "cut", place);
        }
        check(&[&pack.bytes[..], &[0]].concat(), "longer", 0);
        check(&[&[0], &pack.bytes[..]].concat(), "shifted", 0);
    }
}

/// Every bit of a large one would take hours: some of each block, and all around their ends.
#[test]
fn changes_of_a_large_pack_are_noticed() {
    let whole = BLOCK_SIZE as usize;
    let blocks = [noise(1, whole), text(1, whole), noise(2, whole)];
    for ring in rings() {
        let pack = pack(&ring, &blocks);
        let mut random = fastrand::Rng::with_seed(1);
        let mut places: Vec<usize> = (0..40).map(|_| random.usize(..pack.bytes.len())).collect();
        for entry in &pack.finished.index.entries {
            let offset = usize::try_from(entry.offset).expect("64 bits");
            places.extend([offset - 1, offset, offset + 1]);
        }
        let mut bytes = pack.bytes.clone();
        for place in places {
            bytes[place] ^= 1 << random.u8(..8);
            read_pack(id(&pack), &bytes, &ring).expect_err("changed");
            bytes[place] = pack.bytes[place];
        }
        read_pack(id(&pack), &bytes, &ring).expect("as it was");
    }
}

#[test]
fn every_change_of_an_index_is_noticed() {
    for ring in rings() {
        let pack = pack(&ring, &few());
        let object = &pack.finished.index_object;
        assert!(object.len() as u64 <= MAX_INDEX_OBJECT);
        let refused = |bytes: &[u8], place: usize| {
            let read = PackIndex::decode(id(&pack), bytes, &ring);
            read.expect_err(&format!("byte {place} of {}", object.len()));
        };
        for place in 0..object.len() {
            for bit in 0..8 {
                let mut changed = object.to_vec();
                changed[place] ^= 1 << bit;
                refused(&changed, place);
            }
            refused(&object[..place], place);
        }
        refused(&[&object[..], &[0]].concat(), object.len());
    }
}

#[test]
fn nothing_stands_in_for_another_pack() {
    for ring in rings() {
        let [a, b] = [pack(&ring, &few()), pack(&ring, &few())];
        let error = read_pack(id(&b), &a.bytes, &ring).expect_err("another pack");
        assert!(error.to_string().ends_with("it is another pack"), "{error}");
        PackIndex::decode(id(&b), &a.finished.index_object, &ring).expect_err("another pack");
        // Also with a header that says so.
        let mut bytes = a.bytes.clone();
        bytes[..HEADER].copy_from_slice(&b.bytes[..HEADER]);
        read_pack(id(&b), &bytes, &ring).expect_err("another trailer");
        let tail = a.finished.tail.len();
        let mut bytes = b.bytes[..b.bytes.len() - b.finished.tail.len()].to_vec();
        bytes.extend_from_slice(&a.bytes[a.bytes.len() - tail..]);
        read_pack(id(&b), &bytes, &ring).expect_err("another trailer");
    }
}

/// Two blocks of one size, each where the other one should be.
#[test]
fn blocks_are_not_swapped() {
    for ring in rings() {
        let pack = pack(
            &ring,
            &[noise(1, 1000), noise(2, 1000), text(1, 1000), text(2, 1000)],
        );
        let index = &pack.finished.index;
        let keys = ring.current();
        let mut decoder = BlockDecoder::new().expect("decoder");
        for wanted in &index.entries {
            for found in &index.entries {
                let start = usize::try_from(found.offset).expect("64 bits");
                let stored = &pack.bytes[start..][..found.stored as usize];
                for encoding in [Encoding::Raw, Encoding::Zstd] {
                    let plain = decoder.decode(keys, wanted.id, wanted.plain, encoding, stored);
                    let right = wanted == found && encoding == found.encoding;
                    assert_eq!(plain.is_ok(), right, "{plain:?}");
                }
            }
        }
        // Nor is a block of another store taken, nor one of another size.
        let other = keyring(Some(2));
        let entry = &index.entries[0];
        let stored = &pack.bytes[HEADER..][..entry.stored as usize];
        let mut decode = |keys, size| {
            let plain = decoder.decode(keys, entry.id, size, entry.encoding, stored);
            plain.map(<[u8]>::to_vec)
        };
        decode(keys, 1000).expect("as it is");
        decode(other.current(), 1000).expect_err("another store");
        for size in [0, 999, 1001, BLOCK_SIZE + 1, u32::MAX] {
            let error = decode(keys, size).expect_err("another size");
            assert!(matches!(error, PackError::Block { block, .. } if block == entry.id));
        }
    }
}

/// What the keys of an unsealed store protect can be made by anybody: also a frame that never ends.
#[test]
fn decompression_is_bounded() {
    let ring = keyring(None);
    let zeros = Bytes::from(vec![0; BLOCK_SIZE as usize]);
    let pack = pack(&ring, &[zeros]);
    let entry = pack.finished.index.entries[0];
    assert!(entry.stored < 1000);
    let stored = &pack.bytes[HEADER..][..entry.stored as usize];
    let mut decoder = BlockDecoder::new().expect("decoder");
    for size in [1, 100, BLOCK_SIZE - 1] {
        let plain = decoder.decode(ring.current(), entry.id, size, entry.encoding, stored);
        plain.expect_err("more than the block");
    }
    let plain = decoder.decode(ring.current(), entry.id, BLOCK_SIZE, entry.encoding, stored);
    assert_eq!(plain.expect("as it is").len(), BLOCK_SIZE as usize);
}

#[test]
fn a_pack_ends_when_it_is_full() {
    let ring = keyring(None);
    let keys = ring.current();
    let mut encoder = BlockEncoder::new(Compression::Off).expect("encoder");
    let mut encoded = |number: u32, length: usize| {
        let plain = noise(number.into(), length);
        encoder
            .encode(keys, keys.block_id(&plain), &plain)
            .expect("encodes")
    };
    let (mut pack, start) = PackBuilder::new(new_pack_id().expect("id"), Arc::clone(keys), 3000);
    assert_eq!(
        (start.len(), pack.is_empty(), pack.size()),
        (HEADER, true, 40)
    );
    for number in 0..3 {
        assert!(!pack.is_full());
        pack.push(encoded(number, 1000)).expect("fits");
    }
    assert!(pack.is_full());
    assert_eq!(pack.len(), 3);
    let again = encoded(0, 1000);
    assert!(pack.contains(&again.id()));
    let error = pack.push(again).expect_err("twice");
    assert!(
        error.to_string().ends_with("the pack has it already"),
        "{error}"
    );

    // By number: many small files.
    let (mut pack, _) = PackBuilder::new(new_pack_id().expect("id"), Arc::clone(keys), 1 << 30);
    for number in 0..u32::try_from(MAX_BLOCKS).expect("few") {
        assert!(!pack.is_full());
        pack.push(encoded(number, 8)).expect("fits");
    }
    assert!(pack.is_full());
    let error = pack.push(encoded(1 << 20, 8)).expect_err("full");
    assert!(matches!(error, PackError::Full { .. }));
    let finished = pack.finish().expect("finishes");
    assert!(finished.index_object.len() as u64 <= MAX_INDEX_OBJECT);
    let read = PackIndex::decode(finished.index.pack, &finished.index_object, &ring);
    assert_eq!(read.expect("reads"), finished.index);

    let (empty, _) = PackBuilder::new(new_pack_id().expect("id"), Arc::clone(keys), 1);
    empty.finish().expect_err("no pack without blocks");
    let other = keyring(Some(1));
    let (mut pack, _) =
        PackBuilder::new(new_pack_id().expect("id"), Arc::clone(other.current()), 1);
    let error = pack.push(encoded(0, 8)).expect_err("another key");
    assert!(matches!(error, PackError::OtherKey { .. }));
}

#[test]
fn a_pack_of_another_key_says_so() {
    let [plain, sealed] = rings();
    let packs = [&plain, &sealed].map(|ring| pack(ring, &few()));
    let key = sealed.current().id().expect("sealed");
    let source = |error: &PackError| {
        let source = std::error::Error::source(error).expect("a reason");
        source.to_string()
    };
    let error = read_pack(id(&packs[0]), &packs[0].bytes, &sealed).expect_err("not sealed");
    assert_eq!(source(&error), "It is not sealed, although the store is");
    let error = read_pack(id(&packs[1]), &packs[1].bytes, &plain).expect_err("sealed");
    let expected = format!("It is sealed by data key {key}, although the store is not sealed");
    assert_eq!(source(&error), expected);
    let other = keyring(Some(1));
    let error = read_pack(id(&packs[1]), &packs[1].bytes, &other).expect_err("another store");
    assert_eq!(
        source(&error),
        format!("Data key {key} is not in the store")
    );
}

#[test]
fn a_later_version_is_named() {
    let pack = PackId([1; 16]);
    let header = PackHeader {
        pack,
        data_key: None,
    };
    let mut bytes = header.encode();
    assert_eq!(PackHeader::decode(pack, &bytes).expect("reads"), header);
    bytes[8] = 2;
    let error = PackHeader::decode(pack, &bytes).expect_err("later");
    let expected = format!("Pack {pack} has format version 2, 1 is understood");
    assert_eq!(error.to_string(), expected);
}

/// Lists that contradict themselves, with a right check value: in an unsealed store anybody can make it.
#[test]
fn impossible_lists_are_refused() {
    let ring = keyring(None);
    let good = pack(&ring, &[noise(1, 1000)]);
    let pack = id(&good);
    let entry = |size: u32, stored: u32, encoding: u8| {
        let mut bytes = [5; 41];
        bytes[32..36].copy_from_slice(&stored.to_le_bytes());
        bytes[36..40].copy_from_slice(&size.to_le_bytes());
        bytes[40] = encoding;
        bytes.to_vec()
    };
    let read = |trailer: Vec<u8>, blocks: u64| {
        let header = &good.bytes[..HEADER];
        let length = (trailer.len() as u64).to_le_bytes();
        // As lib/store does it.
        let check = check_value(&[header, &length, &trailer]);
        let tail = [&trailer[..], &check, &length, b"RFPACKEN"].concat();
        assert_eq!(tail.len() - trailer.len(), FOOTER);
        let size = HEADER as u64 + blocks + tail.len() as u64;
        PackIndex::from_pack(pack, size, header, &tail, &ring)
    };
    let right = read(entry(1000, 1000, 0), 1000).expect("as it should be");
    assert_eq!(right.entries[0].id, BlockId([5; 32]));
    let twice = [entry(1000, 1000, 0), entry(1000, 1000, 0)].concat();
    let cases = [
        (
            entry(1000, 1000, 0),
            999,
            "its size does not fit its list of blocks",
        ),
        (entry(0, 0, 0), 0, "a block has an impossible size"),
        (
            entry(BLOCK_SIZE + 1, BLOCK_SIZE + 1, 0),
            0,
            "a block has an impossible size",
        ),
        (
            entry(1000, 1001, 0),
            1001,
            "the length of a block does not fit its size",
        ),
        (
            entry(1000, 16, 1),
            16,
            "the length of a block does not fit its size",
        ),
        (
            entry(1000, 1016, 1),
            1016,
            "the length of a block does not fit its size",
        ),
        (
            entry(1000, 1000, 2),
            1000,
            "a block has an unknown encoding",
        ),
        (twice, 2000, "it lists a block twice"),
        (
            vec![5; 42],
            1000,
            "its list of blocks has an impossible length",
        ),
        (vec![], 0, "its list of blocks has an impossible length"),
    ];
    for (trailer, blocks, reason) in cases {
        let error = read(trailer, blocks).expect_err(reason);
        assert_eq!(
            error.to_string(),
            format!("Pack {pack} is damaged: {reason}")
        );
    }
}

/// The check value of an unsealed store, by its salt as whoever reads the store knows it.
fn check_value(parts: &[&[u8]]) -> Vec<u8> {
    let key = blake3::derive_key(
        "rocferry 2026-11-30 unsealed check values",
        &crate::samples::SALT,
    );
    let mut hasher = blake3::Hasher::new_keyed(&key);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().as_bytes().to_vec()
}
