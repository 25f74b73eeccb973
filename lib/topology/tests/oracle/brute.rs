//! Every mapping there is, and what each of them breaks.

use std::collections::BTreeMap;

use rocferry_topology::Checks;

use crate::machine::{Gpu, Machine};
use crate::numa::{self, Numa};
use crate::rules::{self, Broken, Rule};
use crate::valid;
use crate::view::{Seen, Twist, view};

/// Which of the usable GPUs a mapping may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It takes all of them.
    All,
    /// Any.
    Subset,
}

/// What the matcher is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) source: Machine,
    pub(crate) destination: Machine,
    pub(crate) usable: Vec<u32>,
    pub(crate) choice: Choice,
    pub(crate) checks: Checks,
}

/// One mapping.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// For each source GPU, in the order of their nodes, the place of its destination among the usable GPUs in
    /// the order of theirs.
    pub(crate) map: Vec<usize>,
    /// What it breaks of the rules that are on.
    pub(crate) broken: Broken,
    /// What it breaks of those that are off.
    pub(crate) forgiven: Broken,
    /// What there is to say about CPUs. Whether this is a fault is in `broken`.
    pub(crate) numa: Numa,
}

/// All mappings that break at most one of the rules that cannot be turned off, in lexicographic order.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) sources: Vec<u32>,
    pub(crate) destinations: Vec<u32>,
    pub(crate) judged: Vec<Judged>,
    /// What any pair of GPUs or any mapping that was looked at breaks.
    pub(crate) anywhere: Broken,
}

/// The GPUs in the order that preferences go by.
pub(crate) fn in_order(machine: &Machine) -> Vec<&Gpu> {
    let mut gpus: Vec<&Gpu> = machine.gpus.iter().collect();
    gpus.sort_by_key(|gpu| (gpu.node, gpu.id));
    gpus
}

/// Judges every mapping.
pub(crate) fn judge(question: &Question, twist: Twist) -> Verdict {
    let sources = in_order(&question.source);
    let mut destinations = in_order(&question.destination);
    destinations.retain(|gpu| question.usable.contains(&gpu.id));

    let mut always = Broken::default();
    if question.choice == Choice::All && sources.len() != destinations.len() {
        always.add(Rule::Count);
    }
    if question.source.xnack == Some(true) && question.destination.xnack == Some(false) {
        always.add(Rule::Xnack);
    }
    let seen = view(&question.source, &sources, &sources, twist);
    let mut search = Search {
        question,
        twist,
        always,
        cpus: numa::linked(&seen),
        seen,
        alone: sources
            .iter()
            .map(|s| destinations.iter().map(|d| rules::device(s, d)).collect())
            .collect(),
        destinations: &destinations,
        views: BTreeMap::new(),
        judged: Vec::new(),
        anywhere: always,
    };
    for broken in search.alone.iter().flatten() {
        search.anywhere = search.anywhere.and(*broken);
    }
    search.go(&mut Vec::new(), always);
    Verdict {
        judged: search.judged,
        sources: sources.iter().map(|gpu| gpu.id).collect(),
        destinations: destinations.iter().map(|gpu| gpu.id).collect(),
        anywhere: search.anywhere,
    }
}

struct Search<'a> {
    question: &'a Question,
    twist: Twist,
    always: Broken,
    /// The sources' links.
    seen: Vec<Seen>,
    /// The sources' CPUs.
    cpus: Vec<u32>,
    /// What each pair breaks by itself.
    alone: Vec<Vec<Broken>>,
    destinations: &'a [&'a Gpu],
    /// The destinations' links for each choice of them, a bit for each that is chosen.
    views: BTreeMap<u32, Vec<Seen>>,
    judged: Vec<Judged>,
    anywhere: Broken,
}

impl Search<'_> {
    /// Tries every destination that is left for the next source.
    fn go(&mut self, map: &mut Vec<usize>, broken: Broken) {
        // Such a mapping is never allowed, and no single rule decides about it.
        if broken.without(rules::switchable()).len() > 1 {
            return;
        }
        if map.len() == self.seen.len() {
            self.complete(map, broken);
            return;
        }
        for next in 0..self.destinations.len() {
            if !map.contains(&next) {
                let alone = self.alone[map.len()][next];
                map.push(next);
                self.go(map, broken.and(alone));
                map.pop();
            }
        }
    }

    fn complete(&mut self, map: &[usize], alone: Broken) {
        let chosen = map.iter().fold(0, |chosen, at| chosen | 1 << at);
        let (question, twist, destinations) = (self.question, self.twist, self.destinations);
        let seen = self.views.entry(chosen).or_insert_with_key(|chosen| {
            let visible: Vec<&Gpu> = match (question.choice, twist) {
                (_, Twist::SeeUnusable) => question.destination.gpus.iter().collect(),
                (Choice::All, _) | (_, Twist::SeeUnchosen) => destinations.to_vec(),
                (Choice::Subset, _) => {
                    let all = destinations.iter().enumerate();
                    all.filter(|(at, _)| chosen & (1 << at) != 0)
                        .map(|(_, gpu)| *gpu)
                        .collect()
                }
            };
            view(&question.destination, &visible, destinations, twist)
        });
        let pairs: Vec<(&Seen, &Seen)> = self
            .seen
            .iter()
            .zip(map.iter().map(|at| &seen[*at]))
            .collect();

        let mut broken = alone.and(self.always);
        for (s, d) in &pairs {
            broken = broken.and(valid::links(s, d));
        }
        broken = broken.and(valid::hives(&pairs));
        self.anywhere = self.anywhere.and(broken);
        if broken.without(rules::switchable()).len() > 1 {
            return;
        }
        let numa = numa::judge(
            &pairs,
            &self.cpus,
            &question.destination,
            // So that the direction of links is counted once, as the rule of its own.
            broken.has(Rule::LinkDirection),
            broken.without(rules::off(question.checks)).is_empty(),
        );
        if !numa.holds {
            broken.add(Rule::Numa);
            self.anywhere.add(Rule::Numa);
        }
        let counted = broken.without(rules::off(question.checks));
        self.judged.push(Judged {
            map: map.to_vec(),
            broken: counted,
            forgiven: broken.without(counted),
            numa,
        });
    }
}
