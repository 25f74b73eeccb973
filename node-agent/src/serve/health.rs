//! Whether the daemon does its work.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a turn may take. Recovery may wait minutes for a dump to give up.
const LONGEST_TURN: Duration = Duration::from_secs(900);

/// What the daemon knows of itself.
#[derive(Debug)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The last turn began then.
    turned: Instant,
    /// Why it is not ready; `None`: it is.
    problem: Option<String>,
    /// Records that were put right, by what was done.
    recovered: BTreeMap<&'static str, u64>,
    /// Those that could not be, each time.
    failures: u64,
}

impl Health {
    /// Not ready: nothing has been put right yet.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            turned: Instant::now(),
            problem: Some("what an earlier agent has left is not put right yet".to_owned()),
            recovered: BTreeMap::new(),
            failures: 0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn begins.
    pub(super) fn turn(&self) {
        self.state().turned = Instant::now();
    }

    /// How the turn ended.
    pub(super) fn is(&self, problem: Option<String>) {
        self.state().problem = problem;
    }

    /// A record was put right.
    pub(super) fn recovered(&self, done: &'static str) {
        *self.state().recovered.entry(done).or_default() += 1;
    }

    /// A record could not be put right.
    pub(super) fn failed(&self) {
        self.state().failures += 1;
    }

    /// Records that were put right, and how often that failed.
    pub(super) fn recoveries(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let state = self.state();
        (state.recovered.clone(), state.failures)
    }

    /// Why it is to be started again; `None`: it lives.
    pub(super) fn is_stuck(&self) -> Option<String> {
        let since = self.state().turned.elapsed();
        (since > LONGEST_TURN).then(|| format!("nothing was done for {} s", since.as_secs()))
    }

    /// Why nothing is to be asked of it; `None`: it is ready.
    pub(super) fn is_not_ready(&self) -> Option<String> {
        self.is_stuck().or_else(|| self.state().problem.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_nothing_is_left_to_put_right() {
        let health = Health::new();
        assert!(health.is_not_ready().is_some());
        assert_eq!(health.is_stuck(), None);
        health.is(None);
        assert_eq!(health.is_not_ready(), None);
        health.is(Some("a record".to_owned()));
        assert_eq!(health.is_not_ready().as_deref(), Some("a record"));
    }

    #[test]
    fn who_does_not_turn_is_stuck() {
        let health = Health::new();
        health.is(None);
        let Some(before) = Instant::now().checked_sub(LONGEST_TURN * 2) else {
            // A machine that has just booted.
            return;
        };
        health.state().turned = before;
        assert!(health.is_stuck().is_some());
        assert!(health.is_not_ready().is_some());
        health.turn();
        assert_eq!(health.is_stuck(), None);
    }
}
