//! Machines on which a checkpoint must not be restored: refused before the kernel has made anything, with
//! GPU, property, both values and the switch that would allow it in CRIU's log, and good elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rocferry_topology::{GpuNode, System};

use super::round_trip::OTHER;
use super::topology::{case, described, live};
use crate::case::{Case, Lab};
use crate::image_files;
use crate::trip::Dump;
use crate::workload::Workload;

pub(crate) const CASES: &[Case] = &[
    case("topology/refused_device_properties", device_properties),
    case("topology/refused_switchable_properties", switchable),
    case("topology/refused_chip_version", chip_version),
    case("topology/refused_without_xnack", xnack),
    case("topology/refused_cpus", cpus),
    case("topology/refused_hive_torn_apart", hive_torn),
    case("topology/refused_hives_joined", hives_joined),
];

/// One SDMA queue and no compute queues: these would have a context save area whose size is the chip's.
const ARGS: &[&str] = &["--bo", "vram:64K", "--bo", "gtt:16K", "--queues", "sdma=1"];

/// What the log says where some set of switches would help, and nowhere else.
const WOULD_ALLOW: &str = " would allow it";

/// A dumped process and the machine that it comes from.
struct Dumped {
    workload: Workload,
    dump: Dump,
    source: System,
}

impl Dumped {
    /// A process on this machine, dumped.
    fn on(lab: &mut Lab, machine: &str, args: &[&str]) -> Result<Self> {
        lab.sim.load(machine)?;
        let workload = lab.workload(args)?;
        Self::from(lab, workload)
    }

    fn from(lab: &mut Lab, workload: Workload) -> Result<Self> {
        Ok(Self {
            source: live()?,
            dump: lab.dump(&workload)?,
            workload,
        })
    }

    /// Refused on this machine, with these words in one line of the plugin's log each, and `allow` as the only
    /// line about switches (empty: no such line). Nothing was asked of the kernel and nothing is left.
    fn refused(
        &self,
        lab: &mut Lab,
        machine: &str,
        words: impl FnOnce(&System, &System) -> Result<Vec<String>>,
        allow: &str,
    ) -> Result<()> {
        lab.sim.load(machine)?;
        self.refused_here(lab, &self.dump.images, words, allow)
            .with_context(|| format!("on {machine}"))
    }

    fn refused_here(
        &self,
        lab: &Lab,
        images: &Path,
        words: impl FnOnce(&System, &System) -> Result<Vec<String>>,
        allow: &str,
    ) -> Result<()> {
        let wanted = words(&self.source, &live()?)?;
        let ended = lab.failing_restore(images, self.workload.pid, &[], &[])?;
        let said: Vec<&str> = ended
            .log
            .lines()
            .filter_map(|line| Some(line.split_once("amdgpu_plugin: ")?.1))
            .collect();
        for line in &wanted {
            ensure!(
                said.iter().any(|said| said.contains(line.as_str())),
                "the log does not say {line:?}: {}",
                ended.story()
            );
        }
        let allowing: Vec<_> = said
            .iter()
            .filter_map(|said| said.strip_suffix(WOULD_ALLOW))
            .collect();
        let right = match allow {
            "" => allowing.is_empty(),
            allow => allowing == [allow],
        };
        ensure!(right, "{allowing:?} would allow it, not {allow:?}");
        ensure!(
            lab.sim.calls("kfd.criu_op.restore")? == 0,
            "RESTORE was sent to the kernel"
        );
        Ok(())
    }

    /// Restored on this machine after all, whole.
    fn restored(mut self, lab: &mut Lab, machine: &str) -> Result<Workload> {
        lab.sim.load(machine)?;
        lab.restore(&mut self.workload, &self.dump)
            .with_context(|| format!("on {machine}"))?;
        self.workload.prove()?;
        self.workload.advances()?;
        Ok(self.workload)
    }

    /// A copy of the images as the C plugin would have left them: without ours.
    fn images_of_the_c_plugin(&self, lab: &mut Lab) -> Result<PathBuf> {
        let plain = lab.folder("c")?;
        image_files::copy_all(&self.dump.images, &plain)?;
        let ours = image_files::named(&plain, "rocferry-")?;
        ensure!(!ours.is_empty(), "there are no images of ours");
        for image in ours {
            fs::remove_file(image)?;
        }
        Ok(plain)
    }
}

/// The words about the only GPU of two machines.
fn about_the_gpu(difference: &str) -> impl Fn(&System, &System) -> Result<Vec<String>> {
    move |source, here| {
        let (gpu, other) = (only(source)?.id, only(here)?.id);
        Ok(vec![format!("GPU {gpu} cannot use {other}: {difference}")])
    }
}

fn only(system: &System) -> Result<&GpuNode> {
    system.gpus().next().context("no GPU")
}

/// These words, whatever the machines.
fn words(words: &[&str]) -> impl FnOnce(&System, &System) -> Result<Vec<String>> {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    move |_, _| Ok(words)
}

const ONE: &str = "cpu c0\ngpu g0 model=gfx90a";

/// One GPU that differs from [`ONE`] in these keys.
fn one(lab: &mut Lab, keys: &str) -> Result<String> {
    described(lab, &format!("{ONE} {keys}\n"))
}

/// What no switch allows.
fn device_properties(lab: &mut Lab) -> Result<()> {
    let home = one(lab, "")?;
    let dumped = Dumped::on(lab, &home, ARGS)?;
    for (keys, difference) in [
        (
            "device_id=0x740d",
            "device_id differs: checkpoint 0x740c, here 0x740d",
        ),
        ("num_xcc=2", "num_xcc differs: checkpoint 1, here 2"),
        (
            "num_sdma_queues_per_engine=6",
            "num_sdma_queues_per_engine differs: checkpoint 8, here 6",
        ),
        ("heap_type=2", "vram_public differs: checkpoint 1, here 0"),
        // All that differs is named, also what a switch would allow.
        (
            "lds_size_in_kb=32 fw_version=91",
            "lds_size_in_kb differs: checkpoint 64, here 32; \
             fw_version too small: checkpoint 92, here 91 (KFD_FW_VER_CHECK=0 allows it)",
        ),
    ] {
        let elsewhere = one(lab, keys)?;
        dumped.refused(lab, &elsewhere, about_the_gpu(difference), "")?;
    }
    dumped.restored(lab, &format!("{home} {OTHER}"))?.finish()
}

/// What a switch allows: named in the log, and enough.
fn switchable(lab: &mut Lab) -> Result<()> {
    let plain = lab.criu.clone();
    let home = one(lab, "")?;
    let dumped = Dumped::on(lab, &home, ARGS)?;
    let less = one(lab, "mem=512M")?;
    dumped.refused(
        lab,
        &less,
        about_the_gpu(
            "vram_size too small: checkpoint 1073741824, here 536870912 (KFD_VRAM_SIZE_CHECK=0 allows it)",
        ),
        "KFD_VRAM_SIZE_CHECK=0",
    )?;
    lab.criu = plain.with_env("KFD_VRAM_SIZE_CHECK", "No");
    let workload = dumped.restored(lab, &less)?;
    // From there more memory is no reason, but these two are.
    lab.criu = plain.clone();
    let dumped = Dumped::from(lab, workload)?;
    let other = one(
        lab,
        "capability=0x2477a281 sdma_fw_version=8 caches_count=99",
    )?;
    dumped.refused(
        lab,
        &other,
        about_the_gpu(
            "capability differs: checkpoint 0x2477a280, here 0x2477a281 (KFD_CAPABILITY_CHECK=0 allows it); \
             sdma_fw_version too small: checkpoint 9, here 8 (KFD_SDMA_FW_VER_CHECK=0 allows it)",
        ),
        "KFD_CAPABILITY_CHECK=0 with KFD_SDMA_FW_VER_CHECK=0",
    )?;
    // One of the two is not enough.
    lab.criu = plain.with_env("KFD_CAPABILITY_CHECK", "0");
    dumped.refused(
        lab,
        &other,
        about_the_gpu("sdma_fw_version too small: checkpoint 9, here 8"),
        "KFD_SDMA_FW_VER_CHECK=0",
    )?;
    lab.criu = lab.criu.with_env("KFD_SDMA_FW_VER_CHECK", "0");
    dumped.restored(lab, &other)?.finish()
}

/// The chip's version is in our images and not in those of the C plugin, which says yes then, as does it.
fn chip_version(lab: &mut Lab) -> Result<()> {
    let home = one(lab, "")?;
    let mut dumped = Dumped::on(lab, &home, ARGS)?;
    let elsewhere = one(lab, "gfx_target_version=90009")?;
    let difference = "gfx_target_version differs: checkpoint 90010, here 90009";
    dumped.refused(lab, &elsewhere, about_the_gpu(difference), "")?;
    dumped.dump.images = dumped.images_of_the_c_plugin(lab)?;
    dumped.restored(lab, &elsewhere)?.finish()
}

/// XNACK is in the kernel's own data, so images of the C plugin tell it as well.
fn xnack(lab: &mut Lab) -> Result<()> {
    let home = one(lab, "")?;
    let args = [ARGS, &["--xnack"]].concat();
    let dumped = Dumped::on(lab, &home, &args)?;
    let elsewhere = one(lab, "gfx_target_version=90009")?;
    let reason = "Checkpoint runs with XNACK on, which the driver here does not allow";
    dumped.refused(lab, &elsewhere, words(&[reason]), "")?;
    let plain = dumped.images_of_the_c_plugin(lab)?;
    dumped
        .refused_here(lab, &plain, words(&[reason]), "")
        .context("images of the C plugin")?;
    dumped.restored(lab, &format!("{home} {OTHER}"))?.finish()
}

/// Two GPUs on a CPU each find only one CPU, two on one find two; without the check both is right.
fn cpus(lab: &mut Lab) -> Result<()> {
    let plain = lab.criu.clone();
    let unchecked = plain.with_env("KFD_NUMA_CHECK", "0");
    let apart = described(
        lab,
        "cpu c[0-1]\ngpu g0 model=gfx90a cpu=c0\ngpu g1 model=gfx90a cpu=c1\n",
    )?;
    let together = described(lab, "cpu c[0-1]\ngpu g[0-1] model=gfx90a cpu=c0\n")?;
    let dumped = Dumped::on(lab, &apart, ARGS)?;
    let reason = "2 CPUs of the checkpoint (0, 1) fit only 1 here (KFD_NUMA_CHECK=0 allows it)";
    dumped.refused(lab, &together, words(&[reason]), "KFD_NUMA_CHECK=0")?;
    lab.criu = unchecked.clone();
    let workload = dumped.restored(lab, &together)?;
    lab.criu = plain;
    let dumped = Dumped::from(lab, workload)?;
    dumped.refused(
        lab,
        &apart,
        |source, here| {
            let there: Vec<_> = source.gpus().map(|gpu| gpu.id.to_string()).collect();
            let here: Vec<_> = here.gpus().map(|gpu| gpu.id.to_string()).collect();
            Ok(vec![
                format!(
                    "GPUs {} of the checkpoint share CPU 0, and no CPU here takes more than 1 of them \
                     (KFD_NUMA_CHECK=0 allows it)",
                    there.join(", ")
                ),
                format!("CPU 0 with {} takes 1 of them", here[0]),
                format!("CPU 1 with {} takes 1 of them", here[1]),
            ])
        },
        "KFD_NUMA_CHECK=0",
    )?;
    lab.criu = unchecked;
    dumped.restored(lab, &apart)?.finish()
}

/// Four GPUs with as many links each: a ring over XGMI.
const RING: &str = "cpu c0\ngpu g[0-3] model=gfx90a\n\
    link g0 g1 type=xgmi\nlink g1 g2 type=xgmi\nlink g2 g3 type=xgmi\nlink g3 g0 type=xgmi\n";

/// The same number of links, but two pairs.
const PAIRS: &str = "cpu c0\ngpu g[0-3] model=gfx90a\n\
    link g0 g1 type=xgmi\nlink g1 g2 type=pcie\nlink g2 g3 type=xgmi\nlink g3 g0 type=pcie\n";

fn list<'a>(gpus: impl Iterator<Item = &'a GpuNode>) -> String {
    gpus.map(|gpu| gpu.id.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn hive_torn(lab: &mut Lab) -> Result<()> {
    let (ring, pairs) = (described(lab, RING)?, described(lab, PAIRS)?);
    let dumped = Dumped::on(lab, &ring, ARGS)?;
    dumped.refused(
        lab,
        &pairs,
        |source, here| {
            Ok(vec![
                format!(
                    "GPUs {} of the checkpoint are one hive, and no hive here takes more than 2 of them",
                    list(source.gpus())
                ),
                format!("Hive of {} takes 2 of them", list(here.gpus().take(2))),
                format!("Hive of {} takes 2 of them", list(here.gpus().skip(2))),
            ])
        },
        "",
    )?;
    let fewer = "Checkpoint holds 4 GPUs, but 3 are usable here";
    dumped.refused(lab, &format!("{ring} gpus=3"), words(&[fewer]), "")?;
    dumped.restored(lab, &format!("{ring} {OTHER}"))?.finish()
}

fn hives_joined(lab: &mut Lab) -> Result<()> {
    let (ring, pairs) = (described(lab, RING)?, described(lab, PAIRS)?);
    let dumped = Dumped::on(lab, &pairs, ARGS)?;
    dumped.refused(
        lab,
        &ring,
        |source, _| {
            Ok(vec![format!(
                "2 hives of the checkpoint fit only 1 here: ({}), ({})",
                list(source.gpus().take(2)),
                list(source.gpus().skip(2))
            )])
        },
        "",
    )?;
    dumped.restored(lab, &format!("{pairs} {OTHER}"))?.finish()
}
