//! `criu --stream`: images go through pipes, each once and to its end (F17).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};
use crate::image_files;
use crate::streamer::{self, End, Streamer};
use crate::trip::Dump;
use crate::workload::Workload;

const fn case(name: &'static str, on: On, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on,
        limit_s: 180,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("streaming/two_gpus", On::All, |lab| there(lab, LARGE)),
    case("streaming/render_before_kfd", On::All, |lab| {
        there(lab, &[&["--fds", "render-first"], SMALL].concat())
    }),
    case("streaming/two_processes", On::Newest, |lab| {
        there(lab, &[&["--child", "gpu"], SMALL].concat())
    }),
    case("streaming/into_a_folder", On::Newest, into_a_folder),
    case("streaming/from_a_folder", On::Newest, from_a_folder),
    case(
        "streaming/restore_ends_early",
        On::Newest,
        restore_ends_early,
    ),
    case("streaming/dump_ends_early", On::Newest, dump_ends_early),
];

/// Contents that no pipe holds, and files that end in more zeros than one holds.
const LARGE: &[&str] = &[
    "--bo",
    "vram:3M:2",
    "--bo",
    "gtt:2M",
    "--bo",
    "userptr:64K",
    "--bo",
    "vram:3M:last",
    "--bo",
    "vram:4M:zero",
];

const MACHINE: &str = "preset=gfx90a-2";

/// Images that the plugin writes.
fn is_ours(name: &str) -> bool {
    name.starts_with("amdgpu-") || name.starts_with("rocferry-")
}

/// Ends a streamer and says what it has to say about a failure of CRIU's.
fn with_streamer<A, T: Send + 'static>(criu: Result<A>, streamer: Streamer<T>) -> Result<(A, T)> {
    let streamer = streamer.finish();
    match (criu, streamer) {
        (Ok(criu), streamer) => Ok((criu, streamer?)),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(cause)) => Err(error.context(format!("{cause:#}"))),
    }
}

/// Dumps through a streamer; the folder that it has filled.
fn dump(lab: &mut Lab, workload: &Workload) -> Result<(Dump, PathBuf)> {
    let (images, store) = (lab.folder("images")?, lab.folder("store")?);
    let capture = streamer::capture(&images, store.clone(), None)?;
    let dump = lab.dump_into(workload, images.clone(), &["--stream"]);
    let (dump, names) = with_streamer(dump, capture)?;
    ensure!(
        names.iter().any(|name| is_ours(name)),
        "no GPU image went through the stream: {names:?}"
    );
    let beside = image_files::named(&images, "amdgpu-")?;
    ensure!(beside.is_empty(), "images beside the stream: {beside:?}");
    Ok((dump, store))
}

/// Restores through a streamer. Every image of the plugin's is needed, and once.
fn restore(lab: &Lab, workload: &mut Workload, dump: &Dump, store: &Path) -> Result<()> {
    let serving = streamer::serve(&dump.images, store.to_owned(), None)?;
    let restored = lab.restore_with(workload, dump, &["--stream"]);
    let (_, served) = with_streamer(restored, serving)?;
    let again: Vec<_> = served.again.iter().filter(|name| is_ours(name)).collect();
    ensure!(again.is_empty(), "asked for twice: {again:?}");
    for image in image_files::named(store, "")? {
        let name = image.file_name().context("name")?.to_string_lossy();
        ensure!(
            !is_ours(&name) || served.names.contains(&*name),
            "{name} was not asked for"
        );
    }
    Ok(())
}

fn well(lab: &Lab, workload: Workload) -> Result<()> {
    workload.prove()?;
    workload.advances()?;
    lab.no_stray_access()?;
    workload.finish()
}

fn there(lab: &mut Lab, args: &[&str]) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(args)?;
    let (dump, store) = dump(lab, &workload)?;
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    restore(lab, &mut workload, &dump, &store)?;
    well(lab, workload)
}

/// What went through a stream is a folder of images like any other.
fn into_a_folder(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(LARGE)?;
    let (mut dump, store) = dump(lab, &workload)?;
    dump.images = store;
    lab.restore(&mut workload, &dump)?;
    well(lab, workload)
}

/// The other way round.
fn from_a_folder(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(SMALL)?;
    let mut dump = lab.dump(&workload)?;
    let store = std::mem::replace(&mut dump.images, lab.folder("stream")?);
    restore(lab, &mut workload, &dump, &store)?;
    well(lab, workload)
}

/// A stream that ends within an image of the plugin's: the restore fails and names the image.
fn restore_ends_early(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let mut workload = lab.workload(LARGE)?;
    let (dump, store) = dump(lab, &workload)?;
    for (image, after) in [
        ("rocferry-file-", 0),
        ("rocferry-task-", 4),
        ("amdgpu-kfd-", 40),
        ("amdgpu-renderD-", 9),
        ("rocferry-index-", 100),
        ("amdgpu-pages-", 8),
        ("amdgpu-pages-", 3 << 20),
    ] {
        let end = End { image, after };
        let serving = streamer::serve(&dump.images, store.clone(), Some(end))?;
        let (ended, _) = lab.criu.try_restore(&dump.images, &["--stream"])?;
        serving.finish()?;
        let ended = ended.refused(&[])?;
        let told = ended
            .log
            .lines()
            .any(|line| line.contains("amdgpu_plugin: RESTORE_EXT_FILE: ") && line.contains(image));
        ensure!(told, "no error names {image}: {}", ended.story());
        lab.calls_were(&[("resume", 0)])?;
    }
    restore(lab, &mut workload, &dump, &store)?;
    well(lab, workload)
}

/// A streamer that goes away during the dump: the dump fails, and the process goes on.
fn dump_ends_early(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let workload = lab.workload(LARGE)?;
    for (image, after) in [("amdgpu-pages-", 1 << 20), ("rocferry-index-", 0)] {
        let (images, store) = (lab.folder("images")?, lab.folder("store")?);
        let capture = streamer::capture(&images, store, Some(End { image, after }))?;
        lab.sim.reset_counters()?;
        let ended = lab.criu.dump(workload.pid, &images, &["--stream"])?;
        capture.finish()?;
        ended.refused(&["amdgpu_plugin: DUMP_EXT_FILE"])?;
        lab.calls_were(&[("process_info", 1), ("unpause", 1)])?;
        workload.prove()?;
        workload.advances()?;
    }
    let mut workload = workload;
    let (dump, store) = dump(lab, &workload)?;
    restore(lab, &mut workload, &dump, &store)?;
    well(lab, workload)
}
