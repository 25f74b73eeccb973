//! One case for each known defect of the C plugin, by its number: what a replacement has to do instead.
//!
//! `cargo xtask mutants` puts each defect into our plugin and sees the case fail. Some have their case
//! elsewhere and only their name here; F24, F29, F34 and F36 are shown by unit tests.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::failures::{self, MACHINE, PROCESS_INFO, fails_by, script_that, start};
use super::restore_failures;
use super::round_trip::{self, OTHER, SMALL};
use super::{damage, layouts, subset, topology_presets, tree};
use crate::case::{Case, Lab, On};
use crate::image_files;
use crate::proc;
use crate::standing::Calls;

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 180,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case(
        "defects/f01_copy_errors_are_kept",
        damage::errors_are_not_lost,
    ),
    case("defects/f02_each_gpu_has_its_own_offsets", f02),
    case(
        "defects/f03_a_failed_restore_is_seen",
        restore_failures::restore_resume,
    ),
    case("defects/f05_queues_go_on_after_a_failed_dump", f05),
    case("defects/f06_process_info_fails", f06),
    case(
        "defects/f07_old_images_do_not_show_through",
        failures::dump_over_longer_images,
    ),
    case("defects/f08_inventory_without_a_mapping", f08),
    case("defects/f09_foreign_devices", tree::foreign_device),
    case("defects/f10_render_node_before_kfd", f10),
    case("defects/f11_second_generation", f11),
    case("defects/f12_subset_of_the_gpus", |lab| {
        subset::subset(lab, &[2], &[1])
    }),
    case("defects/f13_copy_count", f13),
    case("defects/f17_images_in_the_image_directory", tree::work_dir),
    case(
        "defects/f20_render_node_gone_at_dump",
        failures::dump_render_node_gone,
    ),
    case(
        "defects/f21_render_node_gone_at_restore",
        restore_failures::restore_render_node_gone,
    ),
    case("defects/f22_two_kfd_files", |lab| {
        layouts::layout(lab, &["--fds", "two-kfd"])
    }),
    case("defects/f25_sixty_four_gpus", topology_presets::cpx64_all),
    case("defects/f26_mappings_anywhere", f26),
    case(
        "defects/f27_old_shared_memory",
        damage::shared_memory_of_old_thunks,
    ),
    case(
        "defects/f28_resume_error_names_the_process",
        restore_failures::restore_resume,
    ),
    case("defects/f30_any_buffer_size", |lab| {
        round_trip::buffer_size(lab, "5000", None)
    }),
    case("defects/f31_no_descriptor_stays", f31),
    case("defects/f32_queues_stand_until_memory_is_dumped", f32_),
    case("defects/f35_pid_namespace_in_a_pid_namespace", f35),
    case(
        "defects/f38_one_gpu_of_four",
        failures::dump_one_gpu_of_four,
    ),
];

/// Cases that are another one under the number of a defect: where both are asked for, that runs once.
pub(crate) const SAME: &[(&str, &str)] = &[
    (
        "defects/f03_a_failed_restore_is_seen",
        "failures/restore_resume",
    ),
    (
        "defects/f07_old_images_do_not_show_through",
        "damage/dump_over_longer_images",
    ),
    ("defects/f09_foreign_devices", "tree/foreign_device"),
    ("defects/f12_subset_of_the_gpus", "subset/one_of_four"),
    (
        "defects/f17_images_in_the_image_directory",
        "tree/work_dir_is_not_the_image_dir",
    ),
    (
        "defects/f20_render_node_gone_at_dump",
        "failures/dump_render_node_gone",
    ),
    (
        "defects/f21_render_node_gone_at_restore",
        "failures/restore_render_node_gone",
    ),
    ("defects/f22_two_kfd_files", "layouts/two_opens_of_kfd"),
    (
        "defects/f25_sixty_four_gpus",
        "topology/cpx64_all_partitions",
    ),
    (
        "defects/f28_resume_error_names_the_process",
        "failures/restore_resume",
    ),
    (
        "defects/f38_one_gpu_of_four",
        "failures/dump_one_gpu_of_four",
    ),
];

/// The second GPU's objects come from the second GPU's file, also where the first has none.
fn f02(lab: &mut Lab) -> Result<()> {
    let bos = [
        "--bare",
        "--bo",
        "vram:40K:gpu=0",
        "--bo",
        "vram:72K:2:gpu=2",
        "--bo",
        "gtt:8K:3:gpu=3",
        "--queues",
        "sdma=1",
    ];
    round_trip::there(lab, "preset=gfx90a-4", &bos)
}

/// The plugin has finished, and then the dump fails.
fn f05(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let args = [SMALL, &["--interval", "50", "--foreign-fd", "300"]].concat();
    let workload = lab.workload(&args)?;
    lab.failing_dump(&workload, &[], &["Can't dump file"], Calls::Each(1))?;
    workload.prove()?;
    workload.finish()
}

fn f06(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    fails_by(lab, &workload, &PROCESS_INFO, Calls::NotPaused)?;
    lab.again(&mut workload)?;
    workload.finish()
}

/// Nothing of a render node is mapped: the open files alone must bring the plugin's name into the inventory.
fn f08(lab: &mut Lab) -> Result<()> {
    let args = ["--fds", "no-render-map", "--no-bo", "--no-heartbeat"];
    round_trip::there(lab, "preset=gfx90a-1", &args)?;
    // Not even a doorbell.
    let args = [
        "--bare",
        "--fds",
        "no-render-map",
        "--no-bo",
        "--queues",
        "none",
    ];
    round_trip::there(lab, "preset=gfx90a-1", &args)
}

fn f10(lab: &mut Lab) -> Result<()> {
    let args = [SMALL, &["--fds", "render-first"]].concat();
    round_trip::there(lab, MACHINE, &args)
}

/// Images carry the ids that the process knows, whatever machine it has come to.
fn f11(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let mut workload = lab.workload(&["--bare", "--bo", "vram:64K", "--queues", "sdma=1"])?;
    lab.round_trip(&mut workload, Some(&format!("preset=gfx90a-1 {OTHER}")))?;
    let dump = lab.dump(&workload)?;
    let pages = image_files::one(&dump.images, "amdgpu-pages-")?;
    ensure!(
        fs::metadata(&pages)?.len() > 64 << 10,
        "{} holds nothing",
        pages.display()
    );
    lab.sim.load("preset=gfx90a-1 renumber=11")?;
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// Not one byte beyond any mapping, with either encoding.
fn f13(lab: &mut Lab) -> Result<()> {
    for machine in ["preset=gfx90a-1", "preset=gfx8-1"] {
        round_trip::there(
            lab,
            machine,
            &["--bare", "--bo", "vram:64K:3", "--queues", "sdma=1"],
        )
        .context(machine)?;
    }
    Ok(())
}

/// At another address than the GPU's, twice, and without access.
fn f26(lab: &mut Lab) -> Result<()> {
    let kinds = [
        "vram:96K:twice",
        "gtt:96K:twice",
        "vram:96K:private-none",
        "vram:96K:shared-none",
    ];
    let args: Vec<_> = kinds.iter().flat_map(|kind| ["--bo", kind]).collect();
    round_trip::there(lab, MACHINE, &args)
}

/// `Lab::restore` compares the table of descriptors with the one before.
fn f31(lab: &mut Lab) -> Result<()> {
    round_trip::there(
        lab,
        MACHINE,
        &["--bare", "--bo", "vram:64K", "--queues", "sdma=1"],
    )
}

/// All of the tree's memory is saved when CRIU runs the post-dump script, and the queues still stand.
fn f32_(lab: &mut Lab) -> Result<()> {
    let mut workload = start(lab)?;
    let seen = lab.dir.join("seen");
    let debugfs = "/sys/kernel/debug/kfd-sim";
    let script = script_that(
        lab,
        &format!(
            "[ \"$CRTOOLS_SCRIPT_ACTION\" != post-dump ] || cat {debugfs}/counters {debugfs}/processes > {}",
            seen.display()
        ),
    )?;
    let dump = lab.dump_with(&workload, &["--action-script", &script])?;
    let seen = fs::read_to_string(&seen).context("the script was not run")?;
    ensure!(
        seen.lines().any(|line| line == "process_info 1")
            && seen.lines().any(|line| line == "unpause 0"),
        "the queues run before the dump has ended: {seen}"
    );
    ensure!(
        seen.contains(" paused=1"),
        "the process is not paused: {seen}"
    );
    lab.restore(&mut workload, &dump)?;
    workload.prove()?;
    workload.finish()
}

/// The pid in the images is the innermost one.
fn f35(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    // What the shell says of the end of its child must not get into the workload's log.
    let nested = r#"exec 3>&2 2>/dev/null; unshare --pid --fork setsid sh -c 'exec "$@" 2>&3 3>&-' sh "$@"; :"#;
    let inner = ["unshare", "--pid", "--fork", "sh", "-c", nested, "sh"];
    let mut workload = lab.workload_under(&inner, SMALL)?;
    // The shell has pid 1 of a namespace as well.
    let found = proc::tree(workload.pid).last().copied();
    workload.pid = found.context("no workload")?;
    lab.round_trip(&mut workload, Some(&format!("{MACHINE} {OTHER}")))?;
    workload.finish()
}
