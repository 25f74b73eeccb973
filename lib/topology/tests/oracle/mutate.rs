//! Destinations that come from a source: other numbers, other order, and a few changes.

use std::collections::BTreeMap;

use rocferry_topology::LinkKind;

use crate::brute::{Choice, Question};
use crate::decisive;
use crate::generate::{Taste, vary};
use crate::machine::{Gpu, Machine, Wire};
use crate::random::Random;
use crate::rules::AT_LEAST;

/// The node number of things that were never there; numbers of nodes stay below.
const MISSING: u32 = 900;

/// Makes the destination from the source.
pub(crate) fn derive(random: &mut Random, taste: &Taste, question: &mut Question) {
    question.destination = question.source.clone();
    question.usable = question.destination.ids();
    if random.chance(35) {
        add_unusable(random, taste, question);
    }
    if question.choice == Choice::Subset {
        while question.usable.len() < 6 && random.chance(60) {
            let id = add_gpu(random, taste, &mut question.destination);
            question.usable.push(id);
        }
    }
    if random.chance(40) {
        improve(random, &mut question.destination);
    }
    // Links that make up in number for those that go.
    if random.chance(45) {
        let gpus: Vec<u32> = question
            .destination
            .gpus
            .iter()
            .map(|gpu| gpu.node)
            .collect();
        for a in &gpus {
            for b in gpus.iter().filter(|b| *b != a) {
                question.destination.wire(*a, LinkKind::Pcie, *b);
            }
        }
    }
    if random.chance(83) {
        decisive::one_thing(random, taste, question);
    } else {
        let changes = random.weighted(&[5, 9, 6, 3, 1]);
        for _ in 0..changes {
            if random.chance(20) {
                change(random, &mut question.source);
            } else {
                change(random, &mut question.destination);
            }
        }
    }
    rename(random, question);
}

/// Adds one or two GPUs that may not be used, some of them members of hives.
pub(crate) fn add_unusable(random: &mut Random, taste: &Taste, question: &mut Question) {
    for _ in 0..random.between(1, 2) {
        let _ = add_gpu(random, taste, &mut question.destination);
    }
}

/// Adds a GPU like one that is there, or like none; its id.
pub(crate) fn add_gpu(random: &mut Random, taste: &Taste, machine: &mut Machine) -> u32 {
    let used = machine.cpus.iter().map(|cpu| cpu.node);
    let used = used.chain(machine.gpus.iter().map(|gpu| gpu.node));
    let node = used.max().map_or(0, |node| node + 1);
    let id = loop {
        let id = random.between(0x1000, 0xffff);
        if machine.gpus.iter().all(|gpu| gpu.id != id) {
            break id;
        }
    };
    let others: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    let mut properties = taste.models[random.below(taste.models.len())].clone();
    if random.chance(20) {
        vary(random, &mut properties);
    }
    machine.gpus.push(Gpu {
        node,
        id,
        links: Vec::new(),
        ..properties
    });
    taste.link_cpu(random, machine, node);
    for other in &others {
        if random.chance(25) {
            machine.join(node, LinkKind::Xgmi, *other);
        } else if random.chance(50) {
            machine.join(node, LinkKind::Pcie, *other);
        }
    }
    add_missing(random, taste, machine, node);
    id
}

/// Perhaps gives a GPU links to nodes that are not there, known to be masked or not, or one to itself.
pub(crate) fn add_missing(random: &mut Random, taste: &Taste, machine: &mut Machine, gpu: u32) {
    if random.chance(taste.missing / 10)
        && let Some(links) = machine.links_mut(gpu)
    {
        links.push((LinkKind::Xgmi, gpu));
    }
    while random.chance(taste.missing) {
        let node = MISSING + random.between(0, 3);
        let kind = [LinkKind::Pcie, LinkKind::Xgmi, LinkKind::Other(5)][random.below(3)];
        machine.wire(gpu, kind, node);
        if random.chance(50) && !machine.masked.contains(&node) {
            machine.masked.push(node);
        }
    }
}

/// Some links twice, and some between GPUs over what nobody compares.
pub(crate) fn uncommon_links(random: &mut Random, machine: &mut Machine) {
    let nodes: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    for _ in 0..random.between(1, 3) {
        let (Some(gpu), Some(far)) = (random.pick(&nodes), random.pick(&nodes)) else {
            return;
        };
        let twice = random.chance(50);
        let Some(links) = machine.links_mut(gpu) else {
            return;
        };
        let to_gpu = |wire: &&mut Wire| nodes.contains(&wire.1);
        match random.pick(links) {
            Some(wire) if twice => links.push(wire),
            // One that is there, or one more.
            _ if random.chance(60) => {
                if let Some(wire) = links.iter_mut().find(to_gpu) {
                    wire.0 = LinkKind::Other(1);
                }
            }
            _ => machine.wire(gpu, LinkKind::Other(1), far),
        }
    }
}

/// Raises what may be larger.
fn improve(random: &mut Random, machine: &mut Machine) {
    for gpu in &mut machine.gpus {
        for (_, field) in AT_LEAST {
            *field(&mut gpu.properties) += random.between(0, 1);
        }
        if let Some(vram) = &mut gpu.properties.vram {
            vram.size += u64::from(random.between(0, 1)) << 20;
        }
    }
}

/// One change of any kind.
fn change(random: &mut Random, machine: &mut Machine) {
    if machine.gpus.is_empty() || machine.cpus.is_empty() {
        return;
    }
    let at = random.below(machine.gpus.len());
    let other = random.below(machine.gpus.len());
    let (node, far) = (machine.gpus[at].node, machine.gpus[other].node);
    match random.weighted(&[24, 3, 6, 6, 6, 4, 4, 3, 3, 4, 1]) {
        0 => vary(random, &mut machine.gpus[at]),
        1 => {
            let links = &mut machine.gpus[at].links;
            if !links.is_empty() {
                links.swap_remove(random.below(links.len()));
            }
        }
        2 => change_kind(random, machine, node),
        3 => change_way(random, machine, node),
        4 => move_to_cpu(random, machine, node),
        5 => {
            // What is on one CPU comes to be on another one.
            let (from, to) = (
                random.below(machine.cpus.len()),
                random.below(machine.cpus.len()),
            );
            redirect(machine, machine.cpus[from].node, machine.cpus[to].node);
        }
        6 if node != far => machine.join(node, LinkKind::Xgmi, far),
        7 => separate(machine, node, far),
        8 => machine.gpus[at]
            .links
            .retain(|wire| wire.0 != LinkKind::Xgmi),
        9 => {
            // Two GPUs change places.
            let properties = machine.gpus[at].properties.clone();
            machine.gpus[at].properties =
                std::mem::replace(&mut machine.gpus[other].properties, properties);
        }
        10 => {
            // A CPU cannot be read.
            let gone = machine.cpus.swap_remove(random.below(machine.cpus.len()));
            machine.masked.push(gone.node);
        }
        _ => machine.wire(node, LinkKind::Pcie, far),
    }
}

/// A link of the GPU to a CPU, if it has one.
fn a_cpu_link(random: &mut Random, machine: &Machine, gpu: u32) -> Option<Wire> {
    let is_cpu = |node| machine.cpus.iter().any(|cpu| cpu.node == node);
    let gpu = machine.gpus.iter().find(|g| g.node == gpu)?;
    let links: Vec<Wire> = gpu
        .links
        .iter()
        .copied()
        .filter(|wire| is_cpu(wire.1))
        .collect();
    random.pick(&links)
}

/// PCIe to a CPU becomes XGMI, or the other way round.
pub(crate) fn change_kind(random: &mut Random, machine: &mut Machine, gpu: u32) {
    let Some((kind, cpu)) = a_cpu_link(random, machine, gpu) else {
        return;
    };
    let other = match kind {
        LinkKind::Pcie => LinkKind::Xgmi,
        _ => LinkKind::Pcie,
    };
    for (from, to) in [(gpu, cpu), (cpu, gpu)] {
        if let Some(links) = machine.links_mut(from)
            && let Some(at) = links.iter().position(|wire| *wire == (kind, to))
        {
            links.swap_remove(at);
            machine.wire(from, other, to);
        }
    }
}

/// The way back from a CPU goes, or comes.
pub(crate) fn change_way(random: &mut Random, machine: &mut Machine, gpu: u32) {
    let Some((kind, cpu)) = a_cpu_link(random, machine, gpu) else {
        return;
    };
    if let Some(links) = machine.links_mut(cpu) {
        match links.iter().position(|wire| *wire == (kind, gpu)) {
            Some(at) => drop(links.swap_remove(at)),
            None => links.push((kind, gpu)),
        }
    }
}

/// A link to a CPU leads to another one.
fn move_to_cpu(random: &mut Random, machine: &mut Machine, gpu: u32) {
    let Some((kind, cpu)) = a_cpu_link(random, machine, gpu) else {
        return;
    };
    let to = machine.cpus[random.below(machine.cpus.len())].node;
    let mut remove = |from: u32, to: u32| {
        let links = machine.links_mut(from);
        let at = links
            .as_ref()
            .and_then(|l| l.iter().position(|w| *w == (kind, to)));
        if let (Some(links), Some(at)) = (links, at) {
            links.swap_remove(at);
            return true;
        }
        false
    };
    remove(gpu, cpu);
    let both = remove(cpu, gpu);
    machine.wire(gpu, kind, to);
    if both {
        machine.wire(to, kind, gpu);
    }
}

/// Every link between GPUs and one CPU is now between them and another one.
pub(crate) fn redirect(machine: &mut Machine, from: u32, to: u32) {
    let gpus: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    let mut wires: Vec<(u32, Wire)> = Vec::new();
    for gpu in &mut machine.gpus {
        gpu.links.retain(|wire| {
            let moved = wire.1 == from;
            if moved {
                wires.push((gpu.node, (wire.0, to)));
            }
            !moved
        });
    }
    if let Some(cpu) = machine.cpus.iter_mut().find(|cpu| cpu.node == from) {
        cpu.links.retain(|wire| {
            let moved = gpus.contains(&wire.1);
            if moved {
                wires.push((to, *wire));
            }
            !moved
        });
    }
    for (owner, (kind, far)) in wires {
        machine.wire(owner, kind, far);
    }
}

/// XGMI between two GPUs goes.
pub(crate) fn separate(machine: &mut Machine, a: u32, b: u32) {
    for (from, to) in [(a, b), (b, a)] {
        if let Some(links) = machine.links_mut(from) {
            links.retain(|wire| *wire != (LinkKind::Xgmi, to));
        }
    }
}

/// Gives the nodes other numbers.
pub(crate) fn renumber(random: &mut Random, machine: &mut Machine) {
    let mut nodes: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.node).collect();
    nodes.extend(machine.gpus.iter().map(|gpu| gpu.node));
    let numbers = random.distinct(nodes.len(), 0, 40);
    let new: BTreeMap<u32, u32> = nodes.into_iter().zip(numbers).collect();
    let number = |node: &mut u32| {
        if let Some(new) = new.get(node) {
            *node = *new;
        }
    };
    for cpu in &mut machine.cpus {
        number(&mut cpu.node);
        cpu.links.iter_mut().for_each(|wire| number(&mut wire.1));
    }
    for gpu in &mut machine.gpus {
        number(&mut gpu.node);
        gpu.links.iter_mut().for_each(|wire| number(&mut wire.1));
    }
}

/// Gives the GPUs of the destination the ids of another machine, those of the source, or a mixture.
fn rename(random: &mut Random, question: &mut Question) {
    let machine = &mut question.destination;
    let ids = machine.ids();
    let mut others = random.distinct(ids.len(), 0x10000, 0x1ffff);
    match random.weighted(&[4, 2, 5]) {
        // The same machine.
        0 => return,
        // The same ids on other GPUs, most of them.
        1 => {
            others.clone_from(&ids);
            random.shuffle(&mut others);
        }
        _ => {}
    }
    let keep = [0, 40][random.below(2)];
    let mut new: BTreeMap<u32, u32> = ids.iter().copied().zip(others).collect();
    for id in &ids {
        if random.chance(keep) && !new.values().any(|taken| taken == id) {
            new.insert(*id, *id);
        }
    }
    for id in machine
        .gpus
        .iter_mut()
        .map(|gpu| &mut gpu.id)
        .chain(&mut question.usable)
    {
        if let Some(new) = new.get(id) {
            *id = *new;
        }
    }
}

/// Takes from one of the machines what an older image or kernel does not tell.
pub(crate) fn hide_knowledge(random: &mut Random, question: &mut Question) {
    for machine in [&mut question.source, &mut question.destination] {
        let all = [0, 0, 100, 10][random.below(4)];
        for gpu in &mut machine.gpus {
            for what in 0..5 {
                if random.chance(all) {
                    match what {
                        0 => gpu.gfx = None,
                        1 => gpu.xcc = None,
                        2 => gpu.compute = None,
                        3 => gpu.location = None,
                        _ => gpu.memory = None,
                    }
                }
            }
        }
    }
}
