//! What has to be solved: which source GPU may take which destination GPU, and what ties those choices
//! together.

use super::bipartite::Assignment;
use super::bits::Bits;
use super::side::{CpuLink, Side};

/// The rules that tie the choices for several GPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ties {
    /// CPUs are mapped one to one.
    pub(crate) numa: bool,
    /// Hives go into hives.
    pub(crate) hives: bool,
}

/// What one GPU's links to one source CPU ask for.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// The source CPU.
    pub(crate) cpu: usize,
    /// For each destination CPU: GPUs whose links to it are as good and of the same kinds.
    pub(crate) same: Vec<Bits>,
    /// For each destination CPU: those, and GPUs of whose links one is of a better kind.
    pub(crate) better: Vec<Bits>,
}

/// A source, a destination, and the rules between them.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) source: &'a Side,
    pub(crate) destination: &'a Side,
    /// Destination GPUs that each source GPU may take, looked at alone.
    pub(crate) rows: &'a [Bits],
    /// For each source GPU; empty where CPUs are not tied.
    pub(crate) demands: Vec<Vec<Demand>>,
    pub(crate) ties: Ties,
    /// Not all destination GPUs need be used; then the process will not see the others, nor links through
    /// them.
    pub(crate) subset: bool,
    /// Destination hives that take one source hive at most. All, unless a choice can fall apart into several.
    pub(crate) exclusive: Bits,
    /// Destination hives in which any choice stays connected.
    pub(crate) cliques: Bits,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        (source, destination): (&'a Side, &'a Side),
        rows: &'a [Bits],
        subset: bool,
        ties: Ties,
    ) -> Self {
        let demands = if ties.numa {
            (0..source.count())
                .map(|gpu| demands(source, destination, gpu, rows[gpu]))
                .collect()
        } else {
            vec![Vec::new(); source.count()]
        };
        let cliques = destination
            .hives
            .iter()
            .enumerate()
            .filter(|(_, hive)| {
                hive.iter()
                    .all(|gpu| hive.without(Bits::one(gpu)).within(destination.xgmi[gpu]))
            })
            .map(|(index, _)| index)
            .collect();
        let all = Bits::first(destination.hives.len());
        Self {
            source,
            destination,
            rows,
            demands,
            ties,
            subset,
            exclusive: if subset { cliques } else { all },
            cliques: if subset { cliques } else { all },
        }
    }

    /// The source hives among `active` GPUs; a hive with one of them alone ties nothing.
    pub(crate) fn source_hives(&self, active: Bits) -> Vec<Bits> {
        if !self.ties.hives {
            return Vec::new();
        }
        let hives = self.source.hives.iter().map(|hive| hive.and(active));
        hives
            .map(|hive| if hive.len() > 1 { hive } else { Bits::EMPTY })
            .collect()
    }

    /// Destination hives that alone could take all of these GPUs.
    pub(crate) fn hive_candidates(&self, members: Bits, rows: &[Bits]) -> Bits {
        (0..self.destination.hives.len())
            .filter(|hive| {
                let inside = self.destination.hives[*hive];
                inside.len() >= members.len()
                    && fits(members, rows.len(), |gpu| rows[gpu].and(inside))
            })
            .collect()
    }

    /// Source GPUs of `active` that have a link to this source CPU.
    pub(crate) fn gpus_of_cpu(&self, cpu: usize, active: Bits) -> Bits {
        active
            .iter()
            .filter(|gpu| self.demands[*gpu].iter().any(|demand| demand.cpu == cpu))
            .collect()
    }

    /// What `gpu` wants of `cpu`.
    pub(crate) fn demand(&self, gpu: usize, cpu: usize) -> Option<&Demand> {
        self.demands[gpu].iter().find(|demand| demand.cpu == cpu)
    }

    /// Destination CPUs that alone could take this source CPU with all of these GPUs.
    pub(crate) fn cpu_candidates(&self, cpu: usize, gpus: Bits, rows: &[Bits]) -> Bits {
        (0..self.destination.cpus.len())
            .filter(|to| {
                fits(gpus, rows.len(), |gpu| {
                    self.demand(gpu, cpu)
                        .map_or(rows[gpu], |demand| rows[gpu].and(demand.better[*to]))
                })
            })
            .collect()
    }
}

/// Can every one of `gpus` have one of its choices?
fn fits(gpus: Bits, count: usize, choices: impl Fn(usize) -> Bits) -> bool {
    let mut table = vec![Bits::EMPTY; count];
    for gpu in gpus.iter() {
        table[gpu] = choices(gpu);
        if table[gpu].is_empty() {
            return false;
        }
    }
    Assignment::new(count).complete(gpus, &table).is_ok()
}

fn demands(source: &Side, destination: &Side, gpu: usize, row: Bits) -> Vec<Demand> {
    let mut found: Vec<Demand> = Vec::new();
    for wanted in source.cpu_links[gpu].chunk_by(|a, b| a.cpu == b.cpu) {
        let none = vec![Bits::EMPTY; destination.cpus.len()];
        let mut demand = Demand {
            cpu: wanted[0].cpu,
            same: none.clone(),
            better: none,
        };
        for candidate in row.iter() {
            for offered in destination.cpu_links[candidate].chunk_by(|a, b| a.cpu == b.cpu) {
                match upgrades(wanted, offered) {
                    Some(0) => {
                        demand.same[offered[0].cpu].add(candidate);
                        demand.better[offered[0].cpu].add(candidate);
                    }
                    Some(1) => demand.better[offered[0].cpu].add(candidate),
                    _ => {}
                }
            }
        }
        found.push(demand);
    }
    found
}

/// How many of the links must be met by a link of a better kind; `None` if one is not met at all.
fn upgrades(wanted: &[CpuLink], offered: &[CpuLink]) -> Option<usize> {
    let mut upgrades = 0;
    for link in wanted {
        let mut fitting = offered.iter().filter(|other| link.is_replaced_by(**other));
        let first = fitting.next()?;
        if first.kind != link.kind && fitting.all(|other| other.kind != link.kind) {
            upgrades += 1;
        }
    }
    Some(upgrades)
}
