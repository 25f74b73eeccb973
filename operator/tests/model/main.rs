//! The whole protocol in a model: operators, agents, kubelets, an owner's controller, and everything that happens to them, one action
//! at a time in random order. The operator and the rules that the agents thaw by are the real ones.
//!
//! Every part sees only what it has last read, and the parts of a view are of different age. After each action what must hold is
//! checked from outside; at the end everything works again for a while, and then nothing may be left halfway.
//!
//! Set `ROCFERRY_MODEL_STEPS` for a longer run, and `ROCFERRY_MODEL_SEED` to see one episode step by step.
#![expect(
    clippy::unwrap_used,
    reason = "a model that cannot be built is a failed test"
)]

mod agents;
mod api;
mod chaos;
mod controller;
mod machines;
mod operator;
mod truth;

use std::collections::BTreeMap;

use agents::{SourceAgent, TargetAgent, kubelet};
use api::{Api, OwnerKind, SOURCE_NODE};
use chaos::Ambush;
use controller::{Controller, scheduler};
use machines::{Line, Machine, ProcessState};
use operator::Operator;
use rocferry_crds::v1alpha1::{Fence, Mode};
use rocferry_operator::migration::{Claim, Marks, Named, Outcome, Step, Sweep, sweep};
use truth::Truth;

/// Random actions of the ordinary test run; the calm ends of episodes are not counted.
const STEPS: u64 = 1_000_000;
/// Actions of an episode while things happen to it.
const CHAOS: u32 = 1500;
/// Most rounds in which everything works again.
const CALM: u32 = 160;
/// Rounds without any change after which nothing is to be expected any more.
const STILL: u32 = 12;
/// When an undecided migration is given up.
const DEADLINE: i64 = 400;

pub(crate) struct Model {
    pub(crate) rng: fastrand::Rng,
    pub(crate) api: Api,
    pub(crate) machines: Vec<Machine>,
    pub(crate) source: SourceAgent,
    pub(crate) targets: Vec<TargetAgent>,
    pub(crate) operators: Vec<Operator>,
    controller: Controller,
    pub(crate) truth: Truth,
    pub(crate) now: i64,
    calm: bool,
    /// One event in so many actions; 0: none.
    rarity: u8,
    /// Nothing is done to it from outside.
    quiet: bool,
    ambush: Option<Ambush>,
    /// A connection that comes back.
    pub(crate) mend: Option<(usize, i64)>,
    /// An operator that sleeps until then.
    pub(crate) asleep: Option<(usize, i64)>,
    outcome: Option<Outcome>,
    /// What was done, for the story of a failure.
    log: Vec<String>,
    verbose: bool,
    /// How often each kind of step was taken.
    seen: BTreeMap<String, u64>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mode, kind) = match rng.u8(..5) {
            0 => (Mode::Held, OwnerKind::Nobody),
            1 | 2 => (Mode::Held, OwnerKind::ReplicaSet),
            3 => (Mode::StopFirst, OwnerKind::StatefulSet),
            _ if rng.bool() => (Mode::StopFirst, OwnerKind::Nobody),
            _ => (Mode::StopFirst, OwnerKind::ReplicaSet),
        };
        let siblings = if kind == OwnerKind::ReplicaSet {
            rng.u32(..3)
        } else {
            0
        };
        let api = Api::new(mode, kind, siblings);
        let weak = rng.u8(..4) == 0;
        let quiet = rng.u8(..16) == 0;
        let mut machines: Vec<Machine> = (0..4).map(|_| Machine::new()).collect();
        for (id, pod) in &api.pods {
            let line = if *id == api::SOURCE {
                Line::Original
            } else {
                Line::Cold
            };
            let process = machines::Process {
                line,
                state: ProcessState::Running,
                acknowledged: 0,
            };
            machines[pod.node.unwrap()].processes.insert(*id, process);
        }
        Self {
            source: SourceAgent::new(&api, weak),
            targets: machines.iter().map(|_| TargetAgent::new(&api)).collect(),
            operators: vec![
                Operator::new(&api, &machines),
                Operator::new(&api, &machines),
            ],
            controller: Controller::new(&api),
            truth: Truth {
                weak,
                ..Truth::default()
            },
            now: 0,
            calm: false,
            rarity: if quiet {
                0
            } else {
                [6, 20, 60, 200][rng.usize(..4)]
            },
            quiet,
            ambush: Ambush::lay(&mut rng).filter(|_| !quiet),
            mend: None,
            asleep: None,
            outcome: None,
            log: Vec::new(),
            verbose: false,
            seen: BTreeMap::new(),
            rng,
            api,
            machines,
        }
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.verbose {
            let line = format!("{} {}", self.now, what());
            self.log.push(line);
        }
    }

    /// One action of one part.
    fn step(&mut self) {
        let before = self.api.restore.as_ref().map(|restore| restore.decision);
        match self.rng.u8(..16) {
            0..=3 => self.refresh(),
            4..=6 => {
                let which = self.rng.usize(..self.operators.len());
                self.operate(which);
            }
            7 => self.run(),
            8 | 9 => self.source_agent(),
            10 | 11 => {
                let node = self.rng.usize(..self.machines.len());
                self.target_agent(node);
            }
            12 => {
                let node = self.rng.usize(..self.machines.len());
                self.kubelet(node);
            }
            13 => self.control(),
            14 => scheduler(&mut self.api, &self.machines, &mut self.rng),
            _ => self.collect(),
        }
        if self.rarity > 0 && self.rng.u8(..self.rarity) == 0 {
            chaos::strike(self);
        }
        self.now += 1;
        if let Some((node, _)) = self.mend.take_if(|(_, when)| *when <= self.now) {
            self.machines[node].cut = false;
        }
        self.note(before);
    }

    fn remember(&mut self) {
        if let Some(outcome) = self
            .api
            .restore
            .as_ref()
            .and_then(|restore| restore.outcome)
        {
            self.outcome = Some(outcome);
        }
    }

    fn note(&mut self, before: Option<rocferry_crds::v1alpha1::Decision>) {
        if let Some(outcome) = self
            .api
            .restore
            .as_ref()
            .and_then(|restore| restore.outcome)
        {
            self.outcome = Some(outcome);
        }
        self.truth.check(&self.api, &self.machines, before);
    }

    fn refresh(&mut self) {
        // Some of the parts, any of them.
        let parts = self.rng.u8(..);
        let parts = (0..5).filter(|part| parts >> part & 1 != 0);
        match self.rng.u8(..5) {
            0 | 1 => {
                let which = self.rng.usize(..self.operators.len());
                // Its view does not change in its sleep; it acts on it once when it wakes up.
                if self
                    .asleep
                    .is_some_and(|(who, until)| who == which && self.now < until + 20)
                {
                    return;
                }
                for part in parts {
                    self.operators[which].refresh(part, &self.api, &self.machines);
                }
            }
            2 if self.machines[SOURCE_NODE].online() => {
                parts.for_each(|part| self.source.refresh(part, &self.api));
            }
            3 => {
                let node = self.rng.usize(..self.machines.len());
                if self.machines[node].online() {
                    self.targets[node].refresh(&self.api);
                }
            }
            _ => self.controller.refresh(&self.api),
        }
    }

    fn operate(&mut self, which: usize) {
        if !self.calm
            && self
                .asleep
                .is_some_and(|(who, until)| who == which && self.now < until)
        {
            return;
        }
        let fence = if self.truth.weak {
            Fence::BestEffort
        } else {
            Fence::Required
        };
        let step = self.operators[which].act(&mut self.api, self.now, DEADLINE, fence);
        self.remember();
        if self.operators[which].deleted_owned {
            self.truth
                .fault("the source was deleted while its owner held it".to_owned());
        }
        if let Some(step) = step {
            let name = match &step {
                Step::Wait(waiting) => format!("Wait({waiting:?})"),
                Step::Abort(reason) => format!("Abort({reason:?})"),
                Step::Settle(outcome) => format!("Settle({outcome:?})"),
                Step::Accept(evidence) => format!("Accept({evidence:?})"),
                other => format!("{other:?}")
                    .chars()
                    .take_while(|c| c.is_alphanumeric())
                    .collect(),
            };
            if self.verbose && !matches!(step, Step::Wait(_) | Step::Done) {
                self.log
                    .push(format!("{} operator {which}: {name}", self.now));
            }
            self.spring(&name);
            *self.seen.entry(name).or_default() += 1;
        }
    }

    fn spring(&mut self, step: &str) {
        let Some(mut ambush) = self
            .ambush
            .filter(|ambush| !self.calm && ambush.is_at(step))
        else {
            return;
        };
        if ambush.after > 0 {
            ambush.after -= 1;
            self.ambush = Some(ambush);
        } else {
            self.ambush = None;
            ambush.spring(self);
        }
    }

    /// Whatever may run does, and tells the world.
    fn run(&mut self) {
        for machine in &mut self.machines {
            for process in machine.processes.values_mut() {
                if process.state == ProcessState::Running && process.line != Line::Cold {
                    process.acknowledged += 1;
                    self.truth.acknowledged = self.truth.acknowledged.max(process.acknowledged);
                }
            }
        }
    }

    fn source_agent(&mut self) {
        let machine = &mut self.machines[SOURCE_NODE];
        if machine.up {
            let before = self.source.phase;
            self.source.act(
                &mut self.api,
                machine,
                &mut self.truth,
                &mut self.rng,
                self.calm,
            );
            if self.verbose && before != self.source.phase {
                self.log
                    .push(format!("{} source: {:?}", self.now, self.source.phase));
            }
        }
    }

    fn target_agent(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        if machine.up {
            let before = machine.processes.clone();
            let agent = &mut self.targets[node];
            agent.act(
                node,
                &mut self.api,
                machine,
                &mut self.truth,
                &mut self.rng,
                self.calm,
            );
            let thawing = agent.thawing.is_some();
            if self.verbose && before != machine.processes {
                self.log
                    .push(format!("{} node {node}: {:?}", self.now, machine.processes));
            }
            if thawing {
                self.spring("Thawing");
            }
        }
    }

    fn control(&mut self) {
        self.controller.act(&mut self.api, &mut self.rng);
        if let Some(pod) = self.controller.deleted {
            self.truth
                .fault(format!("the controller has deleted pod {pod}"));
        }
        if self.quiet && self.api.mode == Mode::Held && self.controller.made {
            self.truth
                .fault("the controller has made a pod in a quiet move".to_owned());
        }
    }

    fn kubelet(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        let before = machine.processes.clone();
        kubelet(node, &mut self.api, machine, &self.source, &mut self.truth);
        if self.verbose && before != machine.processes {
            self.log.push(format!(
                "{} kubelet {node}: {:?}",
                self.now, machine.processes
            ));
        }
    }

    /// The API server removes deleted requests without finalizer; an operator sweeps pods.
    fn collect(&mut self) {
        let over = |restore: &api::Restore| restore.deleting && !restore.finalizer;
        if self.api.restore.as_ref().is_some_and(over) {
            self.api.restore = None;
        }
        let ids: Vec<_> = self.api.pods.keys().copied().collect();
        for id in ids {
            let request = match &self.api.restore {
                None => Named::Gone,
                Some(restore) if restore.outcome.is_none() => Named::Open,
                Some(restore) => {
                    let target = restore.target.as_ref().and_then(|target| target.pod);
                    if target == Some(id) {
                        Named::SettledTarget
                    } else {
                        Named::Settled
                    }
                }
            };
            let Some(pod) = self.api.pods.get_mut(&id) else {
                continue;
            };
            let marks = Marks {
                guarded: pod.guarded,
                gated: pod.gated,
                target: pod.attempt.is_some(),
                ready: pod.ready,
            };
            match sweep(marks, request) {
                Sweep::Keep => {}
                Sweep::Unguard => pod.guarded = false,
                Sweep::ReleaseGate => {
                    pod.gated = false;
                    pod.marked = false;
                }
                Sweep::Delete => pod.deleting = true,
            }
        }
    }

    /// Everything works, everybody reads before acting, and each has its turn.
    fn settle(&mut self) {
        self.calm = true;
        for node in 0..self.machines.len() {
            let machine = &mut self.machines[node];
            machine.cut = false;
            if !machine.up {
                machine.up = true;
                if node == SOURCE_NODE {
                    self.source.restart(machine);
                }
            }
        }
        let mut still = 0;
        for _ in 0..CALM {
            let known = self.api.clone();
            let before = self.api.restore.as_ref().map(|restore| restore.decision);
            for which in 0..self.operators.len() {
                for part in 0..5 {
                    self.operators[which].refresh(part, &self.api, &self.machines);
                }
                self.operate(which);
            }
            for part in 0..3 {
                self.source.refresh(part, &self.api);
            }
            self.source_agent();
            for node in 0..self.machines.len() {
                self.targets[node].refresh(&self.api);
                self.target_agent(node);
                self.kubelet(node);
            }
            self.controller.refresh(&self.api);
            self.control();
            scheduler(&mut self.api, &self.machines, &mut self.rng);
            self.collect();
            self.run();
            self.now += 40;
            // Whoever asked for a frozen pod and no move lets it go in the end.
            if self.api.restore.is_none() && self.api.checkpoint.claim == Claim::Free {
                self.api.checkpoint.deleting = true;
            }
            self.note(before);
            still = if known == self.api { still + 1 } else { 0 };
            if still > STILL && self.now > DEADLINE {
                break;
            }
        }
        let begun = self.api.checkpoint.claim != Claim::Free || self.api.restore.is_some();
        if begun && self.api.checkpoint.claim != Claim::Released {
            self.truth
                .check_end(&self.api, &self.machines, self.outcome);
        }
    }

    fn episode(&mut self) -> u64 {
        let length = self.rng.u32(20..CHAOS);
        for _ in 0..length {
            self.step();
            if !self.truth.faults.is_empty() {
                return length.into();
            }
        }
        self.settle();
        length.into()
    }
}

fn fail(seed: u64) -> ! {
    let mut model = Model::new(seed);
    model.verbose = true;
    let begin = format!("{:?} {:?}", model.api.mode, model.api.owner);
    model.episode();
    panic!(
        "Seed {seed}, {begin}:\n{}\n{:#?}\n{:#?}\nfaults: {:#?}",
        model.log.join("\n"),
        model.api,
        model.source.phase,
        model.truth.faults,
    );
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn what_must_hold_holds() {
    if let Some(seed) = variable("ROCFERRY_MODEL_SEED") {
        fail(seed);
    }
    let wanted = variable("ROCFERRY_MODEL_STEPS").unwrap_or(STEPS);
    let (mut steps, mut seed) = (0, 0);
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    while steps < wanted {
        let mut model = Model::new(seed);
        steps += model.episode();
        if !model.truth.faults.is_empty() {
            fail(seed);
        }
        for (name, count) in model.seen {
            *seen.entry(name).or_default() += count;
        }
        seed += 1;
    }
    println!("{steps} steps in {seed} episodes: {seen:#?}");
    // A model in which nothing happens proves nothing.
    for step in [
        "Settle(Moved)",
        "Settle(Failed(Aborted(Cancelled)))",
        "Settle(Failed(TargetLost))",
        "Settle(Failed(ScaledDown))",
        "Accept(Gone)",
        "Accept(Fenced)",
        "UseOwnersPod",
        "GiveUpTarget",
        "DeleteLeftovers",
        "UnlabelSource",
        "LabelTarget",
        "ReleaseOwnersPod",
        "Abort(TimedOut)",
        "Abort(SourceLost)",
        "Abort(SourceDeleted)",
        "Abort(OwnerChanged)",
        "Abort(SourceRuns)",
    ] {
        assert!(seen.contains_key(step), "{step} was never taken: {seen:#?}");
    }
}
