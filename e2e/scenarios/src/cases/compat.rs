//! The simulator's second client: the C plugin of CRIU's own source.
//!
//! It knows nothing of the simulator, so what works with it shows that the simulator keeps to the driver's
//! interface; and images of either plugin are restored by the other. The file is put into the machine by
//! `cargo xtask test` when ROCFERRY_C_PLUGIN names it.
//!
//! The process is one that the C plugin can do: /dev/kfd below the render nodes, one file of each GPU of the
//! machine, each BO mapped once and at its GPU address. Two things that the C plugin is known to do wrong
//! are accepted by name, nothing else is: its copies are a byte too long (F13), and it leaves its own files
//! of the render nodes open in the process (F31).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{BIN, Case, Lab, On, Skip};
use crate::criu::{Criu, Version};
use crate::proc;
use crate::workload::Workload;
use crate::{image_files, trip};

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::All,
        limit_s: 180,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("compat/c_alone_one_gpu", |lab| {
        turns(lab, "preset=gfx90a-1", &[], &[here(C, C)])
    }),
    case("compat/c_alone_two_gpus", |lab| {
        turns(lab, "preset=gfx90a-2", &[], &[here(C, C)])
    }),
    case("compat/c_alone_renumbered", |lab| {
        turns(lab, "preset=gfx90a-2", SMALL, &[there(C, C)])
    }),
    case("compat/c_alone_gfx8_count_encoding", |lab| {
        turns(lab, GFX8, SMALL, &[here(C, C)])
    }),
    case("compat/c_alone_hive_of_eight", |lab| {
        let small = ["--bo", "vram:192K", "--queues", "sdma=1", "--no-background"];
        turns(lab, "preset=mi300x-hive8", &small, &[there(C, C)])
    }),
    case("compat/c_dumps_we_restore", |lab| {
        turns(lab, "preset=gfx90a-2", &[], &[here(C, OURS)])
    }),
    case("compat/c_dumps_we_restore_renumbered", |lab| {
        turns(lab, "preset=mi210-pair", SMALL, &[there(C, OURS)])
    }),
    case("compat/we_dump_c_restores", |lab| {
        turns(lab, "preset=gfx90a-2", &[], &[here(OURS, C)])
    }),
    case("compat/we_dump_c_restores_renumbered", |lab| {
        turns(lab, "preset=mi210-pair", SMALL, &[there(OURS, C)])
    }),
    case("compat/by_turns", |lab| {
        // The C plugin dumps first only: it loses the contents of a process whose GPUs have new ids (F11).
        let steps = [
            here(C, OURS),
            there(OURS, C),
            here(OURS, OURS),
            here(OURS, C),
        ];
        turns(lab, "preset=gfx90a-2", SMALL, &steps)
    }),
    case("compat/same_images", same_images),
];

/// The C plugin's file among the programs.
const C_PLUGIN: &str = "c_amdgpu_plugin.so";

/// The machine whose GPU takes plain byte counts in copy packets, as the C plugin writes them for all.
const GFX8: &str = "preset=gfx8-1";

/// Who dumps or restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugin {
    C,
    Ours,
}

const C: Plugin = Plugin::C;
const OURS: Plugin = Plugin::Ours;

/// One dump and one restore.
#[derive(Clone, Copy, Debug)]
struct Step {
    dump: Plugin,
    restore: Plugin,
    /// On the renumbered machine; else on the one of before.
    moves: bool,
}

const fn here(dump: Plugin, restore: Plugin) -> Step {
    Step {
        dump,
        restore,
        moves: false,
    }
}

const fn there(dump: Plugin, restore: Plugin) -> Step {
    Step {
        dump,
        restore,
        moves: true,
    }
}

/// CRIU with the C plugin. Not with CRIU before 4.1, which lacks functions that it calls.
fn c_criu(lab: &Lab) -> Result<Criu> {
    let file = Path::new(BIN).join(C_PLUGIN);
    if !file.exists() {
        return Err(Skip("ROCFERRY_C_PLUGIN is not set").into());
    }
    if lab.criu.version < Version(4, 1) {
        return Err(Skip("the C plugin needs CRIU 4.1").into());
    }
    let folder = PathBuf::from("/run/rocferry/c-plugin");
    fs::create_dir_all(&folder)?;
    let _ = fs::remove_file(folder.join("amdgpu_plugin.so"));
    fs::copy(&file, folder.join("amdgpu_plugin.so"))?;
    Ok(lab.criu.with_plugins(&folder))
}

/// The steps one after the other, with a proof after each.
fn turns(lab: &mut Lab, machine: &str, args: &[&str], steps: &[Step]) -> Result<()> {
    let c = c_criu(lab)?;
    lab.sim.load(machine)?;
    let mut run = Run {
        c,
        machine,
        workload: lab.workload(args)?,
        leaked: BTreeSet::new(),
    };
    for (nth, step) in steps.iter().enumerate() {
        let nth = nth + 1;
        run.take(lab, *step)
            .with_context(|| format!("step {nth}, {step:?}"))?;
    }
    let Run {
        workload, leaked, ..
    } = run;
    let left = leaked_render_nodes(&workload.finish_findings()?)?;
    ensure!(
        left.is_subset(&leaked),
        "open beside the process's own files at its end: {left:?}"
    );
    Ok(())
}

/// A workload between steps.
struct Run<'a> {
    /// CRIU with the C plugin.
    c: Criu,
    machine: &'a str,
    workload: Workload,
    /// What the C plugin has left open in the process (F31).
    leaked: BTreeSet<i32>,
}

impl Run<'_> {
    fn take(&mut self, lab: &mut Lab, step: Step) -> Result<()> {
        let used = proc::numbers(&format!("/proc/{}/fd", self.workload.pid));
        let highest = used.and_then(|fds| fds.last().copied());
        let highest = highest.context("the workload is gone")?;
        let images = lab.folder("images")?;
        lab.sim.reset_counters()?;
        let criu = self.criu(lab, step.dump);
        criu.dump(self.workload.pid, &images, &[])?.ok()?;
        lab.calls_were(&[("process_info", 1), ("unpause", 1), ("resume", 0)])?;
        self.copies_were_right(lab, step.dump).context("dump")?;
        proc::wait_reaped(self.workload.pid)?;

        if step.moves {
            lab.sim.load(&format!("{} {OTHER}", self.machine))?;
        }
        lab.sim.reset_counters()?;
        let (ended, pid) = self.criu(lab, step.restore).try_restore(&images, &[])?;
        let ended = ended.ok()?;
        self.workload.pid = pid.context("CRIU wrote no pid file")?;
        lab.calls_were(&[("process_info", 0), ("unpause", 0), ("resume", 1)])?;
        self.copies_were_right(lab, step.restore)
            .context("restore")?;
        if step.restore == OURS {
            trip::all_resumed(&images, 1)?;
        }
        self.is_well(step.restore, highest).context(ended.story())?;
        self.workload.advances()
    }

    fn criu<'a>(&'a self, lab: &'a Lab, plugin: Plugin) -> &'a Criu {
        match plugin {
            Plugin::C => &self.c,
            Plugin::Ours => &lab.criu,
        }
    }

    /// The GPU has stayed within the mappings. Of the C plugin's copies the last byte lies in the mapping
    /// behind, on families that count from 0 (F13): the simulator must see it there, and only there.
    fn copies_were_right(&self, lab: &Lab, plugin: Plugin) -> Result<()> {
        if plugin == Plugin::Ours || self.machine == GFX8 {
            return lab.no_stray_access();
        }
        let (overruns, copies) = (
            lab.sim.counter("gpu*.fault_overrun")?,
            lab.sim.counter("gpu*.copies")?,
        );
        ensure!(
            overruns > 0 && overruns <= 2 * copies,
            "{overruns} accesses beyond a mapping in {copies} copies"
        );
        lab.calls_were(&[
            ("gpu*.fault_unmapped", 0),
            ("would_oops", 0),
            ("warnings", 0),
        ])
    }

    /// The full proof, but for what the C plugin has left open: at most one render node of each GPU after one
    /// of its restores, above all numbers that the process used.
    fn is_well(&mut self, restored_by: Plugin, highest: i32) -> Result<()> {
        let left = leaked_render_nodes(&self.workload.findings()?)?;
        let new: Vec<i32> = left.difference(&self.leaked).copied().collect();
        let gpus = match restored_by {
            Plugin::C => self.workload.number("gpus_seen")?,
            Plugin::Ours => 0,
        };
        ensure!(
            new.len() as u64 <= gpus && new.iter().all(|fd| *fd > highest),
            "open beside the process's own files: {new:?}, above {highest}; {gpus} GPUs"
        );
        ensure!(
            left.is_superset(&self.leaked),
            "open before the dump: {:?}, after the restore: {left:?}",
            self.leaked
        );
        self.leaked = left;
        Ok(())
    }
}

/// The numbers of render nodes that are open without the process having opened them. Any other finding is
/// an error.
fn leaked_render_nodes(findings: &[String]) -> Result<BTreeSet<i32>> {
    let number = |finding: &String| {
        // The first finding of a proof is told again by the next one, and at the end.
        let again = ["found before the proof: ", "found before the end: "];
        let told = again.iter().find_map(|begin| finding.strip_prefix(begin));
        let (fd, link) = told
            .unwrap_or(finding)
            .strip_prefix("foreign fd ")?
            .split_once(' ')?;
        link.starts_with("(/dev/dri/renderD").then_some(())?;
        fd.parse().ok()
    };
    let numbers: Option<_> = findings.iter().map(number).collect();
    numbers.with_context(|| format!("the proof failed: {findings:#?}"))
}

/// Both plugins dump the same process: the same files, the same bytes, but for the fields that only newer C
/// plugins know (a BO's handle; of a render node all but the GPU) and the order of the devices.
fn same_images(lab: &mut Lab) -> Result<()> {
    let c = c_criu(lab)?;
    lab.sim.load("preset=gfx90a-2")?;
    // Nothing changes between the dumps.
    let still = ["--no-background", "--no-heartbeat", "--queues", "none"];
    let workload = lab.workload(&still)?;
    let (theirs, ours) = (lab.folder("images")?, lab.folder("images")?);
    for (criu, images) in [(&c, &theirs), (&lab.criu, &ours)] {
        criu.dump(workload.pid, images, &["--leave-running"])?
            .ok()?;
    }
    let files = image_files::named(&theirs, "amdgpu-")?;
    let names = |files: &[PathBuf]| -> Vec<_> {
        let names = files.iter().filter_map(|file| file.file_name());
        names.map(ToOwned::to_owned).collect()
    };
    let (their_names, our_names) = (names(&files), names(&image_files::named(&ours, "amdgpu-")?));
    ensure!(
        their_names == our_names && files.len() == 5,
        "{their_names:?}, ours: {our_names:?}"
    );
    for (file, name) in files.iter().zip(&their_names) {
        let (their_bytes, our_bytes) = (fs::read(file)?, fs::read(ours.join(name))?);
        let name = name.to_string_lossy();
        if name.starts_with("amdgpu-kfd-") {
            let (theirs, ours) = (kfd_fields(&their_bytes)?, kfd_fields(&our_bytes)?);
            let differs = theirs.iter().zip(&ours).find(|(a, b)| a != b);
            ensure!(
                theirs.len() == ours.len() && differs.is_none(),
                "{name}: {} fields, ours {}; {differs:?}",
                theirs.len(),
                ours.len()
            );
            continue;
        }
        let same = if name.starts_with("amdgpu-renderD-") {
            content(&our_bytes)?.starts_with(content(&their_bytes)?)
        } else {
            their_bytes == our_bytes
        };
        ensure!(same, "{name} is another one");
    }
    workload.finish()
}

/// What is behind the length of an image.
fn content(image: &[u8]) -> Result<&[u8]> {
    image.get(8..).context("shorter than its header")
}

/// Number and value of each field of a message.
type Fields = Vec<(u64, Vec<u8>)>;

/// The fields of a kfd image: of BOs all but the handle, devices and their links sorted.
fn kfd_fields(image: &[u8]) -> Result<Vec<(u64, Fields)>> {
    const DEVICES: u64 = 4;
    const BOS: u64 = 6;
    const HANDLE: u64 = 6;
    let mut found = Vec::new();
    for (number, value) in fields(content(image)?)? {
        let mut inner = match number {
            DEVICES | BOS => fields(&value)?,
            _ => vec![(0, value)],
        };
        if number == BOS {
            inner.retain(|(number, _)| *number != HANDLE);
        } else {
            inner.sort();
        }
        found.push((number, inner));
    }
    let (from, to) = (
        found.partition_point(|(number, _)| *number < DEVICES),
        found.partition_point(|(number, _)| *number <= DEVICES),
    );
    found
        .get_mut(from..to)
        .context("fields in another order")?
        .sort();
    Ok(found)
}

/// The fields of a message, which has numbers and byte strings only.
fn fields(mut message: &[u8]) -> Result<Fields> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let number = varint(&mut message)?;
        let value = match key & 7 {
            0 => number.to_le_bytes().to_vec(),
            2 => {
                let length = usize::try_from(number)?;
                let (value, rest) = message.split_at_checked(length).context("cut short")?;
                message = rest;
                value.to_vec()
            }
            other => bail!("wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    Ok(found)
}

fn varint(from: &mut &[u8]) -> Result<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().context("cut short")?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a number of more than 64 bits")
}
