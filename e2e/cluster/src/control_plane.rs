//! A running control plane.

use crate::keys::Authority;
use crate::kubeconfig::{Credentials, kubeconfig};
use crate::part::Part;
use crate::process::Process;
use crate::programs::Programs;
use crate::tools::Output;
use anyhow::{Context, Result, bail};
use rocferry_vm::{Cache, Net, RunDir, spawn};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The API server's address.
const ADDRESS: &str = "10.77.0.1";
/// In which a control plane is ready, on a machine that does much else.
const START: Duration = Duration::from_secs(600);
/// In which a request is answered that is not refused at once.
const REQUEST: &str = "--request-timeout=60s";

/// A control plane. Dropping it ends all of its programs and removes its files.
#[derive(Debug)]
pub struct ControlPlane {
    // First of all: programs end before their folder and their network do.
    parts: Mutex<BTreeMap<Part, Process>>,
    authority: Keys,
    programs: Programs,
    net: Net,
    dir: RunDir,
}

/// The authority, which has nothing to show.
struct Keys(Authority);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl ControlPlane {
    /// Starts one, and waits until it is ready: the API server answers, and the default service account is there.
    ///
    /// # Errors
    /// When a program cannot be started, or ends; with the end of its log.
    pub fn start(programs: &Programs) -> Result<Self> {
        let cache = Cache::open()?;
        RunDir::sweep(cache.root());
        let dir = RunDir::new(cache.root(), "cluster")?;
        let authority = Authority::new(dir.path())?;
        let cluster = Self {
            parts: Mutex::default(),
            authority: Keys(authority),
            programs: programs.clone(),
            net: Net::new()?,
            dir,
        };
        cluster.write_keys()?;
        for part in [Part::Etcd, Part::ApiServer] {
            cluster.run_part(part)?;
        }
        cluster.wait_until(&["get", "--raw", "/readyz"])?;
        for part in [Part::ControllerManager, Part::Scheduler] {
            cluster.run_part(part)?;
        }
        cluster.wait_until(&["get", "serviceaccount", "default"])?;
        Ok(cluster)
    }

    /// The network that it is in; machines can be put there too.
    #[must_use]
    pub const fn net(&self) -> &Net {
        &self.net
    }

    /// Its folder, which goes with it. Logs are `NAME.log`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Address of the API server, in the network.
    #[must_use]
    pub fn server() -> String {
        format!("https://{ADDRESS}:6443")
    }

    /// Kubeconfig of who may do everything.
    #[must_use]
    pub fn admin(&self) -> PathBuf {
        self.dir().join("admin.conf")
    }

    /// Writes a kubeconfig of the user `name` in `group`, and says where it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn user(&self, name: &str, group: Option<&str>) -> Result<PathBuf> {
        let pair = self.authority.0.sign(name, group, &[])?;
        self.write_kubeconfig(name, &Credentials::Certificate(pair))
    }

    /// Writes a kubeconfig of a service account, with a token that the API server makes.
    ///
    /// # Errors
    /// When there is no such account.
    pub fn service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let args = ["create", "token", name, "--namespace", namespace];
        let token = self.kubectl(&args)?.ok()?.trim().to_owned();
        self.write_kubeconfig(&format!("{namespace}-{name}"), &Credentials::Token(token))
    }

    /// Starts a program in the network. What it says goes to `NAME.log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, name: &str, command: &Command) -> Result<Process> {
        let log = self.dir().join(format!("{name}.log"));
        Process::start(&self.net, name, command, &log)
    }

    /// Kills a part with SIGKILL.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, part: Part) -> Result<()> {
        let process = self.parts().remove(&part);
        process
            .with_context(|| format!("{} does not run", part.name()))?
            .kill()
    }

    /// Starts a part again that was killed, and waits until the API server answers.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn restart(&self, part: Part) -> Result<()> {
        self.parts().remove(&part);
        self.run_part(part)?;
        self.wait_until(&["get", "--raw", "/readyz"])
    }

    /// Stops a part where it is: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, part: Part) -> Result<()> {
        self.with(part, Process::pause)
    }

    /// Lets a part go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, part: Part) -> Result<()> {
        self.with(part, Process::resume)
    }

    /// Process id of a part.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self, part: Part) -> Result<u32> {
        self.with(part, |process| Ok(process.pid()))
    }

    /// Runs kubectl as who may do everything.
    ///
    /// # Errors
    /// When it cannot be started; what it says itself is in the [`Output`].
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.kubectl_as(&self.admin(), args, None)
    }

    /// Runs `kubectl apply`, client-side, on these objects (YAML or JSON).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn apply(&self, objects: &str) -> Result<Output> {
        self.kubectl_as(&self.admin(), &["apply", "-f", "-"], Some(objects))
    }

    /// Runs kubectl with a kubeconfig, and with text to read.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn kubectl_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
        input: Option<&str>,
    ) -> Result<Output> {
        let mut command = self.command(self.programs.kubernetes("kubectl"));
        command.arg("--kubeconfig").arg(kubeconfig).arg(REQUEST);
        self.tool(command, "kubectl", args, input)
    }

    /// Runs Helm as who may do everything.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn helm(&self, args: &[&str]) -> Result<Output> {
        let mut command = self.command(self.programs.helm()?);
        command.arg("--kubeconfig").arg(self.admin());
        for (variable, dir) in [
            ("HELM_CACHE_HOME", "helm/cache"),
            ("HELM_CONFIG_HOME", "helm/config"),
            ("HELM_DATA_HOME", "helm/data"),
        ] {
            command.env(variable, self.dir().join(dir));
        }
        self.tool(command, "helm", args, None)
    }

    /// A command in the network with kubectl and Helm (once that is built) in its path, for people.
    ///
    /// # Errors
    /// When there is no folder for the links.
    pub fn shell(&self) -> Result<Command> {
        let links = self.dir().join("bin");
        fs::create_dir_all(&links)?;
        for (program, name) in [
            (self.programs.kubernetes("kubectl"), "kubectl"),
            (self.programs.helm()?, "helm"),
        ] {
            let link = links.join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(program, link)?;
            }
        }
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let mut command = self.command(shell);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", links.display()));
        command.env("KUBECONFIG", self.admin());
        Ok(command)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.net.command(program)
    }

    fn tool(
        &self,
        mut command: Command,
        name: &str,
        args: &[&str],
        input: Option<&str>,
    ) -> Result<Output> {
        // Discovery is kept there, and objects that are made in a test must be seen in the next moment.
        command.env("HOME", self.dir()).args(args);
        command.stdin(match input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command)?;
        let writer = input.zip(child.stdin.take());
        let output = std::thread::scope(|scope| {
            if let Some((text, mut pipe)) = writer {
                // Who does not read to the end says why by itself.
                scope.spawn(move || pipe.write_all(text.as_bytes()));
            }
            child.wait_with_output()
        })?;
        Ok(Output {
            command: format!("{name} {}", args.join(" ")),
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn write_keys(&self) -> Result<()> {
        let authority = &self.authority.0;
        authority.write_token_key()?;
        let names = [
            ADDRESS,
            "127.0.0.1",
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        authority.write("apiserver", "kube-apiserver", None, &names)?;
        let masters = Some("system:masters");
        authority.write("kubelet-client", "apiserver-kubelet-client", masters, &[])?;
        authority.write("front-proxy", "front-proxy", None, &[])?;
        for (name, user, group) in [
            ("admin", "admin", masters),
            (
                "kube-controller-manager",
                "system:kube-controller-manager",
                None,
            ),
            ("kube-scheduler", "system:kube-scheduler", None),
        ] {
            let pair = authority.sign(user, group, &[])?;
            self.write_kubeconfig(name, &Credentials::Certificate(pair))?;
        }
        Ok(())
    }

    fn write_kubeconfig(&self, name: &str, who: &Credentials) -> Result<PathBuf> {
        let path = self
            .dir()
            .join(format!("{}.conf", name.replace(['/', ':'], "-")));
        let text = kubeconfig(&Self::server(), &self.authority.0.certificate(), who);
        fs::write(&path, text).with_context(|| format!("Cannot write {}", path.display()))?;
        Ok(path)
    }

    fn run_part(&self, part: Part) -> Result<()> {
        let mut command = Command::new(part.program(&self.programs));
        command.args(part.arguments(self.dir(), ADDRESS));
        command.current_dir(self.dir());
        let process = self.run(part.name(), &command)?;
        self.parts().insert(part, process);
        Ok(())
    }

    /// Asks until the answer is good.
    fn wait_until(&self, args: &[&str]) -> Result<()> {
        let begun = Instant::now();
        loop {
            let output = self.kubectl(args)?;
            if output.status.success() {
                return Ok(());
            }
            for (part, process) in self.parts().iter_mut() {
                if let Some(status) = process.ended()? {
                    bail!("{} ended ({status}): {}", part.name(), end_of(process));
                }
            }
            if begun.elapsed() > START {
                return output.ok().map(drop);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn with<T>(&self, part: Part, act: impl FnOnce(&Process) -> Result<T>) -> Result<T> {
        let parts = self.parts();
        let process = parts.get(&part);
        act(process.with_context(|| format!("{} does not run", part.name()))?)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<Part, Process>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last lines that it said.
fn end_of(process: &Process) -> String {
    let text = process.output();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
