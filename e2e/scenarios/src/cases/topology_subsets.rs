//! A process that a device cgroup limits to some GPUs of a large machine, restored into a cgroup that grants
//! others on another one: only these count, with what links them.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rocferry_topology::{GpuNode, NodeId, System};

use super::round_trip::OTHER;
use super::subset::DeviceCgroup;
use super::topology::{Journey, case, cpu_link, live, placed};
use crate::case::{Case, Lab};
use crate::proc;

pub(crate) const CASES: &[Case] = &[
    case("topology/two_of_a_hive_of_eight", two_of_a_hive),
    case("topology/three_of_64_partitions", three_partitions),
];

const ARGS: &[&str] = &[
    "--bo",
    "vram:48K:2",
    "--bo",
    "gtt:16K",
    "--queues",
    "sdma=1",
];

const MANAGED: &[&str] = &["--manage-cgroups"];

/// GPUs of the machine, by their place among the GPUs, for which this holds.
fn such(system: &System, holds: impl Fn(usize, &GpuNode) -> bool) -> Vec<u64> {
    let gpus = system.gpus().enumerate();
    gpus.filter(|(place, gpu)| holds(*place, gpu))
        .map(|(place, _)| place as u64)
        .collect()
}

fn at_cpu(system: &System, gpu: &GpuNode, cpu: u32) -> bool {
    cpu_link(system, gpu).is_ok_and(|link| link.cpu == NodeId(cpu))
}

/// What the cgroup grants on the destination, and what comes of it.
struct Grant {
    gpus: Vec<u64>,
    /// Words of the log if it is refused.
    refused: Option<&'static [&'static str]>,
}

/// Dumps a process with these GPUs of the machine, and tries what `grants` chooses on the machine's like.
/// The last one is restored.
fn subset(
    lab: &mut Lab,
    machine: &str,
    before: &[u64],
    grants: impl FnOnce(&System) -> Result<Vec<Grant>>,
) -> Result<Journey> {
    lab.sim.load(machine)?;
    let source = live()?;
    let cgroup = DeviceCgroup::new(&lab.dir)?;
    cgroup.grant(&lab.sim, before)?;
    let mut workload = cgroup.workload(lab, ARGS)?;
    let dump = lab.dump_with(&workload, MANAGED)?;
    lab.sim.load(&format!("{machine} {OTHER}"))?;
    let destination = live()?;
    for Grant { gpus, refused } in grants(&destination)? {
        cgroup.grant(&lab.sim, &gpus)?;
        if let Some(words) = refused {
            let (ended, _) = lab.criu.try_restore(&dump.images, MANAGED)?;
            ended.refused(words).with_context(|| format!("{gpus:?}"))?;
            proc::wait_reaped(workload.pid)?;
            ensure!(
                lab.sim.calls("kfd.criu_op.restore")? == 0,
                "RESTORE was sent to the kernel"
            );
            continue;
        }
        let restore = lab.restore_with(&mut workload, &dump, MANAGED)?;
        ensure!(cgroup.holds(workload.pid)?, "it is outside of its cgroup");
        let journey = Journey {
            pairs: placed(lab, workload.pid)?,
            source,
            destination,
        };
        journey.is_told(&restore.log)?;
        journey.keeps_topology()?;
        let used: BTreeSet<u64> = journey
            .places()?
            .iter()
            .map(|place| *place as u64)
            .collect();
        ensure!(
            used == gpus.iter().copied().collect(),
            "GPUs {used:?} are in use, {gpus:?} were granted"
        );
        workload.prove()?;
        workload.advances()?;
        lab.no_stray_access()?;
        workload.finish()?;
        return Ok(journey);
    }
    anyhow::bail!("nothing was restored")
}

/// One GPU of each CPU; two of one CPU are none of it.
fn two_of_a_hive(lab: &mut Lab) -> Result<()> {
    subset(lab, "preset=mi300x-hive8", &[1, 6], |here| {
        let at = |cpu| such(here, |_, gpu| at_cpu(here, gpu, cpu));
        let (first, second) = (at(0), at(1));
        ensure!(
            first.len() == 4 && second.len() == 4,
            "{first:?} and {second:?}"
        );
        Ok(vec![
            Grant {
                gpus: vec![first[0], first[2]],
                refused: Some(&[
                    "2 CPUs of the checkpoint",
                    "KFD_NUMA_CHECK=0 would allow it",
                ]),
            },
            Grant {
                gpus: vec![first[3], second[0]],
                refused: None,
            },
        ])
    })?;
    Ok(())
}

/// Partitions 3, 1 and 0 of three cards. Their SDMA queues need partitions with the same numbers, of any card.
fn three_partitions(lab: &mut Lab) -> Result<()> {
    let journey = subset(lab, "preset=mi300x-cpx64", &[3, 17, 40], |here| {
        let pick = |cpu, index| {
            let fits = such(here, |place, gpu| {
                place > 3 && at_cpu(here, gpu, cpu) && gpu.partition_index() == Some(index)
            });
            fits.last().copied().context("no such partition")
        };
        let right = vec![pick(0, 1)?, pick(0, 3)?, pick(1, 0)?];
        Ok(vec![
            Grant {
                gpus: vec![pick(0, 1)?, pick(0, 2)?, pick(1, 0)?],
                refused: Some(&["partition_index differs: checkpoint 3, here 2"]),
            },
            Grant {
                gpus: right,
                refused: None,
            },
        ])
    })?;
    for (source, destination) in journey.gpus()? {
        ensure!(
            source.partition_index() == destination.partition_index(),
            "partition {:?} stands in for {:?}",
            destination.partition_index(),
            source.partition_index()
        );
    }
    Ok(())
}
