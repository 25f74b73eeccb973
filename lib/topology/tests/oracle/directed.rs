//! Situations that chance makes too seldom. Each is asked with its nodes in many orders, since what the search
//! tries first depends on them.

use rocferry_topology::{Checks, LinkKind, Switch};

use crate::brute::{Choice, Question};
use crate::generate::{model, shuffle};
use crate::machine::{Cpu, Gpu, Machine};
use crate::mutate::renumber;
use crate::random::Random;

/// A question whose answer can be seen by looking at it.
pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) fits: bool,
    question: Question,
}

impl Situation {
    fn new(
        name: &'static str,
        fits: bool,
        choice: Choice,
        source: Machine,
        destination: Machine,
    ) -> Self {
        let question = Question {
            usable: destination.ids(),
            source,
            destination,
            choice,
            checks: Checks::default(),
        };
        Self {
            name,
            fits,
            question,
        }
    }

    /// The same with nodes, links and usable GPUs in any order.
    pub(crate) fn reordered(&self, random: &mut Random) -> Question {
        let mut question = self.question.clone();
        renumber(random, &mut question.source);
        renumber(random, &mut question.destination);
        shuffle(random, &mut question);
        question
    }
}

/// All of them.
pub(crate) fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    all.extend(other_kinds());
    all.extend(double_links());
    all.extend([
        two_hives_and_room_for_both_in_one(),
        hive_that_falls_apart(),
    ]);
    all.extend([linked_to_from_outside()]);
    all
}

/// A machine whose first nodes are CPUs without links, the rest GPUs with these device ids.
fn machine(cpus: u32, devices: &[u32], id: u32) -> Machine {
    let cpu = |node| Cpu {
        node,
        links: Vec::new(),
    };
    let gpu = |(node, device): (u32, &u32)| {
        let mut gpu = Gpu {
            node,
            id: id + node,
            ..model()
        };
        gpu.properties.device_id = *device;
        gpu
    };
    Machine {
        cpus: (0..cpus).map(cpu).collect(),
        gpus: (cpus..).zip(devices).map(gpu).collect(),
        ..Machine::default()
    }
}

/// The ids of sources and destinations: no GPU keeps its own.
const SOURCE: u32 = 0x2000;
const DESTINATION: u32 = 0x3000;

/// Links between GPUs that are neither PCIe nor XGMI are none.
fn other_kinds() -> Vec<Situation> {
    let pair = |id, kind: Option<LinkKind>| {
        let mut machine = machine(1, &[1, 1], id);
        if let Some(kind) = kind {
            machine.join(1, kind, 2);
        }
        machine
    };
    let other = Some(LinkKind::Other(1));
    let ask = |name, fits, choice, from, to| {
        let (source, destination) = (pair(SOURCE, from), pair(DESTINATION, to));
        Situation::new(name, fits, choice, source, destination)
    };
    [Choice::All, Choice::Subset]
        .into_iter()
        .flat_map(|choice| {
            let pcie = Some(LinkKind::Pcie);
            [
                ask("another kind instead of PCIe", false, choice, pcie, other),
                ask("another kind that gets lost", true, choice, other, None),
            ]
        })
        .collect()
}

/// Two links of one GPU to one CPU: only one of all links of a CPU may be met by a better kind.
fn double_links() -> Vec<Situation> {
    let linked = |id, kinds: [LinkKind; 2]| {
        let mut machine = machine(1, &[1], id);
        for kind in kinds {
            machine.gpus[0].links.push((kind, 0));
            machine.cpus[0].links.push((kind, 1));
        }
        machine
    };
    let ask = |name, fits, to| {
        let source = linked(SOURCE, [LinkKind::Pcie; 2]);
        Situation::new(name, fits, Choice::All, source, linked(DESTINATION, to))
    };
    let both = [LinkKind::Xgmi; 2];
    let mut off = ask("both of two links better, NUMA off", true, both);
    off.question.checks = off.question.checks.with(Switch::Numa, false);
    vec![
        ask("both of two links better", false, both),
        ask("the same two links", true, [LinkKind::Pcie; 2]),
        ask("one better", true, [LinkKind::Pcie, LinkKind::Xgmi]),
        off,
    ]
}

/// Two pairs and two single GPUs go into a hive of four and a pair. GPU by GPU and hive by hive everything fits
/// everywhere, and yet the pairs must not both go into the four.
fn two_hives_and_room_for_both_in_one() -> Situation {
    let mut source = machine(1, &[1; 6], SOURCE);
    source.join(1, LinkKind::Xgmi, 2);
    source.join(3, LinkKind::Xgmi, 4);
    let mut destination = machine(1, &[1; 6], DESTINATION);
    for (a, b) in [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (5, 6)] {
        destination.join(a, LinkKind::Xgmi, b);
    }
    let name = "room for two hives in one";
    Situation::new(name, true, Choice::All, source, destination)
}

/// Two hives of three whose members are all linked to each other, but in one of them two that are needed by PCIe
/// alone: without the third they are no hive.
fn hive_that_falls_apart() -> Situation {
    let mut source = machine(1, &[1, 2], SOURCE);
    source.join(1, LinkKind::Xgmi, 2);
    let mut destination = machine(1, &[1, 2, 3, 1, 2, 3], DESTINATION);
    for first in [1, 4] {
        destination.join(first, LinkKind::Xgmi, first + 2);
        destination.join(first + 1, LinkKind::Xgmi, first + 2);
    }
    destination.join(1, LinkKind::Pcie, 2);
    destination.join(4, LinkKind::Xgmi, 5);
    let name = "one hive falls apart, the other does not";
    Situation::new(name, true, Choice::Subset, source, destination)
}

/// Two CPUs with the same GPUs, none of which has a link to a GPU. The link of another GPU leads to one of those,
/// so that it matters which CPU is taken.
fn linked_to_from_outside() -> Situation {
    let mut source = machine(1, &[1, 2, 3], SOURCE);
    source.join(2, LinkKind::Pcie, 0);
    source.join(3, LinkKind::Pcie, 0);
    source.wire(1, LinkKind::Pcie, 2);
    let mut destination = machine(2, &[1, 2, 3, 2, 3], DESTINATION);
    for (gpu, cpu) in [(3, 0), (4, 0), (5, 1), (6, 1)] {
        destination.join(gpu, LinkKind::Pcie, cpu);
    }
    destination.wire(2, LinkKind::Pcie, 5);
    let name = "alike but for who links to them";
    Situation::new(name, true, Choice::Subset, source, destination)
}
