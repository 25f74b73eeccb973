//! Single changes to a question where all the rest fits, so that they are likely to decide.

use rocferry_topology::{ComputePartition, LinkKind, MemoryPartition, Switch};

use crate::brute::Question;
use crate::generate::Taste;
use crate::machine::{Machine, Wire};
use crate::mutate::{add_gpu, change_kind, change_way, redirect, separate};
use crate::random::Random;
use crate::rules::{AT_LEAST, EQUAL};

/// One of them.
pub(crate) fn one_thing(random: &mut Random, taste: &Taste, question: &mut Question) {
    let (source, destination) = (&mut question.source, &mut question.destination);
    if source.gpus.is_empty() {
        return;
    }
    let at = random.below(source.gpus.len());
    let node = source.gpus[at].node;
    let gpus: Vec<u32> = source.gpus.iter().map(|gpu| gpu.node).collect();
    match random.weighted(&[81, 7, 3, 38, 36, 6, 14, 2, 36, 12, 17]) {
        0 => one_property(random, question, at),
        1 => {
            let id = add_gpu(random, taste, destination);
            question.usable.push(id);
            question.usable.truncate(6);
        }
        2 => (source.xnack, destination.xnack) = (Some(true), Some(false)),
        3 => {
            // A member leaves its hive.
            for other in gpus {
                separate(destination, node, other);
                destination.wire(node, LinkKind::Pcie, other);
            }
        }
        4 => {
            // Hives grow together.
            for pair in gpus.windows(2) {
                destination.join(pair[0], LinkKind::Xgmi, pair[1]);
            }
        }
        5 => change_kind(random, destination, node),
        6 => {
            let cpus: Vec<u32> = destination.cpus.iter().map(|cpu| cpu.node).collect();
            for cpu in cpus {
                replace_all(destination, node, (LinkKind::Pcie, cpu), LinkKind::Other(1));
            }
            for other in gpus {
                destination.wire(node, LinkKind::Pcie, other);
                source.gpus[at]
                    .links
                    .retain(|wire| *wire != (LinkKind::Pcie, other));
            }
        }
        10 => {
            let (from, to) = (random.below(destination.cpus.len()), 0);
            redirect(
                destination,
                destination.cpus[from].node,
                destination.cpus[to].node,
            );
        }
        7 => {
            for other in gpus {
                source.wire(node, LinkKind::Pcie, other);
            }
        }
        8 => {
            // All links of some GPUs to CPUs become XGMI, or all PCIe.
            let (from, to) = if random.chance(60) {
                (LinkKind::Pcie, LinkKind::Xgmi)
            } else {
                (LinkKind::Xgmi, LinkKind::Pcie)
            };
            let cpus: Vec<u32> = destination.cpus.iter().map(|cpu| cpu.node).collect();
            for gpu in gpus {
                if random.chance(60) {
                    for cpu in &cpus {
                        replace_all(destination, gpu, (from, *cpu), to);
                    }
                }
            }
        }
        _ => {
            change_way(random, destination, node);
            if random.chance(50) {
                change_way(random, destination, node);
            }
        }
    }
}

/// One property of one GPU of the source, or of all GPUs of the destination.
fn one_property(random: &mut Random, question: &mut Question, at: usize) {
    let what = random.weighted(&[8, 4, 3, 2, 5, 5, 5, 5, 5, 5, 3]);
    let field = EQUAL[random.below(EQUAL.len())].1;
    let of_source = random.chance(50);
    let asked = &mut question.source.gpus[at..=at];
    let gpus = if of_source {
        asked
    } else {
        &mut question.destination.gpus[..]
    };
    for gpu in gpus {
        let properties = &mut gpu.properties;
        let more = |value: &mut u32| {
            *value = if of_source {
                *value + 2
            } else {
                value.saturating_sub(2)
            }
        };
        match what {
            0 => *field(properties) += 3,
            1 => gpu.gfx = Some(90402),
            2 => gpu.xcc = Some(8),
            3 => {
                gpu.compute = Some(ComputePartition::Cpx);
                gpu.memory = Some(MemoryPartition::Nps4);
            }
            4 => properties.capability ^= 1 << 8,
            5 => {
                if let Some(vram) = &mut properties.vram {
                    vram.size = if of_source {
                        vram.size + (2 << 30)
                    } else {
                        vram.size / 2
                    };
                }
            }
            10 => gpu.sdma = Some(3),
            property => more(AT_LEAST[property - 6].1(properties)),
        }
    }
    if what == 10 {
        question.source.gpus[at].sdma = Some(3);
        for gpu in &mut question.destination.gpus {
            let _ = gpu.location.get_or_insert(0x501);
        }
    }
    let switches = [
        Switch::Capability,
        Switch::VramSize,
        Switch::NumGws,
        Switch::CachesCount,
        Switch::FwVersion,
        Switch::SdmaFwVersion,
    ];
    if let Some(switch) = what.checked_sub(4).and_then(|at| switches.get(at))
        && random.chance(42)
    {
        question.checks = question.checks.with(*switch, false);
    }
}

/// A link of the GPU becomes one of another kind, and so does the way back.
fn replace_all(machine: &mut Machine, gpu: u32, (kind, far): Wire, other: LinkKind) {
    for (from, to) in [(gpu, far), (far, gpu)] {
        for wire in machine.links_mut(from).into_iter().flatten() {
            if *wire == (kind, to) {
                wire.0 = other;
            }
        }
    }
}
