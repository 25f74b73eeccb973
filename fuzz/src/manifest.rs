//! Manifests of checkpoints: files, spans, blocks.

use rocferry_image::manifest::{
    BLOCK_SIZE, Binding, BlockId, BlockRef, Blocks, CheckpointId, Content, DataKeyId, Encoding,
    FileEntry, Manifest, Mount, PACK_HEADER, PackId, Source, Span,
};

use crate::Seed;

/// Decodes a manifest; true if it is one. What is accepted can be written, and is the same after that.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let manifest = match Manifest::decode(data) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert!(error.to_string().len() < 2000, "{error}");
            return false;
        }
    };
    check(&manifest);
    let written = manifest.encode().expect("accepted, then not valid");
    assert_eq!(Manifest::decode(&written).as_ref(), Ok(&manifest));
    true
}

/// What readers of a manifest rely on.
pub(crate) fn check(manifest: &Manifest) {
    for file in &manifest.files {
        assert!(!file.path.starts_with('/'));
        assert!(
            file.path
                .split('/')
                .all(|part| !matches!(part, "" | "." | ".."))
        );
        let mut end = 0;
        for placed in file.blocks() {
            assert_eq!(placed.position, end);
            assert!((1..=BLOCK_SIZE).contains(&placed.size));
            end += u64::from(placed.size);
            if let BlockRef::Stored { pack, .. } = placed.block {
                assert!((*pack as usize) < manifest.packs.len());
            }
        }
        assert_eq!(end, file.size());
    }
    let totals = manifest.totals();
    assert!(totals.zero <= totals.plain);
    assert_eq!(totals.files, manifest.files.len() as u64);
}

/// Checkpoints with and without sealing, of files of every kind.
///
/// # Panics
/// Never: they are valid.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let seed = |(name, manifest): (&str, Manifest)| Seed {
        name: name.to_owned(),
        content: manifest.encode().expect("valid"),
    };
    samples().into_iter().map(seed).collect()
}

/// Of all these, the name.
pub(crate) fn id() -> CheckpointId {
    "20261130t014415-0123456789ab".parse().expect("id")
}

pub(crate) fn samples() -> Vec<(&'static str, Manifest)> {
    let plain = sample(None);
    let mut free = plain.clone();
    free.binding = Binding::Free;
    free.source = Source::default();
    let mut empty = free.clone();
    empty.packs.clear();
    empty.files.clear();
    let sealed = sample(Some(DataKeyId([7; 8])));
    vec![
        ("plain", plain),
        ("free", free),
        ("empty", empty),
        ("sealed", sealed),
    ]
}

pub(crate) fn sample(data_key: Option<DataKeyId>) -> Manifest {
    let sealed = data_key.is_some();
    let stored = |number: u8, encoding: Encoding, plain: u32| BlockRef::Stored {
        id: BlockId([number; 32]),
        pack: u32::from(number % 2),
        offset: PACK_HEADER + u64::from(number) * 5_000_000,
        stored: match encoding {
            Encoding::Raw => plain + encoding.overhead(sealed),
            Encoding::Zstd => plain / 2 + encoding.overhead(sealed),
        },
        encoding,
    };
    let blocks = vec![
        stored(0, Encoding::Raw, BLOCK_SIZE),
        BlockRef::Zero,
        stored(1, Encoding::Zstd, BLOCK_SIZE),
        stored(2, Encoding::Raw, 100),
    ];
    let spans = vec![
        Span {
            size: u64::from(BLOCK_SIZE) * 3 + 100,
            label: Some("gpu 0x1234 0x7f0000000000".to_owned()),
            blocks: blocks.into(),
        },
        Span {
            size: u64::from(BLOCK_SIZE) * 20,
            label: None,
            blocks: Blocks::zero(20),
        },
    ];
    let file = |path: &str, content| FileEntry {
        path: path.to_owned(),
        mode: 0o644,
        uid: 0,
        gid: 1000,
        modified_ms: 1_796_003_055_000,
        content,
    };
    Manifest {
        id: id(),
        created_ms: 1_796_003_055_000,
        parent: "20261129t014415-0123456789ab".parse().ok(),
        binding: Binding::Pod {
            namespace: "team-a".to_owned(),
            namespace_uid: "2f1c7f0a-7d2c-4a0e-8f0f-4d1e2f3a4b5c".to_owned(),
            pod: "trainer-0".to_owned(),
            container: "main".to_owned(),
        },
        source: Source {
            runtime: Some("runc".to_owned()),
            container_id: Some("0123abcd".to_owned()),
            image: Some("registry/image:1".to_owned()),
            image_digest: Some("sha256:00".to_owned()),
            mounts: vec![Mount {
                destination: "/data".to_owned(),
                source: "/srv".to_owned(),
                kind: "bind".to_owned(),
            }],
            topology: Some("{}".to_owned()),
            cpu_features: vec!["avx2".to_owned()],
            criu_version: Some("4.1".to_owned()),
            kernel_version: Some("6.12.48".to_owned()),
            node: Some("node-1".to_owned()),
            annotations: vec![("name".to_owned(), "value".to_owned())],
        },
        data_key,
        packs: vec![PackId([1; 16]), PackId([2; 16])],
        files: vec![
            file("checkpoint", Content::Directory),
            file("checkpoint/pages-1.img", Content::Regular(spans)),
            file("checkpoint/empty", Content::Regular(Vec::new())),
            file("last", Content::Symlink("checkpoint".to_owned())),
        ],
    }
}
