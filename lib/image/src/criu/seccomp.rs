//! The seccomp filters of all processes: `seccomp.img`.

use crate::walk::decode;
use crate::wire::{SeccompEntry, SeccompFilter};
use crate::{ImageDir, ImageError, names};

use super::entries::entries;

/// `SECCOMP_MAGIC`.
const SECCOMP_MAGIC: u32 = 0x6441_3049;

/// `SECCOMP_FILTER_FLAG_TSYNC`: all threads of the process get it with the one that sets it.
const TSYNC: u32 = 1;

/// Filters by their number, without their programs.
///
/// CRIU writes those of a process's first thread. A thread with the same ones gets no mode of its own, and the filters
/// are marked to be set for all threads at once (`criu/seccomp.c`, `try_use_tsync`, seen with 4.2.1).
#[derive(Debug, Clone, Default)]
pub struct Filters(Vec<SeccompFilter>);

impl Filters {
    /// Is there such a filter?
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Do all threads of the process get one when the first gets this filter and those before it?
    #[must_use]
    pub fn reach_all_threads(&self, number: u32) -> bool {
        let mut next = self.get(number);
        // A chain that leads back into itself ends too.
        for _ in 0..self.0.len() {
            let Some(filter) = next else { break };
            if filter.flags.unwrap_or_default() & TSYNC != 0 {
                return true;
            }
            next = filter.prev.and_then(|number| self.get(number));
        }
        false
    }

    fn get(&self, number: u32) -> Option<&SeccompFilter> {
        self.0.get(usize::try_from(number).ok()?)
    }
}

/// Reads them.
///
/// # Errors
/// A file that is missing, cannot be read or is damaged.
pub fn filters(dir: &dyn ImageDir) -> Result<Filters, ImageError> {
    let mut found = Filters::default();
    entries(dir, names::SECCOMP, SECCOMP_MAGIC, |index, content| {
        // CRIU reads the first one.
        if index == 0 {
            let entry: SeccompEntry = decode("seccomp_entry", content)?;
            found = Filters(entry.filters);
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use prost::Message;
    use tempfile::TempDir;

    use super::super::entries::{COMMON_MAGIC, image};
    use super::*;
    use crate::FdDir;

    fn read(content: &[u8]) -> Result<Filters, ImageError> {
        let temporary = TempDir::new().expect("directory");
        fs::write(temporary.path().join("seccomp.img"), content).expect("file");
        filters(&FdDir(File::open(temporary.path()).expect("directory")))
    }

    fn of(list: &[(Option<u32>, Option<u32>)]) -> Vec<u8> {
        let filters = list
            .iter()
            .map(|&(prev, flags)| SeccompFilter { prev, flags });
        let entry = SeccompEntry {
            filters: filters.collect(),
        };
        image(&[COMMON_MAGIC, SECCOMP_MAGIC], &[entry.encode_to_vec()])
    }

    #[test]
    fn a_filter_reaches_all_threads_if_one_of_its_chain_does() {
        let found = read(&of(&[
            (None, None),
            (Some(0), Some(TSYNC)),
            (Some(1), Some(2)),
            (Some(3), None),
            (Some(9), None),
        ]));
        let found = found.expect("image");
        let reach = (0..6).map(|number| found.reach_all_threads(number));
        assert_eq!(
            reach.collect::<Vec<_>>(),
            [false, true, true, false, false, false]
        );
        assert!(found.has(4) && !found.has(5));
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let good = of(&[(None, Some(TSYNC)), (Some(0), Some(TSYNC))]);
        for cut in 1..good.len() {
            let _ = read(&good[..cut]);
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                if let Ok(found) = read(&bad) {
                    let _ = found.reach_all_threads(1);
                }
            }
        }
    }
}
