//! The topology trees of sysfs.
//!
//! An input is text, so that a reproducer can be read and becomes a test by copying: a line `== PATH` begins a
//! file whose content is all up to the next such line, `=! PATH` is a file that may not be read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rocferry_topology::{
    ActualGpuId, Checks, CompactTopology, Matcher, Mode, Node, System, UserGpuId,
};

use crate::system::check;
use crate::trees::{self, Files};
use crate::{Seed, edges};

/// The files that an input stands for.
pub(crate) fn parse(data: &[u8]) -> Files {
    let mut files = Files::new();
    let mut current: Option<PathBuf> = None;
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let path = |line: &[u8]| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            PathBuf::from(OsStr::from_bytes(line))
        };
        if let Some(line) = line.strip_prefix(b"== ") {
            files.insert(path(line), Some(Vec::new()));
            current = Some(path(line));
        } else if let Some(line) = line.strip_prefix(b"=! ") {
            files.insert(path(line), None);
            current = None;
        } else if let Some(Some(content)) = current.as_ref().and_then(|path| files.get_mut(path)) {
            content.extend_from_slice(line);
        }
    }
    files
}

/// The input that stands for these files.
pub(crate) fn print(files: &Files) -> Vec<u8> {
    let mut text = Vec::new();
    for (path, content) in files {
        text.extend_from_slice(if content.is_some() { b"== " } else { b"=! " });
        text.extend(path.clone().into_os_string().into_vec());
        text.push(b'\n');
        text.extend(content.iter().flatten());
    }
    text
}

/// Reads a tree; true if it can be read. What is read must be in order, whatever the tree says.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let files = parse(data);
    match System::from_files(&files) {
        Ok(system) => {
            check(&system);
            check_compact(&system);
            check_match(&system);
            assert_eq!(System::from_files(&files).ok(), Some(system));
            true
        }
        // A message is for a terminal: names and one line of the file, never the file.
        Err(error) => {
            let longest = files.keys().map(|path| path.as_os_str().len()).max();
            // A byte that has to be escaped takes several.
            let limit = 1000 + 10 * longest.unwrap_or_default();
            assert!(error.to_string().len() <= limit, "{error}");
            false
        }
    }
}

/// The published form keeps everything but the order of links.
fn check_compact(system: &System) {
    let published = CompactTopology::from(system);
    let again = System::try_from(&published).expect("written by us");
    let mut expected = system.clone();
    for node in &mut expected.nodes {
        let links = match node {
            Node::Cpu(cpu) => &mut cpu.links,
            Node::Gpu(gpu) => &mut gpu.links,
        };
        links.sort_by_key(|link| (link.kind, link.to));
    }
    assert_eq!(again, expected);
}

/// Whatever the machine: what was checkpointed on it can be restored on it, without any change.
fn check_match(system: &System) {
    let source = system.rename(|gpu| Some(UserGpuId(gpu.id.get())));
    // More GPUs or CPUs than can be matched.
    let Ok(matcher) = Matcher::new(&source, Checks::default()) else {
        return;
    };
    let usable: Vec<ActualGpuId> = system.gpus().map(|gpu| gpu.id).collect();
    let mapping = matcher.map(system, &usable, Mode::All);
    let mapping = mapping.unwrap_or_else(|rejection| panic!("{rejection}"));
    assert!(mapping.is_identity());
}

/// Larger trees take many times as long and show little more.
const MAX_TREE: usize = 12 * 1024;

/// Real machines, and one of them as a container sees it.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = trees::all()
        .into_iter()
        .map(|(name, files)| Seed {
            name,
            content: print(&files),
        })
        .collect();
    let mut masked = trees::tree("mi210-pair");
    for (path, content) in &mut masked {
        if path.starts_with("nodes/3") {
            *content = None;
        }
    }
    seeds.push(Seed {
        name: "masked".to_owned(),
        content: print(&masked),
    });
    seeds.retain(|seed| seed.content.len() <= MAX_TREE);
    seeds
}

/// Lines of one tree, names, numbers, and each gpu_id for each node: two with the same one are a case of its own.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let files = trees::tree("mi210-pair");
    let text = print(&files);
    let mut words: BTreeSet<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .flat_map(|line| [line.to_vec(), [b"\n", line, b"\n"].concat()])
        .chain(text.split(|byte| b"\n ".contains(byte)).map(<[u8]>::to_vec))
        .chain(edges())
        .chain([b"\n=! ".to_vec()])
        .collect();
    let ids = |path: &PathBuf| path.ends_with("gpu_id");
    let ids: Vec<&PathBuf> = files.keys().filter(|path| ids(path)).collect();
    for (path, id) in ids
        .iter()
        .flat_map(|path| ids.iter().map(move |id| (path, id)))
    {
        let file = Files::from([((*path).clone(), files[*id].clone())]);
        words.insert(print(&file));
    }
    words.retain(|word| !word.is_empty() && word.len() <= 64);
    words.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_stand_for_files() {
        let files = parse(b"lost\n== a/b\nx 1\n\ny\n=! c\nlost\n== d\n== a/e\nend");
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let expected = [
            ("a/b", text("x 1\n\ny\n")),
            ("a/e", text("end")),
            ("c", None),
            ("d", text("")),
        ];
        let expected: Files = expected.map(|(path, text)| (path.into(), text)).into();
        assert_eq!(files, expected);
    }

    #[test]
    fn every_machine_comes_back() {
        for (name, files) in trees::all() {
            assert_eq!(parse(&print(&files)), files, "{name}");
        }
    }
}
