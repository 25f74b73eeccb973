//! Manifests to test with.

use proptest::prelude::*;
use prost::Message;
use prost::encoding::message;

use super::super::wire;
use super::*;

pub(super) fn id(text: &str) -> CheckpointId {
    text.parse().expect("id")
}

pub(super) fn pack(number: u32) -> PackId {
    let mut bytes = [0x77; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    PackId(bytes)
}

/// A full, incompressible block of an unsealed store.
pub(super) fn block(number: u32, pack: u32, offset: u64) -> BlockRef {
    let mut id = [0x55; 32];
    id[..4].copy_from_slice(&number.to_le_bytes());
    BlockRef::Stored {
        id: BlockId(id),
        pack,
        offset,
        stored: BLOCK_SIZE,
        encoding: Encoding::Raw,
    }
}

fn entry(path: &str, content: Content) -> FileEntry {
    FileEntry {
        path: path.to_owned(),
        mode: 0o640,
        uid: 1000,
        gid: 1001,
        modified_ms: 1_796_003_055_000,
        content,
    }
}

/// A directory, a file of a raw, a zero and a short compressed block, and a link.
pub(super) fn small() -> Manifest {
    let short = BlockRef::Stored {
        id: BlockId([3; 32]),
        pack: 1,
        offset: PACK_HEADER,
        stored: 10,
        encoding: Encoding::Raw,
    };
    let span = Span {
        size: 2 * u64::from(BLOCK_SIZE) + 10,
        label: Some("gpu 0x1234 0x7f0000000000".to_owned()),
        blocks: Blocks::from(vec![block(1, 0, PACK_HEADER), BlockRef::Zero, short]),
    };
    Manifest {
        id: id("20261130t014415-0123456789ab"),
        created_ms: 1_796_003_055_000,
        parent: Some(id("20261129t014415-0123456789ab")),
        binding: Binding::Pod {
            namespace: "team-a".to_owned(),
            namespace_uid: "2f1c7f0a-7d2c-4a0e-8f0f-4d1e2f3a4b5c".to_owned(),
            pod: "trainer-0".to_owned(),
            container: "main".to_owned(),
        },
        source: Source {
            runtime: Some("runc".to_owned()),
            mounts: vec![Mount {
                destination: "/data".to_owned(),
                source: "/srv/data".to_owned(),
                kind: "bind".to_owned(),
            }],
            cpu_features: vec!["avx2".to_owned()],
            annotations: vec![("a".to_owned(), "b".to_owned())],
            ..Source::default()
        },
        data_key: None,
        packs: vec![pack(0), pack(1)],
        files: vec![
            entry("checkpoint", Content::Directory),
            entry("checkpoint/pages-1.img", Content::Regular(vec![span])),
            entry(
                "checkpoint/last",
                Content::Symlink("pages-1.img".to_owned()),
            ),
        ],
    }
}

/// Its messages: all but the files, and the files.
pub(super) type Messages = (wire::Manifest, Vec<wire::FileEntry>);

pub(super) fn wire(manifest: &Manifest) -> Messages {
    #[derive(Clone, PartialEq, Message)]
    struct Files {
        #[prost(message, repeated, tag = "10")]
        files: Vec<wire::FileEntry>,
    }
    let bytes = manifest.encode().expect("valid");
    let head = wire::Manifest::decode(&*bytes).expect("own");
    (head, Files::decode(&*bytes).expect("own").files)
}

pub(super) fn bytes((head, files): &Messages) -> Vec<u8> {
    let mut bytes = head.encode_to_vec();
    for file in files {
        message::encode(wire::FILES, file, &mut bytes);
    }
    bytes
}

/// What a block is made from: its number, zero or not, its encoding, its pack, and where it is there.
type RawBlock = (u32, bool, bool, u32, u32);

fn any_span() -> impl Strategy<Value = (Vec<RawBlock>, u32, Option<String>)> {
    (
        prop::collection::vec(
            (
                any::<u32>(),
                any::<bool>(),
                any::<bool>(),
                0..5u32,
                0..1_000_000u32,
            ),
            1..80,
        ),
        1..=BLOCK_SIZE,
        prop::option::of("[a-z0-9 ]{1,20}"),
    )
}

fn span(
    (raw, last, label): (Vec<RawBlock>, u32, Option<String>),
    sealed: bool,
    packs: &mut Vec<PackId>,
) -> Span {
    let size = (raw.len() as u64 - 1) * u64::from(BLOCK_SIZE) + u64::from(last);
    let mut span = Span {
        size,
        label,
        blocks: Blocks::new(),
    };
    for (index, (number, zero, zstd, in_pack, offset)) in raw.into_iter().enumerate() {
        let plain = span.block_size(index);
        if zero {
            span.blocks.push(BlockRef::Zero);
            continue;
        }
        let id = pack(in_pack);
        let known = packs.iter().position(|pack| *pack == id);
        let place = known.unwrap_or_else(|| {
            packs.push(id);
            packs.len() - 1
        });
        let encoding = if zstd && plain > 1 {
            Encoding::Zstd
        } else {
            Encoding::Raw
        };
        let overhead = encoding.overhead(sealed);
        let BlockRef::Stored { id, .. } = block(number, 0, 0) else {
            unreachable!("a stored block");
        };
        span.blocks.push(BlockRef::Stored {
            id,
            pack: u32::try_from(place).expect("few packs"),
            offset: PACK_HEADER + u64::from(offset),
            stored: match encoding {
                Encoding::Raw => plain + overhead,
                Encoding::Zstd => overhead + 1 + number % (plain - 1),
            },
            encoding,
        });
    }
    span
}

fn any_binding() -> impl Strategy<Value = Binding> {
    let pod = (
        "[a-z-]{1,63}",
        "[0-9a-f-]{36}",
        "[a-z0-9.-]{1,253}",
        "[a-z]{1,10}",
    );
    prop_oneof![
        Just(Binding::Free),
        pod.prop_map(|(namespace, namespace_uid, pod, container)| Binding::Pod {
            namespace,
            namespace_uid,
            pod,
            container,
        }),
    ]
}

fn any_source() -> impl Strategy<Value = Source> {
    let text = || prop::option::of("[ -~]{1,40}");
    let mount = ("/[a-z/]{0,20}", "[a-z/]{0,20}", "[a-z]{0,8}");
    (
        (
            text(),
            text(),
            text(),
            text(),
            text(),
            text(),
            text(),
            text(),
        ),
        prop::collection::vec(mount, 0..4),
        prop::collection::vec("[a-z0-9_]{1,12}", 0..4),
        prop::collection::btree_map("[a-z./]{1,20}", "\\PC{0,40}", 0..4),
    )
        .prop_map(|(texts, mounts, cpu_features, annotations)| Source {
            runtime: texts.0,
            container_id: texts.1,
            image: texts.2,
            image_digest: texts.3,
            mounts: mounts
                .into_iter()
                .map(|(destination, source, kind)| Mount {
                    destination,
                    source,
                    kind,
                })
                .collect(),
            topology: texts.4,
            cpu_features,
            criu_version: texts.5,
            kernel_version: texts.6,
            node: texts.7,
            annotations: annotations.into_iter().collect(),
        })
}

/// Any manifest that is valid.
pub(super) fn any_manifest() -> impl Strategy<Value = Manifest> {
    let file = (
        any::<prop::sample::Index>(),
        "\\PC{1,12}",
        0..3u8,
        (0..0o10000u32, any::<u32>(), any::<u32>(), 0..1u64 << 47),
        prop::collection::vec(any_span(), 0..3),
    );
    (
        prop::collection::vec(file, 0..8),
        any::<Option<[u8; 8]>>(),
        any::<bool>(),
        any_binding(),
        any_source(),
    )
        .prop_map(|(raw, data_key, parent, binding, source)| {
            let (mut packs, mut files, mut dirs) = (Vec::new(), Vec::new(), vec![String::new()]);
            for (number, (place, name, kind, attributes, spans)) in raw.into_iter().enumerate() {
                let name = name.replace('/', "_");
                let path = format!("{}{name}{number}", dirs[place.index(dirs.len())]);
                let content = match kind {
                    0 => Content::Directory,
                    1 => Content::Symlink("../../etc/passwd".to_owned()),
                    _ => Content::Regular(
                        spans
                            .into_iter()
                            .map(|raw| span(raw, data_key.is_some(), &mut packs))
                            .collect(),
                    ),
                };
                if content == Content::Directory {
                    dirs.push(format!("{path}/"));
                }
                files.push(FileEntry {
                    path,
                    mode: attributes.0,
                    uid: attributes.1,
                    gid: attributes.2,
                    modified_ms: attributes.3,
                    content,
                });
            }
            Manifest {
                id: id("20261130t014415-0123456789ab"),
                created_ms: 5,
                parent: parent.then(|| id("20251130t014415-0123456789ab")),
                binding,
                source,
                data_key: data_key.map(DataKeyId),
                packs,
                files,
            }
        })
}
