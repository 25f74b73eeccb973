//! What speaks against the checkpoint of a pod is named, and nothing is touched.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::tool::{NOTHING, checkpoint, finds, shell};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case, until};
use crate::containers::{Contents, Pod, PodOptions};

pub(crate) const CASES: &[Case] = &[case("pod/refused_before_it_is_frozen", 480, refused)];

const PROBES: &str = r#"[{"name": "web", "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3, "failureThreshold": 2}}]"#;
const NO_PORT: &str = r#"[{"name": "web", "livenessProbe": {"tcpSocket": {"port": "none"}}}]"#;

fn refused(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let file = lab.folder("specification")?.join("containers.json");
    let path = file.to_str().context("path")?;
    // In the node's network nobody can answer.
    let options = PodOptions {
        host_network: true,
        ..PodOptions::default()
    };
    let mut pod = Pod::start(lab, "on-node", &options)?;
    let idle = "exec 3<> /dev/null; while :; do :; done";
    shell(&mut pod, "web", idle, NOTHING)?;
    fs::write(&file, PROBES)?;
    let words = [
        &checkpoint(&pod, "--keep-frozen")[..],
        &["--containers", path],
    ]
    .concat();
    let ended = agent.run(&words)?.is(1)?;
    finds(
        &ended,
        "probes",
        &["web is killed after 4 s", "hostNetwork"],
    )?;
    ensure!(!pod.is_frozen()?, "it is frozen");
    agent.is_idle()?;
    drop(pod);

    let mut pod = Pod::start(lab, "in-pod", &PodOptions::default())?;
    let address = pod.address().context("no network")?;
    let listen = format!("exec /bin/busybox httpd -f -p {address}:7000 -h /work");
    let more = Contents {
        memory: Some(64 << 20),
        ..NOTHING
    };
    shell(&mut pod, "web", &listen, more)?;
    until("a listener", || {
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", pod.sandbox()))?;
        Ok(table.contains(":1B58"))
    })?;
    fs::write(&file, NO_PORT)?;
    let words = [
        &checkpoint(&pod, "--keep-frozen")[..],
        &["--containers", path],
    ]
    .concat();
    let ended = agent.run(&words)?.is(1)?;
    finds(&ended, "probes", &["container web", "no port"])?;
    // These two are warnings.
    fs::write(&file, PROBES)?;
    let words = [
        &checkpoint(&pod, "--keep-frozen")[..],
        &["--containers", path, "--check"],
    ]
    .concat();
    let ended = agent.run(&words)?.is(0)?;
    finds(&ended, "addresses", &["web", &format!("{address}:7000")])?;
    finds(&ended, "memory-limit", &["web", "64"])?;
    ensure!(!pod.is_frozen()?, "it is frozen");
    agent.is_idle()
}
