//! Machines on which few mappings are right, or one: GPU models in another order, hives and CPUs in each
//! other's places. Several of them CRIU's C plugin refuses, though there is a mapping.

use anyhow::{Result, ensure};

use super::round_trip::OTHER;
use super::topology::{Journey, LIGHT, case, described};
use crate::case::{Case, Lab};

pub(crate) const CASES: &[Case] = &[
    case("topology/two_hives_swapped", two_hives_swapped),
    case("topology/mixed_models", mixed_models),
    case("topology/greedy_choice_of_a_cpu_fails", cpus_swapped),
    case("topology/greedy_choice_of_a_hive_fails", hives_and_cpus),
    case("topology/cpu_links_over_xgmi", xgmi_to_cpus),
    case("topology/own_ids_in_another_order", own_ids),
];

/// From one description to the other: the place that each GPU takes, in node order.
fn places(lab: &mut Lab, before: &str, after: &str) -> Result<Vec<usize>> {
    let (before, after) = (described(lab, before)?, described(lab, after)?);
    Journey::make(lab, &before, &after, LIGHT)?.places()
}

/// Two hives of four on two CPUs, with PCIe links from each GPU to the other hive; the model of the first is
/// that of the second on the other machine (P0). The machines' ids are the same, which must not mislead.
fn two_hives_swapped(lab: &mut Lab) -> Result<()> {
    let machine = |first: &str, second: &str| {
        let mut text = "cpu c[0-1]\n".to_owned();
        for gpu in 0..8 {
            let model = if gpu < 4 { first } else { second };
            text += &format!(
                "gpu g{gpu} model=gfx90a device_id={model} cpu=c{}\n",
                gpu % 2
            );
        }
        for gpu in 0..16 {
            text += &format!("link g{} g{} type=pcie\n", gpu / 4, 4 + gpu % 4);
        }
        text + "hive g[0-3]\nhive g[4-7]\n"
    };
    let places = places(
        lab,
        &machine("0xd000", "0xd001"),
        &machine("0xd001", "0xd000"),
    )?;
    let (first, second) = places.split_at(4);
    ensure!(
        first.iter().all(|place| *place >= 4) && second.iter().all(|place| *place < 4),
        "the hives did not change places: {places:?}"
    );
    Ok(())
}

/// Two models in another order, no hives (P6).
fn mixed_models(lab: &mut Lab) -> Result<()> {
    let machine = |models: [u32; 5]| {
        let mut text = "cpu c0\n".to_owned();
        for (gpu, model) in models.into_iter().enumerate() {
            text += &format!("gpu g{gpu} model=gfx90a device_id={model}\n");
        }
        for (from, to) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            text += &format!("link g{from} g{to} type=pcie\n");
        }
        text + "link g4 g0 type=pcie oneway\nlink g4 g1 type=pcie oneway\nlink g4 g2 type=pcie oneway\n"
    };
    let places = places(
        lab,
        &machine([0xd000, 0xd000, 0xd001, 0xd000, 0xd001]),
        &machine([0xd000, 0xd001, 0xd000, 0xd000, 0xd001]),
    )?;
    ensure!(
        [places[2], places[4]] == [1, 4],
        "GPUs 2 and 4 are of the other model: {places:?}"
    );
    Ok(())
}

/// Taking the first CPU that fits leaves the third GPU without one (P11).
fn cpus_swapped(lab: &mut Lab) -> Result<()> {
    let places = places(
        lab,
        "cpu c[0-1]\n\
         gpu g0 model=gfx90a cpu=c1\n\
         gpu g1 model=gfx90a cpu=c1 cpu_link=pcie-oneway\n\
         gpu g2 model=gfx90a cpu=c0\n",
        "cpu c[0-1]\n\
         gpu g0 model=gfx90a cpu=c1\n\
         gpu g1 model=gfx90a cpu=c0 cpu_link=pcie-oneway\n\
         gpu g2 model=gfx90a cpu=c0\n",
    )?;
    ensure!(places == [2, 1, 0], "{places:?}");
    Ok(())
}

/// Two hives of two models, each with one right place for each of its GPUs (P12).
fn hives_and_cpus(lab: &mut Lab) -> Result<()> {
    let places = places(
        lab,
        "cpu c[0-1]\n\
         gpu g0 model=gfx90a device_id=0xd001 cpu=c1\n\
         gpu g1 model=gfx90a device_id=0xd001 cpu=c0\n\
         gpu g2 model=gfx90a device_id=0xd000 cpu=c0\n\
         gpu g3 model=gfx90a device_id=0xd000 cpu=c0 cpu_link=pcie-oneway\n\
         hive g0,g1\nhive g2,g3\n",
        "cpu c[0-1]\n\
         gpu g0 model=gfx90a device_id=0xd000 cpu=c0\n\
         gpu g1 model=gfx90a device_id=0xd001 cpu=c0\n\
         gpu g2 model=gfx90a device_id=0xd000 cpu=c0 cpu_link=pcie-oneway\n\
         gpu g3 model=gfx90a device_id=0xd001 cpu=c1\n\
         hive g1,g3\nhive g0,g2\n",
    )?;
    ensure!(places == [3, 1, 0, 2], "{places:?}");
    Ok(())
}

/// XGMI to the CPUs as well, which must join no hives (P15, F33): at home every GPU stays itself, elsewhere
/// the hives stay what they are.
fn xgmi_to_cpus(lab: &mut Lab) -> Result<()> {
    let machine = described(
        lab,
        "cpu c[0-1]\n\
         gpu g[0-1] model=gfx90a cpu=c0 cpu_link=xgmi\n\
         gpu g[2-3] model=gfx90a cpu=c1 cpu_link=xgmi\n\
         hive g[0-1]\nhive g[2-3]\n",
    )?;
    lab.sim.load(&machine)?;
    let mut workload = lab.workload(LIGHT)?;
    let home = Journey::of(lab, &mut workload, &machine)?;
    ensure!(
        home.places()? == [0, 1, 2, 3],
        "GPUs change places at home: {:?}",
        home.pairs
    );
    let away = Journey::of(lab, &mut workload, &format!("{machine} {OTHER}"))?;
    ensure!(away.pairs.len() == 4, "{:?}", away.pairs);
    workload.finish()
}

/// The same GPUs in another order: each keeps its own id, since a process whose ids changed meets quirks of
/// the kernel (P10).
fn own_ids(lab: &mut Lab) -> Result<()> {
    let machine = |order: [u32; 4]| {
        let gpu = |gpu| format!("gpu g{gpu} model=gfx90a gpu_id={}\n", 0x1000 + gpu);
        "cpu c0\n".to_owned() + &order.map(gpu).concat()
    };
    let (before, after) = (machine([0, 1, 2, 3]), machine([2, 3, 1, 0]));
    let places = places(lab, &before, &after)?;
    ensure!(places == [3, 2, 0, 1], "{places:?}");
    Ok(())
}
