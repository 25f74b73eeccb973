//! GPUs of one machine for all containers of a pod at once.
//!
//! A container is restored on GPUs that it has for itself, and sees no others: so each container's rules, links and
//! hives included, are those of its own GPUs, and what ties the containers together is that no GPU is given twice.
//! Containers that had a GPU in common may have one in common again.
//!
//! The search gives each container in turn, those with the most GPUs first, what the matcher prefers among what is left.
//! Where the others find nothing then, each of them is let choose first; where that does not help either, every choice is
//! tried. So it is exact unless it is given up, which a real pod is far from.

use std::path::Path;

use rocferry_topology::{ActualGpuId, Checks, Matcher, Mode, NodeId, RenderMinor, System};

use super::judge::{Outcome, Question, judge};
use super::load::{self, Source};
use super::report::Report;
use crate::error::Error;

/// Questions to the matcher before the search is given up.
const QUESTIONS: u32 = 5000;

/// Which GPUs the containers of a pod could be given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// These, for each of them; none for one that had none.
    On(Vec<Vec<RenderMinor>>),
    /// There are none: why, with the container that finds none by itself.
    Nowhere(Vec<(Option<usize>, String)>),
    /// Each finds some; whether all do at once was not found out.
    Open,
}

/// What a container asks for.
#[derive(Debug)]
struct Wanted {
    sources: Vec<Source>,
    matchers: Vec<Matcher>,
}

/// Chooses GPUs of `machine` for containers, each with its images.
pub(crate) fn fit_together(
    images: &[&Path],
    machine: &Path,
    checks: Checks,
) -> Result<Together, Error> {
    let mut all = Vec::new();
    for folder in images {
        all.push(wanted(folder, checks)?);
    }
    if all.iter().all(Option::is_none) {
        return Ok(Together::On(vec![Vec::new(); images.len()]));
    }
    let destination = load::machine(machine)?;
    Ok(choose(&all, &destination, QUESTIONS))
}

fn wanted(images: &Path, checks: Checks) -> Result<Option<Wanted>, Error> {
    if !load::has_gpus(images)? {
        return Ok(None);
    }
    let sources = load::sources(images)?;
    let matchers = matchers(&sources, checks).map_err(|source| Error::Source {
        place: images.display().to_string(),
        source,
    })?;
    Ok(Some(Wanted { sources, matchers }))
}

fn matchers(
    sources: &[Source],
    checks: Checks,
) -> Result<Vec<Matcher>, rocferry_topology::SourceError> {
    let each = sources.iter();
    each.map(|source| Matcher::new(&source.system, checks))
        .collect()
}

/// `questions`: after so many it is given up.
fn choose(all: &[Option<Wanted>], destination: &System, questions: u32) -> Together {
    let usable: Vec<ActualGpuId> = destination.gpus().map(|gpu| gpu.id).collect();
    let mut reasons = Vec::new();
    for (index, wanted) in all.iter().enumerate() {
        let against = wanted
            .as_ref()
            .map(|wanted| wanted.against(destination, &usable));
        let lines = against.into_iter().flatten();
        reasons.extend(lines.map(|line| (Some(index), line)));
    }
    if !reasons.is_empty() {
        return Together::Nowhere(reasons);
    }
    let mut order: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_some()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(all[*at].as_ref().map_or(0, Wanted::count)));
    let needs: Vec<usize> = order
        .iter()
        .map(|at| all[*at].as_ref().map_or(0, Wanted::count))
        .collect();
    let mut search = Search {
        all,
        destination,
        usable: &usable,
        order: order.clone(),
        chosen: vec![Vec::new(); all.len()],
        questions,
        open: false,
    };
    let too_many = !search.shares() && needs.iter().sum::<usize>() > usable.len();
    if !too_many && (search.preferred() || search.rest(0)) {
        let minors = |gpus: &Vec<ActualGpuId>| {
            let taken = destination.gpus().filter(|gpu| gpus.contains(&gpu.id));
            taken.map(|gpu| gpu.render_minor).collect()
        };
        return Together::On(search.chosen.iter().map(minors).collect());
    }
    if search.open {
        return Together::Open;
    }
    let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
    Together::Nowhere(vec![(
        None,
        format!(
            "Each container finds GPUs here, but not all of them at once: they need {} for themselves, and there are {}",
            needs.join(" + "),
            usable.len()
        ),
    )])
}

impl Wanted {
    /// Nodes of its GPUs on the machine of the dump.
    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let sources = self.sources.iter();
        sources.flat_map(|source| source.system.gpus().map(|gpu| gpu.node))
    }

    /// How many GPUs it had.
    fn count(&self) -> usize {
        let mut nodes: Vec<NodeId> = self.nodes().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    fn shares_with(&self, other: &Self) -> bool {
        self.nodes()
            .any(|node| other.nodes().any(|one| one == node))
    }

    /// What speaks against it on this machine, were it alone.
    fn against(&self, destination: &System, usable: &[ActualGpuId]) -> Vec<String> {
        let question = Question {
            destination,
            usable,
            mode: Mode::Subset,
        };
        let verdict = judge(&self.sources, &self.matchers, &question);
        if verdict.outcome() == Outcome::Fits {
            return Vec::new();
        }
        let reasons = Report::new(&self.sources, &self.matchers, &question, &verdict).against();
        match reasons.is_empty() {
            true => vec!["Whether the GPUs fit cannot be told".to_owned()],
            false => reasons,
        }
    }
}

/// The search.
struct Search<'a> {
    all: &'a [Option<Wanted>],
    destination: &'a System,
    usable: &'a [ActualGpuId],
    /// In which order they choose.
    order: Vec<usize>,
    /// What each has.
    chosen: Vec<Vec<ActualGpuId>>,
    /// That may still be asked.
    questions: u32,
    /// Something was not found out.
    open: bool,
}

impl Search<'_> {
    /// Had two of them a GPU in common?
    fn shares(&self) -> bool {
        let wanted = || self.order.iter().filter_map(|at| self.all[*at].as_ref());
        let mut pairs = wanted().enumerate();
        pairs.any(|(index, one)| wanted().skip(index + 1).any(|other| one.shares_with(other)))
    }

    /// Gives each what it prefers; one after the other comes first.
    fn preferred(&mut self) -> bool {
        let order = self.order.clone();
        for first in 0..order.len() {
            self.order[..=first].rotate_right(1);
            let all = (0..order.len()).all(|turn| {
                let (at, free) = (self.order[turn], self.free(turn));
                let chosen = self.ask(at, &free, Mode::Subset);
                self.chosen[at] = chosen.clone().unwrap_or_default();
                chosen.is_some()
            });
            self.order.clone_from(&order);
            if all {
                return true;
            }
        }
        self.chosen.iter_mut().for_each(Vec::clear);
        false
    }

    /// Finds GPUs for those from the `turn`th on.
    fn rest(&mut self, turn: usize) -> bool {
        let Some(&at) = self.order.get(turn) else {
            return true;
        };
        let free = self.free(turn);
        let Some(preferred) = self.ask(at, &free, Mode::Subset) else {
            return false;
        };
        if self.with(turn, preferred.clone()) {
            return true;
        }
        let mut places: Vec<usize> = (0..preferred.len()).collect();
        loop {
            let gpus: Vec<ActualGpuId> = places.iter().map(|place| free[*place]).collect();
            if gpus != preferred
                && self.ask(at, &gpus, Mode::All).is_some()
                && self.with(turn, gpus)
            {
                return true;
            }
            if self.questions == 0 {
                self.open = true;
                return false;
            }
            if !next(&mut places, free.len()) {
                return false;
            }
        }
    }

    /// The same, where the `turn`th has these.
    fn with(&mut self, turn: usize, gpus: Vec<ActualGpuId>) -> bool {
        let at = self.order[turn];
        self.chosen[at] = gpus;
        if self.rest(turn + 1) {
            return true;
        }
        self.chosen[at].clear();
        false
    }

    /// GPUs that the `turn`th may still have.
    fn free(&self, turn: usize) -> Vec<ActualGpuId> {
        let own = self.all[self.order[turn]].as_ref();
        let mut free = self.usable.to_vec();
        for at in &self.order[..turn] {
            let shares = own.zip(self.all[*at].as_ref());
            if !shares.is_some_and(|(own, other)| own.shares_with(other)) {
                free.retain(|gpu| !self.chosen[*at].contains(gpu));
            }
        }
        free
    }

    /// Which of these GPUs it takes, in the machine's order.
    fn ask(&mut self, at: usize, gpus: &[ActualGpuId], mode: Mode) -> Option<Vec<ActualGpuId>> {
        let wanted = self.all[at].as_ref()?;
        if self.questions == 0 {
            self.open = true;
            return None;
        }
        self.questions -= 1;
        let question = Question {
            destination: self.destination,
            usable: gpus,
            mode,
        };
        let verdict = judge(&wanted.sources, &wanted.matchers, &question);
        match verdict.outcome() {
            Outcome::Fits => {}
            Outcome::DoesNotFit => return None,
            Outcome::CannotTell => {
                self.open = true;
                return None;
            }
        }
        let taken = |id: &ActualGpuId| {
            let mut mappings = verdict.each.iter().filter_map(|each| each.as_ref().ok());
            mappings.any(|mapping| mapping.user(*id).is_some())
        };
        Some(gpus.iter().copied().filter(taken).collect())
    }
}

/// The next choice of as many of `count` things, in order; false after the last one.
fn next(places: &mut [usize], count: usize) -> bool {
    let chosen = places.len();
    for index in (0..chosen).rev() {
        if places[index] + (chosen - index) < count {
            let first = places[index] + 1;
            for (offset, place) in places[index..].iter_mut().enumerate() {
                *place = first + offset;
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocferry_topology::{
        CpuNode, GpuNode, GpuProperties, Link, LinkKind, Node, UserGpuId, Vram,
    };

    /// GPUs 1, 2, … on CPU 0; those of a group are linked to each other over XGMI. `vram` of each in GiB.
    fn machine(vram: &[u64], groups: &[&[u32]]) -> System {
        let gpu = |index: usize, size: u64| {
            let node = u32::try_from(index).expect("small") + 1;
            let mut links = vec![Link::new(LinkKind::Pcie, NodeId(0))];
            for group in groups.iter().filter(|group| group.contains(&node)) {
                let others = group.iter().filter(|other| **other != node);
                links.extend(others.map(|other| Link::new(LinkKind::Xgmi, NodeId(*other))));
            }
            Node::Gpu(GpuNode {
                node: NodeId(node),
                id: ActualGpuId(1000 + node),
                render_minor: RenderMinor(127 + node),
                properties: GpuProperties {
                    vram: Some(Vram {
                        public: false,
                        size: size << 30,
                    }),
                    ..GpuProperties::default()
                },
                links,
                ..GpuNode::default()
            })
        };
        let cpu = Node::Cpu(CpuNode {
            cpu_cores: 4,
            ..CpuNode::default()
        });
        let gpus = vram
            .iter()
            .enumerate()
            .map(|(index, size)| gpu(index, *size));
        System::new(std::iter::once(cpu).chain(gpus).collect(), Vec::new())
    }

    /// A container that had these GPUs of a machine, and saw no others.
    fn container(machine: &System, gpus: &[u32]) -> Option<Wanted> {
        let seen =
            |node: &&Node<ActualGpuId>| node.as_cpu().is_some() || gpus.contains(&node.id().get());
        let nodes = machine.nodes.iter().filter(seen).cloned().collect();
        let masked = machine.gpus().map(|gpu| gpu.node);
        let masked = masked.filter(|node| !gpus.contains(&node.get())).collect();
        let system = System::new(nodes, masked);
        let sources = vec![Source {
            process: None,
            system: system.rename(|gpu| Some(UserGpuId(gpu.id.get()))),
        }];
        let matchers = matchers(&sources, Checks::default()).expect("matchers");
        Some(Wanted { sources, matchers })
    }

    fn choose(pod: &[Option<Wanted>], destination: &System) -> Together {
        super::choose(pod, destination, 300)
    }

    fn minors(chosen: Together) -> Vec<Vec<u32>> {
        let Together::On(chosen) = chosen else {
            panic!("{chosen:?}");
        };
        let each = chosen.iter();
        each.map(|gpus| gpus.iter().map(|minor| minor.get()).collect())
            .collect()
    }

    #[test]
    fn no_gpu_is_given_twice() {
        let source = machine(&[64; 2], &[]);
        let pod = [container(&source, &[1]), None, container(&source, &[2])];
        // With other ids, so that none is its own: both would take the first one.
        let other = machine(&[64; 4], &[]).rename(|gpu| Some(ActualGpuId(gpu.id.get() + 100)));
        assert_eq!(minors(choose(&pod, &other)), [vec![128], vec![], vec![129]]);
        let Together::Nowhere(reasons) = choose(&pod, &machine(&[64], &[])) else {
            panic!("one GPU for two");
        };
        assert_eq!(reasons.len(), 1);
        assert!(
            reasons[0].0.is_none() && reasons[0].1.contains("1 + 1"),
            "{reasons:?}"
        );
    }

    #[test]
    fn what_was_shared_may_be_shared() {
        let source = machine(&[64; 2], &[]);
        let pod = [container(&source, &[1]), container(&source, &[1])];
        assert_eq!(
            minors(choose(&pod, &machine(&[64], &[]))),
            [vec![128], vec![128]]
        );
    }

    #[test]
    fn one_steps_back_where_the_other_has_no_choice() {
        // The first one would keep its own, which alone is large enough for the second one.
        let source = machine(&[64, 128], &[]);
        let pod = [container(&source, &[1]), container(&source, &[2])];
        assert_eq!(
            minors(choose(&pod, &machine(&[128, 64], &[]))),
            [vec![129], vec![128]]
        );
    }

    #[test]
    fn a_hive_is_left_to_whoever_needs_it() {
        // Two without links, and a hive of two; where the hive comes first.
        let source = machine(&[64; 4], &[&[3, 4]]);
        let pod = [container(&source, &[1, 2]), container(&source, &[3, 4])];
        assert_eq!(
            minors(choose(&pod, &machine(&[64; 4], &[&[1, 2]]))),
            [vec![130, 131], vec![128, 129]]
        );
        // Each sees its own GPUs alone: two hives of two are found in one of four.
        let source = machine(&[64; 4], &[&[1, 2], &[3, 4]]);
        let pod = [container(&source, &[1, 2]), container(&source, &[3, 4])];
        assert_eq!(
            minors(choose(&pod, &machine(&[64; 4], &[&[1, 2, 3, 4]]))),
            [vec![128, 129], vec![130, 131]]
        );
        // One hive is not enough for both.
        let Together::Nowhere(reasons) = choose(&pod, &machine(&[64; 4], &[&[2, 3]])) else {
            panic!("one hive for two");
        };
        assert!(reasons[0].1.contains("2 + 2"), "{reasons:?}");
    }

    #[test]
    fn who_finds_none_by_itself_is_named() {
        let source = machine(&[64, 128], &[]);
        let pod = [container(&source, &[1]), container(&source, &[2])];
        let Together::Nowhere(reasons) = choose(&pod, &machine(&[64; 4], &[])) else {
            panic!("it is too small");
        };
        assert!(
            !reasons.is_empty() && reasons.iter().all(|reason| reason.0 == Some(1)),
            "{reasons:?}"
        );
    }

    #[test]
    fn a_search_that_is_given_up_is_no_refusal() {
        let source = machine(&[128; 24], &[]);
        let eight = |from: u32| container(&source, &(from..from + 8).collect::<Vec<_>>());
        let pod = [eight(1), eight(9), eight(17)];
        // There are 23 large ones: every choice of the first two would have to be looked at.
        let mut vram = [128; 28];
        vram[23..].fill(64);
        assert_eq!(choose(&pod, &machine(&vram, &[])), Together::Open);
    }

    #[test]
    fn all_choices_come_once() {
        let mut places = vec![0, 1, 2];
        let mut count = 1;
        while next(&mut places, 6) {
            assert!(places.is_sorted(), "{places:?}");
            count += 1;
        }
        assert_eq!((count, places), (20, vec![3, 4, 5]));
        assert!(!next(&mut [], 3));
    }
}
