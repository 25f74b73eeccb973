//! The rule.

use serde::{Deserialize, Serialize};

/// What was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Nothing that is known here.
    #[default]
    Undecided,
    /// The target goes on; the source must not run again.
    Committed,
    /// The source goes on; the target must not run.
    Aborted,
}

/// Which of the two pods it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that was frozen and dumped.
    Source {
        /// It was reported that it is frozen for good and its checkpoint is stored: others act on that.
        prepared: bool,
    },
    /// The one that was restored.
    Target {
        /// What is known of the other.
        source: Source,
    },
}

/// What a target knows of its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Nothing: it may come to life again.
    #[default]
    Unknown,
    /// There is none to move: the checkpoint is restored beside it, or after it.
    NotMoved,
    /// Its agent has seen that no process of it is left.
    Gone,
    /// Its agent has named a fence when it said that it is prepared: it stays frozen, and a reboot cannot start it.
    Fenced,
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on.
    Thaw,
    /// It stays as it is, for this reason.
    Stay(&'static str),
}

/// Whether this side may go on. `overridden`: a person takes the decision upon themselves, who has seen to it that the
/// other side does not run.
#[must_use]
pub const fn may_thaw(side: Side, decision: Decision, overridden: bool) -> Verdict {
    use Verdict::{Stay, Thaw};
    if overridden {
        return Thaw;
    }
    match (side, decision) {
        (Side::Source { .. }, Decision::Aborted) => Thaw,
        // Nobody has been told that it stays.
        (Side::Source { prepared: false }, Decision::Undecided) => Thaw,
        (Side::Source { prepared: true }, Decision::Undecided) => {
            Stay("a copy of it may run elsewhere: it goes on when the migration is aborted")
        }
        (Side::Source { .. }, Decision::Committed) => {
            Stay("the migration is committed: its copy goes on, and not this one")
        }
        (Side::Target { .. }, Decision::Undecided) => Stay("the migration is not committed yet"),
        (Side::Target { .. }, Decision::Aborted) => {
            Stay("the migration is aborted: its source goes on, and not this copy")
        }
        (
            Side::Target {
                source: Source::Unknown,
            },
            Decision::Committed,
        ) => Stay("nothing says that its source is gone, or fenced"),
        (
            Side::Target {
                source: Source::NotMoved | Source::Gone | Source::Fenced,
            },
            Decision::Committed,
        ) => Thaw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECISIONS: [Decision; 3] = [Decision::Undecided, Decision::Committed, Decision::Aborted];
    const SOURCES: [Source; 4] = [
        Source::Unknown,
        Source::NotMoved,
        Source::Gone,
        Source::Fenced,
    ];

    fn thaws(side: Side, decision: Decision) -> bool {
        may_thaw(side, decision, false) == Verdict::Thaw
    }

    /// All combinations, each as the protocol has it.
    #[test]
    fn every_case() {
        let source =
            |prepared| DECISIONS.map(|decision| thaws(Side::Source { prepared }, decision));
        assert_eq!(source(false), [true, false, true]);
        assert_eq!(source(true), [false, false, true]);
        for known in SOURCES {
            let target = DECISIONS.map(|decision| thaws(Side::Target { source: known }, decision));
            assert_eq!(
                target,
                [false, known != Source::Unknown, false],
                "{known:?}"
            );
        }
    }

    /// Once the source is prepared no knowledge of either side lets both go on.
    #[test]
    fn never_both() {
        for decision in DECISIONS {
            for source in SOURCES {
                let both = thaws(Side::Source { prepared: true }, decision)
                    && thaws(Side::Target { source }, decision);
                assert!(!both, "{decision:?} {source:?}");
            }
        }
        // The same where each has heard something else: a decision is taken once, so only silence differs.
        for decision in [Decision::Committed, Decision::Aborted] {
            for (here, there) in [
                (decision, Decision::Undecided),
                (Decision::Undecided, decision),
            ] {
                for source in SOURCES {
                    let both = thaws(Side::Source { prepared: true }, here)
                        && thaws(Side::Target { source }, there);
                    assert!(!both, "{here:?} {there:?} {source:?}");
                }
            }
        }
    }

    #[test]
    fn a_person_may() {
        for decision in DECISIONS {
            for side in SOURCES
                .map(|source| Side::Target { source })
                .into_iter()
                .chain([true, false].map(|prepared| Side::Source { prepared }))
            {
                assert_eq!(may_thaw(side, decision, true), Verdict::Thaw);
            }
        }
    }
}
