//! Which checkpoints are old enough to go.
//!
//! A policy is applied to each group of checkpoints by itself (those of one container, say), but for the limit
//! on bytes, which is for all of them. What is pinned stays, and so does the newest one of each group. That a
//! checkpoint is the parent of another one does not matter: nothing of it is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rocferry_image::manifest::CheckpointId;
use serde::Serialize;

use crate::serial::display;

/// Which checkpoints to keep. The default keeps all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Keep so many of each group, the newest ones; 0 is like 1.
    pub last: Option<usize>,
    /// Keep those that are not older. With `last` as well, it is enough to be kept by one of the two.
    pub within: Option<Duration>,
    /// Keep at most so many bytes in all, whatever the other two keep.
    pub bytes: Option<u64>,
}

/// A checkpoint that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub id: CheckpointId,
    /// When it was finished: milliseconds since 1970.
    pub created_ms: u64,
    /// Bytes that count for it. What checkpoints share counts for each of them, so that less may be freed.
    pub bytes: u64,
    /// Whether it is pinned.
    pub pinned: bool,
    /// What it belongs to, for instance its binding.
    pub group: String,
}

/// A checkpoint that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// The checkpoint.
    #[serde(serialize_with = "display")]
    pub id: CheckpointId,
    /// Why.
    pub reason: ExpiredReason,
}

/// Why a checkpoint is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpiredReason {
    /// There are enough newer ones of its group, or it is too old, or both.
    Rules,
    /// All together are too large, and it is the oldest one that may go.
    Bytes,
}

impl RetentionPolicy {
    /// Which of `all` are to be deleted, the oldest first.
    #[must_use]
    pub fn expired(&self, all: &[Candidate], now_ms: u64) -> Vec<Expired> {
        // Of two of the same moment the names decide, which are different.
        let age = |candidate: &Candidate| (candidate.created_ms, candidate.id.clone());
        let mut groups: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
        for candidate in all {
            groups.entry(&candidate.group).or_default().push(candidate);
        }
        // What may go, by age, and whether the rules keep it.
        let mut may_go = BTreeMap::new();
        for group in groups.values_mut() {
            group.sort_by_key(|candidate| std::cmp::Reverse(age(candidate)));
            for (newer, candidate) in group.iter().enumerate().skip(1) {
                if !candidate.pinned {
                    may_go.insert(
                        age(candidate),
                        (*candidate, self.keeps(newer, candidate, now_ms)),
                    );
                }
            }
        }
        let mut total = all
            .iter()
            .fold(0u64, |sum, one| sum.saturating_add(one.bytes));
        let by_rules = may_go.values().filter(|(_, kept)| !kept);
        let mut expired: BTreeSet<_> = by_rules.map(|(candidate, _)| age(candidate)).collect();
        let freed = may_go.values().filter(|(_, kept)| !kept);
        total = freed.fold(total, |sum, (one, _)| sum.saturating_sub(one.bytes));
        for (age, (candidate, _)) in &may_go {
            if self.bytes.is_some_and(|limit| total > limit) && expired.insert(age.clone()) {
                total = total.saturating_sub(candidate.bytes);
            }
        }
        let expired = may_go.into_iter().filter(|(age, _)| expired.contains(age));
        expired
            .map(|(_, (candidate, kept))| Expired {
                id: candidate.id.clone(),
                reason: match kept {
                    true => ExpiredReason::Bytes,
                    false => ExpiredReason::Rules,
                },
            })
            .collect()
    }

    /// Whether one of a group with so many newer ones is kept, as far as bytes do not matter.
    fn keeps(&self, newer: usize, candidate: &Candidate, now_ms: u64) -> bool {
        let age = Duration::from_millis(now_ms.saturating_sub(candidate.created_ms));
        let rules = [
            self.last.map(|last| newer < last),
            self.within.map(|within| age <= within),
        ];
        let mut rules = rules.into_iter().flatten().peekable();
        rules.peek().is_none() || rules.any(|keeps| keeps)
    }
}
