//! Questions to the matcher whose time matters, over trees of real machines.

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/trees/mod.rs"]
mod trees;

use rocferry_topology::{
    ActualGpuId, Checks, Link, LinkKind, Matcher, Mode, Node, NodeId, RenderMinor, System,
    UserGpuId,
};

/// One question, ready to be asked again and again.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    matcher: Matcher,
    /// One question is about all of these.
    pub(crate) destinations: Vec<(System, Vec<ActualGpuId>)>,
    mode: Mode,
    /// Destinations that fit.
    pub(crate) expected: usize,
}

impl Case {
    /// Asks once; for several destinations, each of them. Rejections come with their explanation.
    ///
    /// # Panics
    /// When the answer is wrong.
    pub(crate) fn ask(&self) {
        let fitting = self
            .destinations
            .iter()
            .filter(|(system, usable)| self.matcher.map(system, usable, self.mode).is_ok());
        assert_eq!(fitting.count(), self.expected, "{}", self.name);
    }
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let spx = read("mi300x-spx");
    let cpx = read("mi300x-cpx");
    let mut impossible = renumbered(&cpx, 3);
    if let Some(Node::Gpu(gpu)) = impossible
        .nodes
        .iter_mut()
        .rev()
        .find(|n| n.as_gpu().is_some())
    {
        gpu.properties.simd_count += 4;
    }
    vec![
        one("hive8", &spx, renumbered(&spx, 1), true),
        one("cpx64", &cpx, renumbered(&cpx, 2), true),
        one("cpx64-impossible", &cpx, impossible, false),
        one("hives-almost", &pairs(0), renumbered(&pairs(1), 4), false),
        one(
            "numa-conflict",
            &sockets(0),
            renumbered(&sockets(1), 5),
            false,
        ),
        nodes5000(&spx),
    ]
}

fn read(name: &str) -> System {
    System::from_files(&trees::tree(name)).expect("tree")
}

/// A whole machine onto another one.
fn one(name: &'static str, source: &System, destination: System, fits: bool) -> Case {
    let usable = destination.gpus().map(|gpu| gpu.id).collect();
    Case {
        name,
        matcher: matcher(&source.rename(|gpu| Some(UserGpuId(gpu.id.get())))),
        destinations: vec![(destination, usable)],
        mode: Mode::All,
        expected: usize::from(fits),
    }
}

fn matcher(source: &System<UserGpuId>) -> Matcher {
    Matcher::new(source, Checks::default()).expect("source")
}

/// The source's four GPUs are two of each CPU, so that a node needs two free ones at each of its two.
fn two_at_each_cpu(system: &System, free: &[ActualGpuId]) -> bool {
    system.cpus().all(|cpu| {
        let at = free.iter().filter(|id| {
            let gpu = system.gpu(**id);
            gpu.is_some_and(|gpu| gpu.links.iter().any(|link| link.to == cpu.node))
        });
        at.count() >= 2
    })
}

/// A container with four of eight MI300X against 5,000 nodes of several kinds, some of whose GPUs are taken.
fn nodes5000(spx: &System) -> Case {
    let mut kinds: Vec<System> = [
        "mi210-pair",
        "mi210-8",
        "mi250x-trento",
        "mi300a",
        "mi300x-cpx",
        "mi308x-cpx",
    ]
    .map(read)
    .into();
    // Half of the nodes are of the right kind.
    kinds.extend(std::iter::repeat_n(spx.clone(), 6));
    let mut random = Random(11);
    let mut expected = 0;
    let destinations = (0..5000)
        .map(|index| {
            let kind = &kinds[index % kinds.len()];
            let system = renumbered(kind, small(index) + 100);
            let free: Vec<ActualGpuId> = system
                .gpus()
                .map(|gpu| gpu.id)
                .filter(|_| random.below(2) == 0)
                .collect();
            expected += usize::from(index % kinds.len() >= 6 && two_at_each_cpu(&system, &free));
            (system, free)
        })
        .collect();
    let mut held = spx
        .gpus()
        .skip(2)
        .take(4)
        .map(|gpu| gpu.id)
        .collect::<Vec<_>>()
        .into_iter();
    let mut next = held.next();
    let source = spx.rename(|gpu| {
        (next == Some(gpu.id)).then(|| {
            next = held.next();
            UserGpuId(gpu.id.get())
        })
    });
    Case {
        name: "nodes5000",
        matcher: matcher(&source),
        destinations,
        mode: Mode::Subset,
        expected,
    }
}

/// 64 GPUs in 32 hives of two on one CPU. Each hive but `odd` has one GPU of each of two kinds; with an odd
/// one, two of a kind meet there, and the other two elsewhere.
fn pairs(odd: usize) -> System {
    let mut system = machine(1, 64, |_| 0);
    for gpu in 0..64_usize {
        let kind = match gpu {
            1 if odd > 0 => 0,
            2 if odd > 0 => 1,
            _ => gpu % 2,
        };
        let Some(Node::Gpu(node)) = system.nodes.get_mut(1 + gpu) else {
            continue;
        };
        node.properties.device_id = if kind == 0 { 0x7408 } else { 0x740c };
        node.links
            .push(Link::new(LinkKind::Xgmi, NodeId(1 + (small(gpu) ^ 1))));
    }
    System::new(system.nodes, vec![])
}

/// Eight CPUs with eight GPUs each, of two kinds: four and four, or with an `odd` pair of CPUs five and three.
fn sockets(odd: usize) -> System {
    let mut system = machine(8, 64, |gpu| gpu / 8);
    for gpu in 0..64_usize {
        let kind = match gpu {
            0 if odd > 0 => 1,
            9 if odd > 0 => 0,
            _ => gpu % 2,
        };
        let Some(Node::Gpu(node)) = system.nodes.get_mut(8 + gpu) else {
            continue;
        };
        node.properties.device_id = if kind == 0 { 0x7408 } else { 0x740c };
    }
    System::new(system.nodes, vec![])
}

fn machine(cpus: usize, gpus: usize, cpu_of: impl Fn(usize) -> usize) -> System {
    let model = read("mi210-pair").gpus().next().cloned().expect("GPU");
    let pcie = |to: usize| Link::new(LinkKind::Pcie, NodeId(small(to)));
    let mut nodes: Vec<Node> = (0..cpus)
        .map(|cpu| {
            Node::Cpu(rocferry_topology::CpuNode {
                node: NodeId(small(cpu)),
                cpu_cores: 16,
                links: (0..gpus)
                    .filter(|gpu| cpu_of(*gpu) == cpu)
                    .map(|gpu| pcie(cpus + gpu))
                    .collect(),
            })
        })
        .collect();
    nodes.extend((0..gpus).map(|gpu| {
        Node::Gpu(rocferry_topology::GpuNode {
            node: NodeId(small(cpus + gpu)),
            id: ActualGpuId(0x100 + small(gpu)),
            render_minor: RenderMinor(128 + small(gpu)),
            links: vec![pcie(cpu_of(gpu))],
            ..model.clone()
        })
    }));
    System::new(nodes, vec![])
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("small")
}

/// Another machine of the same kind: GPUs have other node numbers and ids, nodes are listed in another order.
fn renumbered(system: &System, seed: u32) -> System {
    let mut random = Random(seed.into());
    let gpus: Vec<NodeId> = system.gpus().map(|gpu| gpu.node).collect();
    let mut places = gpus.clone();
    random.shuffle(&mut places);
    let place = |node: NodeId| {
        gpus.iter()
            .position(|gpu| *gpu == node)
            .map_or(node, |index| places[index])
    };
    let mut nodes = system.nodes.clone();
    for node in &mut nodes {
        let links = match node {
            Node::Cpu(cpu) => &mut cpu.links,
            Node::Gpu(gpu) => {
                gpu.node = place(gpu.node);
                gpu.id = ActualGpuId(0x8000 + (seed * 97 + gpu.node.get() * 13) % 0x7fff);
                &mut gpu.links
            }
        };
        for link in links {
            link.to = place(link.to);
        }
    }
    random.shuffle(&mut nodes);
    System::new(nodes, vec![])
}

/// Numbers that look random and are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below the bound")
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
