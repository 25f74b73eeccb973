//! The matcher: a checkpoint's system and a destination, both as published.

use rocferry_topology::{
    ActualGpuId, Checks, CompactTopology, Matcher, Mode, NodeId, Switch, System, UserGpuId,
};

use crate::trees;
use crate::{MAX_SEED, Seed};

/// Between the two systems.
const BETWEEN: &[u8] = b"\n----\n";

/// Maps the GPUs of the first system onto the second in both modes; true if at least one mapping exists.
///
/// Whether a mapping is right is what the oracle of the crate's own tests decides. Here every question must be
/// answered in time, consistently, and with a reason.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let Some(at) = data.windows(BETWEEN.len()).position(|part| part == BETWEEN) else {
        return false;
    };
    let (source, destination) = (read(&data[..at]), read(&data[at + BETWEEN.len()..]));
    let (Some(source), Some(destination)) = (source, destination) else {
        return false;
    };
    let source = source.rename(|gpu| Some(UserGpuId(gpu.id.get())));
    let usable: Vec<ActualGpuId> = destination.gpus().map(|gpu| gpu.id).collect();
    let mut found = false;
    for checks in [Checks::default(), none()] {
        let Ok(matcher) = Matcher::new(&source, checks) else {
            return false;
        };
        for mode in [Mode::All, Mode::Subset] {
            match matcher.map(&destination, &usable, mode) {
                Ok(mapping) => {
                    found = true;
                    assert_eq!(mapping.iter().len(), source.gpus().count());
                    for (user, actual) in mapping.iter() {
                        assert!(source.gpu(user).is_some() && destination.gpu(actual).is_some());
                    }
                    let cpus = mapping.cpus();
                    let known = |id: &NodeId| destination.cpus().any(|cpu| cpu.node == *id);
                    assert!(cpus.iter().all(|(_, to)| known(to)));
                    assert_eq!(matcher.map(&destination, &usable, mode), Ok(mapping));
                }
                Err(rejection) => {
                    assert!(!rejection.lines().is_empty(), "{rejection}");
                    assert!(!matcher.fits(&destination, &usable, mode), "{rejection}");
                }
            }
        }
    }
    found
}

fn none() -> Checks {
    let off = |checks: Checks, switch: &Switch| checks.with(*switch, false);
    Switch::ALL.iter().fold(Checks::default(), off)
}

fn read(text: &[u8]) -> Option<System> {
    let published: CompactTopology = serde_json::from_slice(text).ok()?;
    System::try_from(&published).ok()
}

/// Each machine on itself, in half the room each.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let twice = |(name, files)| {
        let system = System::from_files(&files).expect("a tree that is tested elsewhere");
        let text = serde_json::to_vec(&CompactTopology::from(&system));
        let text = text.expect("no maps, no floats");
        let content = [&text[..], BETWEEN, &text[..]].concat();
        Seed { name, content }
    };
    let mut seeds: Vec<Seed> = trees::all().into_iter().map(twice).collect();
    seeds.retain(|seed| seed.content.len() <= MAX_SEED);
    seeds
}
