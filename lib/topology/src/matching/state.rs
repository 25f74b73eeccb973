//! What is still possible at one point of the search.

use super::bipartite::Assignment;
use super::bits::Bits;
use super::problem::Problem;

/// Choices left for GPUs, hives and CPUs of the source. They only shrink on the way down.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Destination GPUs of each source GPU.
    pub(crate) rows: Vec<Bits>,
    /// Destination hives of each source hive; empty for hives that tie nothing.
    pub(crate) hives: Vec<Bits>,
    /// Destination CPUs of each source CPU; empty for CPUs that tie nothing.
    pub(crate) cpus: Vec<Bits>,
    /// The GPU of each source CPU whose link may be met by a better kind; `None`: any one of them.
    pub(crate) upgrades: Vec<Option<usize>>,
    /// Destination GPUs that have to be among the chosen ones, once it has come to deciding that one by one.
    pub(crate) chosen: Option<Bits>,
    /// An assignment within `rows`.
    pub(crate) assignment: Assignment,
}

/// What stays the same during a search.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) problem: &'a Problem<'a>,
    /// Source GPUs that take part.
    pub(crate) active: Bits,
    /// Source hives, reduced to the active GPUs; empty where nothing is tied.
    pub(crate) hives: Vec<Bits>,
    /// Active GPUs with links to each source CPU.
    pub(crate) cpus: Vec<Bits>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(problem: &'a Problem<'a>, active: Bits) -> Self {
        Self {
            problem,
            active,
            hives: problem.source_hives(active),
            cpus: (0..problem.source.cpus.len())
                .map(|cpu| problem.gpus_of_cpu(cpu, active))
                .collect(),
        }
    }

    /// Everything that is possible with these rows.
    pub(crate) fn start(&self, rows: Vec<Bits>) -> State {
        let problem = self.problem;
        State {
            hives: self
                .hives
                .iter()
                .map(|members| match members.is_empty() {
                    true => Bits::EMPTY,
                    false => problem.hive_candidates(*members, &rows),
                })
                .collect(),
            cpus: self
                .cpus
                .iter()
                .enumerate()
                .map(|(cpu, gpus)| match gpus.is_empty() {
                    true => Bits::EMPTY,
                    false => problem.cpu_candidates(cpu, *gpus, &rows),
                })
                .collect(),
            upgrades: vec![None; self.cpus.len()],
            chosen: None,
            assignment: Assignment::new(rows.len()),
            rows,
        }
    }

    /// Destination GPUs with which `gpu` would do if source CPU `cpu` became `to`.
    pub(crate) fn on_cpu(&self, state: &State, gpu: usize, cpu: usize, to: usize) -> Bits {
        self.problem.demand(gpu, cpu).map_or(Bits::EMPTY, |demand| {
            if state.upgrades[cpu].is_none_or(|chosen| chosen == gpu) {
                demand.better[to]
            } else {
                demand.same[to]
            }
        })
    }

    /// Strikes what has become impossible, then completes the assignment. False: nothing is left.
    pub(crate) fn propagate(&self, state: &mut State) -> bool {
        loop {
            let before = (state.rows.clone(), state.hives.clone(), state.cpus.clone());
            if !self.shrink_chosen(state)
                || !self.shrink_rows(state)
                || !self.shrink_hives(state)
                || !self.shrink_cpus(state)
            {
                return false;
            }
            if before.0 == state.rows && before.1 == state.hives && before.2 == state.cpus {
                break;
            }
        }
        let used = |sets: &[Bits]| {
            (0..sets.len())
                .filter(|index| !sets[*index].is_empty())
                .collect()
        };
        let (hives, cpus): (Bits, Bits) = (used(&state.hives), used(&state.cpus));
        let exclusive = self.problem.exclusive;
        // A hive that may also go where others go is not in the way.
        let bound = hives
            .iter()
            .filter(|hive| state.hives[*hive].within(exclusive))
            .collect();
        Assignment::new(state.hives.len())
            .complete(bound, &state.hives)
            .is_ok()
            && Assignment::new(state.cpus.len())
                .complete(cpus, &state.cpus)
                .is_ok()
            && state.assignment.complete(self.active, &state.rows).is_ok()
    }

    /// Destination GPUs that some active GPU may still take.
    pub(crate) fn possible(&self, state: &State) -> Bits {
        let rows = self.active.iter().map(|gpu| state.rows[gpu]);
        rows.fold(Bits::EMPTY, Bits::or)
    }

    /// Strikes those whose links would be too few even with all others that are possible.
    fn shrink_chosen(&self, state: &mut State) -> bool {
        let Some(chosen) = state.chosen else {
            return true;
        };
        let Problem {
            source,
            destination,
            ..
        } = self.problem;
        let mut possible = self.possible(state);
        if chosen.len() >= self.active.len() {
            possible = possible.and(chosen);
        }
        if chosen.len() > self.active.len() || !chosen.within(possible) {
            return false;
        }
        let links: Vec<usize> = (0..destination.count())
            .map(|to| destination.valid_links(to, possible))
            .collect();
        for gpu in self.active.iter() {
            let wanted = source.valid_links(gpu, self.active);
            let hive = source.hive_of[gpu].and_then(|hive| self.hives.get(hive));
            let tied = hive.is_some_and(|members| !members.is_empty());
            state.rows[gpu] = state.rows[gpu]
                .and(possible)
                .iter()
                .filter(|to| {
                    wanted <= links[*to] && (!tied || destination.xgmi[*to].meets(possible))
                })
                .collect();
        }
        true
    }

    fn shrink_rows(&self, state: &mut State) -> bool {
        let mut single = Bits::EMPTY;
        for gpu in self.active.iter() {
            let mut row = state.rows[gpu];
            if let Some(hive) = self.problem.source.hive_of[gpu]
                && let Some(candidates) = state.hives.get(hive)
                && !candidates.is_empty()
            {
                let hives = &self.problem.destination.hives;
                let inside = candidates
                    .iter()
                    .fold(Bits::EMPTY, |all, to| all.or(hives[to]));
                row = row.and(inside);
            }
            for demand in &self.problem.demands[gpu] {
                let candidates = state.cpus[demand.cpu];
                let there = candidates.iter().fold(Bits::EMPTY, |all, to| {
                    all.or(self.on_cpu(state, gpu, demand.cpu, to))
                });
                row = row.and(there);
            }
            if row.is_empty() {
                return false;
            }
            if let Some(only) = row.single() {
                if single.has(only) {
                    return false;
                }
                single.add(only);
            }
            state.rows[gpu] = row;
        }
        for gpu in self.active.iter() {
            if state.rows[gpu].single().is_none() {
                state.rows[gpu] = state.rows[gpu].without(single);
                if state.rows[gpu].is_empty() {
                    return false;
                }
            }
        }
        true
    }

    fn shrink_hives(&self, state: &mut State) -> bool {
        for (hive, members) in self.hives.iter().enumerate() {
            if members.is_empty() {
                continue;
            }
            let hives = &self.problem.destination.hives;
            state.hives[hive] = state.hives[hive]
                .iter()
                .filter(|to| members.iter().all(|gpu| state.rows[gpu].meets(hives[*to])))
                .collect();
        }
        let wanted = self
            .hives
            .iter()
            .map(|members| !members.is_empty())
            .collect::<Vec<_>>();
        strike_singles(&mut state.hives, &wanted, self.problem.exclusive)
    }

    fn shrink_cpus(&self, state: &mut State) -> bool {
        for (cpu, gpus) in self.cpus.iter().enumerate() {
            if gpus.is_empty() {
                continue;
            }
            state.cpus[cpu] = state.cpus[cpu]
                .iter()
                .filter(|to| {
                    gpus.iter()
                        .all(|gpu| state.rows[gpu].meets(self.on_cpu(state, gpu, cpu, *to)))
                })
                .collect();
        }
        let wanted = self
            .cpus
            .iter()
            .map(|gpus| !gpus.is_empty())
            .collect::<Vec<_>>();
        strike_singles(&mut state.cpus, &wanted, Bits::first(Bits::CAPACITY))
    }
}

/// Takes what is the only choice of one from all others, where it is `exclusive`. False: somebody who wants
/// one is left without.
fn strike_singles(choices: &mut [Bits], wanted: &[bool], exclusive: Bits) -> bool {
    let mut single = Bits::EMPTY;
    for (set, wanted) in choices.iter().zip(wanted) {
        if *wanted && set.is_empty() {
            return false;
        }
        if let Some(only) = set.single()
            && exclusive.has(only)
        {
            if single.has(only) {
                return false;
            }
            single.add(only);
        }
    }
    for (set, wanted) in choices.iter_mut().zip(wanted) {
        if set.single().is_none() {
            *set = set.without(single);
            if *wanted && set.is_empty() {
                return false;
            }
        }
    }
    true
}
