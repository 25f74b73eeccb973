//! What the fuzzer calls, and what it starts from. See README.md.
//!
//! One module for each target: `run` takes one input, says whether it was accepted, and panics where a promise
//! is broken; `seeds` are inputs that are accepted, `words` pieces that a fuzzer would hardly guess.
#![forbid(unsafe_code)]

pub mod archive;
mod checks;
pub mod compact;
pub mod envelope;
pub mod kfd_image;
pub mod manifest;
pub mod matching;
pub mod pack_index;
pub mod sysfs;
mod system;
pub mod task_record;
#[path = "../../lib/topology/tests/trees/mod.rs"]
mod trees;

use rocferry_topology::{System, UserGpuId};

/// Larger inputs are slow and show nothing that smaller ones do not.
pub const MAX_SEED: usize = 64 * 1024;

/// An input to start from.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Name of its file.
    pub name: String,
    /// The input.
    pub content: Vec<u8>,
}

/// A target without its program.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of the program.
    pub name: &'static str,
    /// Takes one input. True if it was accepted.
    pub run: fn(&[u8]) -> bool,
    /// What to start from.
    pub seeds: fn() -> Vec<Seed>,
    /// Pieces of inputs.
    pub words: fn() -> Vec<Vec<u8>>,
}

/// All targets, sorted.
pub const TARGETS: &[Target] = &[
    Target {
        name: "archive",
        run: archive::run,
        seeds: archive::seeds,
        words: archive::words,
    },
    Target {
        name: "compact",
        run: compact::run,
        seeds: compact::seeds,
        words: compact::words,
    },
    Target {
        name: "envelope",
        run: envelope::run,
        seeds: envelope::seeds,
        words: envelope::words,
    },
    Target {
        name: "kfd-image",
        run: kfd_image::run,
        seeds: kfd_image::seeds,
        words: Vec::new,
    },
    Target {
        name: "manifest",
        run: manifest::run,
        seeds: manifest::seeds,
        words: Vec::new,
    },
    Target {
        name: "matching",
        run: matching::run,
        seeds: matching::seeds,
        words: compact::words,
    },
    Target {
        name: "pack-index",
        run: pack_index::run,
        seeds: pack_index::seeds,
        words: pack_index::words,
    },
    Target {
        name: "sysfs",
        run: sysfs::run,
        seeds: sysfs::seeds,
        words: sysfs::words,
    },
    Target {
        name: "task-record",
        run: task_record::run,
        seeds: task_record::seeds,
        words: Vec::new,
    },
];

/// Numbers at the edges of what fits, which bytes at random seldom make.
fn edges() -> Vec<Vec<u8>> {
    let edges = [
        "0",
        "4095",
        "4096",
        "4294967295",
        "4294967296",
        "18446744073709551615",
        "18446744073709551616",
    ];
    edges.iter().map(|edge| edge.as_bytes().to_vec()).collect()
}

/// The machines of the trees, as a checkpoint of a process that uses all GPUs would hold them.
fn checkpoints() -> Vec<(String, System<UserGpuId>)> {
    let rename = |(name, files): (String, trees::Files)| {
        let system = System::from_files(&files).expect("a tree that is tested elsewhere");
        (name, system.rename(|gpu| Some(UserGpuId(gpu.id.get()))))
    };
    trees::all().into_iter().map(rename).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_are_accepted_and_differ() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() >= 4, "{}", target.name);
            let names: BTreeSet<_> = seeds.iter().map(|seed| &seed.name).collect();
            assert_eq!(names.len(), seeds.len(), "{}", target.name);
            for seed in &seeds {
                assert!(seed.content.len() <= MAX_SEED, "{}", seed.name);
                assert!((target.run)(&seed.content), "{}", seed.name);
                // Cut off, and with one byte changed: what the fuzzer does first.
                (target.run)(&seed.content[..seed.content.len() / 2]);
                let mut changed = seed.content.clone();
                changed[seed.content.len() / 3] ^= 0x11;
                (target.run)(&changed);
            }
            assert!(!(target.run)(b""), "{}", target.name);
        }
    }

    #[test]
    fn each_target_has_its_program() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/targets");
        let mut programs: Vec<String> = std::fs::read_dir(dir)
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name())
            .map(|name| name.to_string_lossy().trim_end_matches(".rs").to_owned())
            .collect();
        programs.sort();
        let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(programs, targets);
        let manifest = include_str!("../Cargo.toml");
        for name in targets {
            let path = format!("path = \"targets/{name}.rs\"");
            assert!(manifest.contains(&path), "{name} is no [[bin]]");
        }
    }
}
