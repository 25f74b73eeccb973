//! A test machine with everything that the scenarios need on its share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rocferry_vm::{Lab, Session, Stream, Userland, Vm, source_root};

/// The programs that go into a test machine, built for it.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// Path on the host, name in the machine's folder of programs.
    files: Vec<(PathBuf, &'static str)>,
}

impl Programs {
    /// Builds what is missing of a GPU process and its checkpoint: the simulator, the workload, the plugin.
    pub(crate) fn core(lab: &Lab) -> Result<Self> {
        let workload = lab.c_program(&source_root().join("e2e/workload"), "workload")?;
        let files = vec![
            (lab.kfd_sim()?, "amdgpu.ko"),
            (workload, "workload"),
            (lab.plugin_so()?, "amdgpu_plugin.so"),
        ];
        Ok(Self { files })
    }

    /// The same, and what tests it: the conformance test, the scenarios, and the node agent's programs that some of
    /// them run; and the client of CRI.
    pub(crate) fn build(lab: &Lab) -> Result<Self> {
        let conformance = lab.c_program(&source_root().join("e2e/conformance"), "conformance")?;
        let scenarios = lab.scenarios()?;
        let mut programs = Self::core(lab)?
            .with(conformance, "conformance")
            .with(scenarios, "scenarios")
            .with(lab.crictl()?, "crictl");
        for name in ["rocferry-agent", "rocferry-hook", "rocferry-runc"] {
            programs = programs.with(lab.agent(name)?, name);
        }
        Ok(programs)
    }

    /// With another plugin, or one file more.
    pub(crate) fn with(mut self, file: PathBuf, name: &'static str) -> Self {
        self.files.retain(|(_, known)| *known != name);
        self.files.push((file, name));
        self
    }

    /// Puts them on a machine's share.
    pub(crate) fn put(&self, session: &Session) -> Result<()> {
        let bin = session.path("bin");
        fs::create_dir_all(&bin)?;
        for (file, name) in &self.files {
            fs::copy(file, bin.join(name))
                .with_context(|| format!("Cannot copy {} to the machine", file.display()))?;
        }
        Ok(())
    }
}

/// Starts a machine for scenarios.
pub(crate) fn start(lab: &Lab, userland: Userland, programs: &Programs) -> Result<Session> {
    let session = vm(lab, userland).start()?;
    programs.put(&session)?;
    Ok(session)
}

/// The same, with a disk at /data that outlives it.
pub(crate) fn start_with_disk(
    lab: &Lab,
    userland: Userland,
    programs: &Programs,
    disk: &Path,
) -> Result<Session> {
    let session = vm(lab, userland).data_disk(disk, 2048).start()?;
    programs.put(&session)?;
    Ok(session)
}

fn vm(lab: &Lab, userland: Userland) -> Vm {
    lab.vm(userland)
        .name(&format!("{userland}"))
        .memory_mib(5120)
        .timeout(Duration::from_secs(5400))
}

/// Copies a line of the machine to this terminal.
pub(crate) fn show(stream: Stream, line: &str) {
    match stream {
        Stream::Stdout => println!("{line}"),
        Stream::Stderr => eprintln!("{line}"),
    }
}
