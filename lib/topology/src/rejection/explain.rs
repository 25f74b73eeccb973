//! Finding the smallest reason.

use super::{Place, RejectedCandidate, RejectedGpu, Rejection, Tie};
use crate::difference::{Difference, Rule, Value};
use crate::matcher::{Matcher, STEPS, Target};
use crate::matching::bipartite::{Assignment, Starved};
use crate::matching::bits::Bits;
use crate::matching::problem::{Problem, Ties};
use crate::matching::search::{OutOfSteps, Steps};
use crate::matching::side::CpuLink;
use crate::matching::state::Scope;
use crate::{GpuNode, LinkKind, Mode, UserGpuId, compare_gpus};

/// Why `target` does not do, which is known already. Looks at single GPUs first, then at what several GPUs
/// share, then at hives and CPUs alone, then at everything together.
pub(crate) fn explain(matcher: &Matcher, target: &Target<'_>) -> Rejection {
    let explainer = Explainer { matcher, target };
    explainer
        .single_gpus()
        .or_else(|| explainer.shared_gpus())
        .unwrap_or_else(|| {
            let undecided = |OutOfSteps| Rejection::Undecided { steps: STEPS };
            explainer.ties().unwrap_or_else(undecided)
        })
}

/// Why nothing can replace some of the GPUs, which have empty `rows`, whatever their links.
pub(crate) fn unlike(matcher: &Matcher, here: &[&GpuNode], rows: &[Bits]) -> Rejection {
    let empty = (0..rows.len()).filter(|source| rows[*source].is_empty());
    let gpus = empty.map(|source| {
        let mut rejected: Vec<RejectedCandidate> = Vec::with_capacity(here.len());
        for (to, gpu) in here.iter().enumerate() {
            // Neighbours are mostly alike.
            let like = rejected.last().filter(|_| is_like(here[to - 1], gpu));
            let differences = like.map_or_else(
                || device_differences(matcher, source, gpu),
                |like| like.differences.clone(),
            );
            rejected.push(RejectedCandidate {
                gpu: gpu.id,
                differences,
            });
        }
        RejectedGpu {
            gpu: matcher.gpus()[source].id,
            rejected,
            contended: Vec::new(),
        }
    });
    Rejection::NoCandidate {
        gpus: gpus.collect(),
    }
}

fn is_like(one: &GpuNode, other: &GpuNode) -> bool {
    let beside = |gpu: &GpuNode| {
        (
            gpu.gfx_target_version,
            gpu.num_xcc,
            gpu.compute_partition,
            gpu.memory_partition,
            gpu.location_id,
        )
    };
    one.properties == other.properties && beside(one) == beside(other)
}

/// Everything that keeps one GPU from replacing another, apart from links.
fn device_differences(matcher: &Matcher, source: usize, gpu: &GpuNode) -> Vec<Difference> {
    let mut found = compare_gpus(&matcher.gpus()[source], gpu, &matcher.checks);
    if let Some((needed, here)) = matcher.other_partition(source, gpu) {
        found.push(Difference {
            property: "partition_index",
            source: Value::Number(needed.into()),
            destination: Value::Number(here.into()),
            rule: Rule::Equal,
            switch: None,
        });
    }
    found
}

struct Explainer<'a> {
    matcher: &'a Matcher,
    target: &'a Target<'a>,
}

impl Explainer<'_> {
    fn all(&self) -> Bits {
        Bits::first(self.matcher.gpus().len())
    }

    fn single_gpus(&self) -> Option<Rejection> {
        let gpus: Vec<RejectedGpu> = (0..self.matcher.gpus().len())
            .filter(|source| self.target.rows[*source].is_empty())
            .map(|source| self.rejected(source))
            .collect();
        (!gpus.is_empty()).then_some(Rejection::NoCandidate { gpus })
    }

    fn shared_gpus(&self) -> Option<Rejection> {
        let mut assignment = Assignment::new(self.matcher.gpus().len());
        let starved = assignment.complete(self.all(), &self.target.rows).err()?;
        Some(Rejection::TooFewCandidates {
            gpus: starved
                .takers
                .iter()
                .map(|source| self.rejected(source))
                .collect(),
            candidates: starved.things.len(),
        })
    }

    /// The first set of ties that cannot be kept, smaller sets first.
    fn ties(&self) -> Result<Rejection, OutOfSteps> {
        let numa = self.matcher.checks.numa;
        let subset = self.target.mode == Mode::Subset;
        let mut sets = vec![vec![Tie::Hives]];
        if numa {
            sets.extend([vec![Tie::Numa], vec![Tie::Hives, Tie::Numa]]);
        }
        if subset {
            let with_links = sets
                .iter()
                .map(|set| [set.as_slice(), &[Tie::Links]].concat());
            let with_links: Vec<_> = with_links.collect();
            sets.push(vec![Tie::Links]);
            sets.extend(with_links);
        }
        let mut steps = Steps { left: STEPS };
        let last = sets.len() - 1;
        for (index, set) in sets.into_iter().enumerate() {
            let ties = Ties {
                numa: set.contains(&Tie::Numa),
                hives: set.contains(&Tie::Hives),
            };
            let problem = self
                .matcher
                .problem_of(self.target, ties, set.contains(&Tie::Links));
            let keepable = |active, steps: &mut Steps| {
                let solution = problem.solve(self.target.rows.clone(), active, steps)?;
                Ok(solution.is_some())
            };
            // All ties together are known to fail.
            if index < last && keepable(self.all(), &mut steps)? {
                continue;
            }
            if let [tie] = set[..]
                && let Some(rejection) = self.one_tie(&problem, tie)
            {
                return Ok(rejection);
            }
            let mut needed = self.all();
            for gpu in self.all().iter() {
                let fewer = needed.without(Bits::one(gpu));
                if !keepable(fewer, &mut steps)? {
                    needed = fewer;
                }
            }
            return Ok(Rejection::Together {
                gpus: self.names(needed),
                ties: set,
            });
        }
        // Not reached: the last set ends the loop.
        Err(OutOfSteps)
    }

    /// A reason that names a hive or a CPU, where there is one.
    fn one_tie(&self, problem: &Problem<'_>, tie: Tie) -> Option<Rejection> {
        let scope = Scope::new(problem, self.all());
        let state = scope.start(self.target.rows.clone());
        let wanted = |groups: &[Bits]| -> Bits {
            (0..groups.len())
                .filter(|index| !groups[*index].is_empty())
                .collect()
        };
        match tie {
            Tie::Hives => {
                let hives = wanted(&scope.hives);
                let homeless = hives.iter().find(|hive| state.hives[*hive].is_empty());
                if let Some(hive) = homeless {
                    return Some(Rejection::NoHive {
                        gpus: self.names(scope.hives[hive]),
                        places: self.hive_places(scope.hives[hive]),
                    });
                }
                let bound = hives
                    .iter()
                    .filter(|hive| state.hives[*hive].within(problem.exclusive))
                    .collect();
                let Starved { takers, things } = starved(bound, &state.hives)?;
                Some(Rejection::TooFewHives {
                    hives: takers
                        .iter()
                        .map(|hive| self.names(scope.hives[hive]))
                        .collect(),
                    candidates: things.len(),
                })
            }
            Tie::Numa => {
                let cpus = wanted(&scope.cpus);
                let node = |cpu: usize| self.matcher.side.cpus[cpu];
                let homeless = cpus.iter().find(|cpu| state.cpus[*cpu].is_empty());
                if let Some(cpu) = homeless {
                    return Some(Rejection::NoCpu {
                        cpu: node(cpu),
                        gpus: self.names(scope.cpus[cpu]),
                        places: self.cpu_places(problem, cpu, scope.cpus[cpu]),
                    });
                }
                let Starved { takers, things } = starved(cpus, &state.cpus)?;
                Some(Rejection::TooFewCpus {
                    cpus: takers.iter().map(node).collect(),
                    candidates: things.len(),
                })
            }
            Tie::Links => None,
        }
    }

    fn hive_places(&self, members: Bits) -> Vec<Place> {
        let places = self.target.side.hives.iter().map(|hive| {
            let rows: Vec<Bits> = self.target.rows.iter().map(|row| row.and(*hive)).collect();
            Place {
                cpu: None,
                gpus: hive.iter().map(|gpu| self.target.gpus[gpu].id).collect(),
                fits: most(members, &rows),
            }
        });
        places.collect()
    }

    fn cpu_places(&self, problem: &Problem<'_>, cpu: usize, gpus: Bits) -> Vec<Place> {
        let side = &self.target.side;
        let places = side.cpus.iter().enumerate().map(|(to, node)| {
            let mut rows = self.target.rows.clone();
            for gpu in gpus.iter() {
                if let Some(demand) = problem.demand(gpu, cpu) {
                    rows[gpu] = rows[gpu].and(demand.better[to]);
                }
            }
            let hanging = (0..side.count())
                .filter(|gpu| side.cpu_links[*gpu].iter().any(|link| link.cpu == to));
            Place {
                cpu: Some(*node),
                gpus: hanging.map(|gpu| self.target.gpus[gpu].id).collect(),
                fits: most(gpus, &rows),
            }
        });
        places.collect()
    }

    fn names(&self, gpus: Bits) -> Vec<UserGpuId> {
        gpus.iter().map(|gpu| self.matcher.gpus()[gpu].id).collect()
    }

    fn rejected(&self, source: usize) -> RejectedGpu {
        let row = self.target.rows[source];
        let candidates = || self.target.gpus.iter().enumerate();
        RejectedGpu {
            gpu: self.matcher.gpus()[source].id,
            rejected: candidates()
                .filter(|(to, _)| !row.has(*to))
                .map(|(to, gpu)| RejectedCandidate {
                    gpu: gpu.id,
                    differences: self.differences(source, to),
                })
                .collect(),
            contended: candidates()
                .filter(|(to, _)| row.has(*to))
                .map(|(_, gpu)| gpu.id)
                .collect(),
        }
    }

    /// Everything that keeps one GPU from replacing another; links if nothing else does.
    fn differences(&self, source: usize, to: usize) -> Vec<Difference> {
        let (matcher, target) = (self.matcher, self.target);
        let mut found = device_differences(matcher, source, target.gpus[to]);
        if !found.is_empty() {
            return found;
        }
        let (wanted, offered) = (
            matcher.source_links(source),
            matcher.links_at_most(&target.side, target.mode, to),
        );
        if wanted > offered {
            found.push(Difference {
                property: "valid_links",
                source: Value::Number(wanted as u64),
                destination: Value::Number(offered as u64),
                rule: Rule::AtLeast,
                switch: None,
            });
        }
        let offered = &target.side.cpu_links[to];
        let mut unmet: Vec<CpuLink> = matcher.side.cpu_links[source]
            .iter()
            .filter(|link| !offered.iter().any(|other| link.is_replaced_by(*other)))
            .copied()
            .collect();
        unmet.dedup_by_key(|link| (link.kind, link.bidirectional));
        if !unmet.is_empty() {
            found.push(Difference {
                property: "cpu_link",
                source: Value::Text(links(&unmet)),
                destination: Value::Text(links(offered)),
                rule: Rule::AtLeast,
                switch: None,
            });
        }
        found
    }
}

fn links(links: &[CpuLink]) -> String {
    let mut words: Vec<String> = links
        .iter()
        .map(|link| {
            let ways = if link.bidirectional {
                "both ways"
            } else {
                "one way"
            };
            let kind: LinkKind = link.kind;
            format!("{kind} {ways}")
        })
        .collect();
    words.dedup();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(" and "),
    }
}

fn starved(takers: Bits, choices: &[Bits]) -> Option<Starved> {
    Assignment::new(choices.len())
        .complete(takers, choices)
        .err()
}

/// How many of `takers` can be served at once.
fn most(takers: Bits, choices: &[Bits]) -> usize {
    let mut served = Bits::EMPTY;
    let mut assignment = Assignment::new(choices.len());
    for taker in takers.iter() {
        let more = served.or(Bits::one(taker));
        if assignment.complete(more, choices).is_ok() {
            served = more;
        }
    }
    served.len()
}
