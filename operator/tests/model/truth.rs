//! What must hold, seen from outside: what ran, and what it knew.

use rocferry_crds::v1alpha1::{Decision, SourceState};
use rocferry_operator::migration::{Image, Outcome};

use crate::api::{Api, PodId, SOURCE};
use crate::machines::{Line, Machine, Process, ProcessState, processes};

/// What an observer has seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// What the source had acknowledged when it was dumped.
    pub(crate) dumped: Option<u64>,
    /// The most that anybody has been told.
    pub(crate) acknowledged: u64,
    /// A restored copy has run.
    pub(crate) target_ran: bool,
    /// The source's fence is its frozen cgroup alone, as was accepted: a reboot of its node starts it.
    pub(crate) weak: bool,
    /// What went wrong.
    pub(crate) faults: Vec<String>,
}

impl Truth {
    pub(crate) fn fault(&mut self, text: String) {
        self.faults.push(text);
    }

    /// A restored copy is about to run its first instruction.
    pub(crate) fn target_runs(&mut self, process: &Process) {
        if process.acknowledged != self.acknowledged {
            let (has, told) = (process.acknowledged, self.acknowledged);
            self.fault(format!(
                "the target runs with {has} of {told} acknowledged messages"
            ));
        }
        if self.target_ran {
            self.fault("a second target runs from the same checkpoint".to_owned());
        }
        self.target_ran = true;
    }

    /// A pod's containers start anew.
    pub(crate) fn cold_start(&mut self, api: &Api, pod: PodId) {
        let early = api.pods.get(&pod).is_some_and(|pod| pod.early);
        if api.before_claim() || (early && pod != SOURCE) || (self.weak && pod == SOURCE) {
            return;
        }
        let Some(restore) = &api.restore else {
            return;
        };
        // The source's own container, before it was said to be frozen or after the abort.
        let promised = matches!(
            api.checkpoint.state,
            SourceState::Frozen | SourceState::Gone
        );
        let again = pod == SOURCE && (!promised || restore.decision == Decision::Aborted);
        match restore.outcome {
            None if !again => self.fault(format!("pod {pod} starts cold under the migration")),
            // An owner that was scaled may have one too many of its own for a moment.
            Some(Outcome::Moved) if api.active() > api.owner.desired && !api.owner.scaled => {
                self.fault(format!("pod {pod} starts cold beside the moved one"));
            }
            _ => {}
        }
    }

    /// Looked at after every step.
    pub(crate) fn check(&mut self, api: &Api, machines: &[Machine], before: Option<Decision>) {
        let running: Vec<PodId> = processes(machines)
            .filter(|(_, pod, process)| {
                let copy = process.line != Line::Cold || *pod == SOURCE;
                copy && process.state == ProcessState::Running
            })
            .map(|(_, pod, _)| pod)
            .collect();
        if running.len() > 1 {
            self.fault(format!("pods {running:?} run at once"));
        }
        let decision = api.restore.as_ref().map(|restore| restore.decision);
        let decided = matches!(before, Some(Decision::Committed | Decision::Aborted));
        if decided && decision.is_some() && decision != before {
            self.fault(format!("the decision went from {before:?} to {decision:?}"));
        }
        if decision == Some(Decision::Committed) && running.contains(&SOURCE) && !self.weak {
            self.fault("the source runs after the commit".to_owned());
        }
        if decision == Some(Decision::Committed) && api.checkpoint.image != Image::Durable {
            self.fault("committed without an image that is safe".to_owned());
        }
        if decision != Some(Decision::Committed) && decision.is_some() && self.target_ran {
            self.fault("a target has run without a commit".to_owned());
        }
    }

    /// Looked at when nothing moves any more.
    pub(crate) fn check_end(&mut self, api: &Api, machines: &[Machine], outcome: Option<Outcome>) {
        let Some(outcome) = outcome else {
            self.fault("no outcome".to_owned());
            return;
        };
        for (node, pod, process) in processes(machines) {
            if process.state != ProcessState::Running {
                self.fault(format!(
                    "pod {pod} on node {node} is left {:?}",
                    process.state
                ));
            }
        }
        for (id, pod) in &api.pods {
            if pod.guarded || pod.gated || pod.deleting {
                self.fault(format!("pod {id} is left as {pod:?}"));
            }
        }
        if api
            .restore
            .as_ref()
            .is_some_and(|restore| restore.finalizer)
        {
            self.fault("the finalizer is left".to_owned());
        }
        let running = processes(machines)
            .filter(|(_, pod, _)| api.pods.get(pod).is_some_and(|pod| !pod.failed));
        let running = running.count();
        if api.owner.exists && running != api.owner.desired {
            let desired = api.owner.desired;
            self.fault(format!("{running} pods run, and the owner wants {desired}"));
        }
        // In the place of the one that moved there is one, or whoever asked for it was told.
        if outcome == Outcome::Moved && !self.target_ran {
            self.fault("moved, and no target has run".to_owned());
        }
    }
}
