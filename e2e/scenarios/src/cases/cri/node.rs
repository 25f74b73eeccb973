//! A machine of Kubernetes with the agent installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::case::{BIN, Lab};
use crate::cases::agent::tool::Agent;
use crate::containers::{Client, Cri, CriOptions, CriPod, CriSettings};

/// It goes when dropped: containerd with all pods, then what `install` has put there.
pub(super) struct Node {
    pub(super) agent: Agent,
    /// What the agent and the wrapper keep.
    pub(super) folder: PathBuf,
    cri: Option<Cri>,
    _settings: CriSettings,
}

impl Node {
    /// With this agent's store, and folders of its own: another machine than any before.
    pub(super) fn start(lab: &mut Lab, agent: Agent) -> Result<Self> {
        let settings = CriSettings::write()?;
        let (folder, run_folder) = (lab.folder("state")?, lab.folder("run")?);
        let path = |path: &Path| path.display().to_string();
        let variables = [
            ("ROCFERRY_FOLDER".to_owned(), path(&folder)),
            ("ROCFERRY_RUN_FOLDER".to_owned(), path(&run_folder)),
        ];
        let agent = agent
            .with_state(&folder)
            .with_variable("ROCFERRY_RUN_FOLDER", &path(&run_folder));
        let mut node = Self {
            agent,
            folder,
            cri: None,
            _settings: settings,
        };
        node.agent.run(&["install", "--from", BIN])?.is(0)?;
        node.cri = Some(Cri::start(lab, &variables)?);
        Ok(node)
    }

    /// A pod of containerd's default runtime.
    pub(super) fn pod(&self, lab: &mut Lab, name: &'static str) -> Result<CriPod> {
        CriPod::start(lab, self.cri()?, name, &CriOptions::default())
    }

    /// A pod under the wrapper.
    pub(super) fn wrapped(
        &self,
        lab: &mut Lab,
        name: &'static str,
        annotations: &[(&str, &str)],
    ) -> Result<CriPod> {
        let annotations = annotations.iter();
        let options = CriOptions {
            handler: Some("rocferry"),
            annotations: annotations
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..CriOptions::default()
        };
        CriPod::start(lab, self.cri()?, name, &options)
    }

    /// Who speaks to containerd.
    pub(super) fn client(&self) -> Result<Client> {
        Ok(self.cri()?.client())
    }

    fn cri(&self) -> Result<&Cri> {
        self.cri.as_ref().context("containerd is gone")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cri = None;
        if let Err(error) = self.agent.run(&["uninstall"]).and_then(|ended| ended.is(0)) {
            eprintln!("{error:#}");
        }
    }
}

/// A container does what a plain one does: it runs, can be entered, ends when told to, and is removed.
pub(super) fn is_as_any_other(client: Client, id: &str) -> Result<()> {
    let state = client.state(id)?;
    ensure!(state == "CONTAINER_RUNNING", "it is {state}");
    let said = client
        .crictl(&["exec", "--sync", id, "/bin/busybox", "echo", "inside"])?
        .ok()?;
    ensure!(said == "inside", "a command in it said {said:?}");
    client.crictl(&["stop", "--timeout", "30", id])?.ok()?;
    let state = client.state(id)?;
    ensure!(state == "CONTAINER_EXITED", "it is {state}");
    client.crictl(&["rm", id])?.ok()?;
    ensure!(client.state(id).is_err(), "it is still known");
    Ok(())
}

/// Writes a line to a process's standard output, from outside, as if it had said it.
pub(super) fn say(pid: i32, line: &str) -> Result<()> {
    let stdout = format!("/proc/{pid}/fd/1");
    let mut stdout = fs::OpenOptions::new()
        .write(true)
        .open(&stdout)
        .with_context(|| format!("cannot open {stdout}"))?;
    std::io::Write::write_all(&mut stdout, format!("{line}\n").as_bytes())?;
    Ok(())
}

/// The log has such a line.
pub(super) fn logged(log: &Path, line: &str) -> Result<()> {
    crate::cases::agent::tool::until(&format!("{line:?} in {}", log.display()), || {
        let text = fs::read_to_string(log).unwrap_or_default();
        Ok(text.lines().any(|one| one.ends_with(line)))
    })
}
