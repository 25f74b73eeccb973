//! Random questions, made so that yes and no are about as likely and that every rule gets to decide.

use rocferry_topology::{
    Checks, ComputePartition, GpuProperties, LinkKind, MemoryPartition, Switch, Vram,
};

use crate::brute::{Choice, Question};
use crate::machine::{Cpu, Gpu, Machine};
use crate::mutate;
use crate::random::Random;
use crate::rules::{AT_LEAST, EQUAL};

/// Percentage of questions in which some links are as no machine that we know has them.
const UNCOMMON: u32 = 6;

/// The question with this number.
pub(crate) fn question(seed: u64, case: u64) -> Question {
    let random = &mut Random::of_case(seed, case);
    let choice = if random.chance(45) {
        Choice::Subset
    } else {
        Choice::All
    };
    let taste = Taste::draw(random);
    // Few of six: most of the time goes there.
    let count = [1, 2, 3, 4, 5, 6, 0][random.weighted(&[6, 16, 28, 30, 15, 4, 1])];
    let mut source = machine(random, &taste, count);
    // Drawn apart, so that all other questions are what they would be without.
    let apart = &mut Random::of_case(!seed, case);
    let uncommon = apart.chance(UNCOMMON);
    if uncommon && apart.chance(70) {
        mutate::uncommon_links(apart, &mut source);
    }
    let mut question = Question {
        destination: Machine::default(),
        usable: Vec::new(),
        choice,
        checks: checks(random),
        source,
    };
    if random.chance(87) {
        mutate::derive(random, &taste, &mut question);
    } else {
        // Two machines that have nothing to do with each other, but for what GPUs there are.
        let count = match choice {
            Choice::All if random.chance(92) => count,
            _ => random.between(1, 6) as usize,
        };
        question.destination = machine(random, &taste, count);
        question.usable = question.destination.ids();
        if random.chance(30) {
            mutate::add_unusable(random, &taste, &mut question);
        }
    }
    if uncommon && apart.chance(70) {
        mutate::uncommon_links(apart, &mut question.destination);
    }
    mutate::hide_knowledge(random, &mut question);
    for machine in [&mut question.source, &mut question.destination] {
        if random.chance(70) {
            mutate::renumber(random, machine);
        }
    }
    shuffle(random, &mut question);
    question
}

/// How one question's machines look.
pub(crate) struct Taste {
    /// Models of GPUs.
    pub(crate) models: Vec<Gpu>,
    /// Percentage of links to CPUs that are XGMI.
    xgmi_cpus: u32,
    /// Percentage of links to CPUs that go both ways.
    two_way: u32,
    /// Percentage of GPUs with links to several CPUs.
    many_cpus: u32,
    cpus: usize,
    hives: u32,
    pcie_peers: u32,
    pub(crate) missing: u32,
    /// Percentage of GPUs that are told to be partitions.
    partitions: u32,
}

impl Taste {
    fn draw(random: &mut Random) -> Self {
        let mut models = vec![model()];
        while models.len() < 3 && random.chance(25) {
            let mut other = models[0].clone();
            vary(random, &mut other);
            models.push(other);
        }
        Self {
            models,
            xgmi_cpus: [0, 15, 50, 100][random.weighted(&[4, 3, 4, 1])],
            two_way: [100, 75, 50, 10][random.weighted(&[3, 4, 3, 1])],
            many_cpus: [0, 25, 60][random.weighted(&[5, 3, 2])],
            cpus: 1 + random.weighted(&[3, 5, 3, 2]),
            hives: if random.chance(55) { 80 } else { 0 },
            pcie_peers: [0, 30, 100][random.weighted(&[4, 2, 4])],
            missing: [0, 20, 60][random.weighted(&[6, 2, 1])],
            partitions: [0, 100, 60][random.weighted(&[7, 2, 1])],
        }
    }

    fn cpu_kind(&self, random: &mut Random) -> LinkKind {
        if random.chance(self.xgmi_cpus) {
            LinkKind::Xgmi
        } else {
            LinkKind::Pcie
        }
    }

    /// Links a GPU to a CPU.
    pub(crate) fn link_cpu(&self, random: &mut Random, machine: &mut Machine, gpu: u32) {
        let cpus: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.node).collect();
        if let Some(cpu) = random.pick(&cpus) {
            let kind = self.cpu_kind(random);
            machine.wire(gpu, kind, cpu);
            if random.chance(self.two_way) {
                machine.wire(cpu, kind, gpu);
            }
        }
    }
}

/// A GPU with values that leave room below and above.
pub(crate) fn model() -> Gpu {
    let properties = GpuProperties {
        simd_count: 440,
        mem_banks_count: 1,
        caches_count: 506,
        io_links_count: 4,
        max_waves_per_simd: 8,
        lds_size_in_kb: 64,
        num_gws: 64,
        wave_front_size: 64,
        array_count: 8,
        simd_arrays_per_engine: 1,
        cu_per_simd_array: 14,
        simd_per_cu: 4,
        max_slots_scratch_cu: 32,
        vendor_id: 0x1002,
        device_id: 0x740f,
        num_sdma_engines: 2,
        num_sdma_xgmi_engines: 3,
        num_sdma_queues_per_engine: 8,
        num_cp_queues: 24,
        fw_version: 72,
        capability: 0x1000,
        sdma_fw_version: 8,
        vram: Some(Vram {
            public: true,
            size: 64 << 30,
        }),
    };
    Gpu {
        properties,
        gfx: Some(90010),
        xcc: Some(1),
        compute: Some(ComputePartition::Spx),
        memory: Some(MemoryPartition::Nps1),
        ..Gpu::default()
    }
}

/// Changes something about a GPU.
pub(crate) fn vary(random: &mut Random, gpu: &mut Gpu) {
    let properties = &mut gpu.properties;
    match random.weighted(&[EQUAL_WEIGHT, 1, 2, 2, 8, 1, 2, 2, 2, 2]) {
        0 => {
            let (_, field) = EQUAL[random.below(EQUAL.len())];
            *field(properties) += random.between(1, 2);
        }
        1 => {
            if let Some(vram) = &mut properties.vram {
                vram.public = !vram.public;
            }
        }
        2 => properties.capability ^= 1 << random.between(0, 3),
        3 => {
            if let Some(vram) = &mut properties.vram {
                let step = u64::from(random.between(1, 2)) << 30;
                vram.size = if random.chance(50) {
                    vram.size.saturating_sub(step).max(1)
                } else {
                    vram.size + step
                };
            }
        }
        4 => {
            let (_, field) = AT_LEAST[random.below(AT_LEAST.len())];
            let (value, step) = (field(properties), random.between(1, 2));
            *value = if random.chance(50) {
                value.saturating_sub(step)
            } else {
                *value + step
            };
        }
        5 => properties.vram = None,
        6 => gpu.gfx = Some(90402),
        7 => gpu.xcc = Some(random.between(2, 6)),
        8 => gpu.compute = random.pick(ComputePartition::ALL),
        _ => gpu.memory = random.pick(MemoryPartition::ALL),
    }
}

/// There are many of them.
const EQUAL_WEIGHT: u32 = 15;

/// A machine with so many GPUs, nodes numbered from 0 with CPUs first.
fn machine(random: &mut Random, taste: &Taste, count: usize) -> Machine {
    let mut machine = Machine::default();
    let mut node = 0;
    let mut next = || {
        node += 1;
        node - 1
    };
    for _ in 0..taste.cpus {
        machine.cpus.push(Cpu {
            node: next(),
            links: Vec::new(),
        });
    }
    let ids = random.distinct(count, 0x1000, 0xffff);
    for id in ids {
        let model = random.below(taste.models.len());
        let mut gpu = taste.models[model].clone();
        (gpu.node, gpu.id) = (next(), id);
        if random.chance(taste.partitions) {
            let number = random.between(0, 2);
            let notation = if random.chance(50) {
                number
            } else {
                number << 28
            };
            gpu.location = Some(0x500 + notation);
            gpu.sdma = random.chance(40).then_some(number);
        }
        machine.gpus.push(gpu);
    }
    let gpus: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    for gpu in &gpus {
        if random.chance(96) {
            taste.link_cpu(random, &mut machine, *gpu);
        }
        while random.chance(taste.many_cpus) {
            taste.link_cpu(random, &mut machine, *gpu);
        }
    }
    if random.chance(taste.hives) {
        hives(random, &mut machine, &gpus);
    }
    peers(random, taste, &mut machine);
    // CPUs among themselves, over what nobody compares.
    if let [a, b, ..] = machine.cpus.as_slice() {
        let (a, b) = (a.node, b.node);
        machine.join(a, LinkKind::Other(1), b);
    }
    machine.xnack = [None, Some(true), Some(false)][random.weighted(&[4, 3, 3])];
    machine
}

/// Groups of two to four, each connected by XGMI, fully or in part; now and then a stray one-way link.
fn hives(random: &mut Random, machine: &mut Machine, gpus: &[u32]) {
    let mut left = gpus.to_vec();
    random.shuffle(&mut left);
    while left.len() > 1 && random.chance(85) {
        let size = (2 + random.weighted(&[6, 2, 2])).min(left.len());
        let members = left.split_off(left.len() - size);
        let full = random.chance(60);
        for (at, member) in members.iter().enumerate() {
            for (before, earlier) in members[..at].iter().enumerate() {
                // The one before is always linked, so that all hang together.
                if full || before + 1 == at || random.chance(20) {
                    machine.join(*member, LinkKind::Xgmi, *earlier);
                }
            }
        }
    }
    if let (true, Some(a), Some(b)) = (random.chance(10), random.pick(gpus), random.pick(gpus))
        && a != b
    {
        machine.wire(a, LinkKind::Xgmi, b);
    }
}

/// PCIe between GPUs, and links to nodes that are not there.
fn peers(random: &mut Random, taste: &Taste, machine: &mut Machine) {
    let gpus: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    for a in &gpus {
        for b in &gpus {
            if a != b && random.chance(taste.pcie_peers) {
                machine.wire(*a, LinkKind::Pcie, *b);
            }
        }
    }
    for gpu in &gpus {
        mutate::add_missing(random, taste, machine, *gpu);
    }
}

/// Switches: all on in most cases.
fn checks(random: &mut Random) -> Checks {
    let mut checks = Checks::default();
    if random.chance(35) {
        checks = checks.with(Switch::Numa, false);
    }
    if random.chance(45) {
        for switch in Switch::ALL {
            if random.chance(40) {
                checks = checks.with(switch, false);
            }
        }
    }
    checks
}

/// Puts nodes, links and ids into any order.
pub(crate) fn shuffle(random: &mut Random, question: &mut Question) {
    for machine in [&mut question.source, &mut question.destination] {
        random.shuffle(&mut machine.cpus);
        random.shuffle(&mut machine.gpus);
        for cpu in &mut machine.cpus {
            random.shuffle(&mut cpu.links);
        }
        for gpu in &mut machine.gpus {
            random.shuffle(&mut gpu.links);
        }
    }
    random.shuffle(&mut question.usable);
}
