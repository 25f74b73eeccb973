//! Debian's own rocminfo, unmodified, lists the simulated GPUs: ROCm's user space accepts the simulator as
//! far as its enumeration of a machine goes. What it prints is compared with the topology in sysfs, and the main
//! numbers with what the preset stands for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::case::{Case, Lab, On, Skip};
use crate::rocminfo::{Agent, parse};

const fn case(name: &'static str, limit_s: u32, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::All,
        limit_s,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("rocminfo/gfx90a_1", 60, |lab| {
        listed(lab, "preset=gfx90a-1", &GFX90A)
    }),
    case("rocminfo/vega20", 60, |lab| {
        listed(lab, "preset=vega20", &VEGA20)
    }),
    case("rocminfo/mi210_pair", 60, |lab| {
        listed(lab, "preset=mi210-pair", &MI210)
    }),
    case("rocminfo/mi250x", 60, |lab| {
        listed(lab, "preset=mi250x", &MI250X)
    }),
    case("rocminfo/mi300a", 120, |lab| {
        listed(lab, "preset=mi300a", &MI300A)
    }),
    case("rocminfo/mi300x_hive8", 120, |lab| {
        listed(lab, "preset=mi300x-hive8", &MI300X)
    }),
    case("rocminfo/mi300x_cpx64", 300, |lab| {
        listed(lab, "preset=mi300x-cpx64", &MI300X_CPX)
    }),
    case("rocminfo/renumbered", 60, |lab| {
        listed(
            lab,
            "preset=mi210-pair renumber=7 minor_skip=3 reverse_minors=1",
            &MI210,
        )
    }),
    case("rocminfo/hidden_gpu_is_not_listed", 60, hidden),
];

/// A machine, in the numbers of its makers.
struct Machine {
    cpus: usize,
    gpus: usize,
    /// Name of the GPU's architecture.
    gfx: &'static str,
    /// PCI device id.
    chip: u64,
    /// CUs that each GPU has.
    cus: u64,
    /// Memory of each GPU in MiB.
    mib: u64,
}

const fn machine(
    cpus: usize,
    gpus: usize,
    gfx: &'static str,
    chip: u64,
    cus: u64,
    mib: u64,
) -> Machine {
    Machine {
        cpus,
        gpus,
        gfx,
        chip,
        cus,
        mib,
    }
}

/// What a card's firmware keeps of its memory, in MiB.
const KEPT: u64 = 16;

const GFX90A: Machine = machine(1, 1, "gfx90a", 0x740c, 4, 1 << 10);
const VEGA20: Machine = machine(1, 2, "gfx906", 0x66a1, 60, (16 << 10) - KEPT);
const MI210: Machine = machine(1, 2, "gfx90a", 0x740f, 104, (64 << 10) - KEPT);
const MI250X: Machine = machine(1, 2, "gfx90a", 0x7408, 110, (64 << 10) - KEPT);
const MI300A: Machine = machine(4, 4, "gfx942", 0x74a0, 228, 120 << 10);
const MI300X: Machine = machine(2, 8, "gfx942", 0x74a1, 304, (192 << 10) - KEPT);
const MI300X_CPX: Machine = machine(2, 64, "gfx942", 0x74a1, 38, ((192 << 10) - KEPT) / 8);

/// The list has every node once, as sysfs has it, and is the list of this machine.
fn listed(lab: &mut Lab, parameters: &str, machine: &Machine) -> Result<()> {
    let agents = agents_of(lab, parameters)?;
    let nodes = nodes()?;
    same(&agents, &nodes)?;
    let mut gpus = 0;
    for agent in &agents {
        if !agent.is_gpu()? {
            continue;
        }
        gpus += 1;
        ensure!(
            agent.text("Name")? == machine.gfx,
            "no {}: {agent:?}",
            machine.gfx
        );
        for (name, wanted) in [("Chip ID", machine.chip), ("Compute Unit", machine.cus)] {
            equal(agent, name, agent.number(name)?, wanted)?;
        }
        equal(
            agent,
            "size of the first pool",
            first_pool(agent)?,
            machine.mib << 10,
        )?;
    }
    ensure!(
        gpus == machine.gpus && agents.len() == machine.gpus + machine.cpus,
        "{gpus} GPUs among {} agents",
        agents.len()
    );
    lab.no_stray_access()
}

/// As in a container that was given one GPU of two: the runtime passes over the node that it may not read.
fn hidden(lab: &mut Lab) -> Result<()> {
    needs_rocminfo()?;
    lab.sim.load("preset=mi210-pair")?;
    let mut nodes = nodes()?;
    let (gone, _) = nodes.pop_first().context("no nodes")?;
    ensure!(gone == 0, "node {gone} comes first");
    lab.sim.set("mask", "0 1")?;
    let agents = parse(&rocminfo()?)?;
    let gpus: Vec<_> = agents
        .iter()
        .filter(|agent| agent.is_gpu().unwrap_or(false))
        .collect();
    ensure!(gpus.len() == 1, "{} GPUs are listed", gpus.len());
    let second = nodes.values().nth(1).context("no second GPU")?;
    ensure!(
        gpus[0].text("Uuid")? == second.uuid()?,
        "another GPU is listed: {:?}",
        gpus[0]
    );
    lab.sim.set("mask", "0 0")?;
    let agents = parse(&rocminfo()?)?;
    ensure!(
        agents.len() == 3,
        "{} agents after the GPU is back",
        agents.len()
    );
    Ok(())
}

fn agents_of(lab: &mut Lab, parameters: &str) -> Result<Vec<Agent>> {
    needs_rocminfo()?;
    lab.sim.load(parameters)?;
    parse(&rocminfo()?)
}

fn needs_rocminfo() -> Result<()> {
    if Path::new("/usr/bin/rocminfo").exists() {
        return Ok(());
    }
    Err(Skip("no rocminfo in this userland").into())
}

/// Its output; fails unless it ends with exit 0 and complains of nothing.
fn rocminfo() -> Result<String> {
    let output = Command::new("rocminfo")
        .output()
        .context("cannot start rocminfo")?;
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let tail = text.len().saturating_sub(400);
    ensure!(
        output.status.success(),
        "rocminfo: {}: {errors}{}",
        output.status,
        text.get(tail..).unwrap_or_default()
    );
    ensure!(errors.is_empty(), "rocminfo complains: {errors}");
    Ok(text.into_owned())
}

/// A node of the topology in sysfs.
struct Node {
    properties: BTreeMap<String, u64>,
    /// Bytes of its first memory bank.
    bank_bytes: u64,
    /// Largest cache of each level that it has, in KiB.
    caches: BTreeMap<u64, u64>,
}

impl Node {
    fn get(&self, name: &str) -> Result<u64> {
        self.properties
            .get(name)
            .copied()
            .with_context(|| format!("a node without {name}"))
    }

    fn is_gpu(&self) -> Result<bool> {
        Ok(self.get("simd_count")? > 0)
    }

    /// `gfx` with major and minor number in decimal, stepping in hexadecimal.
    fn gfx(&self) -> Result<String> {
        let version = self.get("gfx_target_version")?;
        let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
        Ok(format!("gfx{major}{minor}{stepping:x}"))
    }

    fn uuid(&self) -> Result<String> {
        Ok(format!("GPU-{:016x}", self.get("unique_id")?))
    }
}

/// All nodes by number.
fn nodes() -> Result<BTreeMap<u64, Node>> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir("/sys/class/kfd/kfd/topology/nodes")? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let mut caches = BTreeMap::new();
        for cache in fs::read_dir(path.join("caches"))? {
            let cache = numbers(&cache?.path().join("properties"))?;
            let (level, size) = (cache["level"], cache["size"]);
            // The runtime's L1 is the vector cache: no cache of instructions, and not the smaller scalar one.
            if level > 1 || cache["type"] & 1 != 0 {
                let largest = caches.entry(level).or_insert(size);
                *largest = size.max(*largest);
            }
        }
        let node = Node {
            properties: numbers(&path.join("properties"))?,
            bank_bytes: numbers(&path.join("mem_banks/0/properties"))?["size_in_bytes"],
            caches,
        };
        nodes.insert(number.context("a node without a number")?, node);
    }
    Ok(nodes)
}

/// The `name number` lines of a file; others are lists and left out.
fn numbers(path: &Path) -> Result<BTreeMap<String, u64>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Every node is one agent, and every number that both name is the same.
fn same(agents: &[Agent], nodes: &BTreeMap<u64, Node>) -> Result<()> {
    ensure!(
        agents.len() == nodes.len(),
        "{} agents for {} nodes",
        agents.len(),
        nodes.len()
    );
    for (agent, (&number, node)) in agents.iter().zip(nodes) {
        equal(agent, "Node", agent.number("Node")?, number)?;
        ensure!(
            agent.is_gpu()? == node.is_gpu()?,
            "node {number} is of another kind: {agent:?}"
        );
        equal(
            agent,
            "size of the first pool",
            first_pool(agent)?,
            node.bank_bytes >> 10,
        )?;
        if node.is_gpu()? {
            same_gpu(agent, node)?;
        } else {
            equal(
                agent,
                "Compute Unit",
                agent.number("Compute Unit")?,
                node.get("cpu_cores_count")?,
            )?;
        }
    }
    Ok(())
}

fn same_gpu(agent: &Agent, node: &Node) -> Result<()> {
    let per_cu = node.get("simd_per_cu")?;
    let arrays = node.get("simd_arrays_per_engine")?;
    for (name, wanted) in [
        ("Chip ID", node.get("device_id")?),
        ("Compute Unit", node.get("simd_count")? / per_cu),
        ("SIMDs per CU", per_cu),
        ("Shader Engines", node.get("array_count")? / arrays),
        ("Shader Arrs. per Eng.", arrays),
        ("Max Waves Per CU", node.get("max_waves_per_simd")? * per_cu),
        ("Wavefront Size", node.get("wave_front_size")?),
        (
            "Max Clock Freq. (MHz)",
            node.get("max_engine_clk_fcompute")?,
        ),
        // Bus, device and function; the number of a partition lies above them.
        ("BDFID", node.get("location_id")? & 0xffff),
        ("Packet Processor uCode", node.get("fw_version")?),
        ("SDMA engine uCode", node.get("sdma_fw_version")?),
    ] {
        equal(agent, name, agent.number(name)?, wanted)?;
    }
    let gfx = node.gfx()?;
    ensure!(
        agent.text("Name")? == gfx,
        "the name of a {gfx} is {:?}",
        agent.text("Name")?
    );
    let isa = format!("amdgcn-amd-amdhsa--{gfx}");
    let is_it = |name: &String| name.split(':').next() == Some(isa.as_str());
    ensure!(
        agent.isas.iter().any(is_it),
        "no {isa} among {:?}",
        agent.isas
    );
    ensure!(
        agent.text("Uuid")? == node.uuid()?,
        "{} is not {}",
        agent.text("Uuid")?,
        node.uuid()?
    );
    let caches: Vec<_> = node.caches.values().copied().collect();
    ensure!(
        agent.caches == caches,
        "caches {:?} KiB, sysfs says {caches:?}",
        agent.caches
    );
    for pool in &agent.pools {
        let wanted = if pool.segment == "GROUP" {
            node.get("lds_size_in_kb")?
        } else {
            node.bank_bytes >> 10
        };
        equal(agent, &pool.segment, pool.kib, wanted)?;
    }
    ensure!(
        agent.pools.iter().any(|pool| pool.segment == "GROUP") && agent.pools.len() > 1,
        "pools are missing: {:?}",
        agent.pools
    );
    Ok(())
}

fn first_pool(agent: &Agent) -> Result<u64> {
    Ok(agent.pools.first().context("an agent without memory")?.kib)
}

fn equal(agent: &Agent, what: &str, listed: u64, wanted: u64) -> Result<()> {
    ensure!(
        listed == wanted,
        "agent of node {}: {what} is {listed}, not {wanted}",
        agent.text("Node")?
    );
    Ok(())
}
