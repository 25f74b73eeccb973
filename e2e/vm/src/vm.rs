//! How a machine is described and started.

use crate::disk;
use crate::error::VmError;
use crate::images::Lab;
use crate::net::Net;
use crate::packages::Userland;
use crate::qemu::Machine;
use crate::rundir::RunDir;
use crate::session::{Session, Stream};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A machine that is not started yet.
#[derive(Debug, Clone)]
#[must_use = "A machine does nothing until it is started"]
pub struct Vm {
    lab: Lab,
    userland: Userland,
    name: String,
    memory_mib: u32,
    cpus: u32,
    lifetime: Duration,
    share: Option<PathBuf>,
    data_mib: Option<u64>,
    disk: Option<PathBuf>,
    net: Option<(Net, u8)>,
    append: String,
    console: Option<PathBuf>,
}

/// What a script run in a machine of its own left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit status of the script, 128 + n when signal n ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
    /// Last lines of the machine's console.
    pub console: String,
    /// Time from start of the machine to its end.
    pub elapsed: Duration,
}

impl Lab {
    /// A machine with 2 GiB of memory, 2 processors, a life of at most 10 minutes.
    pub fn vm(&self, userland: Userland) -> Vm {
        Vm {
            lab: self.clone(),
            userland,
            name: "vm".to_owned(),
            memory_mib: 2048,
            cpus: 2,
            lifetime: Duration::from_secs(600),
            share: None,
            data_mib: None,
            disk: None,
            net: None,
            append: String::new(),
            console: None,
        }
    }
}

impl Vm {
    /// Host name in the machine, and its name in messages.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Memory in MiB. The root file system's upper layer, /tmp and /run live in it as well.
    pub fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Number of processors.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Time after which the machine is killed, counted from its start.
    pub fn timeout(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// A folder of the host to see at /host; without it the machine gets an empty one of its own.
    pub fn share(mut self, dir: impl Into<PathBuf>) -> Self {
        self.share = Some(dir.into());
        self
    }

    /// An empty ext4 disk at /data (a sparse file on the host), for bulk data: several times faster
    /// than /host, and not in the machine's memory.
    pub fn data_disk_mib(self, mib: u64) -> Self {
        self.data_mib(mib)
    }

    /// The disk at /data in this file, which is made if it is not there and stays: for a machine that is started again.
    pub fn data_disk(mut self, file: impl Into<PathBuf>, mib: u64) -> Self {
        self.disk = Some(file.into());
        self.data_mib(mib)
    }

    fn data_mib(mut self, mib: u64) -> Self {
        self.data_mib = Some(mib);
        self
    }

    /// A network card in `net` with the address [`Net::address`]`(n)`; n below 200, one machine each.
    pub fn network(mut self, net: &Net, n: u8) -> Self {
        self.net = Some((net.clone(), n));
        self
    }

    /// With systemd as process 1, and the cgroups as that makes them: sid alone has it. Scripts run in a service with
    /// `Delegate=yes`. It takes about 20 s to boot.
    pub fn systemd(self) -> Self {
        self.kernel_args("vm.systemd")
    }

    /// More words for the kernel's command line.
    pub fn kernel_args(mut self, words: &str) -> Self {
        self.append.push(' ');
        self.append.push_str(words);
        self
    }

    /// Where the console is written to; without it into a file that goes with the machine.
    pub fn console_log(mut self, file: impl Into<PathBuf>) -> Self {
        self.console = Some(file.into());
        self
    }

    /// Boots it and waits until it takes commands, about 5 s.
    ///
    /// # Errors
    /// When an image cannot be built, or the machine does not come up.
    pub fn start(self) -> Result<Session> {
        // On a busy host the guest's kernel sometimes loses its first timer interrupts and waits for ever.
        match self.clone().boot() {
            Err(error) if matches!(error.downcast_ref(), Some(VmError::TimedOut { .. })) => {
                eprintln!(
                    "[vm] {} does not boot, trying once more: {error:#}",
                    self.name
                );
                self.boot()
            }
            other => other,
        }
    }

    fn boot(self) -> Result<Session> {
        let begun = Instant::now();
        let lifetime = self.lifetime;
        let place = self.place()?;
        let log = std::fs::File::create(place.dir.path().join("qemu.log"))?;
        let command = self.machine(&place, "", false)?.command()?;
        Session::start(self.name.clone(), command, log, place, begun + lifetime)
    }

    /// Runs one bash script in a machine of its own. Its lines go to `lines` as they come.
    ///
    /// # Errors
    /// When the machine does not come up, dies or exceeds its time; not for an exit status.
    pub fn run_with(self, script: &str, lines: &mut dyn FnMut(Stream, &str)) -> Result<Outcome> {
        let begun = Instant::now();
        let lifetime = self.lifetime;
        let session = self.start()?;
        let out = session.exec_with(script, lifetime, lines)?;
        let console = session.console_tail(40);
        session.close()?;
        Ok(Outcome {
            code: out.code,
            stdout: out.stdout,
            stderr: out.stderr,
            console,
            elapsed: begun.elapsed(),
        })
    }

    /// Runs one bash script in a machine of its own.
    ///
    /// # Errors
    /// As [`Vm::run_with`].
    pub fn run(self, script: &str) -> Result<Outcome> {
        self.run_with(script, &mut |_, _| {})
    }

    /// Its folder, its share and its disk.
    pub(crate) fn place(&self) -> Result<Place> {
        let dir = RunDir::new(self.lab.cache().root(), &self.name)?;
        let share = match &self.share {
            Some(share) => share
                .canonicalize()
                .with_context(|| format!("No folder {}", share.display()))?,
            None => {
                let share = dir.path().join("share");
                std::fs::create_dir(&share)?;
                share
            }
        };
        let console = match &self.console {
            Some(file) => std::path::absolute(file)?,
            None => dir.path().join("console.log"),
        };
        let data = match self.data_mib {
            Some(mib) => {
                let own = dir.path().join("data.img");
                let file = self.disk.clone().unwrap_or(own);
                if !file.exists() {
                    disk::make(&file, mib)?;
                }
                Some(file)
            }
            None => None,
        };
        Ok(Place {
            dir,
            share,
            console,
            data,
            qemu: self.lab.qemu()?,
        })
    }

    pub(crate) fn machine<'a>(
        &'a self,
        place: &'a Place,
        more: &str,
        interactive: bool,
    ) -> Result<Machine<'a>> {
        let kernel = self.lab.kernel()?;
        let mut append = format!("vm.name={}", self.name);
        if let Some((_, n)) = &self.net {
            append.push_str(&format!(" vm.ip={}/24", Net::address(*n)));
        }
        if place.data.is_some() {
            append.push_str(" vm.data=/dev/vdc");
        }
        append.push_str(&self.append);
        append.push_str(more);
        Ok(Machine {
            qemu: &place.qemu,
            kernel: kernel.image(),
            initramfs: self.lab.initramfs()?,
            root: self.lab.userland(self.userland)?,
            modules: kernel.modules(),
            share: &place.share,
            data: place.data.clone(),
            net: self.net.as_ref().map(|(net, n)| (net, *n)),
            memory_mib: self.memory_mib,
            cpus: self.cpus,
            append,
            console: &place.console,
            interactive,
        })
    }

    /// The lab that it came from.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }
}

/// Files of a machine that runs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: RunDir,
    pub(crate) share: PathBuf,
    pub(crate) console: PathBuf,
    pub(crate) data: Option<PathBuf>,
    pub(crate) qemu: PathBuf,
}

impl Place {
    /// What the machine wrote to its console so far.
    pub(crate) fn console_text(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Last words of QEMU itself.
    pub(crate) fn qemu_text(&self) -> String {
        let bytes = std::fs::read(Path::join(self.dir.path(), "qemu.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
