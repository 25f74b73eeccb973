//! The topology tree of every preset, read by the library: what is in it, and that the machine can take its
//! own place and that of its renumbered like.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use rocferry_topology::{ActualGpuId, Checks, LinkKind, Mapping, Matcher, Mode, System, UserGpuId};

use super::round_trip::OTHER;
use super::topology::{Journey, case, cpu_link, live};
use crate::case::{Case, Lab};

/// What a preset's tree has to hold.
struct Tree {
    preset: &'static str,
    cpus: usize,
    gpus: usize,
    /// GPUs in each hive.
    hives: &'static [usize],
    cpu_link: LinkKind,
    /// Partitions of a card.
    partitions: usize,
}

const PLAIN: Tree = Tree {
    preset: "",
    cpus: 1,
    gpus: 1,
    hives: &[],
    cpu_link: LinkKind::Pcie,
    partitions: 1,
};

macro_rules! trees {
    ($($name:literal, $preset:literal, { $($field:ident: $value:expr),* };)+) => {
        pub(crate) const CASES: &[Case] = &[$(
            case(concat!("topology/tree_", $name), |lab| {
                let tree = Tree { preset: $preset, $($field: $value,)* ..PLAIN };
                tree.check(lab)
            }),
        )+];
    };
}

trees! {
    "gfx90a_1", "gfx90a-1", {};
    "gfx90a_2", "gfx90a-2", { gpus: 2 };
    "gfx90a_4", "gfx90a-4", { gpus: 4 };
    "gfx90a_8", "gfx90a-8", { gpus: 8 };
    "gfx8_1", "gfx8-1", {};
    "vega20", "vega20", { gpus: 2 };
    "mi210_pair", "mi210-pair", { gpus: 2, hives: &[2] };
    "mi250", "mi250", { gpus: 2, hives: &[2] };
    "mi250x", "mi250x", { gpus: 2, hives: &[2] };
    "mi300a", "mi300a", { cpus: 4, gpus: 4, hives: &[4], cpu_link: LinkKind::Xgmi };
    "mi300x_hive8", "mi300x-hive8", { cpus: 2, gpus: 8, hives: &[8] };
    "mi300x_cpx64", "mi300x-cpx64", { cpus: 2, gpus: 64, hives: &[64], partitions: 8 };
}

impl Tree {
    fn check(&self, lab: &mut Lab) -> Result<()> {
        let preset = format!("preset={}", self.preset);
        lab.sim.load(&preset)?;
        let source = live()?;
        self.holds(&source)?;
        lab.sim.load(&format!("{preset} {OTHER}"))?;
        let like = live()?;
        self.holds(&like)?;
        for mode in [Mode::All, Mode::Subset] {
            let mapping = map(&source, &source, mode)?;
            ensure!(mapping.is_identity(), "at home, {mode:?}: {mapping:?}");
            let same = mapping.cpus().iter().all(|(there, here)| there == here);
            ensure!(same, "at home, {mode:?}: {:?}", mapping.cpus());
            self.fits(&source, &like, mode, self.gpus)?;
        }
        // Part of it: as many GPUs of one hive and CPU as there are, or half of all.
        let few = self.gpus.div_ceil(2);
        let mut left = few;
        let part = source.rename(|gpu| {
            left = left.checked_sub(1)?;
            Some(gpu.id)
        });
        self.fits(&part, &like, Mode::Subset, few)
    }

    fn fits(&self, source: &System, like: &System, mode: Mode, gpus: usize) -> Result<()> {
        let mapping = map(source, like, mode)?;
        ensure!(mapping.len() == gpus, "{mode:?}: {mapping:?}");
        let journey = Journey {
            source: source.clone(),
            destination: like.clone(),
            pairs: mapping.iter().collect(),
        };
        journey.keeps_topology()?;
        for (there, here) in mapping.cpus() {
            for (gpu, other) in journey.gpus()? {
                let (from, to) = (cpu_link(source, gpu)?, cpu_link(like, other)?);
                ensure!(
                    (from.cpu == *there) == (to.cpu == *here),
                    "CPU {here} stands in for {there}, but GPU {} for {}",
                    other.id,
                    gpu.id
                );
            }
        }
        let mut wanted: Vec<_> = source
            .gpus()
            .map(|gpu| Ok(cpu_link(source, gpu)?.cpu))
            .collect::<Result<_>>()?;
        wanted.sort_unstable();
        wanted.dedup();
        let used = mapping.cpus().len();
        ensure!(used == wanted.len(), "{used} CPUs are mapped");
        Ok(())
    }

    fn holds(&self, system: &System) -> Result<()> {
        let counts = (system.cpus().count(), system.gpus().count());
        ensure!(
            counts == (self.cpus, self.gpus) && system.masked.is_empty(),
            "{counts:?} CPUs and GPUs, {:?} masked",
            system.masked
        );
        let hives: Vec<usize> = system.hives().iter().map(Vec::len).collect();
        ensure!(hives == self.hives, "hives of {hives:?} GPUs");
        let mut by_id = BTreeMap::<_, usize>::new();
        for hive in system.gpus().filter_map(|gpu| gpu.hive_id) {
            *by_id.entry(hive).or_default() += 1;
        }
        ensure!(by_id.values().eq(self.hives), "hives by id: {by_id:?}");
        let (mut at_cpu, mut by_number) =
            (BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new());
        for gpu in system.gpus() {
            let link = cpu_link(system, gpu)?;
            ensure!(
                link.kind == self.cpu_link && link.two_way,
                "GPU {}: {link:?}",
                gpu.id
            );
            *at_cpu.entry(link.cpu).or_default() += 1;
            let raw = u64::from(gpu.properties.io_links_count);
            ensure!(
                gpu.valid_link_count() == raw,
                "GPU {}: {} of {raw} links lead somewhere",
                gpu.id,
                gpu.valid_link_count()
            );
            let divided = system.is_partition(gpu);
            ensure!(
                divided == (self.partitions > 1),
                "GPU {} is a partition: {divided}",
                gpu.id
            );
            *by_number.entry(gpu.partition_index()).or_default() += 1;
        }
        let even = |counts: Vec<usize>, parts: usize| counts == vec![self.gpus / parts; parts];
        ensure!(
            even(at_cpu.values().copied().collect(), self.cpus),
            "GPUs at CPUs: {at_cpu:?}"
        );
        ensure!(
            even(by_number.values().copied().collect(), self.partitions),
            "GPUs by number: {by_number:?}"
        );
        Ok(())
    }
}

/// The GPUs of one machine on those of another one.
fn map(source: &System, destination: &System, mode: Mode) -> Result<Mapping> {
    let known = source.rename(|gpu| Some(UserGpuId(gpu.id.get())));
    let usable: Vec<ActualGpuId> = destination.gpus().map(|gpu| gpu.id).collect();
    let matcher = Matcher::new(&known, Checks::default())?;
    match matcher.map(destination, &usable, mode) {
        Ok(mapping) => Ok(mapping),
        Err(rejection) => bail!("{mode:?}: {}", rejection.lines().join(" | ")),
    }
}
