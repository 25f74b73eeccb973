//! What happens to a migration from outside.

use crate::Model;
use crate::api::{OwnerKind, SOURCE, SOURCE_NODE};

/// Something that nobody has asked the operator about.
pub(crate) fn strike(model: &mut Model) {
    let node = model.rng.usize(..model.machines.len());
    let event = model.rng.u8(..16);
    model.tell(|| format!("event {event} on node {node}"));
    match event {
        0 => {
            let machine = &mut model.machines[node];
            machine.up = !machine.up;
            machine.processes.clear();
            if machine.up && node == SOURCE_NODE {
                model.source.restart(machine);
            }
        }
        1..=3 => model.machines[node].cut = !model.machines[node].cut,
        4 => delete_request(model),
        5 => model.api.checkpoint.deleting |= model.rng.u8(..4) == 0,
        6 => {
            // By hand: no policy keeps a person from it.
            let victim = model.rng.usize(..model.api.pods.len().max(1));
            if let Some(pod) = model.api.pods.values_mut().nth(victim) {
                pod.deleting |= model.rng.u8(..3) == 0;
            }
        }
        7 => evict_by_kubelet(model, node),
        8 => evict(model),
        9 if model.api.owner.kind != OwnerKind::Nobody => match model.rng.u8(..12) {
            0 => model.api.owner.exists = false,
            1..=4 => model.api.owner.changed = true,
            _ => {
                model.api.owner.desired = model.rng.usize(..4);
                model.api.owner.scaled = true;
            }
        },
        10 => model.source.restart(&mut model.machines[SOURCE_NODE]),
        11 => model.now += model.rng.i64(0..20),
        _ => {}
    }
}

fn delete_request(model: &mut Model) {
    if let Some(restore) = &mut model.api.restore
        && model.rng.u8(..3) == 0
    {
        restore.deleting = true;
        restore.version += 1;
    }
}

/// The node is short of something: the kubelet kills without asking anybody.
fn evict_by_kubelet(model: &mut Model, node: usize) {
    if !model.machines[node].online() || model.rng.u8(..3) != 0 {
        return;
    }
    let victim = model.machines[node].processes.keys().next().copied();
    if let Some(pod) = victim {
        model.machines[node].processes.remove(&pod);
        if let Some(pod) = model.api.pods.get_mut(&pod) {
            pod.failed = true;
        }
    }
}

/// Through the API: the policy refuses guarded pods.
fn evict(model: &mut Model) {
    if let Some(pod) = model.api.pods.get_mut(&SOURCE).filter(|pod| !pod.guarded) {
        pod.deleting = true;
    }
}

/// Something that happens at the very moment when an operator has taken a certain step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ambush {
    step: &'static str,
    what: u8,
    /// How many such steps go by before.
    pub(crate) after: u8,
    /// How long a connection stays cut.
    span: i64,
}

const STEPS: [&str; 17] = [
    "AddFinalizer",
    "Thawing",
    "Claim",
    "Guard",
    "RecordTarget",
    "Commit",
    "LabelTarget",
    "UnlabelSource",
    "DeleteSource",
    "Accept",
    "GiveUpTarget",
    "UseOwnersPod",
    "PlaceTarget",
    "OpenReadiness",
    "Abort",
    "Wait(TargetThawed)",
    "Wait(SourceGone)",
];

impl Ambush {
    /// For most episodes.
    pub(crate) fn lay(rng: &mut fastrand::Rng) -> Option<Self> {
        let (step, what) = (STEPS[rng.usize(..STEPS.len())], rng.u8(..16));
        let span = rng.i64(10..1200);
        let after = rng.u8(..3);
        (what < 12).then_some(Self {
            step,
            what,
            after,
            span,
        })
    }

    pub(crate) fn is_at(&self, step: &str) -> bool {
        step.starts_with(self.step)
    }

    pub(crate) fn spring(self, model: &mut Model) {
        model.tell(|| format!("{self:?}"));
        let named = model
            .api
            .restore
            .as_ref()
            .and_then(|restore| restore.target.clone());
        let pod = named.and_then(|target| target.pod);
        let node = pod
            .and_then(|pod| model.api.pods.get(&pod))
            .and_then(|pod| pod.node);
        let target = node.unwrap_or(1);
        match self.what {
            // They know the latest, and then nothing more.
            0 | 1 => {
                model.targets[target].refresh(&model.api);
                cut(model, target, self.span);
            }
            2 => {
                (0..3).for_each(|part| model.source.refresh(part, &model.api));
                cut(model, SOURCE_NODE, self.span);
            }
            3 => crash(model, target),
            4 => crash(model, SOURCE_NODE),
            5 => {
                if let Some(pod) = pod.and_then(|pod| model.api.pods.get_mut(&pod)) {
                    pod.deleting = true;
                }
            }
            6 => {
                if let Some(restore) = &mut model.api.restore {
                    restore.deleting = true;
                    restore.version += 1;
                }
            }
            // A leader that sleeps, and wakes up with the world as it was.
            7 => model.asleep = Some((0, model.now + self.span)),
            8 => {
                model.api.owner.desired = 0;
                model.api.owner.scaled = true;
            }
            9 => {
                model.api.checkpoint.deleting = true;
                model.api.checkpoint.version += 1;
            }
            // As above, and it takes every node for lost.
            10 => {
                model.operators[0].blind();
                model.asleep = Some((0, model.now + self.span));
            }
            _ => {
                if let Some(pod) = pod {
                    model.machines[target].processes.remove(&pod);
                    if let Some(pod) = model.api.pods.get_mut(&pod) {
                        pod.failed = true;
                    }
                }
            }
        }
    }
}

fn cut(model: &mut Model, node: usize, span: i64) {
    model.machines[node].cut = true;
    model.mend = Some((node, model.now + span));
}

fn crash(model: &mut Model, node: usize) {
    model.machines[node].up = false;
    model.machines[node].processes.clear();
}
