//! The pods of these cases are what a kubelet's are.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

use crate::case::{Case, Lab};
use crate::cases::agent::tool::{case, until};
use crate::cases::containers::COMMAND;
use crate::containers::{Contents, Device, Pod, PodOptions, Resident, Volume};
use crate::proc;

pub(crate) const CASES: &[Case] = &[case("pod/as_a_kubelet_has_it_made", 300, made)];

fn made(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let volumes = [Volume::all("scratch", "/scratch")];
    let pid = pod.run(&Contents {
        devices: &gpu,
        volumes: &volumes,
        ..Contents::new("main", COMMAND)
    })?;
    let main = Resident::in_root(pid, &pod.root("main"))?;
    let say = "echo side > /in/hello; echo side > /dev/shm/hello; exec 3<> /dev/null; while :; do echo x > /work/state; done";
    let volumes = [Volume {
        name: "scratch",
        sub_path: "below",
        destination: "/in",
    }];
    let command = ["/bin/sh", "-c", say];
    let side = pod.run(&Contents {
        volumes: &volumes,
        ..Contents::new("side", &command)
    })?;
    for file in [
        pod.volume("scratch").join("below/hello"),
        pod.shared_memory().join("hello"),
        pod.changes("side").join("work/state"),
    ] {
        until("a file of the container's", || Ok(file.exists()))?;
    }
    for kind in ["ipc", "uts", "net"] {
        let of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/{kind}"));
        ensure!(
            of(side)? == of(pid)? && of(pid)? == of(pod.sandbox())?,
            "{kind} is not shared"
        );
    }
    fs::write(pod.cgroup().join("cgroup.freeze"), "1")?;
    until("a frozen pod", || pod.is_frozen())?;
    ensure!(pod.container_is_frozen("side")?, "its container runs");
    fs::write(pod.cgroup().join("cgroup.freeze"), "0")?;
    main.workload.advances()?;
    // Nobody listens there, and says so.
    let address = pod.address().context("no network")?;
    let refused = TcpStream::connect((address, 9));
    let refused = refused.err().context("somebody listens")?;
    ensure!(refused.kind() == ErrorKind::ConnectionRefused, "{refused}");
    pod.remove("side")?;
    ensure!(!proc::is_alive(side), "it is there");
    main.workload.prove()?;
    main.workload.finish()?;
    fs::write(pod.cgroup().join("cgroup.kill"), "1")?;
    until("an empty pod", || pod.is_empty())
}
