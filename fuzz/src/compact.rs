//! The compact form that a node of a cluster publishes, as JSON.

use std::collections::BTreeSet;

use rocferry_topology::{CompactTopology, System};

use crate::system::check;
use crate::trees;
use crate::{MAX_SEED, Seed, edges};

/// Reads a published system; true if it makes sense. What does can be published again, and is the same.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let Ok(published) = serde_json::from_slice::<CompactTopology>(data) else {
        return false;
    };
    match System::try_from(&published) {
        Ok(system) => {
            check(&system);
            let written = CompactTopology::from(&system);
            let text = serde_json::to_vec(&written).expect("no maps, no floats");
            let read: CompactTopology = serde_json::from_slice(&text).expect("written by us");
            assert_eq!(read, written);
            assert_eq!(System::try_from(&read).as_ref(), Ok(&system));
            true
        }
        Err(error) => {
            assert!(error.to_string().len() < 2000, "{error}");
            false
        }
    }
}

/// Every machine.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let published = |(name, files)| {
        let system = System::from_files(&files).expect("a tree that is tested elsewhere");
        let text = serde_json::to_vec(&CompactTopology::from(&system));
        Seed {
            name,
            content: text.expect("no maps, no floats"),
        }
    };
    let mut seeds: Vec<Seed> = trees::all().into_iter().map(published).collect();
    seeds.retain(|seed| seed.content.len() <= MAX_SEED);
    seeds
}

/// Names of fields, with quotes, and lists at the edge of what a list may hold.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let mut words = BTreeSet::new();
    for edge in edges() {
        let range = [b"0-", &edge[..]].concat();
        for field in ["masked", "pcie", "xgmi"] {
            words.insert([b"\"", field.as_bytes(), b"\":\"", &range, b"\","].concat());
        }
        words.extend([[&edge[..], b",0"].concat(), range, edge]);
    }
    for seed in seeds() {
        let mut parts = seed.content.split(|byte| *byte == b'"');
        // Every other part is within quotes.
        while let (Some(_), Some(text)) = (parts.next(), parts.next()) {
            if text.len() <= 32 {
                words.insert([b"\"", text, b"\""].concat());
            }
        }
    }
    words.into_iter().collect()
}
