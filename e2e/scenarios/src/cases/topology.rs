//! What the cases `topology/` share: a journey from one machine to another one, and what it must have kept.
//!
//! Which GPU stands in for which is read from KFD. What must hold is worked out here from the two topology
//! trees, by the kernel's hive ids and each GPU's link to its CPU, not by the rules of the matcher.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use rocferry_topology::{ActualGpuId, GpuNode, LinkKind, NodeId, System, UserGpuId};

use crate::case::{Case, Lab, On};
use crate::workload::Workload;

pub(super) const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 120,
        run,
    }
}

/// A few small BOs and an SDMA queue on each GPU: no compute queues, whose save areas are large on GPUs of many
/// CUs.
pub(super) const LIGHT: &[&str] = &[
    "--bo",
    "vram:48K:2",
    "--bo",
    "gtt:16K",
    "--bo",
    "userptr:16K",
    "--queues",
    "sdma=1",
];

/// Parameters that load the machine described by `text`.
pub(super) fn described(lab: &mut Lab, text: &str) -> Result<String> {
    let path = lab.folder("machine")?.join("description");
    fs::write(&path, text)?;
    Ok(format!("description={}", path.display()))
}

/// The machine that is loaded, with all its GPUs.
pub(super) fn live() -> Result<System> {
    System::read_live().context("the topology cannot be read")
}

/// GPUs of one machine and those that stand in for them on another one.
pub(super) struct Journey {
    pub(super) source: System,
    pub(super) destination: System,
    pub(super) pairs: Vec<(UserGpuId, ActualGpuId)>,
}

impl Journey {
    /// From one machine to another one, with everything in place on both and the topology kept.
    pub(super) fn make(lab: &mut Lab, before: &str, after: &str, args: &[&str]) -> Result<Self> {
        lab.sim.load(before)?;
        let mut workload = lab.workload(args)?;
        let journey = Self::of(lab, &mut workload, after)?;
        workload.finish()?;
        Ok(journey)
    }

    /// As [`Self::make`], of a process that has not been restored yet and goes on afterwards.
    pub(super) fn of(lab: &mut Lab, workload: &mut Workload, after: &str) -> Result<Self> {
        let source = live()?;
        let dump = lab.dump(workload)?;
        lab.sim.load(after)?;
        let destination = live()?;
        let restore = lab.restore(workload, &dump)?;
        let pairs = placed(lab, workload.pid)?;
        let journey = Self {
            source,
            destination,
            pairs,
        };
        journey.is_told(&restore.log)?;
        journey.keeps_topology()?;
        workload.prove()?;
        workload.advances()?;
        lab.no_stray_access()?;
        Ok(journey)
    }

    /// The GPUs of each pair. Before its first restore a process knows GPUs by the machine's own ids.
    pub(super) fn gpus(&self) -> Result<Vec<(&GpuNode, &GpuNode)>> {
        let pair = |(user, actual): &(UserGpuId, ActualGpuId)| {
            let source = self.source.gpu(ActualGpuId(user.get()));
            let destination = self.destination.gpu(*actual);
            Ok((
                source.with_context(|| format!("no GPU {user} at the dump"))?,
                destination.with_context(|| format!("no GPU {actual} here"))?,
            ))
        };
        self.pairs.iter().map(pair).collect()
    }

    /// For each GPU of the process, in node order: its place among all GPUs of the destination.
    pub(super) fn places(&self) -> Result<Vec<usize>> {
        let mut gpus = self.gpus()?;
        gpus.sort_by_key(|(source, _)| source.node);
        let place = |gpu: &GpuNode| self.destination.gpus().position(|other| other.id == gpu.id);
        gpus.iter()
            .map(|(_, gpu)| place(gpu).context("it is there"))
            .collect()
    }

    /// Fails unless the plugin's log names every pair, with render nodes, and no other.
    pub(super) fn is_told(&self, log: &str) -> Result<()> {
        let told: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.contains(" at dump) is GPU "))
            .filter_map(|line| Some(line.split_once("amdgpu_plugin: ")?.1))
            .collect();
        let wanted: Vec<String> = self
            .gpus()?
            .iter()
            .map(|(source, destination)| {
                format!(
                    "GPU {} ({} at dump) is GPU {} ({}) here",
                    source.id, source.render_minor, destination.id, destination.render_minor
                )
            })
            .collect();
        ensure!(
            told == wanted.iter().map(String::as_str).collect(),
            "the log says {told:?}, KFD {wanted:?}"
        );
        Ok(())
    }

    /// Fails unless every GPU is of the kind of the one it stands in for, hives stay whole and apart, and so do
    /// the GPUs of each CPU.
    pub(super) fn keeps_topology(&self) -> Result<()> {
        let gpus = self.gpus()?;
        let used: BTreeSet<_> = gpus.iter().map(|(_, gpu)| gpu.id).collect();
        ensure!(used.len() == gpus.len(), "a GPU stands in for two");
        let (mut hives, mut cpus) = (Vec::new(), Vec::new());
        for (source, destination) in gpus {
            let kind = |gpu: &GpuNode| {
                let properties = &gpu.properties;
                (
                    properties.device_id,
                    properties.simd_count,
                    gpu.gfx_target_version,
                )
            };
            ensure!(
                kind(source) == kind(destination),
                "GPU {} stands in for another model, {}",
                destination.id,
                source.id
            );
            if source.hive_id.is_some() {
                hives.push((source.hive_id, destination.hive_id));
            }
            let (there, here) = (
                cpu_link(&self.source, source)?,
                cpu_link(&self.destination, destination)?,
            );
            ensure!(
                there.kind == here.kind && there.two_way <= here.two_way,
                "GPU {} hangs on its CPU by {here:?}, {} by {there:?}",
                destination.id,
                source.id
            );
            cpus.push((there.cpu, here.cpu));
        }
        ensure!(one_to_one(&hives), "hives were torn or joined: {hives:?}");
        ensure!(
            hives.iter().all(|(_, here)| here.is_some()),
            "a GPU has left its hive: {hives:?}"
        );
        ensure!(one_to_one(&cpus), "CPUs were torn or joined: {cpus:?}");
        Ok(())
    }
}

/// How a GPU hangs on its CPU.
#[derive(Debug)]
pub(super) struct CpuLink {
    pub(super) cpu: NodeId,
    pub(super) kind: LinkKind,
    pub(super) two_way: bool,
}

/// The GPU's only link to a CPU.
pub(super) fn cpu_link(system: &System, gpu: &GpuNode) -> Result<CpuLink> {
    let is_cpu = |node: NodeId| system.cpus().any(|cpu| cpu.node == node);
    let mut links = gpu.links.iter().filter(|link| is_cpu(link.to));
    let (Some(link), None) = (links.next(), links.next()) else {
        anyhow::bail!("GPU {} has no link to a CPU, or several", gpu.id);
    };
    Ok(CpuLink {
        cpu: link.to,
        kind: link.kind,
        two_way: link.bidirectional,
    })
}

/// Which GPU stands in for which, as KFD says of the process.
pub(super) fn placed(lab: &Lab, pid: i32) -> Result<Vec<(UserGpuId, ActualGpuId)>> {
    let processes = lab.sim.processes()?;
    let line = processes
        .lines()
        .find(|line| line.starts_with(&format!("pid={pid} ")))
        .with_context(|| format!("KFD does not know process {pid}: {processes}"))?;
    let pair = |word: &str| {
        let (actual, rest) = word.strip_prefix("gpu=")?.split_once(",user=")?;
        let (user, _) = rest.split_once(',')?;
        Some((
            UserGpuId(user.parse().ok()?),
            ActualGpuId(actual.parse().ok()?),
        ))
    };
    let pairs: Vec<_> = line.split_ascii_whitespace().filter_map(pair).collect();
    ensure!(!pairs.is_empty(), "no GPUs in {line}");
    Ok(pairs)
}

/// Does each left side go with one right side, and the other way round?
fn one_to_one<A: Ord, B: Ord>(pairs: &[(A, B)]) -> bool {
    let (mut there, mut here) = (BTreeMap::new(), BTreeMap::new());
    pairs
        .iter()
        .all(|(a, b)| *there.entry(a).or_insert(b) == b && *here.entry(b).or_insert(a) == a)
}
