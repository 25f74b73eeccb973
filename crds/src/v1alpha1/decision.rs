//! Who may run, in a migration: the two rules that the agents go by.
//!
//! Consistency: the decision is changed once, by an update that carries the object's resourceVersion. Crash, loss of the
//! API server, deadlines: none of them is an argument of these rules, so none of them can thaw anything.

use crate::words::words;

words! {
    /// The decision of a migration. It leaves `Undecided` once, and for ever.
    Decision: Undecided {
        /// Neither side may run.
        Undecided,
        /// The target will run, and the source never again.
        Committed,
        /// The source goes on, and the target never runs.
        Aborted,
    }
}

words! {
    /// What the source's agent knows of the source.
    SourceState: Running {
        /// It runs, or may thaw by itself: nothing was promised yet.
        Running,
        /// Prepared: frozen since the dump, its volumes synced, its pod's cgroup frozen for good.
        Frozen,
        /// It runs again, after the migration was aborted.
        Thawed,
        /// No process of it is left: its pod's cgroup is empty.
        Gone,
        /// A person on the node has let it run, against the rules.
        Overridden,
    }
}

words! {
    /// What keeps the source from running should its node be out of reach.
    FenceKind {
        /// The runtime wrapper: not even a reboot of the node starts it.
        Wrapper,
        /// The frozen cgroup alone: a reboot starts it cold.
        Freezer,
    }
}

words! {
    /// Why the target may run although nobody looks at the source any more.
    SourceEvidence {
        /// The source's agent has reported that its pod's cgroup is empty.
        Gone,
        /// The source's node does not answer; the wrapper's fence is on it, so it stays frozen there and cannot start.
        Fenced,
    }
}

words! {
    /// What the target's agent knows of the target.
    TargetState: Pending {
        /// Nothing was begun.
        Pending,
        /// Checkpoint on its way to the node, or being restored.
        Restoring,
        /// Complete, and not one instruction run.
        Held,
        /// Its agent has taken the right to let it run, by an update that carries resourceVersion: from here on it may have run.
        Thawing,
        /// It runs.
        Thawed,
        /// It could not be restored, and nothing is left of it.
        Failed,
    }
}

/// May the agent of the source let it run?
///
/// Until it has reported [`SourceState::Frozen`] it decides by itself. After that nothing but [`Decision::Aborted`] will
/// do: not a deadline, not the loss of the API server or of the request (`None`).
#[must_use]
pub fn source_may_thaw(reported: SourceState, decision: Option<Decision>) -> bool {
    match reported {
        SourceState::Running | SourceState::Thawed | SourceState::Overridden => true,
        SourceState::Frozen => decision == Some(Decision::Aborted),
        SourceState::Gone => false,
    }
}

/// May the agent of the target take the right to let it run, which is to report [`TargetState::Thawing`] by an update with
/// the resourceVersion that it has read, and by nothing else?
///
/// Only on [`Decision::Committed`], only with evidence that the source cannot run, and only while the request names this pod
/// (`chosen`). When the operator gives a target up it takes the name away by such an update too. One of the two fails, so a
/// target that was given up never runs, and one that may have run is never given up for one that knows less.
#[must_use]
pub fn target_may_thaw(
    target: TargetState,
    chosen: bool,
    decision: Option<Decision>,
    source: Option<SourceEvidence>,
) -> bool {
    target == TargetState::Held
        && chosen
        && decision == Some(Decision::Committed)
        && source.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions() -> Vec<Option<Decision>> {
        let known = Decision::ALL.iter().copied().map(Some);
        std::iter::once(None).chain(known).collect()
    }

    #[test]
    fn a_prepared_source_waits_for_the_abort() {
        for decision in decisions() {
            let aborted = decision == Some(Decision::Aborted);
            assert_eq!(source_may_thaw(SourceState::Frozen, decision), aborted);
            assert!(source_may_thaw(SourceState::Running, decision));
            assert!(!source_may_thaw(SourceState::Gone, decision));
        }
    }

    #[test]
    fn a_target_waits_for_the_commit_and_for_the_source() {
        for &target in TargetState::ALL {
            for decision in decisions() {
                for source in [
                    None,
                    Some(SourceEvidence::Gone),
                    Some(SourceEvidence::Fenced),
                ] {
                    let all = target == TargetState::Held
                        && decision == Some(Decision::Committed)
                        && source.is_some();
                    assert_eq!(target_may_thaw(target, true, decision, source), all);
                    assert!(!target_may_thaw(target, false, decision, source));
                }
            }
        }
    }

    #[test]
    fn no_decision_lets_both_run() {
        for decision in decisions() {
            for evidence in [
                None,
                Some(SourceEvidence::Gone),
                Some(SourceEvidence::Fenced),
            ] {
                let source = source_may_thaw(SourceState::Frozen, decision);
                let target = target_may_thaw(TargetState::Held, true, decision, evidence);
                assert!(!(source && target), "{decision:?} {evidence:?}");
            }
        }
    }
}
