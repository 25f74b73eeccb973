//! What the API server holds: the objects of one migration. Each has a version where updates depend on it.

use std::collections::BTreeMap;

use rocferry_crds::v1alpha1::{
    Decision, FenceKind, Mode, SourceEvidence, SourceState, TargetOrigin, TargetState,
};
use rocferry_operator::migration::{AbortReason, Claim, Image, Outcome};

pub(crate) type PodId = u32;
pub(crate) type NodeIndex = usize;

/// The pod that moves.
pub(crate) const SOURCE: PodId = 0;
/// Its node.
pub(crate) const SOURCE_NODE: NodeIndex = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) node: Option<NodeIndex>,
    pub(crate) labelled: bool,
    pub(crate) owned: bool,
    pub(crate) guarded: bool,
    pub(crate) gated: bool,
    pub(crate) deleting: bool,
    pub(crate) failed: bool,
    pub(crate) ready: bool,
    /// Which target of the request it is, by number.
    pub(crate) attempt: Option<u32>,
    /// Marked for restore: the wrapper does not start it cold.
    pub(crate) marked: bool,
    /// Its owner made it before the migration was begun.
    pub(crate) early: bool,
}

impl Pod {
    /// Counts for its owner.
    pub(crate) fn active(&self) -> bool {
        self.labelled && self.owned && !self.deleting && !self.failed
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) attempt: u32,
    pub(crate) origin: TargetOrigin,
    pub(crate) node: Option<NodeIndex>,
    pub(crate) pod: Option<PodId>,
}

/// The RestoreRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restore {
    pub(crate) version: u64,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) decision: Decision,
    pub(crate) aborted_for: Option<AbortReason>,
    pub(crate) target: Option<Named>,
    pub(crate) attempts: u32,
    pub(crate) tried: Vec<NodeIndex>,
    pub(crate) evidence: Option<SourceEvidence>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) report: Option<(PodId, TargetState)>,
}

/// The CheckpointRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) version: u64,
    pub(crate) deleting: bool,
    pub(crate) claim: Claim,
    pub(crate) state: SourceState,
    pub(crate) fence: Option<FenceKind>,
    pub(crate) image: Image,
}

/// What kind of controller owns the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Nobody,
    /// Makes up for a pod as soon as it is being deleted.
    ReplicaSet,
    /// Makes up for a pod when it is gone, since the name is the same.
    StatefulSet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) kind: OwnerKind,
    pub(crate) exists: bool,
    pub(crate) desired: usize,
    pub(crate) changed: bool,
    /// Somebody has changed the number since.
    pub(crate) scaled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    pub(crate) mode: Mode,
    pub(crate) restore: Option<Restore>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) pods: BTreeMap<PodId, Pod>,
    pub(crate) owner: Owner,
    pub(crate) next_pod: PodId,
}

impl Api {
    pub(crate) fn new(mode: Mode, kind: OwnerKind, siblings: u32) -> Self {
        let owned = kind != OwnerKind::Nobody;
        let pod = Pod {
            node: Some(SOURCE_NODE),
            labelled: owned,
            owned,
            guarded: false,
            gated: false,
            deleting: false,
            failed: false,
            ready: true,
            attempt: None,
            marked: false,
            early: true,
        };
        let mut pods = BTreeMap::from([(SOURCE, pod.clone())]);
        for sibling in 0..siblings {
            pods.insert(
                100 + sibling,
                Pod {
                    node: Some(1),
                    ..pod.clone()
                },
            );
        }
        Self {
            mode,
            restore: Some(Restore {
                version: 1,
                deleting: false,
                finalizer: false,
                decision: Decision::Undecided,
                aborted_for: None,
                target: None,
                attempts: 0,
                tried: Vec::new(),
                evidence: None,
                outcome: None,
                report: None,
            }),
            checkpoint: Checkpoint {
                version: 1,
                deleting: false,
                claim: Claim::Free,
                state: SourceState::Running,
                fence: None,
                image: Image::Pending,
            },
            pods,
            owner: Owner {
                kind,
                exists: owned,
                desired: 1 + siblings as usize,
                changed: false,
                scaled: false,
            },
            next_pod: 1,
        }
    }

    /// Changes the RestoreRequest if it still is as it was read.
    pub(crate) fn update_restore(
        &mut self,
        version: u64,
        change: impl FnOnce(&mut Restore),
    ) -> bool {
        match &mut self.restore {
            Some(restore) if restore.version == version => {
                restore.version += 1;
                change(restore);
                true
            }
            _ => false,
        }
    }

    /// Changes the CheckpointRequest if it still is as it was read.
    pub(crate) fn update_checkpoint(
        &mut self,
        version: u64,
        change: impl FnOnce(&mut Checkpoint),
    ) -> bool {
        let current = self.checkpoint.version == version;
        if current {
            self.checkpoint.version += 1;
            change(&mut self.checkpoint);
        }
        current
    }

    /// A report: the agent's own fields, whatever the version.
    pub(crate) fn report_source(&mut self, state: SourceState) {
        if self.checkpoint.state != state {
            self.checkpoint.version += 1;
            self.checkpoint.state = state;
        }
    }

    /// A report of the target's agent. What is under way to run is never taken back by an older report.
    pub(crate) fn report_target(&mut self, pod: PodId, state: TargetState) {
        if let Some(restore) = &mut self.restore
            && restore.report != Some((pod, state))
            && restore
                .target
                .as_ref()
                .is_some_and(|target| target.pod == Some(pod))
        {
            restore.version += 1;
            restore.report = Some((pod, state));
        }
    }

    pub(crate) fn create(&mut self, pod: Pod) -> PodId {
        let id = self.next_pod;
        self.next_pod += 1;
        self.pods.insert(id, pod);
        id
    }

    /// Is a pod that the owner makes now gated and marked? From the claim on, until the outcome.
    pub(crate) fn gates(&self) -> bool {
        let open = self
            .restore
            .as_ref()
            .is_some_and(|restore| restore.outcome.is_none());
        open && self.checkpoint.claim == Claim::Mine
    }

    /// Nobody has the source yet.
    pub(crate) fn before_claim(&self) -> bool {
        self.checkpoint.claim != Claim::Mine
    }

    /// Pods that count for the owner.
    pub(crate) fn active(&self) -> usize {
        self.pods.values().filter(|pod| pod.active()).count()
    }
}
