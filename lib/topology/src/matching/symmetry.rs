//! Which destinations are so alike that trying one of them is enough.
//!
//! Two hives, CPUs or GPUs count as alike only if exchanging them, with everything that hangs on them, leaves
//! the problem as it is. Being too strict costs time; being too lax would lose solutions.

use super::bits::Bits;
use super::problem::Problem;
use super::side::CpuLink;
use super::state::{Scope, State};
use crate::LinkKind;

/// A destination hive as the rest of the problem sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HiveShape {
    /// Like no other.
    Unique(usize),
    /// Source hives that may still go there, and for each member the source GPUs that may still take it and
    /// its links to CPUs.
    Members(Bits, Vec<(Bits, Vec<CpuLink>)>),
}

/// Kind and direction of links to a CPU that need not be named.
type AnonymousLinks = Vec<(LinkKind, bool)>;

/// A destination CPU as the rest of the problem sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuShape {
    /// Like no other.
    Unique(usize),
    /// What hangs on it and nowhere else.
    Hanging {
        /// Source CPUs that may still become it.
        wanted: Bits,
        /// Hives that have all their GPUs there.
        hives: Vec<HiveShape>,
        /// Other GPUs: who may still take it, its hive, its links to the CPU.
        gpus: Vec<(Bits, Option<usize>, AnonymousLinks)>,
    },
}

impl Scope<'_> {
    /// Source GPUs that may still take each destination GPU.
    pub(crate) fn columns(&self, state: &State) -> Vec<Bits> {
        let mut columns = vec![Bits::EMPTY; self.problem.destination.count()];
        for gpu in self.active.iter() {
            for image in state.rows[gpu].iter() {
                columns[image].add(gpu);
            }
        }
        columns
    }

    pub(crate) fn hive_shape(&self, state: &State, columns: &[Bits], hive: usize) -> HiveShape {
        if !self.problem.is_closed(hive) {
            return HiveShape::Unique(hive);
        }
        let links = &self.problem.destination.cpu_links;
        let mut members: Vec<_> = self.problem.destination.hives[hive]
            .iter()
            .map(|gpu| (columns[gpu], links[gpu].clone()))
            .collect();
        members.sort_unstable();
        HiveShape::Members(wanting(&state.hives, hive), members)
    }

    pub(crate) fn cpu_shape(&self, state: &State, columns: &[Bits], cpu: usize) -> CpuShape {
        let destination = self.problem.destination;
        let hanging: Bits = (0..destination.count())
            .filter(|gpu| {
                destination.cpu_links[*gpu]
                    .iter()
                    .any(|link| link.cpu == cpu)
            })
            .collect();
        let alone = |gpu: usize| {
            destination.cpu_links[gpu]
                .iter()
                .all(|link| link.cpu == cpu)
        };
        if !hanging.iter().all(alone) {
            return CpuShape::Unique(cpu);
        }
        let (mut hives, mut gpus) = (Vec::new(), Vec::new());
        for gpu in hanging.iter() {
            let hive = destination.hive_of[gpu];
            if hive.is_some_and(|hive| !self.problem.is_closed(hive))
                || hive.is_none() && self.problem.subset && !destination.neighbours[gpu].is_empty()
            {
                return CpuShape::Unique(cpu);
            }
            let inside = hive.filter(|hive| destination.hives[*hive].within(hanging));
            match inside {
                Some(hive) if destination.hives[hive].lowest() == Some(gpu) => {
                    hives.push(self.hive_shape(state, columns, hive).without_cpu());
                }
                Some(_) => {}
                None => gpus.push((columns[gpu], hive, anonymous(&destination.cpu_links[gpu]))),
            }
        }
        hives.sort_unstable();
        gpus.sort_unstable();
        CpuShape::Hanging {
            wanted: wanting(&state.cpus, cpu),
            hives,
            gpus,
        }
    }
}

impl Problem<'_> {
    /// Exchanging members of this hive, or this hive with another, changes nothing but the members: always so
    /// when links to others no longer matter, else if every member is linked to exactly all others.
    fn is_closed(&self, hive: usize) -> bool {
        let members = self.destination.hives[hive];
        !self.subset
            || self.cliques.has(hive)
                && members.iter().all(|gpu| {
                    self.destination.neighbours[gpu] == members.without(Bits::one(gpu))
                        && self.destination.gpu_links[gpu].len() + 1 == members.len()
                })
    }

    /// Destination GPUs by likeness: GPUs with the same number can be exchanged as long as neither is used.
    pub(crate) fn gpu_classes(&self) -> Vec<usize> {
        let destination = self.destination;
        let mut columns = vec![Bits::EMPTY; destination.count()];
        for (gpu, row) in self.rows.iter().enumerate() {
            for image in row.iter() {
                columns[image].add(gpu);
            }
        }
        let mut keys = Vec::new();
        (0..destination.count())
            .map(|gpu| {
                let hive = destination.hive_of[gpu];
                let alone = self.subset
                    && !match hive {
                        Some(hive) => self.is_closed(hive),
                        None => destination.neighbours[gpu].is_empty(),
                    };
                let key = (
                    columns[gpu],
                    hive,
                    &destination.cpu_links[gpu],
                    alone.then_some(gpu),
                );
                keys.iter()
                    .position(|known| *known == key)
                    .unwrap_or_else(|| {
                        keys.push(key);
                        keys.len() - 1
                    })
            })
            .collect()
    }
}

impl HiveShape {
    /// The same for hives that hang on different CPUs in the same way.
    fn without_cpu(self) -> Self {
        match self {
            Self::Unique(hive) => Self::Unique(hive),
            Self::Members(wanted, mut members) => {
                for link in members.iter_mut().flat_map(|member| &mut member.1) {
                    link.cpu = 0;
                }
                members.sort_unstable();
                Self::Members(wanted, members)
            }
        }
    }
}

fn anonymous(links: &[CpuLink]) -> AnonymousLinks {
    links
        .iter()
        .map(|link| (link.kind, link.bidirectional))
        .collect()
}

/// Who may still become `thing`.
fn wanting(choices: &[Bits], thing: usize) -> Bits {
    (0..choices.len())
        .filter(|taker| choices[*taker].has(thing))
        .collect()
}
