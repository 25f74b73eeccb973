//! Whether one mapping breaks a rule.

use std::collections::BTreeSet;

use rocferry_topology::{LinkKind, Mapping};

use crate::brute::{Choice, Question, in_order};
use crate::machine::Gpu;
use crate::numa;
use crate::rules::{self, Broken, Rule};
use crate::view::{Seen, Twist, view};

/// What is wrong with a mapping that the matcher has given.
pub(crate) fn mapping(question: &Question, mapping: &Mapping) -> Result<(), String> {
    let sources = in_order(&question.source);
    let mut destinations = in_order(&question.destination);
    destinations.retain(|gpu| question.usable.contains(&gpu.id));
    let find = |id: u32| destinations.iter().copied().find(|gpu| gpu.id == id);
    let mut chosen: Vec<&Gpu> = Vec::new();
    for (source, (user, actual)) in sources.iter().zip(mapping.iter()) {
        if user.get() != source.id {
            return Err(format!("{user} instead of {:x} in its place", source.id));
        }
        chosen.push(find(actual.get()).ok_or_else(|| format!("{actual} is not usable"))?);
    }
    let different: BTreeSet<u32> = chosen.iter().map(|gpu| gpu.id).collect();
    if chosen.len() != sources.len() || different.len() != sources.len() {
        return Err("GPUs are missing or used twice".to_owned());
    }

    let seen = (
        view(&question.source, &sources, &sources, Twist::Straight),
        view(&question.destination, &chosen, &chosen, Twist::Straight),
    );
    let pairs: Vec<(&Seen, &Seen)> = seen.0.iter().zip(&seen.1).collect();
    let mut broken = hives(&pairs);
    for ((s, d), (source, destination)) in pairs.iter().zip(sources.iter().zip(&chosen)) {
        broken = broken
            .and(links(s, d))
            .and(rules::device(source, destination));
    }
    if question.choice == Choice::All && destinations.len() != sources.len() {
        broken.add(Rule::Count);
    }
    if question.source.xnack == Some(true) && question.destination.xnack == Some(false) {
        broken.add(Rule::Xnack);
    }
    // There may be a CPU map where CPUs are not asked about, but no wrong one.
    let cpus: Vec<(u32, u32)> = mapping
        .cpus()
        .iter()
        .map(|(from, to)| (from.get(), to.get()))
        .collect();
    if (question.checks.numa || !cpus.is_empty()) && !numa::is_met(&pairs, &cpus) {
        return Err(format!("The CPU map {cpus:?} does not fit"));
    }
    let broken = broken.without(rules::off(question.checks));
    let names = Rule::ALL.iter().filter(|rule| broken.has(**rule));
    let names: Vec<&str> = names.map(|rule| rule.name()).collect();
    if names.is_empty() {
        Ok(())
    } else {
        Err(format!("Broken: {}", names.join("; ")))
    }
}

/// The number of links, and a stand-in for every link to a CPU.
pub(crate) fn links(s: &Seen, d: &Seen) -> Broken {
    let mut broken = Broken::default();
    if s.valid_links > d.valid_links {
        broken.add(Rule::LinkCount);
    }
    for link in &s.cpus {
        let any = |type_counts: bool, direction_counts: bool| {
            d.cpus.iter().any(|other| {
                let weaker = link.kind == LinkKind::Xgmi && other.kind == LinkKind::Pcie;
                let narrower = link.two_way && !other.two_way;
                !(type_counts && weaker || direction_counts && narrower)
            })
        };
        if any(true, true) {
            continue;
        }
        if !any(false, false) {
            broken.add(Rule::LinkPresent);
        } else if any(false, true) {
            broken.add(Rule::LinkType);
        } else if any(true, false) {
            broken.add(Rule::LinkDirection);
        } else {
            broken = broken.and(Broken::of([Rule::LinkType, Rule::LinkDirection]));
        }
    }
    broken
}

/// Hives stay whole, and two of them do not become one.
pub(crate) fn hives(pairs: &[(&Seen, &Seen)]) -> Broken {
    let mut broken = Broken::default();
    for (s, d) in pairs {
        for (other_s, other_d) in pairs {
            let (Some(hive), Some(other)) = (s.hive, other_s.hive) else {
                continue;
            };
            let together = d.hive.is_some() && d.hive == other_d.hive;
            if hive == other && !together {
                broken.add(Rule::HiveWhole);
            }
            if hive != other && together {
                broken.add(Rule::HiveDistinct);
            }
        }
    }
    broken
}
