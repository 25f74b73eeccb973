//! Can a checkpoint's GPUs be restored on a system, and which GPU takes which place?

use serde::Serialize;

use crate::checks::Checks;
use crate::device::may_replace;
use crate::matching::bits::Bits;
use crate::matching::prefer::best;
use crate::matching::problem::{Problem, Ties};
use crate::matching::search::{OutOfSteps, Solution, Steps};
use crate::matching::side::Side;
use crate::rejection::explain::{explain, unlike};
use crate::{
    ActualGpuId, GpuNode, Mapping, Rejection, SourceError, SourceGpu, Switch, System, UserGpuId,
};

/// Steps of one search before it gives up. Each takes some microseconds; real systems take a handful.
pub(crate) const STEPS: u64 = 20_000;

/// Which of the usable GPUs of a destination must be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All: those that a restoring process can open. The kernel wants exactly as many as the process had.
    All,
    /// As many as are needed: the free GPUs of a node, out of which a container is to be given some. The
    /// process will see only those, so links and hives count among them alone.
    Subset,
}

/// The GPUs of a checkpoint, prepared for any number of destinations.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// The GPUs, by node.
    gpus: Vec<SourceGpu>,
    xnack: Option<bool>,
    /// The partition that each GPU must be again, for its SDMA queues.
    sdma_partitions: Vec<Option<u32>>,
    pub(crate) side: Side,
    /// PCIe and XGMI links of each GPU that lead somewhere.
    links: Vec<usize>,
    pub(crate) checks: Checks,
}

/// A destination, prepared for one question.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) gpus: Vec<&'a GpuNode>,
    pub(crate) side: Side,
    pub(crate) mode: Mode,
    /// Destination GPUs that each source GPU may take, looked at alone.
    pub(crate) rows: Vec<Bits>,
}

impl Matcher {
    /// Prepares the checkpoint's side. The order of nodes does not matter.
    ///
    /// # Errors
    /// [`SourceError`], for a gpu_id or node number that comes twice and for more GPUs than can be matched.
    pub fn new(source: &System<UserGpuId>, checks: Checks) -> Result<Self, SourceError> {
        let mut gpus: Vec<&SourceGpu> = source.gpus().collect();
        if gpus.len() > Bits::CAPACITY {
            return Err(SourceError::TooManyGpus {
                gpus: gpus.len(),
                limit: Bits::CAPACITY,
            });
        }
        gpus.sort_by_key(|gpu| (gpu.node, gpu.id));
        if let Some(pair) = gpus.windows(2).find(|pair| pair[0].node == pair[1].node) {
            return Err(SourceError::DuplicateNode { node: pair[0].node });
        }
        let mut ids: Vec<_> = gpus.iter().map(|gpu| gpu.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SourceError::DuplicateGpu { gpu: pair[0] });
        }
        let side = Side::new(source, &gpus);
        if side.cpus.len() > Bits::CAPACITY {
            return Err(SourceError::TooManyCpus {
                cpus: side.cpus.len(),
                limit: Bits::CAPACITY,
            });
        }
        let all = Bits::first(gpus.len());
        let links = (0..gpus.len())
            .map(|gpu| side.valid_links(gpu, all))
            .collect();
        let sdma_partitions = gpus
            .iter()
            .map(|gpu| {
                let mut known = source.sdma_partitions.iter();
                known.find(|known| known.0 == gpu.id).map(|known| known.1)
            })
            .collect();
        Ok(Self {
            gpus: gpus.into_iter().cloned().collect(),
            xnack: source.xnack,
            sdma_partitions,
            side,
            links,
            checks,
        })
    }

    /// The GPUs of the checkpoint, by node.
    #[must_use]
    pub fn gpus(&self) -> &[SourceGpu] {
        &self.gpus
    }

    /// The checks that are made.
    #[must_use]
    pub const fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Maps the checkpoint's GPUs onto `usable` ones of `destination`, if an assignment exists that keeps
    /// every rule.
    ///
    /// Of several it takes one that depends on nothing but the arguments, and not on their order: each GPU
    /// keeps its own id where that leaves the others a place (a restored process for which ids changed meets
    /// quirks of the kernel); else GPUs keep their order; else those that shared a CPU share one again, even
    /// if nobody insists on it; and what is still open goes in node order to the first that fits. A search that
    /// finds a mapping and then takes too many steps to find the preferred one gives what it has by then.
    ///
    /// # Errors
    /// [`Rejection`], with the smallest reason found.
    pub fn map(
        &self,
        destination: &System,
        usable: &[ActualGpuId],
        mode: Mode,
    ) -> Result<Mapping, Box<Rejection>> {
        let target = self.target(destination, usable, mode)?;
        let mut steps = Steps { left: STEPS };
        let wishes: Vec<(usize, usize)> = self
            .gpus
            .iter()
            .enumerate()
            .filter_map(|(index, gpu)| {
                let same = |other: &&GpuNode| other.id.get() == gpu.id.get();
                Some((index, target.gpus.iter().position(same)?))
            })
            .collect();
        let solution = self
            .choose(&target, &wishes, &mut steps)
            .map_err(|OutOfSteps| Rejection::Undecided { steps: STEPS })?;
        match solution {
            Some(solution) => Ok(self.mapping(&target, &solution)),
            None => Err(Box::new(explain(self, &target))),
        }
    }

    /// The fewest switches that together would let the checkpoint through if they were off, in the order of
    /// [`Switch::ALL`]. Empty if it fits as it is, and if no switch helps.
    #[must_use]
    pub fn switches(
        &self,
        destination: &System,
        usable: &[ActualGpuId],
        mode: Mode,
    ) -> Vec<Switch> {
        let fits = |checks: Checks| {
            let matcher = Self {
                checks,
                ..self.clone()
            };
            matcher.fits(destination, usable, mode)
        };
        if fits(self.checks) {
            return Vec::new();
        }
        let on: Vec<Switch> = Switch::ALL
            .into_iter()
            .filter(|switch| self.checks.is_on(*switch))
            .collect();
        let without = |off: &[Switch]| {
            off.iter()
                .fold(self.checks, |checks, switch| checks.with(*switch, false))
        };
        if !fits(without(&on)) {
            return Vec::new();
        }
        let mut sets: Vec<Vec<Switch>> = (1..1_u32 << on.len())
            .map(|set| {
                let members = (0..on.len()).filter(|index| set >> index & 1 != 0);
                members.map(|index| on[index]).collect()
            })
            .collect();
        sets.sort_by_key(Vec::len);
        sets.into_iter()
            .find(|set| fits(without(set)))
            .unwrap_or_default()
    }

    /// Is there a mapping? Does without choosing and explaining.
    #[must_use]
    pub fn fits(&self, destination: &System, usable: &[ActualGpuId], mode: Mode) -> bool {
        self.target(destination, usable, mode).is_ok_and(|target| {
            let problem = self.problem(&target, self.ties());
            let all = Bits::first(self.gpus.len());
            let solution = problem.solve(target.rows.clone(), all, &mut Steps { left: STEPS });
            matches!(solution, Ok(Some(_)))
        })
    }

    const fn ties(&self) -> Ties {
        Ties {
            numa: self.checks.numa,
            hives: true,
        }
    }

    fn problem<'a>(&'a self, target: &'a Target<'_>, ties: Ties) -> Problem<'a> {
        self.problem_of(target, ties, target.mode == Mode::Subset)
    }

    /// `chosen`: links count only among the chosen GPUs.
    pub(crate) fn problem_of<'a>(
        &'a self,
        target: &'a Target<'_>,
        ties: Ties,
        chosen: bool,
    ) -> Problem<'a> {
        let sides = (&self.side, &target.side);
        Problem::new(sides, &target.rows, chosen, ties)
    }

    fn choose(
        &self,
        target: &Target<'_>,
        wishes: &[(usize, usize)],
        steps: &mut Steps,
    ) -> Result<Option<Solution>, OutOfSteps> {
        let problem = self.problem(target, self.ties());
        if self.checks.numa {
            return best(&problem, wishes, steps);
        }
        let Some(solution) = best(&problem, wishes, steps)? else {
            return Ok(None);
        };
        // Nobody insists on NUMA. Own ids and the whole order go before it, it goes before the rest.
        let in_order = target.gpus.len() == self.gpus.len()
            && solution
                .gpus
                .iter()
                .enumerate()
                .all(|(gpu, to)| *to == Some(gpu));
        let granted: Vec<_> = wishes
            .iter()
            .copied()
            .filter(|(gpu, to)| solution.gpus[*gpu] == Some(*to))
            .collect();
        if in_order {
            return Ok(Some(solution));
        }
        let mut rows = target.rows.clone();
        for (gpu, to) in granted {
            rows[gpu] = Bits::one(to);
        }
        let tied = Target {
            gpus: target.gpus.clone(),
            side: target.side.clone(),
            mode: target.mode,
            rows,
        };
        let ties = Ties {
            numa: true,
            hives: true,
        };
        // Too few steps for that are no reason to have nothing.
        let near = best(&self.problem(&tied, ties), &[], steps).unwrap_or(None);
        Ok(Some(near.unwrap_or(solution)))
    }

    /// Finds the GPUs that `usable` names and what each may stand in for.
    fn target<'a>(
        &self,
        destination: &'a System,
        usable: &[ActualGpuId],
        mode: Mode,
    ) -> Result<Target<'a>, Box<Rejection>> {
        let gpus = usable_gpus(destination, usable)?;
        let (needed, usable) = (self.gpus.len(), gpus.len());
        match mode {
            Mode::All if needed != usable => {
                return Err(Box::new(Rejection::CountMismatch { needed, usable }));
            }
            Mode::Subset if needed > usable => {
                return Err(Box::new(Rejection::TooFewGpus { needed, usable }));
            }
            _ => {}
        }
        if self.xnack == Some(true) && destination.xnack == Some(false) {
            return Err(Box::new(Rejection::Xnack));
        }
        // Most destinations fail here already; what follows is for those that do not.
        let mut rows: Vec<Bits> = self
            .gpus
            .iter()
            .enumerate()
            .map(|(index, source)| {
                let fits = |to: &usize| {
                    self.other_partition(index, gpus[*to]).is_none()
                        && may_replace(source, gpus[*to], &self.checks)
                };
                (0..gpus.len()).filter(fits).collect()
            })
            .collect();
        if rows.iter().any(|row| row.is_empty()) {
            return Err(Box::new(unlike(self, &gpus, &rows)));
        }
        let side = Side::new(destination, &gpus);
        if side.cpus.len() > Bits::CAPACITY {
            return Err(Box::new(Rejection::TooManyCpus {
                cpus: side.cpus.len(),
                limit: Bits::CAPACITY,
            }));
        }
        let most: Vec<usize> = (0..gpus.len())
            .map(|to| self.links_at_most(&side, mode, to))
            .collect();
        for (source, row) in rows.iter_mut().enumerate() {
            let linked = |to: &usize| {
                self.links[source] <= most[*to] && self.cpu_links_fit(source, &side, *to)
            };
            *row = row.iter().filter(linked).collect();
        }
        Ok(Target {
            gpus,
            side,
            mode,
            rows,
        })
    }

    /// The partition that the source GPU must be, and the one that this GPU is, where these differ.
    pub(crate) fn other_partition(&self, source: usize, gpu: &GpuNode) -> Option<(u32, u32)> {
        let needed = self.sdma_partitions[source]?;
        let here = gpu.partition_index()?;
        (needed != here).then_some((needed, here))
    }

    /// Has the destination GPU, looked at alone, the links to CPUs that this source GPU has?
    fn cpu_links_fit(&self, source: usize, side: &Side, to: usize) -> bool {
        let offered = &side.cpu_links[to];
        self.side.cpu_links[source]
            .iter()
            .all(|link| offered.iter().any(|other| link.is_replaced_by(*other)))
    }

    /// Links of a source GPU that lead somewhere.
    pub(crate) fn source_links(&self, source: usize) -> usize {
        self.links[source]
    }

    /// Links that a destination GPU can have with any choice of the others.
    pub(crate) fn links_at_most(&self, side: &Side, mode: Mode, to: usize) -> usize {
        let (cpus, gpus) = (side.cpu_links[to].len(), side.gpu_links[to].len());
        let peers = side.peers[to].len();
        // Two links to one GPU, and a link to itself, are there with fewer others than links.
        let folded = gpus > peers || side.peers[to].has(to);
        if mode == Mode::All || folded {
            cpus + gpus
        } else {
            cpus + gpus.min(self.gpus.len().saturating_sub(1))
        }
    }

    fn mapping(&self, target: &Target<'_>, solution: &Solution) -> Mapping {
        let gpus = self
            .gpus
            .iter()
            .zip(&solution.gpus)
            .filter_map(|(gpu, to)| Some((gpu.id, target.gpus[(*to)?].id)));
        let cpus = self
            .side
            .cpus
            .iter()
            .zip(&solution.cpus)
            .filter_map(|(cpu, to)| Some((*cpu, target.side.cpus[(*to)?])));
        Mapping::new(gpus.collect(), cpus.collect())
    }
}

/// The usable GPUs in node order.
fn usable_gpus<'a>(
    system: &'a System,
    usable: &[ActualGpuId],
) -> Result<Vec<&'a GpuNode>, Box<Rejection>> {
    if usable.len() > Bits::CAPACITY {
        return Err(Box::new(Rejection::TooManyGpus {
            gpus: usable.len(),
            limit: Bits::CAPACITY,
        }));
    }
    let mut wanted = usable.to_vec();
    wanted.sort_unstable();
    if let Some(pair) = wanted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Box::new(Rejection::GivenTwice { gpu: pair[0] }));
    }
    let mut found: Vec<&GpuNode> = system
        .gpus()
        .filter(|gpu| wanted.binary_search(&gpu.id).is_ok())
        .collect();
    found.sort_by_key(|gpu| (gpu.node, gpu.id));
    if let Some(pair) = found.windows(2).find(|pair| pair[0].node == pair[1].node) {
        return Err(Box::new(Rejection::DuplicateNode { node: pair[0].node }));
    }
    if found.len() != wanted.len() {
        let missing = wanted
            .into_iter()
            .find(|id| found.iter().filter(|gpu| gpu.id == *id).count() != 1);
        return Err(Box::new(Rejection::NotInTopology {
            gpu: missing.unwrap_or_default(),
        }));
    }
    Ok(found)
}
