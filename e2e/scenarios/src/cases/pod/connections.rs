//! What a container has with others is closed in the copy, and goes on where it is: under runc, under crun.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case};
use crate::containers::{
    Bundle, Device, PluginForAll, Podman, Resident, Runc, Runtime, WORKLOAD, run,
};

pub(crate) const CASES: &[Case] = &[
    case(
        "pod/connections_are_closed_in_the_copy_of_runc",
        600,
        of_runc,
    ),
    case(
        "pod/connections_are_closed_in_the_copy_of_crun",
        600,
        of_crun,
    ),
];

const ID: &str = "rocferry-connected";

/// The workload with something that CRIU does not take along unless it is told to: `tcp`, `lock`.
fn command(foreign: &str) -> Vec<String> {
    let words = [
        WORKLOAD,
        "--state",
        "/work/state",
        "--bo",
        "vram:192K",
        "--foreign-fd",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.push(format!("50:{foreign}"));
    words
}

fn of_runc(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    for foreign in ["lock", "tcp"] {
        let words = command(foreign);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let bundle = Bundle::new(&lab.folder("bundle")?, &words, &given)?;
        let container = Runc::start(ID, &bundle)?;
        let resident = Resident::in_root(container.pid()?, &bundle.root())?;
        agent.run(&["checkpoint", ID])?.is(0).context(foreign)?;
        // Here the connection is there still.
        resident.workload.prove().context(foreign)?;
        let report = agent
            .run(&["checkpoint", "--stop", "--json", ID])?
            .is(0)?
            .json()?;
        let id = report["id"].as_str().context("no id")?.to_owned();
        drop(resident);
        drop(container);
        let path = bundle.root();
        let path = path.parent().and_then(Path::to_str).context("a path")?;
        let restored = agent.run(&[
            "restore",
            "--runtime",
            "runc",
            "--json",
            "--bundle",
            path,
            &id,
        ])?;
        let report = restored.is(0).context(foreign)?.json()?;
        let pid = i32::try_from(report["pid"].as_i64().context("no pid")?)?;
        let goes_on =
            Resident::in_root(pid, &bundle.root()).and_then(|one| one.workload.advances());
        run(&["runc", "delete", "--force", ID])?.ok()?;
        goes_on.context(foreign)?;
        agent.is_idle()?;
    }
    Ok(())
}

fn of_crun(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let _plugin = PluginForAll::install()?;
    let agent = Agent::new(lab)?;
    let podman = Podman::new(Runtime::Crun, &lab.folder("podman")?)?;
    let words = command("tcp");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    podman.start("connected", &Device::of_gpus(&lab.sim, &[0])?, &words)?;
    let resident = Resident::new(podman.pid("connected")?)?;
    let program = podman.wrapper()?;
    let dump = [
        "checkpoint",
        "--runtime",
        "podman",
        "--runtime-program",
        &program,
        "connected",
    ];
    agent.run(&dump)?.is(0)?;
    resident.workload.prove()?;
    agent.is_idle()?;
    podman
        .run(&["kill", "--signal", "TERM", "connected"])?
        .ok()?;
    let status = podman.run(&["wait", "connected"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    Ok(())
}
