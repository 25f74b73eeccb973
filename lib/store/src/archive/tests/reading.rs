//! What is read, and what is found out about it.

use super::*;

#[test]
fn members_come_as_they_are() {
    let pax_time = [
        ("mtime", "12.0459"),
        ("uid", "1000"),
        ("SCHILY.xattr.a", "b\nc"),
    ];
    let mut crio = Tar::default()
        .member("./", b'5')
        .file("./checkpoint/pages-1.img", &[7; 1000])
        .member("./checkpoint/", b'5')
        .file("checkpoint/inventory.img", b"i");
    crio = crio.file("config.dump", b"{}").file("spec.dump", b"{}");
    crio = crio.pax(&pax_time).file("rootfs-diff.tar", b"opaque");
    crio = crio
        .extension(b'g', &pax_record("comment", "c"))
        .file("deleted.files", b"");
    let data = crio.end();
    let (archive, memory) = read_all(&data).unwrap();
    assert_eq!((archive.members, archive.bytes), (7, 1000 + 1 + 2 + 2 + 6));
    assert_eq!(archive.compression, Compression::None);
    // It was made up, and then it was there.
    assert_eq!(
        memory.order[..3],
        ["checkpoint", "checkpoint/pages-1.img", "checkpoint"]
    );
    assert_eq!(memory.directories["checkpoint"].mode, 0o640);
    let (entry, content, offset) = &memory.files["checkpoint/pages-1.img"];
    assert_eq!((entry.mode, entry.uid, entry.gid), (0o640, 7, 8));
    assert_eq!((entry.modified_ms, entry.size()), (1_000_000, 1000));
    assert_eq!(content, &[7; 1000]);
    for (_, content, offset) in memory.files.values() {
        let offset = usize::try_from(offset.unwrap()).unwrap();
        assert_eq!(&data[offset..offset + content.len()], content);
    }
    assert_eq!(*offset, Some(1024));
    let (entry, ..) = &memory.files["rootfs-diff.tar"];
    assert_eq!((entry.uid, entry.modified_ms), (1000, 12_045));

    // Compressed, the same without offsets.
    for compressed in [gzip(&data), zstd::bulk::compress(&data, 3).unwrap()] {
        let (again, other) = read_all(&compressed).unwrap();
        assert_ne!(again.compression, Compression::None);
        assert_eq!(
            (again.members, again.bytes),
            (archive.members, archive.bytes)
        );
        assert_eq!(other.order, memory.order);
        for (path, (entry, content, offset)) in &other.files {
            let (other_entry, other_content, _) = &memory.files[path];
            assert_eq!(
                (entry, content, *offset),
                (other_entry, other_content, None)
            );
        }
    }
    // In several pieces, as pigz and zstd write them.
    let (one, two) = data.split_at(700);
    let pieces = [gzip(one), gzip(two)].concat();
    assert_eq!(read_all(&pieces).unwrap().1.order, memory.order);
}

#[test]
fn large_files_need_no_memory() {
    /// A checkpoint with a file of 9 GiB of ones that nobody keeps.
    struct Ones(u64);
    impl Read for Ones {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let read = buf.len().min(usize::try_from(self.0).unwrap());
            buf[..read].fill(1);
            self.0 -= read as u64;
            Ok(read)
        }
    }
    struct Passes(u64);
    impl Sink for Passes {
        fn directory(&mut self, _: &Entry) -> Result<(), BoxError> {
            Ok(())
        }
        fn file(&mut self, entry: &Entry, _: Content<'_>) -> Result<(), BoxError> {
            self.0 = self.0.max(entry.size());
            Ok(())
        }
    }
    let size = (1u64 << 33) + 512;
    let text = size.to_string();
    // As Go and GNU tar write it: in PAX, and as a binary number.
    let pax = Tar::checkpoint()
        .pax(&[("size", &text)])
        .member("large", b'0')
        .0;
    let mut binary = gnu(b"large", b'0', 0);
    binary[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2, 0]);
    sum(&mut binary);
    let binary = Tar::checkpoint().raw(&binary, b"").0;
    for start in [pax, binary] {
        let whole = start.chain(Ones(size)).chain(&[0; 1024][..]);
        let mut sink = Passes(0);
        let archive = read(whole, &Limits::default(), &mut sink).unwrap();
        assert_eq!((sink.0, archive.members), (size, 5));
    }
}

#[test]
fn holes_are_zeros() {
    // GNU's own format, more parts than its header has room for.
    let parts: Vec<(u64, u64)> = (0..30).map(|part| (part * 1000, 512)).collect();
    let content: Vec<u8> = (1..=30).flat_map(|part| [part; 512]).collect();
    let number = |value: u64| format!("{value:011o}\0").into_bytes();
    let place = |block: &mut [u8], parts: &[(u64, u64)]| {
        for (slot, (offset, length)) in block.chunks_mut(24).zip(parts) {
            slot[..12].copy_from_slice(&number(*offset));
            slot[12..].copy_from_slice(&number(*length));
        }
    };
    let mut first = gnu(b"sparse", b'S', content.len() as u64);
    place(&mut first[386..482], &parts[..4]);
    first[482] = 1;
    first[483..495].copy_from_slice(&number(29_900));
    sum(&mut first);
    let (mut second, mut third) = ([0; BLOCK], [0; BLOCK]);
    place(&mut second[..504], &parts[4..25]);
    second[504] = 1;
    place(&mut third[..504], &parts[25..]);
    let gnu = Tar::checkpoint()
        .raw(&first, b"")
        .raw(&second, b"")
        .raw(&third, &content);

    let mut lines = "30\n".to_owned();
    for (offset, length) in &parts {
        lines += &format!("{offset}\n{length}\n");
    }
    let mut stored = lines.into_bytes();
    stored.resize(stored.len().next_multiple_of(BLOCK), 0);
    stored.extend_from_slice(&content);
    let keys = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "sparse"),
        ("GNU.sparse.realsize", "29900"),
    ];
    let pax = Tar::checkpoint()
        .pax(&keys)
        .file("GNUSparseFile.0/sparse", &stored);

    let mut expected = vec![0; 29_900];
    for ((offset, _), content) in parts.iter().zip(content.chunks(512)) {
        let offset = usize::try_from(*offset).unwrap();
        expected[offset..offset + 512].copy_from_slice(content);
    }
    for tar in [gnu, pax] {
        // What follows is found as well.
        let (archive, memory) = read_all(&tar.file("next", b"next").end()).unwrap();
        let (entry, content, offset) = &memory.files["sparse"];
        assert_eq!((entry.size(), *offset), (29_900, None));
        assert!(*content == expected);
        assert_eq!(memory.text("next"), "next");
        assert_eq!(archive.members, 6);
    }
}

#[test]
fn the_sink_may_refuse_or_pass_over() {
    struct Stops;
    impl Sink for Stops {
        fn directory(&mut self, _: &Entry) -> Result<(), BoxError> {
            Ok(())
        }
        fn file(&mut self, entry: &Entry, _: Content<'_>) -> Result<(), BoxError> {
            match entry.path.as_str() {
                "spec.dump" => Err("no room".into()),
                _ => Ok(()),
            }
        }
    }
    let data = Tar::checkpoint().end();
    let error = read(&*data, &Limits::default(), &mut Stops).expect_err("stops");
    assert_eq!(
        whole(&error),
        "Member \"spec.dump\" cannot be taken: no room"
    );
}

#[test]
fn engines_are_told_apart() {
    let digest = "ab".repeat(32);
    let config = format!(
        r#"{{"id":"c1","name":"web","rootfsImageName":"images.example/a:1","runtime":"runc",
        "rootfsImageRef":"images.example/a@sha256:{digest}","createdTime":"2026-01-01T00:00:00Z",
        "checkpointedTime":5,"other":[1,2,{{}}]}}"#
    );
    let spec = r#"{"annotations":{"io.container.manager":"cri-o","k":"v"},
        "mounts":[{"destination":"/data","type":"bind","source":"/srv","options":["ro"]},
        {"type":"x"}],"process":{"args":["sh"]}}"#;
    let tar = |config: &str, spec: &str| {
        Tar::default()
            .file("config.dump", config.as_bytes())
            .file("spec.dump", spec.as_bytes())
            .file("checkpoint/inventory.img", b"i")
    };
    let (archive, _) = read_all(&tar(&config, spec).end()).unwrap();
    assert_eq!(archive.origin, Origin::CriO);
    let source = archive.source;
    assert_eq!(source.container_id.as_deref(), Some("c1"));
    assert_eq!(source.image.as_deref(), Some("images.example/a:1"));
    assert_eq!(source.image_digest, Some(format!("sha256:{digest}")));
    assert_eq!(source.runtime.as_deref(), Some("runc"));
    assert_eq!(source.mounts.len(), 1);
    assert_eq!(source.mounts[0].source, "/srv");
    let annotations: BTreeMap<_, _> = source.annotations.into_iter().collect();
    assert_eq!(annotations["k"], "v");
    assert_eq!(annotations[CONTAINER_NAME], "web");
    assert_eq!(annotations[CREATED_AT], "2026-01-01T00:00:00Z");
    assert!(!annotations.contains_key(CHECKPOINTED_AT));
    assert_eq!(annotations[ORIGIN], "cri-o");

    let origin = |tar: Tar| read_all(&tar.end()).unwrap().0.origin;
    assert_eq!(origin(tar("{}", "{}")), Origin::Unknown);
    let libpod = r#"{"annotations":{"io.container.manager":"libpod"}}"#;
    assert_eq!(origin(tar("{}", libpod)), Origin::Podman);
    let crio = r#"{"annotations":{"io.kubernetes.cri-o.Annotations":"{}"}}"#;
    assert_eq!(origin(tar("{}", crio)), Origin::CriO);
    assert_eq!(
        origin(tar("{}", "{}").file("status.dump", b"{}")),
        Origin::Containerd
    );
    let own = r#"{"checkpointedBy":"rocferry"}"#;
    assert_eq!(origin(tar(own, libpod)), Origin::Rocferry);
    let (archive, _) =
        read_all(&tar("{}", "{\"mounts\":null,\"annotations\":null}").end()).unwrap();
    assert_eq!(archive.source.container_id, None);
    assert_eq!(
        archive.source.annotations,
        [(ORIGIN.to_owned(), "unknown".to_owned())]
    );
}
