//! Archives of other engines, and images of them.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};

use rocferry_image::manifest::{Binding, Content as FileContent, Manifest};
use rocferry_store::archive::{
    self, BoxError, Content, Engine, Entry, EntryKind, Facts, ImageNames, Limits, Sink, Source,
};

use crate::Seed;

const BLOCK: usize = 512;

/// Less than by default, so that no input takes long.
const LIMITS: Limits = Limits {
    members: 1 << 14,
    path_bytes: 1 << 20,
    total: 64 << 20,
    expansion: 50,
    unexpanded: 16 << 20,
};

/// Files that are kept up to this size, to be written again.
const KEPT: u64 = 1 << 20;

/// Reads an archive and an image; true if it is one of them. It is taken as it is, and once more with the check
/// sums of all headers put right. No path leads out, everything comes once and whole, a manifest can say what
/// was found, and what can be written for an engine is read again.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let fixed = with_sums(data);
    let all = [data, &fixed];
    let accepted = |data: &&[u8]| read(data) | read_image(data);
    all.iter().filter(|data| accepted(data)).count() > 0
}

fn read(data: &[u8]) -> bool {
    let mut found = Found::new(data);
    match archive::read(data, &LIMITS, &mut found) {
        Ok(archive) => {
            found.check(&archive);
            true
        }
        Err(error) => {
            assert!(error.to_string().len() < 2000, "{error}");
            false
        }
    }
}

fn read_image(data: &[u8]) -> bool {
    let mut found = Found::new(data);
    match archive::read_image(&mut Cursor::new(data), &LIMITS, &mut found) {
        Ok(image) => {
            found.check(&image.archive);
            true
        }
        Err(error) => {
            assert!(error.to_string().len() < 10_000, "{error}");
            false
        }
    }
}

/// The same with right check sums in whatever looks like a header.
fn with_sums(data: &[u8]) -> Vec<u8> {
    let mut fixed = data.to_vec();
    for block in fixed.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    fixed
}

/// What came out of an archive.
struct Found<'a> {
    input: &'a [u8],
    entries: BTreeMap<String, Entry>,
    contents: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl<'a> Found<'a> {
    const fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            entries: BTreeMap::new(),
            contents: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn path(&self, path: &str) {
        assert!(!path.contains('\0') && path.len() <= 4096, "{path:?}");
        assert!(
            path.split('/').all(|part| !matches!(part, "" | "." | "..")),
            "{path:?}"
        );
        if let Some((above, _)) = path.rsplit_once('/') {
            let above = self.entries.get(above).expect("in nothing");
            assert_eq!(above.kind, EntryKind::Directory);
        }
    }

    fn check(&self, archive: &archive::Archive) {
        assert_eq!(archive.members, self.entries.len());
        assert_eq!(archive.bytes, self.bytes);
        for needed in ["config.dump", "spec.dump", "checkpoint/inventory.img"] {
            assert!(matches!(self.entries[needed].kind, EntryKind::File { .. }));
        }
        // Nothing that a manifest could not hold.
        let file = |entry: &Entry| entry.clone().into_file(Vec::new());
        let manifest = Manifest {
            id: crate::manifest::id(),
            created_ms: 1,
            parent: None,
            binding: Binding::Free,
            source: archive.source.clone(),
            data_key: None,
            packs: Vec::new(),
            files: self.entries.values().map(file).collect(),
        };
        manifest.validate().expect("read, then not valid");
        for file in &manifest.files {
            assert!(!matches!(file.content, FileContent::Symlink(_)));
        }
        if self.contents.len() + self.directories() < self.entries.len() {
            return;
        }
        for engine in [Engine::Podman, Engine::CriO, Engine::Containerd] {
            self.write(engine, &Facts::from_source(&archive.source));
        }
    }

    fn directories(&self) -> usize {
        let directory = |entry: &&Entry| entry.kind == EntryKind::Directory;
        self.entries.values().filter(directory).count()
    }

    fn write(&self, engine: Engine, facts: &Facts) {
        let mut files = Files::default();
        for (path, entry) in &self.entries {
            files.entries.push(entry.clone());
            files
                .contents
                .push(self.contents.get(path).cloned().unwrap_or_default());
        }
        let mut out = Vec::new();
        match archive::write(&mut files, engine, facts, &mut out) {
            Ok(written) => {
                assert_eq!(written.bytes, out.len() as u64);
                let mut again = Found::new(&out);
                let read = archive::read(&*out, &LIMITS, &mut again);
                read.expect("written, then refused");
            }
            Err(error) => assert!(error.to_string().len() < 2000, "{error}"),
        }
    }
}

impl Sink for Found<'_> {
    fn directory(&mut self, entry: &Entry) -> Result<(), BoxError> {
        self.path(&entry.path);
        let old = self.entries.insert(entry.path.clone(), entry.clone());
        assert!(
            old.is_none_or(|old| old.kind == EntryKind::Directory),
            "twice"
        );
        Ok(())
    }

    fn file(&mut self, entry: &Entry, mut content: Content<'_>) -> Result<(), BoxError> {
        self.path(&entry.path);
        let old = self.entries.insert(entry.path.clone(), entry.clone());
        assert!(old.is_none(), "twice");
        let offset = content.offset();
        let mut kept = Vec::new();
        let mut size = 0u64;
        let mut buf = [0; 4096];
        loop {
            let read = content.read(&mut buf)?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if size <= KEPT {
                kept.extend_from_slice(&buf[..read]);
            }
        }
        assert_eq!(size, entry.size(), "{:?}", entry.path);
        assert!(size <= LIMITS.total);
        if let Some(offset) = offset {
            let offset = usize::try_from(offset).expect("an offset");
            assert!(self.input[offset..].starts_with(&kept), "{:?}", entry.path);
        }
        if size <= KEPT {
            self.contents.insert(entry.path.clone(), kept);
        }
        self.bytes += size;
        Ok(())
    }
}

/// A checkpoint in memory.
#[derive(Default)]
struct Files {
    entries: Vec<Entry>,
    contents: Vec<Vec<u8>>,
}

impl Source for Files {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn open(&mut self, index: usize) -> Result<Box<dyn Read + '_>, BoxError> {
        Ok(Box::new(&*self.contents[index]))
    }
}

const CONFIG: &str = r#"{"id":"c1","name":"web","rootfsImageName":"images.example/app:1","runtime":"runc","staticDir":"/x",
"rootfsImageID":"1111111111111111111111111111111111111111111111111111111111111111"}"#;
const SPEC: &str = r#"{"annotations":{"io.kubernetes.cri-o.Annotations":"{\"a\":\"b\"}","k":"v"},
"mounts":[{"destination":"/data","type":"bind","source":"/srv"}]}"#;

fn sample() -> Files {
    let mut files = Files::default();
    let diff = tar(|tar| add(tar, "etc/new", b"new"));
    let contents: [(&str, &[u8]); 7] = [
        ("checkpoint/inventory.img", b"inventory"),
        ("checkpoint/pages-1.img", &[7; 1500]),
        ("config.dump", CONFIG.as_bytes()),
        ("deleted.files", b"[\"/etc/old\"]"),
        ("dump.log", b"log"),
        ("rootfs-diff.tar", &diff),
        ("spec.dump", SPEC.as_bytes()),
    ];
    for (path, content) in contents {
        files.entries.push(Entry {
            path: path.to_owned(),
            mode: 0o600,
            uid: 0,
            gid: 0,
            modified_ms: 1000,
            kind: EntryKind::File {
                size: content.len() as u64,
            },
        });
        files.contents.push(content.to_vec());
    }
    files
}

fn facts() -> Facts {
    Facts {
        image_digest: Some(format!("sha256:{}", "2".repeat(64))),
        ..Facts::default()
    }
}

fn tar(fill: impl Fn(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    fill(&mut builder);
    builder.into_inner().expect("memory")
}

fn add(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    builder
        .append_data(&mut header, path, content)
        .expect("memory");
}

fn base(builder: &mut tar::Builder<Vec<u8>>) {
    add(builder, "config.dump", CONFIG.as_bytes());
    add(builder, "spec.dump", SPEC.as_bytes());
    add(builder, "checkpoint/inventory.img", b"inventory");
}

/// Archives for and of each engine, compressed and not, with all that extends headers, and an image.
///
/// # Panics
/// Never: they are valid.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let written = |engine| {
        let mut out = Vec::new();
        archive::write(&mut sample(), engine, &facts(), &mut out).expect("complete");
        out
    };
    let extended = tar(|tar| {
        base(tar);
        let keys: [(&str, &[u8]); 3] = [
            ("mtime", b"1.5"),
            ("size", b"5"),
            ("SCHILY.xattr.user.a", b"b"),
        ];
        tar.append_pax_extensions(keys).expect("memory");
        add(tar, "dump.log", b"12345");
        add(tar, &format!("checkpoint/{}", "n".repeat(150)), b"long");
        add(tar, "status.dump", b"{\"id\":\"c1\"}");
    });
    let sparse = tar(|tar| {
        base(tar);
        let keys: [(&str, &[u8]); 4] = [
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"checkpoint/pages-1.img"),
            ("GNU.sparse.realsize", b"20000"),
        ];
        tar.append_pax_extensions(keys).expect("memory");
        let mut content = b"2\n512\n4\n9000\n4\n".to_vec();
        content.resize(BLOCK, 0);
        content.extend_from_slice(b"onestwos");
        add(tar, "checkpoint/GNUSparseFile.0/pages-1.img", &content);
    });
    let gnu_sparse = tar(|tar| {
        base(tar);
        let mut header = tar::Header::new_gnu();
        header.set_path("checkpoint/pages-1.img").expect("short");
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_size(4);
        header.set_mode(0o600);
        if let Some(gnu) = header.as_gnu_mut() {
            gnu.sparse[0].offset = *b"00000001000\0";
            gnu.sparse[0].numbytes = *b"00000000004\0";
            gnu.realsize = *b"00000002000\0";
        }
        header.set_cksum();
        tar.append(&header, &b"ones"[..]).expect("memory");
    });
    let crio = written(Engine::CriO);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&crio).expect("memory");
    let mut image = Cursor::new(Vec::new());
    let names = ImageNames::default();
    archive::write_image(&mut sample(), Engine::CriO, &facts(), &names, &mut image)
        .expect("complete");
    let seeds = [
        ("podman", written(Engine::Podman)),
        ("containerd", written(Engine::Containerd)),
        ("gzip", gzip.finish().expect("memory")),
        ("zstd", zstd::bulk::compress(&crio, 1).expect("memory")),
        ("crio", crio),
        ("extended", extended),
        ("sparse", sparse),
        ("gnu-sparse", gnu_sparse),
        ("image", image.into_inner()),
    ];
    let seed = |(name, content): (&str, Vec<u8>)| Seed {
        name: name.to_owned(),
        content,
    };
    seeds.into_iter().map(seed).collect()
}

/// What is hard to guess.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let words = [
        "ustar\0",
        "ustar  \0",
        "../",
        "/",
        "./",
        ".wh.",
        ".wh..wh..opq",
        "././@LongLink",
        "config.dump",
        "spec.dump",
        "status.dump",
        "checkpoint/inventory.img",
        "deleted.files",
        "rootfs-diff.tar",
        "cdi.k8s.io/",
        "CDIDevices",
        "io.kubernetes.cri-o.Annotations",
        "12 path=a/b\n",
        "12 size=512\n",
        "22 GNU.sparse.major=1\n",
        "22 GNU.sparse.minor=0\n",
        "24 GNU.sparse.name=evil\n",
        "index.json",
        "oci-layout",
        "blobs/sha256/",
        "\x1f\x7f",
    ];
    words.map(|word| word.as_bytes().to_vec()).to_vec()
}
