//! The presets with hives, CPUs on XGMI and partitions, each restored on a machine with other ids, minors and
//! order of the nodes.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::round_trip::{OTHER, SMALL};
use super::topology::{Journey, LIGHT, case};
use crate::case::{Case, Lab};

pub(crate) const CASES: &[Case] = &[
    case("topology/vega20", |lab| renumbered(lab, "vega20", SMALL)),
    case("topology/mi210_pair", |lab| {
        renumbered(lab, "mi210-pair", SMALL)
    }),
    case("topology/mi250x", |lab| renumbered(lab, "mi250x", SMALL)),
    case("topology/mi300a", |lab| renumbered(lab, "mi300a", LIGHT)),
    case("topology/mi300x_hive8", |lab| {
        renumbered(lab, "mi300x-hive8", LIGHT)
    }),
    case("topology/cpx64_all_partitions", cpx64_all),
    case("topology/cpx64_a_few_partitions", cpx64_few),
];

fn renumbered(lab: &mut Lab, preset: &str, args: &[&str]) -> Result<()> {
    let before = format!("preset={preset}");
    let journey = Journey::make(lab, &before, &format!("{before} {OTHER}"), args)?;
    let known = journey
        .pairs
        .iter()
        .filter(|(user, actual)| user.get() == actual.get());
    ensure!(known.count() == 0, "the machine was not renumbered");
    Ok(())
}

/// BOs on all of them (F25). The kernel takes an SDMA queue back only on a partition with the number that it had.
pub(super) fn cpx64_all(lab: &mut Lab) -> Result<()> {
    let args = [
        "--bare",
        "--bo",
        "vram:16K",
        "--queues",
        "sdma=1",
        "--no-background",
    ];
    let journey = cpx64(lab, &args)?;
    for (source, destination) in journey.gpus()? {
        ensure!(
            source.partition_index() == destination.partition_index(),
            "partition {:?} of a card stands in for {:?}",
            destination.partition_index(),
            source.partition_index()
        );
    }
    Ok(())
}

/// BOs on three of them, no queues: partitions may take each other's places.
fn cpx64_few(lab: &mut Lab) -> Result<()> {
    let args = [
        "--bare",
        "--gpus",
        "3",
        "--bo",
        "vram:64K:3",
        "--bo",
        "gtt:16K",
        "--no-background",
    ];
    let journey = cpx64(lab, &args)?;
    let moved = journey
        .gpus()?
        .into_iter()
        .any(|(source, destination)| source.partition_index() != destination.partition_index());
    ensure!(moved, "every partition keeps its number without a reason");
    Ok(())
}

fn cpx64(lab: &mut Lab, args: &[&str]) -> Result<Journey> {
    let before = "preset=mi300x-cpx64";
    let journey = Journey::make(lab, before, &format!("{before} {OTHER}"), args)?;
    let places: BTreeSet<_> = journey.places()?.into_iter().collect();
    ensure!(places.len() == 64, "{} GPUs are in use", places.len());
    Ok(journey)
}
