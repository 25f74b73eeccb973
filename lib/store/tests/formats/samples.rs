//! Keys, blocks and manifests to test with.

use std::sync::Arc;

use bytes::Bytes;
use rocferry_image::manifest::{
    Binding, BlockRef, CheckpointId, Content, FileEntry, Manifest, PackId, Source, Span,
};
use rocferry_store::backend::Memory;
use rocferry_store::pack::{
    BlockDecoder, BlockEncoder, Compression, FinishedPack, HEADER, PackBuilder, PackError,
    PackIndex,
};
use rocferry_store::seal::{KeyConfig, Keyring, Salt, WrappingKey, open_store};
use rocferry_store::{StoreName, seal};

/// What must not be found in anything that is sealed.
pub(crate) const SECRET: &[u8] = b"correct horse battery staple";

pub(crate) fn key_file(byte: u8) -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_key(WrappingKey::from_file(&[byte; 32]).expect("32 bytes"));
    config
}

/// Of stores that are not sealed.
pub(crate) const SALT: [u8; 32] = [9; 32];

/// The keys of a store: a new one that is sealed by a key file of this byte, or one with [`SALT`].
pub(crate) fn keyring(file: Option<u8>) -> Keyring {
    let Some(file) = file else {
        return Keyring::unsealed(&Salt(SALT));
    };
    let config = key_file(file);
    let backend = Memory::new(&StoreName::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime");
    let opened = runtime.block_on(open_store(&backend, &config, 1000));
    opened.expect("new store").1
}

pub(crate) fn id(number: u32) -> CheckpointId {
    format!("20261130t014415-{number:012x}")
        .parse()
        .expect("id")
}

/// Bytes that do not compress.
pub(crate) fn noise(seed: u64, length: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

/// Bytes that compress, with the secret among them.
pub(crate) fn text(seed: u64, length: usize) -> Bytes {
    let mut text = Vec::with_capacity(length + 64);
    let mut number = seed;
    while text.len() < length {
        text.extend_from_slice(format!("{number} ").as_bytes());
        text.extend_from_slice(SECRET);
        number += 1;
    }
    text.truncate(length);
    text.into()
}

/// A pack and its blocks.
pub(crate) struct Pack {
    pub(crate) bytes: Vec<u8>,
    pub(crate) finished: FinishedPack,
}

pub(crate) fn pack(keyring: &Keyring, blocks: &[Bytes]) -> Pack {
    pack_with(keyring, blocks, Compression::default())
}

pub(crate) fn pack_with(keyring: &Keyring, blocks: &[Bytes], compression: Compression) -> Pack {
    let keys = keyring.current();
    let mut encoder = BlockEncoder::new(compression).expect("encoder");
    let id = seal::new_pack_id().expect("random");
    let (mut builder, start) = PackBuilder::new(id, Arc::clone(keys), 1 << 30);
    let mut bytes = start.to_vec();
    for block in blocks {
        let encoded = encoder
            .encode(keys, keys.block_id(block), block)
            .expect("encodes");
        let (entry, next) = builder.push(encoded).expect("fits");
        assert_eq!(entry.offset, bytes.len() as u64);
        assert_eq!(entry.stored as usize, next.len());
        bytes.extend_from_slice(&next);
        assert_eq!(builder.size(), bytes.len() as u64);
    }
    let finished = builder.finish().expect("finishes");
    bytes.extend_from_slice(&finished.tail);
    assert_eq!(finished.index.size, bytes.len() as u64);
    Pack { bytes, finished }
}

/// Reads a pack as whoever has nothing else: its blocks.
pub(crate) fn read_pack(
    pack: PackId,
    bytes: &[u8],
    keyring: &Keyring,
) -> Result<Vec<Vec<u8>>, PackError> {
    let size = bytes.len() as u64;
    let cut = |length: usize| &bytes[length.min(bytes.len())..];
    let footer = cut(bytes.len().saturating_sub(rocferry_store::pack::FOOTER));
    let tail = PackIndex::tail(pack, size, footer)?;
    let tail = cut(usize::try_from(tail.start).expect("64 bits"));
    let header = &bytes[..HEADER.min(bytes.len())];
    let index = PackIndex::from_pack(pack, size, header, tail, keyring)?;
    read_blocks(&index, bytes, keyring)
}

pub(crate) fn read_blocks(
    index: &PackIndex,
    bytes: &[u8],
    keyring: &Keyring,
) -> Result<Vec<Vec<u8>>, PackError> {
    let keys = keyring.get(index.data_key).expect("known");
    let mut decoder = BlockDecoder::new()?;
    let mut blocks = Vec::new();
    for entry in &index.entries {
        let start = usize::try_from(entry.offset).expect("64 bits");
        let stored = &bytes[start..][..entry.stored as usize];
        let plain = decoder.decode(keys, entry.id, entry.plain, entry.encoding, stored)?;
        blocks.push(plain.to_vec());
    }
    Ok(blocks)
}

/// The manifest of one file with all blocks of a pack.
pub(crate) fn manifest(number: u32, keyring: &Keyring, index: &PackIndex) -> Manifest {
    let spans = index.entries.iter().map(|entry| Span {
        size: entry.plain.into(),
        label: Some(String::from_utf8_lossy(SECRET).into_owned()),
        blocks: vec![BlockRef::Stored {
            id: entry.id,
            pack: 0,
            offset: entry.offset,
            stored: entry.stored,
            encoding: entry.encoding,
        }]
        .into(),
    });
    Manifest {
        id: id(number),
        created_ms: 1_796_003_055_000,
        parent: None,
        binding: bound_to("trainer-0"),
        source: Source {
            node: Some("node-1".to_owned()),
            ..Source::default()
        },
        data_key: keyring.current().id(),
        packs: vec![index.pack],
        files: vec![FileEntry {
            path: "pages-1.img".to_owned(),
            mode: 0o600,
            uid: 0,
            gid: 0,
            modified_ms: 0,
            content: Content::Regular(spans.collect()),
        }],
    }
}

pub(crate) fn bound_to(pod: &str) -> Binding {
    Binding::Pod {
        namespace: "team-a".to_owned(),
        namespace_uid: "2f1c7f0a".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
    }
}

/// Whether 12 bytes of the secret in a row are somewhere.
pub(crate) fn leaks(bytes: &[u8]) -> bool {
    SECRET
        .windows(12)
        .any(|part| bytes.windows(part.len()).any(|window| window == part))
}
