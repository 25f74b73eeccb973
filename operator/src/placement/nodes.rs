//! All nodes, and the choice among them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rocferry_crds::v1alpha1::Feature;
use rocferry_topology::{ActualGpuId, Mapping, Mode};

use super::reject::{Groups, Rejected};
use super::shape::{GpuSet, Shape, places, shape};
use super::{Demand, GpuDemand, NodeFacts, Reason, RejectedGroup};

/// Answers that are kept. They are forgotten all at once when there are more: working them out again takes a moment.
const MAX_ANSWERS: usize = 100_000;

/// GPUs of a node that can be told apart.
const MAX_GPUS: usize = 128;

/// Part of the kubelet's limit that a restore may be expected to take: measured rates are not promises.
const LIMIT_PERCENT: u64 = 80;

/// The nodes of a cluster, with what is promised on them.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: BTreeMap<String, Entry>,
    shapes: Vec<Shape>,
    shape_keys: HashMap<String, usize>,
    demand_keys: HashMap<String, usize>,
    answers: Answers,
}

/// What the matcher has said.
#[derive(Debug, Default)]
struct Answers {
    /// By demand, shape and free places.
    known: HashMap<(usize, usize, GpuSet), Answer>,
    /// How often it was asked.
    matched: u64,
}

#[derive(Debug)]
struct Entry {
    facts: NodeFacts,
    gpus: Result<Gpus, Arc<str>>,
    /// GPUs promised to requests, by UID.
    promised: BTreeMap<String, GpuSet>,
}

#[derive(Debug)]
struct Gpus {
    shape: usize,
    /// Real names by place.
    ids: Vec<ActualGpuId>,
    /// Places that no container has.
    free: GpuSet,
}

/// The places that a demand takes, or why it finds none.
type Answer = Result<GpuSet, Rejected>;

/// A node was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Its name.
    pub node: String,
    /// For each container which GPU is expected to stand in for which. The device plugin has the last word.
    pub mappings: Vec<(String, Mapping)>,
    /// Bytes of the checkpoint that are there already.
    pub cached_bytes: u64,
    /// Seconds that the largest container will take, if the rate there is known.
    pub expected_seconds: Option<u64>,
}

/// No node was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Why, group by group.
    pub rejected: Vec<RejectedGroup>,
    /// Nothing but trying a node once more is left: every node that would do was tried.
    pub exhausted: bool,
}

impl Nodes {
    /// Takes a node as it is now. What is promised on it stays so.
    pub fn set(&mut self, mut facts: NodeFacts) {
        let topology = facts.topology.take();
        let gpus = match topology {
            None => Err("Its agent has published no topology; look at its log".into()),
            Some(topology) => match shape(&topology) {
                Err(error) => {
                    Err(format!("Its topology makes no sense ({error}); update its agent").into())
                }
                Ok((_, _, ids)) if ids.len() > MAX_GPUS => {
                    Err(format!("It has {} GPUs, more than {MAX_GPUS}", ids.len()).into())
                }
                Ok((key, shape, ids)) => {
                    let shapes = &mut self.shapes;
                    let shape = *self.shape_keys.entry(key).or_insert_with(|| {
                        shapes.push(shape);
                        shapes.len() - 1
                    });
                    let free = (0..ids.len())
                        .filter(|place| !facts.in_use.contains(&ids[*place]))
                        .fold(0, |free: GpuSet, place| free | 1 << place);
                    Ok(Gpus { shape, ids, free })
                }
            },
        };
        let promised = self.nodes.remove(&facts.name).map(|known| known.promised);
        let promised = promised.unwrap_or_default();
        let entry = Entry {
            facts,
            gpus,
            promised,
        };
        self.nodes.insert(entry.facts.name.clone(), entry);
    }

    /// Forgets a node.
    pub fn remove(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Takes back what was promised to a request: its pod has its GPUs, or it has ended.
    pub fn release(&mut self, request: &str) {
        for entry in self.nodes.values_mut() {
            entry.promised.remove(request);
        }
    }

    /// How often the matcher was asked, over all placements.
    #[must_use]
    pub const fn matched(&self) -> u64 {
        self.answers.matched
    }

    /// Looks for a node and promises its GPUs to the request.
    ///
    /// # Errors
    /// [`Unplaced`], with the reason for each node.
    pub fn place(&mut self, demand: &Demand) -> Result<Placed, Unplaced> {
        self.release(&demand.request);
        let keys = self.demand_keys(demand);
        let mut best: Option<(Rank, &str, GpuSet)> = None;
        for (name, entry) in &self.nodes {
            let Ok(chosen) = entry.judge(demand, &keys, &self.shapes, &mut self.answers) else {
                continue;
            };
            let rank = entry.rank(demand, chosen);
            // The first one by name wins a tie.
            if best.as_ref().is_none_or(|(known, ..)| rank > *known) {
                best = Some((rank, name, chosen));
            }
        }
        let best = best.map(|(_, name, chosen)| (name.to_owned(), chosen));
        let Some((name, chosen)) = best else {
            return Err(self.explain(demand));
        };
        let placed = self.placed(&name, demand, chosen);
        if let Some(entry) = self.nodes.get_mut(&name) {
            let real = entry.places_of(&placed.mappings);
            entry.promised.insert(demand.request.clone(), real);
        }
        Ok(placed)
    }

    /// Why no node does: each node's reason, in groups.
    pub fn explain(&mut self, demand: &Demand) -> Unplaced {
        let keys = self.demand_keys(demand);
        let mut groups = Groups::default();
        let mut exhausted = false;
        for (name, entry) in &self.nodes {
            let judged = entry.judge(demand, &keys, &self.shapes, &mut self.answers);
            if let Err(rejected) = judged {
                exhausted |= rejected.0 == Reason::AlreadyTried;
                groups.add(name, rejected);
            }
        }
        let rejected = groups.finish();
        // A node that may come to do later is worth waiting for.
        let later = |group: &RejectedGroup| {
            matches!(
                group.reason,
                Reason::NotReady | Reason::Unschedulable | Reason::TooFewGpus | Reason::NoSpace
            )
        };
        let exhausted = exhausted && !rejected.iter().any(later);
        Unplaced {
            rejected,
            exhausted,
        }
    }

    fn demand_keys(&mut self, demand: &Demand) -> Vec<usize> {
        let known = &mut self.demand_keys;
        let keys = demand.gpus.iter().map(|gpus| {
            let next = known.len();
            *known.entry(gpus.key.clone()).or_insert(next)
        });
        keys.collect()
    }

    fn placed(&self, name: &str, demand: &Demand, chosen: GpuSet) -> Placed {
        let entry = &self.nodes[name];
        let mut mappings = Vec::new();
        if let Ok(on) = &entry.gpus {
            let system = self.shapes[on.shape].on_node(&on.ids);
            // One container may take what it likes best; several keep to what was worked out for them together.
            let mut left = match demand.gpus.len() {
                1 => on.free & !entry.taken(),
                _ => chosen,
            };
            for gpus in &demand.gpus {
                if let Ok(mapping) = gpus.matcher.map(&system, &on.real(left), Mode::Subset) {
                    for (_, to) in mapping.iter() {
                        let place = on.ids.iter().position(|id| *id == to);
                        left &= !place.map_or(0, |place| 1 << place);
                    }
                    mappings.push((gpus.container.clone(), mapping));
                }
            }
        }
        Placed {
            node: name.to_owned(),
            mappings,
            cached_bytes: entry.cached_bytes(demand),
            expected_seconds: entry.expected_seconds(demand),
        }
    }
}

impl Answers {
    /// Asks the matcher, unless the same was asked before.
    fn ask(
        &mut self,
        key: (usize, usize, GpuSet),
        gpus: &GpuDemand,
        on: &Gpus,
        node: &str,
        shape: &Shape,
    ) -> Answer {
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.matched += 1;
        let free = key.2;
        let answer = match gpus
            .matcher
            .map(&shape.system, &Shape::names(free), Mode::Subset)
        {
            Ok(mapping) => Ok(mapping.iter().fold(0, |set: GpuSet, (_, to)| {
                set | 1 << to.get().saturating_sub(1)
            })),
            Err(_) => Err((Reason::GpusDiffer, why(gpus, on, node, shape, free).into())),
        };
        if self.known.len() >= MAX_ANSWERS {
            self.known.clear();
        }
        self.known.insert(key, answer.clone());
        answer
    }
}

/// The reason with the names that the GPUs of this node have.
fn why(gpus: &GpuDemand, on: &Gpus, node: &str, shape: &Shape, free: GpuSet) -> String {
    let usable = on.real(free);
    match gpus
        .matcher
        .map(&shape.on_node(&on.ids), &usable, Mode::Subset)
    {
        Err(rejection) => format!("On {node}: {rejection}"),
        Ok(_) => format!("On {node}: they fit by their names alone"),
    }
}

impl Gpus {
    /// The real names of a set.
    fn real(&self, set: GpuSet) -> Vec<ActualGpuId> {
        places(set)
            .filter_map(|place| self.ids.get(place))
            .copied()
            .collect()
    }
}

/// What is better about a node: blocks that are there, then fewer GPUs left over.
type Rank = (u64, std::cmp::Reverse<u32>);

impl Entry {
    /// The places that it has for a demand, or why it does not do.
    fn judge(
        &self,
        demand: &Demand,
        keys: &[usize],
        shapes: &[Shape],
        answers: &mut Answers,
    ) -> Answer {
        self.check(demand)?;
        let on = self
            .gpus
            .as_ref()
            .map_err(|why| (Reason::NoTopology, Arc::clone(why)))?;
        let mut free = on.free & !self.taken();
        let needed: usize = demand.gpus.iter().map(GpuDemand::count).sum();
        let have = free.count_ones();
        if needed > have as usize {
            let all = on.ids.len();
            let text = format!("{needed} GPUs are needed, {have} of {all} are free");
            return Err((Reason::TooFewGpus, text.into()));
        }
        let mut chosen = 0;
        for (gpus, key) in demand.gpus.iter().zip(keys) {
            let key = (*key, on.shape, free);
            let places = answers.ask(key, gpus, on, &self.facts.name, &shapes[on.shape])?;
            chosen |= places;
            free &= !places;
        }
        Ok(chosen)
    }

    fn taken(&self) -> GpuSet {
        self.promised.values().fold(0, |taken, set| taken | set)
    }

    fn rank(&self, demand: &Demand, chosen: GpuSet) -> Rank {
        let free = self
            .gpus
            .as_ref()
            .map_or(0, |gpus| gpus.free & !self.taken());
        (
            self.cached_bytes(demand),
            std::cmp::Reverse((free & !chosen).count_ones()),
        )
    }

    fn cached_bytes(&self, demand: &Demand) -> u64 {
        let cached = demand
            .checkpoints
            .iter()
            .filter_map(|id| self.facts.cached.get(id));
        cached.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn expected_seconds(&self, demand: &Demand) -> Option<u64> {
        let rate = self.facts.bytes_per_second.filter(|rate| *rate > 0)?;
        Some(demand.container_bytes.div_ceil(rate))
    }

    fn places_of(&self, mappings: &[(String, Mapping)]) -> GpuSet {
        let Ok(on) = &self.gpus else {
            return 0;
        };
        let used = mappings.iter().flat_map(|(_, mapping)| mapping.iter());
        used.filter_map(|(_, to)| on.ids.iter().position(|id| *id == to))
            .fold(0, |set: GpuSet, place| set | 1 << place)
    }

    /// Everything but the GPUs, cheapest first.
    fn check(&self, demand: &Demand) -> Result<(), Rejected> {
        let facts = &self.facts;
        let no = |reason, text: &str| Err((reason, text.into()));
        if let Some(name) = &demand.node_name
            && *name != facts.name
        {
            return Err((Reason::NotSelected, format!("{name} was asked for").into()));
        }
        for (key, value) in &demand.node_selector {
            if facts.labels.get(key) != Some(value) {
                let text = format!("It does not have the label {key}={value}");
                return Err((Reason::NotSelected, text.into()));
            }
        }
        if !facts.ready {
            return no(Reason::NotReady, "The node or its agent is not ready");
        }
        if !facts.schedulable {
            return no(Reason::Unschedulable, "It is cordoned, or being emptied");
        }
        if demand.tried.contains(&facts.name) {
            return no(
                Reason::AlreadyTried,
                "A restore of this request has failed there",
            );
        }
        if !facts.features.contains(&Feature::Wrapper) {
            return no(
                Reason::NoWrapper,
                "The runtime wrapper is not installed, or containerd was not restarted since",
            );
        }
        if demand.held && !facts.features.contains(&Feature::HeldRestore) {
            return no(
                Reason::CannotHold,
                "Nothing can be held there: boot it with cgroup version 2",
            );
        }
        if !facts.stores.contains(&demand.store) {
            let text = format!(
                "Its agent was not configured for the store {}",
                demand.store
            );
            return Err((Reason::StoreNotConfigured, text.into()));
        }
        if let Some(wanted) = &demand.criu
            && facts.criu.as_ref().is_none_or(|have| have < wanted)
        {
            let have = facts
                .criu
                .as_ref()
                .map_or("none".to_owned(), ToString::to_string);
            let text = format!("Its CRIU is {have}, the checkpoint's {wanted}");
            return Err((Reason::CriuTooOld, text.into()));
        }
        if !demand.cpu_features.is_subset(&facts.cpu_features) {
            let missing: BTreeSet<&String> = demand
                .cpu_features
                .difference(&facts.cpu_features)
                .take(8)
                .collect();
            let missing: Vec<&str> = missing.into_iter().map(String::as_str).collect();
            let text = format!("Its CPU lacks {}", missing.join(", "));
            return Err((Reason::CpuFeaturesMissing, text.into()));
        }
        if let Some(room) = facts.spool_bytes
            && room.saturating_add(self.cached_bytes(demand)) < demand.bytes
        {
            let text = format!(
                "{} bytes are needed, there is room for {room}",
                demand.bytes
            );
            return Err((Reason::NoSpace, text.into()));
        }
        if let (Some(expected), Some(limit)) = (self.expected_seconds(demand), facts.limit_seconds)
            && expected * 100 > limit * LIMIT_PERCENT
        {
            let text = format!(
                "The restore takes {expected} s, and the kubelet breaks off after {limit} s: raise runtimeRequestTimeout in its configuration"
            );
            return Err((Reason::TooSlow, text.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
