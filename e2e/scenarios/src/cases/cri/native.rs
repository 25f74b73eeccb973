//! CRI's own checkpoint of a container with a GPU: no wrapper and no agent have a hand in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::node::Node;
use crate::case::{Case, Lab};
use crate::cases::agent::daemon::Daemon;
use crate::cases::agent::engines::{Restored, is_as_but_for_pipes, settings};
use crate::cases::agent::tool::{Agent, case, until};
use crate::cases::round_trip::OTHER;
use crate::cases::wrapper::pod_tool::MAIN;
use crate::containers::{Bundle, Client, Contents, CriPod, Device, Resident, run};

pub(super) const CASES: &[Case] = &[case("cri/checkpoint_container", 1200, native)];

const MACHINE: &str = "preset=gfx90a-2";
/// Where a kubelet has archives written.
const CHECKPOINTS: &str = "/var/lib/kubelet/checkpoints";

/// After a plain `install`: the container goes on, the daemon takes the archive into the store, and the agent restores it
/// on another machine.
fn native(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let agent = Agent::new(lab)?;
    let there = agent.elsewhere(lab)?;
    let node = Node::start(lab, agent)?;
    let client = node.client()?;
    let mut pod = node.pod(lab, "train")?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let id = pod.run(&Contents {
        devices: &gpu,
        ..Contents::new("main", MAIN)
    })?;
    let resident = Resident::in_root(client.pid(&id)?, &client.root(&id))?;
    let traces = resident.leave_traces()?;

    fs::create_dir_all(CHECKPOINTS)?;
    let policy = lab.folder("policy")?.join("agent.json");
    let rule = json!({ "archives": [{ "folder": CHECKPOINTS, "store": node.agent.store(), "afterwards": "keep" }] });
    fs::write(&policy, rule.to_string())?;
    let policy = policy.to_str().context("path")?;
    let daemon = Daemon::start_with(&node.agent, &["--settings", policy])?;
    let archive = format!("{CHECKPOINTS}/checkpoint-train_team-main-2026-12-01T00:00:00Z.tar");
    let export = format!("--export={archive}");
    client.crictl(&["checkpoint", &export, &id])?.ok()?;
    resident.is_as(&traces)?;
    until("the archive is in the store", || {
        Ok(node.agent.listed()?.len() == 1)
    })?;
    daemon.end()?;
    node.agent.run(&["image", "verify", "--deep"])?.is(0)?;
    drop((resident, pod));
    drop(node);

    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let node = Node::start(lab, there)?;
    let pod = node.pod(lab, "again")?;
    let given = Device::of_gpus(&lab.sim, &[1])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, MAIN, &given)?;
    as_dumped(node.client()?, &pod, &bundle, &archive)?;
    let settings = settings(&lab.folder("settings")?)?;
    let _restored = Restored("from-cri");
    let words = [
        "restore",
        "--runtime",
        "runc",
        "--json",
        "--bundle",
        bundle.path().to_str().context("path")?,
        "--name",
        "from-cri",
        "--unsigned",
        "--settings",
        settings.to_str().context("path")?,
        "--from",
        &archive,
    ];
    let report = node.agent.run(&words)?.is(0)?.json()?;
    let pid = i32::try_from(report["pid"].as_i64().context("no pid")?)?;
    let resident = Resident::in_root(pid, &bundle.root())?;
    is_as_but_for_pipes(&resident, &traces)?;
    resident.workload.advances()?;
    node.agent.is_idle()?;
    lab.no_stray_access()?;
    drop(resident);
    fs::remove_dir_all(CHECKPOINTS)?;
    Ok(())
}

/// The bundle's specification becomes that of the archive, in the namespaces of this pod, with the bundle's own devices.
fn as_dumped(client: Client, pod: &CriPod, bundle: &Bundle, archive: &str) -> Result<()> {
    let shown = client.json(&["inspectp", &pod.id])?;
    let sandbox = shown["info"]["pid"].as_i64().context("no sandbox")?;
    let file = bundle.path().join("config.json");
    let own: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let text = run(&["tar", "-xOf", archive, "spec.dump"])?.ok()?;
    let mut config: Value = serde_json::from_str(&text)?;
    config["root"] = own["root"].clone();
    config["annotations"] = json!({});
    config["linux"]["cgroupsPath"] = json!("/from-cri");
    config["linux"]["devices"] = own["linux"]["devices"].clone();
    config["linux"]["resources"]["devices"] = own["linux"]["resources"]["devices"].clone();
    let namespaces = config["linux"]["namespaces"].as_array_mut();
    for namespace in namespaces.context("no namespaces")? {
        if namespace["path"].is_string() {
            let kind = match namespace["type"].as_str().unwrap_or_default() {
                "network" => "net",
                other => other,
            };
            namespace["path"] = json!(format!("/proc/{sandbox}/ns/{kind}"));
        }
    }
    for (index, mount) in config["mounts"]
        .as_array_mut()
        .context("no mounts")?
        .iter_mut()
        .enumerate()
    {
        if mount["type"] == "bind" {
            let source = bundle.path().join(format!("source-{index}"));
            match mount["destination"].as_str() {
                Some("/dev/shm") => {
                    // It is the sandbox's, and CRI's archive has nothing of it: what was there has to come otherwise.
                    fs::create_dir_all(&source)?;
                    fs::write(source.join("kept"), "written to /dev/shm/kept\n")?;
                }
                _ => fs::write(&source, "")?,
            }
            mount["source"] = json!(source);
        }
    }
    ensure!(
        Path::new(archive).is_file(),
        "the archive is gone: {archive}"
    );
    fs::set_permissions(bundle.root(), fs::Permissions::from_mode(0o755))?;
    Ok(fs::write(file, config.to_string())?)
}
