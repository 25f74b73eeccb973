//! How far an upload is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of a running upload or download. Clones share them.
#[derive(Clone, Debug)]
pub struct Progress {
    shared: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    begun: Instant,
    expected: AtomicU64,
    done: AtomicU64,
    zero: AtomicU64,
    known: AtomicU64,
    moved: AtomicU64,
    packs: AtomicU64,
    files: AtomicU64,
}

/// The counters at some moment. Bytes all of them but `packs` and `files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Since it began.
    pub elapsed: Duration,
    /// That there are to be read (upload) or written (download), as far as is known.
    pub expected: u64,
    /// Of these, those that are done.
    pub done: u64,
    /// Of these, zeros: nothing is stored for them.
    pub zero: u64,
    /// Of these, those that the store (upload), or this machine (download), had already.
    pub known: u64,
    /// That went over the wire, compressed and sealed.
    pub moved: u64,
    /// Packs that the store has confirmed.
    pub packs: u64,
    /// Files that are complete.
    pub files: u64,
    /// Time that is left at the rate so far; `None` before there is one.
    pub eta: Option<Duration>,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Expected,
    Done,
    Zero,
    Known,
    Moved,
    Packs,
    Files,
}

impl Progress {
    /// Everything at zero, from now on.
    #[must_use]
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let shared = Arc::new(Counters {
            begun: Instant::now(),
            expected: zero(),
            done: zero(),
            zero: zero(),
            known: zero(),
            moved: zero(),
            packs: zero(),
            files: zero(),
        });
        Self { shared }
    }

    pub(crate) fn add(&self, count: Count, number: u64) {
        self.counter(count).fetch_add(number, Ordering::Relaxed);
    }

    fn counter(&self, count: Count) -> &AtomicU64 {
        match count {
            Count::Expected => &self.shared.expected,
            Count::Done => &self.shared.done,
            Count::Zero => &self.shared.zero,
            Count::Known => &self.shared.known,
            Count::Moved => &self.shared.moved,
            Count::Packs => &self.shared.packs,
            Count::Files => &self.shared.files,
        }
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let get = |count| self.counter(count).load(Ordering::Relaxed);
        let elapsed = self.shared.begun.elapsed();
        let (expected, done) = (get(Count::Expected), get(Count::Done));
        Snapshot {
            elapsed,
            expected,
            done,
            zero: get(Count::Zero),
            known: get(Count::Known),
            moved: get(Count::Moved),
            packs: get(Count::Packs),
            files: get(Count::Files),
            eta: eta(elapsed, expected, done),
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn eta(elapsed: Duration, expected: u64, done: u64) -> Option<Duration> {
    if done == 0 {
        return None;
    }
    let left = expected.saturating_sub(done) as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * left / done as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_before() {
        let second = Duration::from_secs(1);
        assert_eq!(eta(second, 30, 10), Some(2 * second));
        assert_eq!(eta(second, 10, 10), Some(Duration::ZERO));
        // More than was expected: a file grew.
        assert_eq!(eta(second, 10, 20), Some(Duration::ZERO));
        assert_eq!(eta(second, 10, 0), None);
    }
}
