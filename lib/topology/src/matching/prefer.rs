//! Which of several valid assignments is taken.

use super::bits::Bits;
use super::problem::Problem;
use super::search::{OutOfSteps, Solution, Steps};
use super::state::Scope;

/// Solves and then improves: first the `wishes` (pairs of source and destination GPU), each granted in order
/// when the rest can still be placed; then each source GPU in order gets the first destination GPU for which
/// that holds. When the steps are used up the solution stays as it is by then: it is no less valid.
pub(crate) fn best(
    problem: &Problem<'_>,
    wishes: &[(usize, usize)],
    steps: &mut Steps,
) -> Result<Option<Solution>, OutOfSteps> {
    let count = problem.rows.len();
    let Some(solution) = problem.solve(problem.rows.to_vec(), Bits::first(count), steps)? else {
        return Ok(None);
    };
    let mut improving = Improving {
        scope: Scope::new(problem, Bits::first(count)),
        classes: problem.gpu_classes(),
        rows: problem.rows.to_vec(),
        decided: Bits::EMPTY,
        used: Bits::EMPTY,
        solution,
    };
    // The error says only that there were too few steps.
    let _ = improving.improve(wishes, steps);
    Ok(Some(improving.solution))
}

struct Improving<'a> {
    scope: Scope<'a>,
    classes: Vec<usize>,
    /// What is left of each row with the decided GPUs in place.
    rows: Vec<Bits>,
    decided: Bits,
    used: Bits,
    solution: Solution,
}

impl Improving<'_> {
    fn improve(&mut self, wishes: &[(usize, usize)], steps: &mut Steps) -> Result<(), OutOfSteps> {
        for &(gpu, to) in wishes {
            self.grant(gpu, to, steps)?;
        }
        for gpu in 0..self.rows.len() {
            let mut failed = Vec::new();
            for to in self.rows[gpu].iter() {
                if self.decided.has(gpu) {
                    break;
                }
                // What cannot take one of two that are alike cannot take the other.
                let class = self.classes[to];
                if !self.used.has(to) && !failed.contains(&class) && !self.grant(gpu, to, steps)? {
                    failed.push(class);
                }
            }
        }
        Ok(())
    }

    /// Decides that `gpu` takes `to`, if that leaves a solution.
    fn grant(&mut self, gpu: usize, to: usize, steps: &mut Steps) -> Result<bool, OutOfSteps> {
        if self.solution.gpus[gpu] != Some(to) {
            if !self.rows[gpu].has(to) {
                return Ok(false);
            }
            let mut state = self.scope.start(self.rows.clone());
            state.rows[gpu] = Bits::one(to);
            match self.scope.descend(state, steps)? {
                Some(solution) => self.solution = solution,
                None => return Ok(false),
            }
        }
        for row in &mut self.rows {
            row.remove(to);
        }
        self.rows[gpu] = Bits::one(to);
        self.decided.add(gpu);
        self.used.add(to);
        Ok(true)
    }
}
