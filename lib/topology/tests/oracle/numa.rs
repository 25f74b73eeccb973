//! Which CPU stands in for which, given the mapping of the GPUs.

use std::collections::BTreeSet;

use rocferry_topology::LinkKind;

use crate::machine::Machine;
use crate::view::{CpuLink, Seen};

/// What there is to say about the CPUs of one mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numa {
    /// There is a CPU map.
    pub(crate) holds: bool,
    /// There would be one if two CPUs could become one.
    pub(crate) but_for_distinct: bool,
    /// There would be one if links could be replaced by better ones at will.
    pub(crate) but_for_kind: bool,
    /// There would be one if the way back did not matter.
    pub(crate) but_for_direction: bool,
    /// There is one, and one without any link replaced by a better one.
    pub(crate) exactly: bool,
}

/// One reading of the rule.
#[derive(Clone, Copy)]
struct Reading {
    distinct: bool,
    direction: bool,
    /// How many links of one source CPU may be met by a better kind.
    better: usize,
}

/// The pairs are a source GPU and its destination; `linked` are the source CPUs that GPUs link to. The reasons
/// are looked for only where they are wanted.
pub(crate) fn judge(
    pairs: &[(&Seen, &Seen)],
    linked: &[u32],
    destination: &Machine,
    any_way: bool,
    reasons: bool,
) -> Numa {
    let rule = Reading {
        distinct: true,
        direction: !any_way,
        better: 1,
    };
    let under = |reading: Reading| extend(pairs, destination, reading, linked, &mut Vec::new());
    let holds = under(rule);
    let but_for = |reading: Reading| reasons && !holds && under(reading);
    Numa {
        holds,
        but_for_distinct: but_for(Reading {
            distinct: false,
            ..rule
        }),
        but_for_kind: but_for(Reading {
            better: usize::MAX,
            ..rule
        }),
        but_for_direction: but_for(Reading {
            direction: false,
            ..rule
        }),
        exactly: reasons && holds && under(Reading { better: 0, ..rule }),
    }
}

/// Whether this CPU map, pairs of a source and a destination CPU, is one for the mapping.
pub(crate) fn is_met(pairs: &[(&Seen, &Seen)], cpus: &[(u32, u32)]) -> bool {
    let rule = Reading {
        distinct: true,
        direction: true,
        better: 1,
    };
    let sources: BTreeSet<u32> = cpus.iter().map(|pair| pair.0).collect();
    let destinations: BTreeSet<u32> = cpus.iter().map(|pair| pair.1).collect();
    sources
        .iter()
        .copied()
        .eq(linked(pairs.iter().map(|pair| pair.0)))
        && sources.len() == cpus.len()
        && destinations.len() == cpus.len()
        && cpus.iter().all(|(from, to)| fits(pairs, *from, *to, rule))
}

/// The source CPUs that GPUs link to.
pub(crate) fn linked<'a>(sources: impl IntoIterator<Item = &'a Seen>) -> Vec<u32> {
    let links = sources.into_iter().flat_map(|s| &s.cpus);
    let cpus: BTreeSet<u32> = links.map(|link| link.cpu).collect();
    cpus.into_iter().collect()
}

/// Tries every destination CPU for the next of the source CPUs.
fn extend(
    pairs: &[(&Seen, &Seen)],
    destination: &Machine,
    reading: Reading,
    sources: &[u32],
    taken: &mut Vec<u32>,
) -> bool {
    let Some((from, rest)) = sources.split_first() else {
        return true;
    };
    for to in destination.cpus.iter().map(|cpu| cpu.node) {
        if (reading.distinct && taken.contains(&to)) || !fits(pairs, *from, to, reading) {
            continue;
        }
        taken.push(to);
        if extend(pairs, destination, reading, rest, taken) {
            return true;
        }
        taken.pop();
    }
    false
}

/// Whether every link to the source CPU `from` has its counterpart to the destination CPU `to`.
fn fits(pairs: &[(&Seen, &Seen)], from: u32, to: u32, reading: Reading) -> bool {
    let mut better = 0;
    for (s, d) in pairs {
        for link in s.cpus.iter().filter(|link| link.cpu == from) {
            let has = |kind: LinkKind| {
                let wide = |other: &CpuLink| !reading.direction || !link.two_way || other.two_way;
                d.cpus
                    .iter()
                    .any(|other| other.cpu == to && other.kind == kind && wide(other))
            };
            if has(link.kind) {
                continue;
            }
            if !(link.kind == LinkKind::Pcie && has(LinkKind::Xgmi)) {
                return false;
            }
            better += 1;
        }
    }
    better <= reading.better
}
