//! Settings from the environment of the CRIU process, read once when the plugin is loaded.

use std::ffi::OsString;

use rocferry_topology::{Checks, MAX_BUFFER_SIZE_ENV, parse_max_buffer_size};

/// Readers (or writers) of one GPU's image file when the environment does not say.
const DEFAULT_READERS: usize = 4;

/// More readers than this only take memory from one another.
const MAX_READERS: usize = 64;

/// How the plugin was asked to work.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `KFD_*_CHECK` switches of the compatibility test.
    pub checks: Checks,
    /// `KFD_MAX_BUFFER_SIZE`: bytes of one GPU's whole staging ring; `None` = the default ring.
    pub ring_bytes: Option<u64>,
    /// `ROCFERRY_READERS`: threads that read or write one GPU's image file.
    pub readers: usize,
}

impl Config {
    /// Reads the settings through `lookup` (name to value); the second part is warnings to be logged.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<String>) {
        let (checks, mut warnings) = Checks::from_env_lookup(&lookup);
        let page = rocferry_image::PAGE_SIZE;
        let ring_bytes = lookup(MAX_BUFFER_SIZE_ENV).and_then(|value| {
            let (bytes, warning) = parse_max_buffer_size(&value, page);
            warnings.extend(warning);
            bytes
        });
        let readers = lookup("ROCFERRY_READERS").map_or(DEFAULT_READERS, |value| {
            let count = value.to_str().and_then(|text| text.parse().ok());
            count
                .filter(|count| *count <= MAX_READERS)
                .unwrap_or_else(|| {
                    warnings.push(format!(
                        "ROCFERRY_READERS={} ignored: expected a number from 0 to {MAX_READERS}",
                        value.display()
                    ));
                    DEFAULT_READERS
                })
        });
        (
            Self {
                checks,
                ring_bytes,
                readers,
            },
            warnings,
        )
    }
}
