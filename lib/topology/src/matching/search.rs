//! The search for an assignment that keeps every rule.
//!
//! Exact: a branch is left only when nothing fits in it or when a branch just like it has failed. Hives and
//! CPUs are decided before single GPUs, and only where the best assignment found so far breaks a rule; with
//! all of them decided what is left is one bipartite matching. In a choice, where links count only among the
//! chosen GPUs, it is decided which ones are chosen as soon as that matters; the rest is then a question of its
//! own, about a system with those GPUs alone.

use super::bits::Bits;
use super::problem::Problem;
use super::state::{Scope, State};
use super::verdict::Verdict;

/// A complete assignment that keeps every rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Solution {
    /// The destination of each active source GPU.
    pub(crate) gpus: Vec<Option<usize>>,
    /// The destination of each source CPU that GPUs are tied to.
    pub(crate) cpus: Vec<Option<usize>>,
}

/// The search took more steps than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfSteps;

/// Steps left; shared by all searches of one question.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) left: u64,
}

impl Problem<'_> {
    /// Finds an assignment of the active GPUs within `rows`, if there is one.
    pub(crate) fn solve(
        &self,
        rows: Vec<Bits>,
        active: Bits,
        steps: &mut Steps,
    ) -> Result<Option<Solution>, OutOfSteps> {
        let scope = Scope::new(self, active);
        let state = scope.start(rows);
        scope.descend(state, steps)
    }
}

impl Scope<'_> {
    pub(crate) fn descend(
        &self,
        mut state: State,
        steps: &mut Steps,
    ) -> Result<Option<Solution>, OutOfSteps> {
        steps.left = steps.left.checked_sub(1).ok_or(OutOfSteps)?;
        if !self.propagate(&mut state) {
            return Ok(None);
        }
        if state.chosen.is_some() && self.possible(&state).len() == self.active.len() {
            return self.solve_chosen(&state, steps);
        }
        let verdict = self.judge(&state);
        if let Verdict::Good(cpus) = verdict {
            let gpus = (0..state.rows.len())
                .map(|gpu| state.assignment.get(gpu))
                .collect();
            return Ok(Some(Solution { gpus, cpus }));
        }
        for child in self.branches(&state, &verdict) {
            if let Some(solution) = self.descend(child, steps)? {
                return Ok(Some(solution));
            }
        }
        Ok(None)
    }

    /// The ways on from here: every solution below `state`, or one just like it, is below one of them.
    fn branches(&self, state: &State, verdict: &Verdict) -> Vec<State> {
        let fewest = |choices: &[Bits]| {
            (0..choices.len())
                .filter(|index| choices[*index].len() > 1)
                .min_by_key(|index| choices[*index].len())
        };
        let (hive, cpu) = (fewest(&state.hives), fewest(&state.cpus));
        match verdict {
            Verdict::Good(_) => Vec::new(),
            Verdict::Upgrades(cpu) => self.upgrade_branches(state, *cpu),
            Verdict::Hives if hive.is_some() => self.hive_branches(state, hive),
            Verdict::Cpus if cpu.is_some() => self.cpu_branches(state, cpu),
            Verdict::Chosen => self.chosen_branches(state),
            Verdict::Hives | Verdict::Cpus => self.gpu_branches(state),
        }
    }

    fn hive_branches(&self, state: &State, hive: Option<usize>) -> Vec<State> {
        let columns = self.columns(state);
        let mut shapes = Vec::new();
        let mut branches = Vec::new();
        let Some(hive) = hive else { return branches };
        for to in state.hives[hive].iter() {
            let shape = self.hive_shape(state, &columns, to);
            if !shapes.contains(&shape) {
                shapes.push(shape);
                let mut branch = state.clone();
                branch.hives[hive] = Bits::one(to);
                branches.push(branch);
            }
        }
        branches
    }

    fn cpu_branches(&self, state: &State, cpu: Option<usize>) -> Vec<State> {
        let columns = self.columns(state);
        let mut shapes = Vec::new();
        let mut branches = Vec::new();
        let Some(cpu) = cpu else { return branches };
        for to in state.cpus[cpu].iter() {
            let shape = self.cpu_shape(state, &columns, to);
            if !shapes.contains(&shape) {
                shapes.push(shape);
                let mut branch = state.clone();
                branch.cpus[cpu] = Bits::one(to);
                branches.push(branch);
            }
        }
        branches
    }

    fn upgrade_branches(&self, state: &State, cpu: usize) -> Vec<State> {
        if state.upgrades[cpu].is_some() {
            return Vec::new();
        }
        // Whoever may have a better link may as well have none: this covers an assignment without any.
        self.cpus[cpu]
            .iter()
            .map(|gpu| {
                let mut branch = state.clone();
                branch.upgrades[cpu] = Some(gpu);
                branch
            })
            .collect()
    }

    /// With or without one more destination GPU. Which ones are chosen decides about all links and hives, so it
    /// goes before who takes which; the next one is linked to those that are chosen, if there is one.
    fn chosen_branches(&self, state: &State) -> Vec<State> {
        let chosen = state.chosen.unwrap_or(Bits::EMPTY);
        let open = self.possible(state).without(chosen);
        let neighbours = &self.problem.destination.neighbours;
        let near = chosen
            .iter()
            .fold(Bits::EMPTY, |near, gpu| near.or(neighbours[gpu]))
            .and(open);
        let Some(next) = near.lowest().or(open.lowest()) else {
            return Vec::new();
        };
        let (mut with, mut without) = (state.clone(), state.clone());
        with.chosen = Some(chosen.or(Bits::one(next)));
        without.chosen = Some(chosen);
        for row in &mut without.rows {
            row.remove(next);
        }
        vec![with, without]
    }

    /// The rest, once it is clear which destination GPUs are chosen: the process will see those alone.
    fn solve_chosen(
        &self,
        state: &State,
        steps: &mut Steps,
    ) -> Result<Option<Solution>, OutOfSteps> {
        let problem = self.problem;
        let chosen = self.possible(state);
        let destination = problem.destination.restricted(chosen);
        let mut rows = state.rows.clone();
        for gpu in self.active.iter() {
            let wanted = problem.source.valid_links(gpu, self.active);
            let linked = |to: &usize| wanted <= destination.valid_links(*to, chosen);
            rows[gpu] = rows[gpu].iter().filter(linked).collect();
        }
        Problem::new((problem.source, &destination), &rows, false, problem.ties).solve(
            rows.clone(),
            self.active,
            steps,
        )
    }

    fn gpu_branches(&self, state: &State) -> Vec<State> {
        let gpu = self
            .active
            .iter()
            .filter(|gpu| state.rows[*gpu].len() > 1)
            .min_by_key(|gpu| state.rows[*gpu].len());
        let Some(gpu) = gpu else { return Vec::new() };
        state.rows[gpu]
            .iter()
            .map(|to| {
                let mut branch = state.clone();
                branch.rows[gpu] = Bits::one(to);
                branch
            })
            .collect()
    }
}
