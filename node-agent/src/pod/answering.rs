//! Keeping connections away from a pod, and answering its probes, while it stands still: a process of its own
//! (`rocferry-agent answer-probes`), since it may have to outlive this one.

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::PodError;
use crate::error::Error;
use crate::journal::{Answering, Entry, PodParts};
use crate::probes;
use crate::process::{ProcessId, users_of};
use crate::runtime::{all_ended, kill};

/// What it says once it is in place.
const BEGUN: &str = "Answering ";
/// How long it may take until then.
const START: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);
/// How long it may take to tidy up.
const STOP: Duration = Duration::from_secs(20);

/// Starts it, known to the journal before it is there. `containers`: those of the pod's specification, if there is
/// something to be answered.
pub(crate) fn begin(
    entry: &mut Entry,
    network: ProcessId,
    containers: Option<&[u8]>,
    node: &[IpAddr],
) -> Result<(), Error> {
    let log = entry.beside("answers");
    let file = containers.map(|_| entry.beside("containers"));
    if let (Some(file), Some(content)) = (&file, containers) {
        fs::write(file, content).map_err(|source| Error::WriteFile {
            path: file.clone(),
            source,
        })?;
    }
    let answering = Answering {
        network,
        log,
        containers: file,
        node: node.to_vec(),
    };
    entry.change(|record| {
        if let Some(pod) = &mut record.pod {
            pod.answering = Some(answering.clone());
        }
    })?;
    start(&answering)
}

/// Is there one?
pub(crate) fn goes_on(answering: &Answering) -> bool {
    !users_of(&answering.log).is_empty()
}

/// Starts it, and returns when it is in place.
pub(crate) fn start(answering: &Answering) -> Result<(), Error> {
    let failed = |reason: String| Error::from(PodError::Answering { reason });
    let log = File::create(&answering.log).map_err(|source| Error::WriteFile {
        path: answering.log.clone(),
        source,
    })?;
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(own);
    command
        .args(["answer-probes", "--pid", &answering.network.pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/")
        .process_group(0);
    // A test's wish is about this process.
    command.env_remove(crate::fault::VARIABLE);
    if let Some(containers) = &answering.containers {
        command.arg("--containers").arg(containers);
    }
    for address in &answering.node {
        command.arg("--node-address").arg(address.to_string());
    }
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let begun = Instant::now();
    loop {
        if said(&answering.log)
            .lines()
            .any(|line| line.starts_with(BEGUN))
        {
            return Ok(());
        }
        match child.try_wait() {
            Ok(None) if begun.elapsed() < START => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("not begun after {} s", START.as_secs())));
            }
            Ok(Some(_)) => {
                let said = said(&answering.log);
                let line = said.lines().next().unwrap_or("nothing was said");
                return Err(failed(line.trim_start_matches("Error: ").to_owned()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

/// Ends it, if there is one, and takes away what a killed one has left.
pub(crate) fn end(pod: &PodParts) -> Result<(), Error> {
    let Some(answering) = &pod.answering else {
        return Ok(());
    };
    let workers = users_of(&answering.log);
    for pid in &workers {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    if !all_ended(&workers, STOP) {
        for pid in &workers {
            kill(*pid);
        }
        all_ended(&workers, STOP);
    }
    // Its rules go with the network, and that with the pod.
    if answering.network.is_alive() {
        probes::clear(answering.network.pid)?;
    }
    Ok(())
}

fn said(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
