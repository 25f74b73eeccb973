//! Settings from the environment of the CRIU process, read once when the plugin is loaded.

use std::ffi::OsString;
use std::time::Duration;

use rocferry_topology::{Checks, MAX_BUFFER_SIZE_ENV, parse_max_buffer_size};

/// Readers (or writers) of one GPU's image file when the environment does not say.
const DEFAULT_READERS: u64 = 4;

/// More readers than this only take memory from one another.
const MAX_READERS: u64 = 64;

/// Seconds for one copy when the environment does not say: the engine may be busy with other processes.
const DEFAULT_COPY_TIMEOUT_S: u64 = 60;

/// Seconds without a byte from or to CRIU's image streamer: whoever sends the images elsewhere may have to
/// wait for a network.
const DEFAULT_STREAM_TIMEOUT_S: u64 = 600;

/// A day: who wants more wants no limit, and none would hang a dump for good.
const MAX_TIMEOUT_S: u64 = 86_400;

/// How the plugin was asked to work.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `KFD_*_CHECK` switches of the compatibility test.
    pub checks: Checks,
    /// `KFD_MAX_BUFFER_SIZE`: bytes of one GPU's whole staging ring; `None` = the default ring.
    pub ring_bytes: Option<u64>,
    /// `ROCFERRY_READERS`: threads that read or write one GPU's image file.
    pub readers: usize,
    /// `ROCFERRY_COPY_TIMEOUT_S`: how long one copy may take before the operation fails.
    pub copy_timeout: Duration,
    /// `ROCFERRY_STREAM_TIMEOUT_S`: how long CRIU's image streamer may give or take no byte of GPU contents.
    pub stream_timeout: Duration,
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
        let mut number = |name: &str, default: u64, from: u64, to: u64| {
            lookup(name).map_or(default, |value| {
                let number = value.to_str().and_then(|text| text.parse().ok());
                number
                    .filter(|number| (from..=to).contains(number))
                    .unwrap_or_else(|| {
                        warnings.push(format!(
                            "{name}={} ignored: expected a number from {from} to {to}",
                            value.display()
                        ));
                        default
                    })
            })
        };
        let readers = number("ROCFERRY_READERS", DEFAULT_READERS, 0, MAX_READERS);
        let mut seconds =
            |name, default| Duration::from_secs(number(name, default, 1, MAX_TIMEOUT_S));
        let copy_timeout = seconds("ROCFERRY_COPY_TIMEOUT_S", DEFAULT_COPY_TIMEOUT_S);
        let stream_timeout = seconds("ROCFERRY_STREAM_TIMEOUT_S", DEFAULT_STREAM_TIMEOUT_S);
        (
            Self {
                checks,
                ring_bytes,
                readers: usize::try_from(readers).unwrap_or(0),
                copy_timeout,
                stream_timeout,
            },
            warnings,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &str) -> (Config, Vec<String>) {
        Config::from_lookup(|asked| (asked == name).then(|| OsString::from(value)))
    }

    #[test]
    fn numbers_outside_of_their_range_are_ignored_with_a_warning() {
        let (config, warnings) = read("ROCFERRY_COPY_TIMEOUT_S", "7");
        assert_eq!((config.copy_timeout.as_secs(), warnings.len()), (7, 0));
        assert_eq!(config.stream_timeout.as_secs(), 600);
        let (config, warnings) = read("ROCFERRY_STREAM_TIMEOUT_S", "8");
        assert_eq!((config.stream_timeout.as_secs(), warnings.len()), (8, 0));
        assert_eq!(read("ROCFERRY_READERS", "0").0.readers, 0);
        for (name, value) in [
            ("ROCFERRY_COPY_TIMEOUT_S", "0"),
            ("ROCFERRY_COPY_TIMEOUT_S", "1s"),
            ("ROCFERRY_STREAM_TIMEOUT_S", "86401"),
            ("ROCFERRY_READERS", "65"),
            ("ROCFERRY_READERS", "-1"),
        ] {
            let (config, warnings) = read(name, value);
            assert_eq!((config.readers, config.copy_timeout.as_secs()), (4, 60));
            assert_eq!(config.stream_timeout.as_secs(), 600);
            assert!(
                warnings.len() == 1 && warnings[0].starts_with(name),
                "{warnings:?}"
            );
        }
    }
}
