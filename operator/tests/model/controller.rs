//! The owner's controller, the garbage collector and the scheduler.

use std::collections::BTreeMap;

use crate::api::{Api, NodeIndex, OwnerKind, Pod, PodId, SOURCE};
use crate::machines::Machine;

/// A controller that keeps a number of pods. Its view of them may be old; its own deeds it knows.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    pods: BTreeMap<PodId, Pod>,
    /// It has deleted a pod that runs, without having been scaled.
    pub(crate) deleted: Option<PodId>,
    /// It has made a pod.
    pub(crate) made: bool,
}

impl Controller {
    pub(crate) fn new(api: &Api) -> Self {
        Self {
            pods: api.pods.clone(),
            deleted: None,
            made: false,
        }
    }

    pub(crate) fn refresh(&mut self, api: &Api) {
        self.pods.clone_from(&api.pods);
    }

    pub(crate) fn act(&mut self, api: &mut Api, rng: &mut fastrand::Rng) {
        if api.owner.kind == OwnerKind::Nobody {
            return;
        }
        if !api.owner.exists {
            // The garbage collector asks no policy.
            for pod in api.pods.values_mut().filter(|pod| pod.owned) {
                pod.deleting = true;
            }
            return;
        }
        for (id, seen) in &self.pods {
            if let Some(pod) = api.pods.get_mut(id) {
                // It reads a pod anew before it adopts it.
                if seen.labelled && pod.labelled && !pod.owned && !pod.deleting {
                    pod.owned = true;
                } else if seen.owned && !seen.labelled {
                    pod.owned = false;
                }
            }
        }
        if api.owner.kind == OwnerKind::StatefulSet {
            // It makes room for the next one of that name.
            for pod in api.pods.values_mut().filter(|pod| pod.owned && pod.failed) {
                pod.deleting = true;
            }
        }
        let active: Vec<PodId> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.active())
            .map(|(id, _)| *id)
            .collect();
        let held_names = match api.owner.kind {
            // A pod that is on its way out, or was let go, still has the name.
            OwnerKind::StatefulSet => {
                let ending = |id: &PodId, pod: &Pod| !pod.active() && (pod.owned || *id == SOURCE);
                self.pods.iter().filter(|(id, pod)| ending(id, pod)).count()
            }
            _ => 0,
        };
        let desired = api.owner.desired;
        if active.len() + held_names < desired {
            let gated = api.gates();
            let id = api.create(Pod {
                node: None,
                labelled: true,
                owned: true,
                guarded: false,
                gated,
                deleting: false,
                failed: false,
                ready: true,
                attempt: None,
                marked: gated,
                early: api.before_claim(),
            });
            self.made |= gated;
            let made = api.pods[&id].clone();
            self.pods.insert(id, made);
        } else if active.len() > desired {
            // What does not run yet goes first.
            let waiting = active.iter().find(|id| self.pods[id].gated).copied();
            let victim = waiting.unwrap_or_else(|| active[rng.usize(..active.len())]);
            // The policy refuses the deletion of a guarded pod.
            let (open, scaled) = (api.gates(), api.owner.scaled);
            if let Some(pod) = api.pods.get_mut(&victim).filter(|pod| !pod.guarded) {
                if open && !scaled && !pod.gated && !pod.deleting {
                    self.deleted = Some(victim);
                }
                pod.deleting = true;
            }
            let now = api.pods.get(&victim).cloned();
            match now {
                Some(pod) => self.pods.insert(victim, pod),
                None => self.pods.remove(&victim),
            };
        }
    }
}

/// Binds pods that are not gated, and removes deleted ones that never had a node.
pub(crate) fn scheduler(api: &mut Api, machines: &[Machine], rng: &mut fastrand::Rng) {
    api.pods
        .retain(|_, pod| !(pod.deleting && pod.node.is_none()));
    let nodes: Vec<NodeIndex> = (0..machines.len())
        .filter(|node| machines[*node].online())
        .collect();
    for pod in api.pods.values_mut() {
        if !pod.gated && pod.node.is_none() && !nodes.is_empty() {
            pod.node = Some(nodes[rng.usize(..nodes.len())]);
        }
    }
}
