//! What was done on this node, counted: each verb adds to a small file in the agent's folder, the daemon shows it.
//!
//! `STATE/counters.json` is renamed into place and not synced: after a crash of the machine it may be an older one, or none,
//! and the counters begin anew, as those of a program do that was started again. Nothing else depends on it, and no
//! verb fails because of it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

const NAME: &str = "counters.json";
const LOCK: &str = "counters.lock";

/// Far more than it can have: its words are those of this program.
const MAX_FILE: u64 = 256 << 10;

/// How long another one may take to add to it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Upper bounds of the parts in which times are counted, in seconds.
pub(crate) const BOUNDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Checkpoints by how they ended: `made`, or why they were not.
    pub(crate) checkpoints: BTreeMap<String, u64>,
    /// Restores, likewise.
    pub(crate) restores: BTreeMap<String, u64>,
    /// Archives of other engines, likewise; `taken`.
    pub(crate) archives: BTreeMap<String, u64>,
    /// Dumps that engines made by themselves.
    pub(crate) foreign_dumps: u64,
    /// Bytes of the checkpoints that were made.
    pub(crate) bytes: u64,
    /// Those of them that the store did not have.
    pub(crate) sent_bytes: u64,
    /// How long containers stood still.
    pub(crate) frozen: Times,
}

/// Times, as a histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    /// How many.
    pub(crate) count: u64,
    /// All together, in seconds.
    pub(crate) sum: f64,
    /// How many of each part of [`BOUNDS`], and beyond.
    pub(crate) parts: Vec<u64>,
}

impl Times {
    /// Adds one.
    pub(crate) fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let part = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.parts.resize(BOUNDS.len() + 1, 0);
        if let Some(part) = self.parts.get_mut(part.unwrap_or(BOUNDS.len())) {
            *part += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// One more of this kind.
pub(crate) fn add_one(counts: &mut BTreeMap<String, u64>, word: &str) {
    *counts.entry(word.to_owned()).or_default() += 1;
}

/// The file of a node.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    folder: PathBuf,
}

impl Counters {
    /// In the agent's folder, which need not be there.
    pub(crate) fn new(state: &Path) -> Self {
        Self {
            folder: state.to_owned(),
        }
    }

    /// What was counted; nothing if that cannot be read.
    pub(crate) fn read(&self) -> Counts {
        let path = self.folder.join(NAME);
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut text));
        match read {
            Ok(_) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::debug!(%error, file = %path.display(), "The counters begin anew");
                Counts::default()
            }),
            Err(_) => Counts::default(),
        }
    }

    /// Counts something. What cannot be counted is said in the log, and is not.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        if let Err(error) = self.change(change) {
            tracing::warn!(%error, folder = %self.folder.display(), "What was done is not counted");
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.folder.join(LOCK))?;
        let begun = Instant::now();
        while let Err(errno) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if errno != rustix::io::Errno::WOULDBLOCK || begun.elapsed() > PATIENCE {
                return Err(errno.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let written = self.write(change);
        // A child that was just forked may still have the file: closing alone would not end the lock.
        let _ = flock(&lock, FlockOperation::Unlock);
        written
    }

    fn write(&self, change: impl FnOnce(&mut Counts)) -> io::Result<()> {
        let mut counts = self.read();
        change(&mut counts);
        let mut file = tempfile::Builder::new()
            .prefix(".counters-")
            .tempfile_in(&self.folder)?;
        file.write_all(&serde_json::to_vec(&counts)?)?;
        file.persist(self.folder.join(NAME))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_count_at_once_and_nothing_is_lost() {
        let state = tempfile::tempdir().expect("a folder");
        let counters = Counters::new(&state.path().join("not/there/yet"));
        assert_eq!(counters.read(), Counts::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        counters.count(|counts| {
                            add_one(&mut counts.checkpoints, "made");
                            counts.bytes += 3;
                        });
                    }
                });
            }
        });
        let counts = counters.read();
        assert_eq!((counts.checkpoints["made"], counts.bytes), (100, 300));
    }

    #[test]
    fn a_damaged_file_begins_anew() {
        let state = tempfile::tempdir().expect("a folder");
        let counters = Counters::new(state.path());
        for text in ["", "{", "[]", "{\"bytes\":-1}"] {
            fs::write(state.path().join(NAME), text).expect("written");
            counters.count(|counts| counts.bytes += 1);
            assert_eq!(counters.read().bytes, 1, "{text:?}");
        }
    }

    #[test]
    fn a_time_is_counted_where_it_belongs() {
        let mut times = Times::default();
        for ms in [0, 100, 101, 400_000] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(times.count, 4);
        assert_eq!(times.parts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!((times.sum - 400.201).abs() < 1e-6, "{}", times.sum);
    }
}
