//! Whatever is written is read as it was.

use proptest::prelude::*;

use super::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9._-]{1,12}",
        1 => "[a-zäß ]{1,80}",
        1 => "[a-z]{90,120}",
    ]
    .prop_filter("a name", |name| {
        !matches!(name.as_str(), "." | "..") && !name.starts_with(".wh.") && name.len() <= 255
    })
}

type File = (Vec<String>, Vec<u8>, u32, u32, u64);

fn files() -> impl Strategy<Value = Vec<File>> {
    let path = prop::collection::vec(name(), 1..5);
    let sizes = prop_oneof![0usize..3, 500usize..520, 1020usize..1030, 0usize..5000];
    let content = (sizes, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]);
    let owner = prop_oneof![0u32..9, any::<u32>()];
    let time = prop_oneof![0u64..9, 0u64..250_000_000_000];
    prop::collection::vec((path, content, 0u32..0o10000, owner, time), 0..12)
}

fn checkpoint(files: &[File]) -> (Files, BTreeMap<String, (Entry, Vec<u8>)>) {
    let mut all = Files::new(&[
        ("checkpoint/inventory.img", b"inventory"),
        ("config.dump", br#"{"id":"c","rootfsImageName":"a/b:c","rootfsImageRef":"a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000"}"#),
        ("spec.dump", b"{}"),
    ]);
    let mut added = BTreeMap::new();
    for (number, (path, content, mode, owner, time)) in files.iter().enumerate() {
        // Numbered, so that nothing is in the way of anything.
        let path = format!("checkpoint/{number}/{}", path.join("/"));
        all.add(&path, content);
        let entry = all.entries.last_mut().unwrap();
        (entry.mode, entry.uid, entry.gid) = (*mode, *owner, owner.wrapping_add(1));
        entry.modified_ms = time * 1000;
        added.insert(path, (entry.clone(), content.clone()));
    }
    (all, added)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn comes_back(files in files()) {
        let (mut source, added) = checkpoint(&files);
        let (out, memory) = write_all(&mut source, Engine::Containerd, &Facts::default()).unwrap();
        for (path, (entry, content)) in &added {
            let (read_entry, read_content, _) = &memory.files[path];
            prop_assert_eq!((read_entry, read_content), (entry, content));
        }
        // What comes back can be written again: the same bytes.
        let mut again = Files::default();
        for entry in memory.directories.values() {
            again.entries.push(entry.clone());
            again.contents.push(Vec::new());
        }
        for (entry, content, _) in memory.files.values() {
            again.entries.push(entry.clone());
            again.contents.push(content.clone());
        }
        let (twice, _) = write_all(&mut again, Engine::Containerd, &Facts::default()).unwrap();
        prop_assert!(out == twice);
    }

    #[test]
    fn the_tar_crate_agrees(files in files()) {
        let (mut source, added) = checkpoint(&files);
        let (out, _) = write_all(&mut source, Engine::Containerd, &Facts::default()).unwrap();
        let mut archive = tar::Archive::new(&*out);
        let mut found = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some((expected, expected_content)) = added.get(&path) {
                found += 1;
                prop_assert_eq!(&content, expected_content);
                let header = entry.header();
                prop_assert_eq!(header.uid().unwrap(), u64::from(expected.uid));
                prop_assert_eq!(header.mtime().unwrap(), expected.modified_ms / 1000);
            }
        }
        prop_assert_eq!(found, added.len());
    }

    #[test]
    fn broken_ones_are_refused_or_safe(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        end in any::<prop::sample::Index>(),
    ) {
        let tar = Tar::checkpoint()
            .pax(&[("path", "checkpoint/a"), ("size", "700")])
            .file("x", &[3; 700])
            .extension(b'L', b"checkpoint/b")
            .file("x", b"b");
        let mut data = tar.end();
        let at = at.index(data.len());
        data[at] = byte;
        let mut memory = Memory::default();
        let _: Result<Archive, _> = read(&*data, &Limits::default(), &mut memory);
        for path in &memory.order {
            prop_assert!(pathname::check(path).is_ok(), "{path}");
        }
        data.truncate(end.index(data.len()));
        prop_assert!(read_all(&data).is_err());
    }
}
