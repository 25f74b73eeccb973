//! Does a complete assignment keep the rules that tie GPUs together?

use super::bipartite::Assignment;
use super::bits::Bits;
use super::side::groups;
use super::state::{Scope, State};

/// What is wrong with an assignment, as far as it tells where to search on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing. The destination CPU of each source CPU that GPUs are tied to.
    Good(Vec<Option<usize>>),
    /// A source hive is torn apart, or two are in one.
    Hives,
    /// CPUs are torn apart, or two are in one.
    Cpus,
    /// This source CPU has more than one link that is met by a better kind.
    Upgrades(usize),
    /// The links among the chosen GPUs are too few.
    Chosen,
}

impl Scope<'_> {
    /// Judges the assignment of `state`, which must be complete.
    pub(crate) fn judge(&self, state: &State) -> Verdict {
        let problem = self.problem;
        let images = |members: Bits| -> Bits {
            members
                .iter()
                .filter_map(|gpu| state.assignment.get(gpu))
                .collect()
        };
        let mut taken = Bits::EMPTY;
        for members in self.hives.iter().filter(|members| !members.is_empty()) {
            let images = images(*members);
            let hives = &problem.destination.hives;
            let Some(hive) = hives.iter().position(|hive| images.within(*hive)) else {
                return Verdict::Hives;
            };
            if problem.exclusive.has(hive) && taken.has(hive) {
                return Verdict::Hives;
            }
            taken.add(hive);
        }
        let cpus = match self.judge_cpus(state) {
            Ok(cpus) => cpus,
            Err(verdict) => return verdict,
        };
        if problem.subset && !self.holds_among_chosen(state, images(self.active)) {
            return Verdict::Chosen;
        }
        Verdict::Good(cpus)
    }

    fn judge_cpus(&self, state: &State) -> Result<Vec<Option<usize>>, Verdict> {
        let mut choices = vec![Bits::EMPTY; self.cpus.len()];
        let mut tied = Bits::EMPTY;
        for (cpu, gpus) in self.cpus.iter().enumerate() {
            if gpus.is_empty() {
                continue;
            }
            tied.add(cpu);
            let mut met = false;
            for to in state.cpus[cpu].iter() {
                let Some(upgrades) = self.upgrades(state, cpu, to) else {
                    continue;
                };
                met = true;
                if upgrades <= 1 {
                    choices[cpu].add(to);
                }
            }
            if choices[cpu].is_empty() {
                let undecided = state.cpus[cpu].single().is_none();
                return Err(match met && !undecided {
                    true => Verdict::Upgrades(cpu),
                    false => Verdict::Cpus,
                });
            }
        }
        let mut map = Assignment::new(choices.len());
        map.complete(tied, &choices).map_err(|_| Verdict::Cpus)?;
        Ok((0..choices.len()).map(|cpu| map.get(cpu)).collect())
    }

    /// How many GPUs of `cpu` would need a better kind of link if it became `to`; `None` if one does not
    /// reach `to` as it must.
    fn upgrades(&self, state: &State, cpu: usize, to: usize) -> Option<usize> {
        let mut upgrades = 0;
        for gpu in self.cpus[cpu].iter() {
            let (demand, image) = (self.problem.demand(gpu, cpu)?, state.assignment.get(gpu)?);
            if !self.on_cpu(state, gpu, cpu, to).has(image) {
                return None;
            }
            upgrades += usize::from(!demand.same[to].has(image));
        }
        Some(upgrades)
    }

    /// What a process that sees only the chosen GPUs would find.
    fn holds_among_chosen(&self, state: &State, chosen: Bits) -> bool {
        let destination = self.problem.destination;
        let linked = self.active.iter().all(|gpu| {
            state.assignment.get(gpu).is_some_and(|image| {
                let wanted = self.problem.source.valid_links(gpu, self.active);
                wanted <= destination.valid_links(image, chosen)
            })
        });
        if !linked {
            return false;
        }
        let groups = groups(&destination.xgmi, chosen);
        let mut taken = Bits::EMPTY;
        self.hives
            .iter()
            .filter(|members| !members.is_empty())
            .all(|members| {
                let images: Bits = members
                    .iter()
                    .filter_map(|gpu| state.assignment.get(gpu))
                    .collect();
                let group = groups.iter().position(|group| images.within(*group));
                let free = group.is_some_and(|group| !taken.has(group));
                taken = taken.or(group.map_or(Bits::EMPTY, Bits::one));
                free
            })
    }
}
