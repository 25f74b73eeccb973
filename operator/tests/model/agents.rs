//! The agents, and the kubelet of each node.

use rocferry_crds::v1alpha1::{
    Decision, FenceKind, SourceState, TargetState, source_may_thaw, target_may_thaw,
};
use rocferry_operator::migration::{Claim, Image};

use crate::api::{Api, Checkpoint, NodeIndex, Pod, PodId, Restore, SOURCE, SOURCE_NODE};
use crate::machines::{Line, Machine, Process, ProcessState};
use crate::truth::Truth;

/// How far the source's agent is. It is in its journal, which outlives the agent and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing begun.
    Idle,
    /// Frozen, not dumped.
    Freezing,
    /// Dumped: it may still thaw by itself.
    Dumped,
    /// "Prepared" was sent, or was about to be: from here on only the abort thaws.
    Promised,
    /// It runs again, or it never stood still.
    Thawed,
    /// Nothing of it is left.
    Gone,
}

/// The agent of the source's node.
#[derive(Clone, Debug)]
pub(crate) struct SourceAgent {
    pub(crate) phase: Phase,
    /// There is no wrapper: a reboot starts the source.
    weak: bool,
    restore: Option<Restore>,
    checkpoint: Checkpoint,
    pod: Option<Pod>,
}

impl SourceAgent {
    pub(crate) fn new(api: &Api, weak: bool) -> Self {
        Self {
            phase: Phase::Idle,
            weak,
            restore: api.restore.clone(),
            checkpoint: api.checkpoint.clone(),
            pod: api.pods.get(&SOURCE).cloned(),
        }
    }

    pub(crate) fn refresh(&mut self, part: u8, api: &Api) {
        match part % 3 {
            0 => self.restore.clone_from(&api.restore),
            1 => self.checkpoint.clone_from(&api.checkpoint),
            _ => self.pod = api.pods.get(&SOURCE).cloned(),
        }
    }

    /// The wrapper refuses to start the source's containers.
    pub(crate) fn fenced(&self) -> bool {
        matches!(
            self.phase,
            Phase::Freezing | Phase::Dumped | Phase::Promised | Phase::Gone
        )
    }

    fn decision(&self) -> Option<Decision> {
        let mine = self.checkpoint.claim == Claim::Mine;
        self.restore
            .as_ref()
            .filter(|_| mine)
            .map(|restore| restore.decision)
    }

    /// The agent was killed and starts again.
    pub(crate) fn restart(&mut self, machine: &mut Machine) {
        if matches!(self.phase, Phase::Freezing | Phase::Dumped) {
            self.thaw(machine);
        }
    }

    fn thaw(&mut self, machine: &mut Machine) {
        if let Some(process) = machine.processes.get_mut(&SOURCE) {
            process.state = ProcessState::Running;
        }
        self.phase = Phase::Thawed;
    }

    pub(crate) fn act(
        &mut self,
        api: &mut Api,
        machine: &mut Machine,
        truth: &mut Truth,
        rng: &mut fastrand::Rng,
        calm: bool,
    ) {
        let online = machine.online();
        let alive = machine.processes.contains_key(&SOURCE);
        let aborted = self.decision() == Some(Decision::Aborted);
        match self.phase {
            Phase::Idle if !alive => self.phase = Phase::Gone,
            Phase::Idle if aborted => self.phase = Phase::Thawed,
            Phase::Idle => {
                if let Some(process) = machine.processes.get_mut(&SOURCE) {
                    process.state = ProcessState::Frozen;
                    self.phase = Phase::Freezing;
                }
            }
            Phase::Freezing | Phase::Dumped if !alive => self.phase = Phase::Gone,
            Phase::Freezing => {
                if aborted || (!calm && rng.u8(..) < 8) {
                    self.thaw(machine);
                } else {
                    truth.dumped = machine
                        .processes
                        .get(&SOURCE)
                        .map(|process| process.acknowledged);
                    self.phase = Phase::Dumped;
                }
            }
            Phase::Dumped => {
                if aborted || (!calm && rng.u8(..) < 24) {
                    self.thaw(machine);
                } else if rng.bool() && online {
                    upload(api);
                } else {
                    self.phase = Phase::Promised;
                }
            }
            Phase::Promised => self.keep(api, machine, alive, rng),
            Phase::Thawed => {
                if online {
                    // Its checkpoint is no good for a move any more.
                    if api.checkpoint.image == Image::Pending {
                        api.checkpoint.image = Image::Failed;
                        api.checkpoint.version += 1;
                    }
                    api.report_source(SourceState::Thawed);
                }
            }
            Phase::Gone => {
                if online {
                    if api.checkpoint.image == Image::Pending {
                        // What was dumped may have been lost with the node.
                        let lost = truth.dumped.is_none() || rng.bool();
                        api.checkpoint.image = if lost { Image::Failed } else { Image::Durable };
                        api.checkpoint.version += 1;
                    }
                    api.report_source(SourceState::Gone);
                    if aborted {
                        // The fence is lifted: the container starts as after any loss.
                        self.phase = Phase::Thawed;
                    }
                }
            }
        }
    }

    /// Frozen for good, until the abort is read.
    fn keep(&mut self, api: &mut Api, machine: &mut Machine, alive: bool, rng: &mut fastrand::Rng) {
        let online = machine.online();
        if !alive {
            self.phase = Phase::Gone;
            return;
        }
        if source_may_thaw(SourceState::Frozen, self.decision()) {
            self.thaw(machine);
            return;
        }
        let cold = machine
            .processes
            .get(&SOURCE)
            .is_some_and(|process| process.line == Line::Cold);
        if cold && self.decision() != Some(Decision::Committed) {
            // The node was rebooted: it runs already.
            self.phase = Phase::Thawed;
            return;
        }
        let committed = self.decision() == Some(Decision::Committed);
        if committed && self.pod.as_ref().is_none_or(|pod| pod.deleting) {
            // cgroup.kill, and seen empty.
            machine.processes.remove(&SOURCE);
            self.phase = Phase::Gone;
            return;
        }
        if !online {
            return;
        }
        if self.checkpoint.deleting && self.checkpoint.claim == Claim::Free {
            // Nobody's: whoever takes it first has it.
            let version = self.checkpoint.version;
            if api.update_checkpoint(version, |checkpoint| checkpoint.claim = Claim::Released) {
                self.thaw(machine);
            }
            return;
        }
        if rng.u8(..3) == 0 {
            upload(api);
        }
        if api.checkpoint.fence.is_none() {
            api.checkpoint.fence = Some(if self.weak {
                FenceKind::Freezer
            } else {
                FenceKind::Wrapper
            });
            api.checkpoint.version += 1;
        }
        api.report_source(SourceState::Frozen);
    }
}

fn upload(api: &mut Api) {
    if api.checkpoint.image == Image::Pending {
        api.checkpoint.image = Image::Durable;
        api.checkpoint.version += 1;
    }
}

/// The agent of a node, as far as targets go.
#[derive(Clone, Debug)]
pub(crate) struct TargetAgent {
    restore: Option<Restore>,
    /// In its journal: the pod that it has the right to let run.
    pub(crate) thawing: Option<PodId>,
}

impl TargetAgent {
    pub(crate) fn new(api: &Api) -> Self {
        Self {
            restore: api.restore.clone(),
            thawing: None,
        }
    }

    pub(crate) fn refresh(&mut self, api: &Api) {
        self.restore.clone_from(&api.restore);
    }

    pub(crate) fn act(
        &mut self,
        node: NodeIndex,
        api: &mut Api,
        machine: &mut Machine,
        truth: &mut Truth,
        rng: &mut fastrand::Rng,
        calm: bool,
    ) {
        if let Some(pod) = self.thawing {
            self.go_on(pod, api, machine, truth);
            return;
        }
        let Some(restore) = self.restore.clone() else {
            return;
        };
        let Some(pod) = restore.target.as_ref().and_then(|target| target.pod) else {
            return;
        };
        // What it knows of the pod it has from its kubelet.
        let here = api.pods.get(&pod).is_some_and(|found| {
            found.node == Some(node) && !found.gated && !found.deleting && !found.failed
        });
        if !here {
            return;
        }
        let reported = restore
            .report
            .filter(|(about, _)| *about == pod)
            .map(|(_, state)| state);
        match machine.processes.get(&pod).map(|process| process.state) {
            None if reported == Some(TargetState::Failed) => {}
            None if machine.online() && api.checkpoint.image == Image::Durable => {
                if !calm && rng.u8(..) < 40 {
                    api.report_target(pod, TargetState::Failed);
                    return;
                }
                let acknowledged = truth.dumped.unwrap_or_default();
                let line = Line::Restored;
                let state = ProcessState::Held;
                machine.processes.insert(
                    pod,
                    Process {
                        line,
                        state,
                        acknowledged,
                    },
                );
            }
            Some(ProcessState::Held) if machine.online() => {
                let state = match reported {
                    Some(TargetState::Held) => TargetState::Held,
                    _ => {
                        api.report_target(pod, TargetState::Held);
                        return;
                    }
                };
                // Its view names the pod.
                if target_may_thaw(state, true, Some(restore.decision), restore.evidence) {
                    let taken = api.update_restore(restore.version, |restore| {
                        restore.report = Some((pod, TargetState::Thawing));
                    });
                    if taken {
                        self.thawing = Some(pod);
                    }
                }
            }
            _ => {}
        }
    }

    fn go_on(&self, pod: PodId, api: &mut Api, machine: &mut Machine, truth: &mut Truth) {
        let online = machine.online();
        match machine.processes.get_mut(&pod) {
            Some(process) if process.state == ProcessState::Held => {
                truth.target_runs(process);
                process.state = ProcessState::Running;
            }
            Some(_) if online => api.report_target(pod, TargetState::Thawed),
            None if online => {
                // It ended: the kubelet says so.
                if let Some(found) = api.pods.get_mut(&pod) {
                    found.failed = true;
                }
            }
            _ => {}
        }
    }
}

/// The kubelet of a node: starts what is to start, kills what is to end.
pub(crate) fn kubelet(
    node: NodeIndex,
    api: &mut Api,
    machine: &mut Machine,
    source: &SourceAgent,
    truth: &mut Truth,
) {
    if !machine.online() {
        return;
    }
    let gone: Vec<PodId> = machine
        .processes
        .keys()
        .copied()
        .filter(|pod| !api.pods.contains_key(pod))
        .collect();
    for pod in gone {
        machine.processes.remove(&pod);
    }
    let mine: Vec<PodId> = api
        .pods
        .iter()
        .filter(|(_, pod)| pod.node == Some(node))
        .map(|(id, _)| *id)
        .collect();
    for id in mine {
        let Some(pod) = api.pods.get(&id).cloned() else {
            continue;
        };
        let alive = machine.processes.contains_key(&id);
        if pod.deleting {
            machine.processes.remove(&id);
            api.pods.remove(&id);
        } else if pod.failed {
            machine.processes.remove(&id);
        } else if !alive && !pod.marked && !pod.gated {
            let fenced = id == SOURCE && node == SOURCE_NODE && source.fenced();
            if !fenced {
                truth.cold_start(api, id);
                let (line, state) = (Line::Cold, ProcessState::Running);
                machine.processes.insert(
                    id,
                    Process {
                        line,
                        state,
                        acknowledged: 0,
                    },
                );
            }
        }
    }
}
