//! What an operator that was late has left on pods after the move was over.
//!
//! Steps that are no updates of the request can be done by an operator that has lost its lease and does not know it yet: a guard, a
//! target's pod. Once the request is settled or gone nobody would take them away, so all pods with marks of ours are swept now and
//! then. The pod is read first, and then its request, from the API server and not from a cache: a request does not come back.

/// The marks on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// It is guarded.
    pub guarded: bool,
    /// It was made by an owner under migration, and gated by the policy.
    pub gated: bool,
    /// It was made as a target.
    pub target: bool,
    /// Its readiness gate is open: it is a target that runs.
    pub ready: bool,
}

/// The request that marks name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// It has no outcome yet, and does what is to be done.
    Open,
    /// It has an outcome, and this pod is its target.
    SettledTarget,
    /// It has an outcome.
    Settled,
    /// It is gone.
    Gone,
}

/// What is to be done about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing.
    Keep,
    /// Take the guard away.
    Unguard,
    /// Take the gate away: it starts as any pod of its owner does.
    ReleaseGate,
    /// Delete it: a target that nobody will ever let run.
    Delete,
}

/// What is to be done about a pod with marks of ours.
#[must_use]
pub fn sweep(marks: Marks, request: Named) -> Sweep {
    if matches!(request, Named::Open | Named::SettledTarget) {
        return Sweep::Keep;
    }
    if marks.target && !marks.ready {
        return Sweep::Delete;
    }
    if request == Named::Settled {
        // Guards and gates are taken away by the request itself as long as it is there.
        return Sweep::Keep;
    }
    if marks.guarded {
        return Sweep::Unguard;
    }
    if marks.gated && !marks.target {
        return Sweep::ReleaseGate;
    }
    Sweep::Keep
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Marks = Marks {
        guarded: false,
        gated: false,
        target: false,
        ready: false,
    };

    #[test]
    fn an_open_request_looks_after_its_pods() {
        for (guarded, gated, target) in [
            (true, false, true),
            (true, true, false),
            (false, true, true),
        ] {
            let marks = Marks {
                guarded,
                gated,
                target,
                ready: false,
            };
            assert_eq!(sweep(marks, Named::Open), Sweep::Keep);
            assert_eq!(sweep(marks, Named::SettledTarget), Sweep::Keep);
        }
    }

    #[test]
    fn what_a_late_operator_leaves_goes() {
        assert_eq!(
            sweep(
                Marks {
                    guarded: true,
                    ..NONE
                },
                Named::Gone
            ),
            Sweep::Unguard
        );
        assert_eq!(
            sweep(
                Marks {
                    gated: true,
                    ..NONE
                },
                Named::Gone
            ),
            Sweep::ReleaseGate
        );
        let target = Marks {
            target: true,
            gated: true,
            guarded: true,
            ready: false,
        };
        assert_eq!(sweep(target, Named::Gone), Sweep::Delete);
        assert_eq!(sweep(target, Named::Settled), Sweep::Delete);
        assert_eq!(
            sweep(
                Marks {
                    guarded: true,
                    ..NONE
                },
                Named::Settled
            ),
            Sweep::Keep
        );
    }

    #[test]
    fn a_pod_that_was_moved_outlives_its_request() {
        let moved = Marks {
            target: true,
            ready: true,
            ..NONE
        };
        assert_eq!(sweep(moved, Named::Gone), Sweep::Keep);
        assert_eq!(
            sweep(
                Marks {
                    guarded: true,
                    ..moved
                },
                Named::Gone
            ),
            Sweep::Unguard
        );
        assert_eq!(sweep(NONE, Named::Gone), Sweep::Keep);
    }
}
