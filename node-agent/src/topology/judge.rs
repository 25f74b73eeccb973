//! Does a checkpoint of one or several processes fit?
//!
//! Each process is mapped for itself, as the plugin does it at a restore, where every task looks at all GPUs of its
//! container. Processes of one container must agree, though: they must fit on the same GPUs, and what is one GPU
//! for all of them must become one GPU again. In one dump a GPU is told by its node, since gpu_ids may differ
//! between processes that have been restored before and others.

use std::collections::HashMap;

use rocferry_topology::{
    ActualGpuId, Mapping, Matcher, Mode, Node, NodeId, Rejection, Switch, System, UserGpuId,
};

use super::load::Source;

/// The destination's side of the question.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) destination: &'a System,
    pub(super) usable: &'a [ActualGpuId],
    pub(super) mode: Mode,
}

/// Is there an answer?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fits,
    DoesNotFit,
    /// The search was given up, or the arguments make no sense together.
    CannotTell,
}

/// What becomes of each source, and of all together.
#[derive(Debug)]
pub(super) struct Verdict {
    /// In the order of the sources.
    pub(super) each: Vec<Result<Mapping, Box<Rejection>>>,
    /// Why they do not fit together, though each one does.
    pub(super) together: Option<Conflict>,
    /// What would make it fit if it were off.
    pub(super) switches: Vec<Switch>,
}

/// Several processes that do not fit together.
#[derive(Debug)]
pub(super) enum Conflict {
    /// What they need together cannot be had.
    Rejected(Box<Rejection>),
    /// One GPU would become two.
    Inconsistent {
        node: NodeId,
        /// Which of the sources, and what the GPU becomes for it.
        first: (usize, ActualGpuId),
        second: (usize, ActualGpuId),
    },
    /// They had other GPUs, or describe them in another way.
    Different { first: usize, second: usize },
}

impl Verdict {
    pub(super) fn outcome(&self) -> Outcome {
        let rejections = self.each.iter().filter_map(|result| result.as_ref().err());
        let (mut open, mut rejected) = (false, false);
        for rejection in rejections {
            match is_open(rejection) {
                true => open = true,
                false => rejected = true,
            }
        }
        match &self.together {
            Some(Conflict::Rejected(rejection)) if is_open(rejection) => open = true,
            Some(Conflict::Different { .. }) => open = true,
            Some(_) => rejected = true,
            None => {}
        }
        match (rejected, open) {
            (true, _) => Outcome::DoesNotFit,
            (false, true) => Outcome::CannotTell,
            (false, false) => Outcome::Fits,
        }
    }

    /// The first reason against it.
    pub(super) fn rejection(&self) -> Option<&Rejection> {
        let each = self.each.iter().find_map(|result| result.as_ref().err());
        each.map(|rejection| &**rejection).or(match &self.together {
            Some(Conflict::Rejected(rejection)) => Some(rejection),
            _ => None,
        })
    }
}

/// Says nothing about the checkpoint: the search was given up, or the destination cannot be searched.
fn is_open(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::Undecided { .. }
            | Rejection::TooManyGpus { .. }
            | Rejection::TooManyCpus { .. }
            | Rejection::NotInTopology { .. }
            | Rejection::GivenTwice { .. }
            | Rejection::DuplicateNode { .. }
    )
}

/// Decides. `matchers` are those of the sources.
pub(super) fn judge(sources: &[Source], matchers: &[Matcher], question: &Question<'_>) -> Verdict {
    let mut verdict = decide(sources, matchers, question);
    if verdict.outcome() == Outcome::DoesNotFit {
        verdict.switches = switches(sources, matchers, question, &verdict);
    }
    verdict
}

fn decide(sources: &[Source], matchers: &[Matcher], question: &Question<'_>) -> Verdict {
    let &Question {
        destination,
        usable,
        mode,
    } = question;
    let map_all = |usable: &[ActualGpuId], mode| -> Vec<Result<Mapping, Box<Rejection>>> {
        let each = matchers.iter();
        each.map(|matcher| matcher.map(destination, usable, mode))
            .collect()
    };
    let mut verdict = Verdict {
        each: map_all(usable, mode),
        together: None,
        switches: Vec::new(),
    };
    if sources.len() < 2 || verdict.outcome() != Outcome::Fits {
        return verdict;
    }
    let together = match merge(sources) {
        Ok(system) => system,
        Err(conflict) => {
            verdict.together = Some(conflict);
            return verdict;
        }
    };
    // What can be matched alone can be matched with more demands on the same GPUs.
    let Ok(matcher) = Matcher::new(&together, *matchers[0].checks()) else {
        return verdict;
    };
    match matcher.map(destination, usable, mode) {
        Err(rejection) => verdict.together = Some(Conflict::Rejected(rejection)),
        Ok(mapping) => {
            // The container gets these, and then each process is mapped onto all of them.
            let chosen: Vec<ActualGpuId> = mapping.iter().map(|pair| pair.1).collect();
            verdict.each = map_all(&chosen, Mode::All);
            verdict.together = inconsistency(sources, &verdict.each);
        }
    }
    verdict
}

/// One system with what all the processes need. XNACK is no matter of which GPUs: each process has been checked.
fn merge(sources: &[Source]) -> Result<System<UserGpuId>, Conflict> {
    let by_node: Vec<System<UserGpuId>> = sources.iter().map(named_by_node).collect();
    let mut together = by_node[0].clone();
    for (index, other) in by_node.iter().enumerate().skip(1) {
        if other.nodes != together.nodes {
            return Err(Conflict::Different {
                first: 0,
                second: index,
            });
        }
        for demand in &other.sdma_partitions {
            if !together.sdma_partitions.contains(demand) {
                together.sdma_partitions.push(*demand);
            }
        }
    }
    // Back to the ids of the first process, which it would like to keep.
    let ids: HashMap<NodeId, UserGpuId> = gpus(&sources[0]).collect();
    Ok(together.rename(|gpu| ids.get(&gpu.node).copied()))
}

/// The system with nodes and links in order and each GPU under its node's number.
fn named_by_node(source: &Source) -> System<UserGpuId> {
    let mut system = source.system.rename(|gpu| Some(UserGpuId(gpu.node.get())));
    system.nodes.sort_by_key(Node::id);
    for node in &mut system.nodes {
        let links = match node {
            Node::Cpu(cpu) => &mut cpu.links,
            Node::Gpu(gpu) => &mut gpu.links,
        };
        links.sort_by_key(|link| (link.to, link.kind));
    }
    system
}

fn gpus(source: &Source) -> impl Iterator<Item = (NodeId, UserGpuId)> {
    source.system.gpus().map(|gpu| (gpu.node, gpu.id))
}

fn inconsistency(sources: &[Source], each: &[Result<Mapping, Box<Rejection>>]) -> Option<Conflict> {
    let mut places: HashMap<NodeId, (usize, ActualGpuId)> = HashMap::new();
    for (index, (source, result)) in sources.iter().zip(each).enumerate() {
        let Ok(mapping) = result else { continue };
        for (node, user) in gpus(source) {
            let Some(actual) = mapping.actual(user) else {
                continue;
            };
            let first = *places.entry(node).or_insert((index, actual));
            if first.1 != actual {
                let second = (index, actual);
                return Some(Conflict::Inconsistent {
                    node,
                    first,
                    second,
                });
            }
        }
    }
    None
}

/// Those that each rejected process needs off, if all of them together really help.
fn switches(
    sources: &[Source],
    matchers: &[Matcher],
    question: &Question<'_>,
    verdict: &Verdict,
) -> Vec<Switch> {
    let &Question {
        destination,
        usable,
        mode,
    } = question;
    let Some(checks) = matchers.first().map(|matcher| *matcher.checks()) else {
        return Vec::new();
    };
    let each = matchers.iter().zip(&verdict.each);
    let mut needed: Vec<Switch> = each
        .filter(|(_, result)| result.is_err())
        .flat_map(|(matcher, _)| matcher.switches(destination, usable, mode))
        .collect();
    if let Some(Conflict::Rejected(_)) = verdict.together
        && let Some(matcher) = merge(sources)
            .ok()
            .and_then(|system| Matcher::new(&system, checks).ok())
    {
        needed = matcher.switches(destination, usable, mode);
    }
    needed.sort_unstable();
    needed.dedup();
    let relaxed = needed
        .iter()
        .fold(checks, |checks, switch| checks.with(*switch, false));
    let matchers: Result<Vec<Matcher>, _> = sources
        .iter()
        .map(|source| Matcher::new(&source.system, relaxed))
        .collect();
    let helps = matchers
        .is_ok_and(|matchers| decide(sources, &matchers, question).outcome() == Outcome::Fits);
    if !helps {
        needed.clear();
    }
    needed
}
