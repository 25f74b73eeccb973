//! Running the wrapper, as an engine does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::case::{BIN, Case, Lab, On};
use crate::containers::{Bundle, Device, Resident, Traces, WORKLOAD, need, run};

/// The workload as process 1.
pub(super) const COMMAND: &[&str] = &[
    WORKLOAD,
    "--state",
    "/work/state",
    "--bo",
    "vram:192K:2",
    "--bo",
    "gtt:64K",
];

pub(super) const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 300,
        run,
    }
}

/// The wrapper with folders of its own.
pub(super) struct Wrapper {
    folder: PathBuf,
    /// For what does not outlive a reboot.
    pub(super) run_folder: PathBuf,
    log: PathBuf,
    runtime: PathBuf,
}

impl Wrapper {
    pub(super) fn new(lab: &mut Lab) -> Result<Self> {
        Self::around(lab, "runc")
    }

    /// Around this runtime.
    pub(super) fn around(lab: &mut Lab, runtime: &'static str) -> Result<Self> {
        need(runtime)?;
        let (folder, scratch) = (lab.folder("state")?, lab.folder("wrapper")?);
        Ok(Self {
            folder,
            run_folder: lab.folder("run")?,
            log: scratch.join("log.json"),
            runtime: PathBuf::from(runtime),
        })
    }

    /// With tickets and fences somewhere else.
    pub(super) fn with_folder(mut self, folder: PathBuf) -> Self {
        self.folder = folder;
        self
    }

    /// With a runtime that first does `before` at a restore, in a shell whose `$1` is the container's folder.
    pub(super) fn with_runtime(&self, id: &str, before: &str) -> Result<Self> {
        let runtime = self.log.with_file_name("runc-and-more");
        let (place, log) = (self.place(id), &self.log);
        let text = format!(
            "#!/bin/bash\ncase \" $* \" in *\" restore \"*)\n(set -- {}; {before}\n) >/dev/null 2>&1;;\nesac\nexec runc \"$@\"\n",
            place.display()
        );
        fs::write(&runtime, text)?;
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            folder: self.folder.clone(),
            run_folder: self.run_folder.clone(),
            log: log.clone(),
            runtime,
        })
    }

    /// Where tickets and fences are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is remembered of a container.
    pub(super) fn place(&self, id: &str) -> PathBuf {
        self.run_folder
            .join("containers/root")
            .join(format!("id_{id}"))
    }

    /// A command that has been started.
    pub(super) fn start(&self, words: &[&str]) -> Result<Child> {
        let _ = fs::remove_file(&self.log);
        Command::new(format!("{BIN}/rocferry-runc"))
            .arg("--log")
            .arg(&self.log)
            .args(["--log-format", "json"])
            .args(words)
            .env("ROCFERRY_FOLDER", &self.folder)
            .env("ROCFERRY_RUN_FOLDER", &self.run_folder)
            .env("ROCFERRY_RUNTIME", &self.runtime)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the wrapper")
    }

    /// A command that has to succeed.
    pub(super) fn ok(&self, words: &[&str]) -> Result<()> {
        let status = self.start(words)?.wait()?;
        ensure!(
            status.success(),
            "{}: {status}: {}",
            words.join(" "),
            self.reason()
        );
        Ok(())
    }

    /// A command that has to fail, with a reason that holds all of `wanted`.
    pub(super) fn refused(&self, words: &[&str], wanted: &[&str]) -> Result<()> {
        let status = self.start(words)?.wait()?;
        let reason = self.reason();
        ensure!(!status.success(), "{} succeeded", words.join(" "));
        for word in wanted {
            ensure!(
                reason.contains(word),
                "the reason does not say {word:?}: {reason}"
            );
        }
        Ok(())
    }

    /// The error that an engine shows: the last one in the log.
    pub(super) fn reason(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut errors = lines.filter(|line| line["level"] == "error");
        let last = errors.next();
        last.and_then(|line| line["msg"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    pub(super) fn create(&self, id: &str, bundle: &Bundle) -> Result<()> {
        self.ok(&["create", "--bundle", folder_of(bundle)?, id])
    }

    /// Leaves a ticket: `stem` is its name, `more` goes over the fields that it has anyway.
    pub(super) fn ticket(&self, stem: &str, images: &Path, more: &Value) -> Result<()> {
        let mut ticket = json!({
            "version": 1, "checkpoint": "the-checkpoint", "images": images, "held": true,
            "onContainerRestart": "Refuse", "state": { "is": "ready" },
            "mounts": [{ "destination": "/dev/shm", "kind": "tmpfs" }], "devices": [{ "path": "/dev/kfd" }],
        });
        for (name, value) in more.as_object().context("no object")? {
            ticket[name] = value.clone();
        }
        self.write("tickets", stem, &ticket)
    }

    /// Writes a ticket or fence.
    pub(super) fn write(&self, kind: &str, stem: &str, value: &Value) -> Result<()> {
        let folder = self.folder.join(kind);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(
            folder.join(format!("{stem}.json")),
            value.to_string(),
        )?)
    }

    /// A ticket as it is now.
    pub(super) fn read(&self, stem: &str) -> Result<Value> {
        let file = self.folder.join("tickets").join(format!("{stem}.json"));
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    }

    /// The state of a ticket.
    pub(super) fn state(&self, stem: &str) -> Result<String> {
        Ok(self.read(stem)?["state"]["is"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Thaws a held container as the agent does: the ticket first.
    pub(super) fn thaw(&self, stem: &str) -> Result<()> {
        let mut ticket = self.read(stem)?;
        let cgroup = PathBuf::from(ticket["state"]["cgroup"].as_str().context("not held")?);
        ticket["state"] = json!({ "is": "used", "container": ticket["state"]["container"] });
        self.write("tickets", stem, &ticket)?;
        Ok(fs::write(cgroup.join("cgroup.freeze"), "0")?)
    }
}

/// How far the workload in this root file system has come.
pub(crate) fn iterations(root: &Path) -> Result<u64> {
    let text = fs::read_to_string(root.join("work/state"))?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("iterations"));
    let line = line.context("no iterations in the state file")?;
    Ok(line.trim_start_matches(['=', ' ', ':']).trim().parse()?)
}

/// The folder of a bundle.
pub(super) fn folder_of(bundle: &Bundle) -> Result<&str> {
    bundle.path().to_str().context("path")
}

/// Changes a bundle's specification.
pub(super) fn change(bundle: &Bundle, change: impl FnOnce(&mut Value)) -> Result<()> {
    let file = bundle.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file)?)?;
    change(&mut config);
    Ok(fs::write(file, config.to_string())?)
}

/// A container of runc. Deleted when dropped.
pub(super) struct Container(pub(super) &'static str);

impl Container {
    fn state(&self) -> Result<Value> {
        Ok(serde_json::from_str(
            &run(&["runc", "state", self.0])?.ok()?,
        )?)
    }

    /// As runc says.
    pub(super) fn status(&self) -> Result<String> {
        Ok(self.state()?["status"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Of its first process.
    pub(super) fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(
            self.state()?["pid"].as_i64().context("no pid")?,
        )?)
    }

    /// Whether runc knows it.
    pub(super) fn is_known(&self) -> Result<bool> {
        Ok(run(&["runc", "state", self.0])?.good)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = run(&["runc", "delete", "--force", self.0]);
    }
}

/// A checkpoint, and what is known about its container.
pub(super) struct Taken {
    pub(super) images: PathBuf,
    pub(super) bundle: Bundle,
    pub(super) traces: Traces,
    /// How far its process had come.
    iterations: u64,
}

impl Taken {
    /// Makes a container through the wrapper, which is plain runc for it, and dumps it. It has ended then.
    pub(super) fn new(lab: &mut Lab, wrapper: &Wrapper, given: &[Device]) -> Result<Self> {
        Self::changed(lab, wrapper, given, |_| {})
    }

    /// The same, of a container whose specification is changed before.
    pub(super) fn changed(
        lab: &mut Lab,
        wrapper: &Wrapper,
        given: &[Device],
        changed: impl FnOnce(&mut Value),
    ) -> Result<Self> {
        let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, given)?;
        change(&bundle, changed)?;
        let container = Container("original");
        wrapper.create(container.0, &bundle)?;
        ensure!(
            container.status()? == "created",
            "it is {}",
            container.status()?
        );
        wrapper.ok(&["start", container.0])?;
        let resident = Resident::in_root(container.pid()?, &bundle.root())?;
        let traces = resident.leave_traces()?;
        let images = lab.folder("images")?;
        let path = images.to_str().context("path")?;
        wrapper.ok(&[
            "checkpoint",
            "--image-path",
            path,
            "--work-path",
            path,
            container.0,
        ])?;
        let iterations = resident.workload.number("iterations")?;
        wrapper.ok(&["delete", "--force", container.0])?;
        Ok(Self {
            images,
            bundle,
            traces,
            iterations,
        })
    }

    /// How far its process had come.
    pub(super) const fn iterations(&self) -> u64 {
        self.iterations
    }

    /// It has run nothing since.
    pub(super) fn has_not_run(&self) -> Result<()> {
        let now = iterations(&self.bundle.root())?;
        ensure!(
            now == self.iterations,
            "it ran: {} iterations, then {now}",
            self.iterations
        );
        Ok(())
    }

    /// It runs, with all that it had. It ends with what is returned.
    pub(super) fn goes_on(&self, container: &Container) -> Result<Resident> {
        let resident = Resident::in_root(container.pid()?, &self.bundle.root())?;
        resident.is_as(&self.traces)?;
        Ok(resident)
    }
}
