//! Archives in memory, made block by block.

mod conversion;
mod hostile;
mod images;
mod properties;
mod reading;
mod tools;

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use super::*;

/// A tar, made without the code that is tested.
#[derive(Clone, Default)]
struct Tar(Vec<u8>);

impl Tar {
    /// The least that is taken for a checkpoint.
    fn checkpoint() -> Self {
        Self::default()
            .file(
                "config.dump",
                br#"{"id":"c1","name":"n","rootfsImageName":"example/a:1"}"#,
            )
            .file("spec.dump", b"{}")
            .file("checkpoint/inventory.img", b"inventory")
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        self.raw(
            &header(name.as_bytes(), b'0', content.len() as u64),
            content,
        )
    }

    fn member(self, name: &str, kind: u8) -> Self {
        self.raw(&header(name.as_bytes(), kind, 0), b"")
    }

    /// An extension header.
    fn extension(self, kind: u8, content: &[u8]) -> Self {
        self.raw(&header(b"extension", kind, content.len() as u64), content)
    }

    fn pax(self, records: &[(&str, &str)]) -> Self {
        let record = |(key, value): &(&str, &str)| pax_record(key, value);
        let all: Vec<u8> = records.iter().flat_map(record).collect();
        self.extension(b'x', &all)
    }

    fn raw(mut self, header: &[u8; BLOCK], content: &[u8]) -> Self {
        self.0.extend_from_slice(header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

/// A header in the format ustar.
fn header(name: &[u8], kind: u8, size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000640\0");
    header[108..116].copy_from_slice(b"0000007\0");
    header[116..124].copy_from_slice(b"0000010\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000001750\0");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    sum(&mut header);
    header
}

/// The same in GNU's.
fn gnu(name: &[u8], kind: u8, size: u64) -> [u8; BLOCK] {
    let mut header = header(name, kind, size);
    header[257..265].copy_from_slice(b"ustar  \0");
    sum(&mut header);
    header
}

fn sum(header: &mut [u8; BLOCK]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// What a sink was given.
#[derive(Debug, Default)]
struct Memory {
    directories: BTreeMap<String, Entry>,
    files: BTreeMap<String, (Entry, Vec<u8>, Option<u64>)>,
    order: Vec<String>,
}

impl Sink for Memory {
    fn directory(&mut self, entry: &Entry) -> Result<(), BoxError> {
        self.order.push(entry.path.clone());
        self.directories.insert(entry.path.clone(), entry.clone());
        Ok(())
    }

    fn file(&mut self, entry: &Entry, mut content: Content<'_>) -> Result<(), BoxError> {
        let offset = content.offset();
        let mut data = Vec::new();
        content.read_to_end(&mut data)?;
        self.order.push(entry.path.clone());
        let old = self
            .files
            .insert(entry.path.clone(), (entry.clone(), data, offset));
        assert!(old.is_none(), "{} came twice", entry.path);
        Ok(())
    }
}

impl Memory {
    fn content(&self, path: &str) -> &[u8] {
        &self.files[path].1
    }

    fn text(&self, path: &str) -> &str {
        std::str::from_utf8(self.content(path)).unwrap()
    }

    fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_slice(self.content(path)).unwrap()
    }
}

fn read_all(data: &[u8]) -> Result<(Archive, Memory), ReadError> {
    let mut memory = Memory::default();
    let archive = read(data, &Limits::default(), &mut memory)?;
    Ok((archive, memory))
}

/// A checkpoint in memory.
#[derive(Clone, Debug, Default)]
struct Files {
    entries: Vec<Entry>,
    contents: Vec<Vec<u8>>,
}

impl Files {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let mut all = Self::default();
        for (path, content) in files {
            all.add(path, content);
        }
        all
    }

    fn add(&mut self, path: &str, content: &[u8]) {
        let size = content.len() as u64;
        self.push(path, EntryKind::File { size }, content);
    }

    fn push(&mut self, path: &str, kind: EntryKind, content: &[u8]) {
        self.entries.push(Entry {
            path: path.to_owned(),
            mode: 0o600,
            uid: 3,
            gid: 4,
            modified_ms: 5000,
            kind,
        });
        self.contents.push(content.to_vec());
    }
}

impl Source for Files {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn open(&mut self, index: usize) -> Result<Box<dyn Read + '_>, BoxError> {
        Ok(Box::new(Cursor::new(&self.contents[index])))
    }
}

fn write_all(
    files: &mut Files,
    engine: Engine,
    facts: &Facts,
) -> Result<(Vec<u8>, Memory), WriteError> {
    let mut out = Vec::new();
    let written = write(files, engine, facts, &mut out)?;
    assert_eq!(written.bytes, out.len() as u64);
    let (archive, memory) = read_all(&out).unwrap();
    assert!(archive.members >= written.members);
    Ok((out, memory))
}

/// Text of an error and what is behind it.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}
