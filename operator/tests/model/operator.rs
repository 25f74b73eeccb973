//! The operator: old views in, steps out. There are two of them, as when a leader was cut off and does not know it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rocferry_crds::v1alpha1::{Decision, Fence, Mode, TargetOrigin, TargetState};
use rocferry_operator::Seconds;
use rocferry_operator::migration::{
    Claim, Count, Guarded, Owner as SeenOwner, Place, Policy, Request, Source, SourcePod, Step,
    Target, TargetPod, TargetView, World, next_step,
};

use crate::api::{
    Api, Checkpoint, NodeIndex, Owner, OwnerKind, Pod, PodId, Restore, SOURCE, SOURCE_NODE,
};
use crate::machines::Machine;

#[derive(Clone, Debug)]
pub(crate) struct Operator {
    restore: Option<Restore>,
    checkpoint: Checkpoint,
    pods: BTreeMap<PodId, Pod>,
    owner: Owner,
    reachable: Vec<bool>,
    /// It has deleted a pod that the owner still held.
    pub(crate) deleted_owned: bool,
}

impl Operator {
    pub(crate) fn new(api: &Api, machines: &[Machine]) -> Self {
        Self {
            restore: api.restore.clone(),
            checkpoint: api.checkpoint.clone(),
            pods: api.pods.clone(),
            owner: api.owner.clone(),
            reachable: machines.iter().map(Machine::online).collect(),
            deleted_owned: false,
        }
    }

    /// One watch catches up; the others stay as they were.
    pub(crate) fn refresh(&mut self, part: u8, api: &Api, machines: &[Machine]) {
        match part {
            0 => self.restore.clone_from(&api.restore),
            1 => self.checkpoint.clone_from(&api.checkpoint),
            2 => self.pods.clone_from(&api.pods),
            3 => self.owner.clone_from(&api.owner),
            _ => self.reachable = machines.iter().map(Machine::online).collect(),
        }
    }

    pub(crate) fn blind(&mut self) {
        self.reachable.fill(false);
    }

    fn place(&self, mode: Mode, restore: &Restore) -> (Place, Option<NodeIndex>) {
        // The node of the source is as good as any other once the source is gone.
        let first = usize::from(mode == Mode::Held && restore.evidence.is_none());
        let fits = |node: &NodeIndex| self.reachable[*node] && !restore.tried.contains(node);
        let mut nodes = first..self.reachable.len();
        if let Some(node) = nodes.clone().find(fits) {
            return (Place::Node(format!("n{node}")), Some(node));
        }
        if restore.decision == Decision::Committed {
            // Nothing but trying again is left.
            let again = nodes.find(|node| self.reachable[*node]);
            return match again {
                Some(node) => (Place::Node(format!("n{node}")), Some(node)),
                None => (Place::Nowhere, None),
            };
        }
        let all = nodes.all(|node| restore.tried.contains(&node));
        (
            if all {
                Place::Exhausted
            } else {
                Place::Nowhere
            },
            None,
        )
    }

    fn owners_pod(&self) -> Option<PodId> {
        let ours = |pod: &Pod| pod.owned && pod.gated && !pod.deleting && pod.attempt.is_none();
        self.pods
            .iter()
            .find(|(_, pod)| ours(pod))
            .map(|(id, _)| *id)
    }

    /// Targets that were given up, by their number: a later one than is known here is none.
    fn leftovers(&self, restore: &Restore) -> Vec<PodId> {
        let named = restore.target.as_ref().map(|target| target.attempt);
        let old = |pod: &Pod| {
            pod.attempt
                .is_some_and(|attempt| attempt <= restore.attempts && Some(attempt) != named)
        };
        let found = self
            .pods
            .iter()
            .filter(|(_, pod)| old(pod) && !pod.deleting);
        found.map(|(id, _)| *id).collect()
    }

    fn concerned(&self, restore: &Restore) -> Vec<PodId> {
        let named = restore.target.as_ref().and_then(|target| target.pod);
        let concerned = |id: PodId, pod: &Pod| {
            id == SOURCE || Some(id) == named || (pod.labelled && pod.owned && !pod.gated)
        };
        let found = self.pods.iter().filter(|(id, pod)| concerned(**id, pod));
        found.map(|(id, _)| *id).collect()
    }

    pub(crate) fn observe(
        &self,
        now: i64,
        mode: Mode,
        deadline: i64,
        fence: Fence,
    ) -> Option<World> {
        let restore = self.restore.as_ref()?;
        let target = restore.target.as_ref().map(|named| {
            let pod = match named.pod {
                Some(id) => match self.pods.get(&id) {
                    Some(pod) => TargetView::Present(TargetPod {
                        placed: pod.node.is_some() && !pod.gated,
                        labelled: pod.labelled,
                        owned: pod.owned,
                        deleting: pod.deleting,
                        failed: pod.failed,
                        ready: pod.ready,
                    }),
                    None => TargetView::Missing,
                },
                None if self
                    .pods
                    .values()
                    .any(|pod| pod.attempt == Some(named.attempt)) =>
                {
                    TargetView::Unrecorded
                }
                None => TargetView::NotMade,
            };
            let node = named
                .pod
                .and_then(|id| self.pods.get(&id))
                .and_then(|pod| pod.node);
            let state = match restore.report {
                Some((pod, state)) if Some(pod) == named.pod => state,
                _ => TargetState::Pending,
            };
            let reachable = node.is_none_or(|node| self.reachable[node]);
            Target {
                origin: named.origin,
                pod,
                state,
                reachable,
            }
        });
        let guarded = |id: &PodId| self.pods.get(id).is_some_and(|pod| pod.guarded);
        let all = self.concerned(restore);
        let any = self.pods.values().any(|pod| pod.guarded);
        let active = self.pods.values().filter(|pod| pod.active()).count();
        Some(World {
            now: Seconds(now),
            request: Request {
                mode,
                fence,
                deadline: Seconds(deadline),
                deleting: restore.deleting,
                finalizer: restore.finalizer,
                claim: self.checkpoint.claim,
                decision: restore.decision,
                aborted_for: restore.aborted_for,
                evidence: restore.evidence,
                outcome: restore.outcome,
                policy: Policy::Present,
            },
            source: Source {
                pod: self.pods.get(&SOURCE).map(|pod| SourcePod {
                    labelled: pod.labelled,
                    owned: pod.owned,
                    deleting: pod.deleting,
                }),
                state: self.checkpoint.state,
                fence: self.checkpoint.fence,
                reachable: self.reachable[SOURCE_NODE],
                image: self.checkpoint.image,
                detached: !self.pods.contains_key(&SOURCE),
            },
            owner: match (self.owner.kind, self.owner.exists) {
                (OwnerKind::Nobody, _) => SeenOwner::None,
                (_, false) => SeenOwner::Gone,
                (_, true) => SeenOwner::Present {
                    changed: self.owner.changed,
                    pods: match active.cmp(&self.owner.desired) {
                        Ordering::Less => Count::Missing,
                        Ordering::Equal => Count::Enough,
                        Ordering::Greater => Count::Surplus,
                    },
                },
            },
            target,
            leftovers: !self.leftovers(restore).is_empty(),
            owners_pod: self.owners_pod().is_some(),
            guarded: match (all.iter().all(guarded), any) {
                (_, false) => Guarded::None,
                (true, true) => Guarded::All,
                (false, true) => Guarded::Some,
            },
            place: self.place(mode, restore).0,
        })
    }

    /// Takes one step, on the objects as they are.
    pub(crate) fn act(
        &mut self,
        api: &mut Api,
        now: i64,
        deadline: i64,
        fence: Fence,
    ) -> Option<Step> {
        let world = self.observe(now, api.mode, deadline, fence)?;
        let step = next_step(&world);
        let seen = self.restore.clone()?;
        let version = seen.version;
        match &step {
            Step::Wait(_) | Step::Done => {}
            Step::AddFinalizer => {
                api.update_restore(version, |restore| restore.finalizer = !restore.deleting);
            }
            Step::Claim => {
                api.update_checkpoint(self.checkpoint.version, |checkpoint| {
                    checkpoint.claim = Claim::Mine;
                });
            }
            Step::Guard => {
                for id in self.concerned(&seen) {
                    if let Some(pod) = api.pods.get_mut(&id) {
                        pod.guarded = true;
                    }
                }
            }
            Step::ChooseTarget { .. } => {
                let node = self.place(api.mode, &seen).1;
                let node = node.filter(|_| api.mode == Mode::Held);
                api.update_restore(version, |restore| {
                    restore.attempts += 1;
                    restore.target = Some(crate::api::Named {
                        attempt: restore.attempts,
                        origin: TargetOrigin::Operator,
                        node,
                        pod: None,
                    });
                });
            }
            Step::UseOwnersPod => {
                let id = self.owners_pod()?;
                let used = api.update_restore(version, |restore| {
                    restore.attempts += 1;
                    restore.target = Some(crate::api::Named {
                        attempt: restore.attempts,
                        origin: TargetOrigin::Owner,
                        node: None,
                        pod: Some(id),
                    });
                });
                if used && let Some(pod) = api.pods.get_mut(&id) {
                    pod.attempt = Some(seen.attempts + 1);
                    pod.guarded = true;
                }
            }
            Step::CreateTarget => {
                let named = seen.target?;
                let exists = api
                    .pods
                    .values()
                    .any(|pod| pod.attempt == Some(named.attempt));
                if !exists {
                    api.create(Pod {
                        node: named.node,
                        labelled: false,
                        owned: false,
                        guarded: true,
                        gated: named.node.is_none(),
                        deleting: false,
                        failed: false,
                        ready: false,
                        attempt: Some(named.attempt),
                        marked: true,
                        early: false,
                    });
                }
            }
            Step::RecordTarget => {
                let attempt = seen.target?.attempt;
                let id = self
                    .pods
                    .iter()
                    .find(|(_, pod)| pod.attempt == Some(attempt))?
                    .0;
                api.update_restore(version, |restore| {
                    if let Some(target) = &mut restore.target {
                        target.pod = Some(*id);
                    }
                });
            }
            Step::PlaceTarget { .. } => {
                let node = self.place(api.mode, &seen).1;
                let named = seen.target?;
                if let Some(pod) = named.pod.and_then(|id| api.pods.get_mut(&id))
                    && pod.gated
                {
                    pod.node = node;
                    pod.gated = false;
                    pod.attempt = Some(named.attempt);
                }
            }
            Step::GiveUpTarget => {
                let pod = seen.target.as_ref().and_then(|target| target.pod);
                let node = pod
                    .and_then(|id| self.pods.get(&id))
                    .and_then(|pod| pod.node);
                api.update_restore(version, |restore| {
                    restore.target = None;
                    restore.tried.extend(node);
                });
            }
            Step::DeleteLeftovers => {
                for id in self.leftovers(&seen) {
                    if let Some(pod) = api.pods.get_mut(&id) {
                        pod.deleting = true;
                    }
                }
            }
            Step::Commit => {
                api.update_restore(version, |restore| restore.decision = Decision::Committed);
            }
            Step::Abort(reason) => {
                api.update_restore(version, |restore| {
                    restore.decision = Decision::Aborted;
                    restore.aborted_for = Some(*reason);
                });
            }
            Step::LabelTarget => {
                let labelled = api.owner.kind != OwnerKind::Nobody;
                let id = seen.target.and_then(|target| target.pod)?;
                if let Some(pod) = api.pods.get_mut(&id) {
                    // A pod of nobody has labels of its own; here they are the same mark.
                    pod.labelled = true;
                    pod.owned &= labelled;
                }
            }
            Step::UnlabelSource => {
                if let Some(pod) = api.pods.get_mut(&SOURCE) {
                    pod.labelled = false;
                }
            }
            Step::DeleteSource => {
                if let Some(pod) = api.pods.get_mut(&SOURCE) {
                    // A Job would count that as a failure.
                    self.deleted_owned |= pod.owned && !pod.deleting && api.owner.exists;
                    pod.deleting = true;
                }
            }
            Step::Accept(evidence) => {
                api.update_restore(version, |restore| restore.evidence = Some(*evidence));
            }
            Step::OpenReadiness => {
                let id = seen.target.and_then(|target| target.pod)?;
                if let Some(pod) = api.pods.get_mut(&id) {
                    pod.ready = true;
                }
            }
            Step::Settle(outcome) => {
                api.update_restore(version, |restore| restore.outcome = Some(*outcome));
            }
            Step::Unguard => api.pods.values_mut().for_each(|pod| pod.guarded = false),
            Step::ReleaseOwnersPod => {
                if let Some(pod) = self.owners_pod().and_then(|id| api.pods.get_mut(&id)) {
                    pod.gated = false;
                    pod.marked = false;
                }
            }
            Step::RemoveFinalizer => {
                api.update_restore(version, |restore| restore.finalizer = false);
            }
        }
        Some(step)
    }
}
