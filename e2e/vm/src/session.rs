//! A running machine that takes commands.

use crate::error::{VmError, tail};
use crate::frame::{FromGuest, MAX_SCRIPT, ToGuest};
use crate::leash;
use crate::vm::Place;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest boot. It takes about 5 s on a machine with nothing else to do.
const BOOT: Duration = Duration::from_secs(120);
/// Time that a killed command or a flush of the guest's caches may take.
const GRACE: Duration = Duration::from_secs(20);
/// Lines of the console in errors.
const CONSOLE_LINES: usize = 80;

/// One of a command's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a command left.
#[derive(Debug, Clone)]
pub struct ExecOutput {
    /// First line of the script, for messages.
    pub what: String,
    /// Exit status, 128 + n when signal n ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
    /// Time it took.
    pub elapsed: Duration,
}

impl ExecOutput {
    /// Itself when the status is 0.
    ///
    /// # Errors
    /// [`VmError::Failed`] otherwise.
    pub fn ok(self) -> Result<Self> {
        if self.code == 0 {
            return Ok(self);
        }
        let output = tail(&format!("{}{}", self.stdout, self.stderr), 40);
        Err(VmError::Failed {
            code: self.code,
            what: self.what,
            output,
        }
        .into())
    }
}

enum Event {
    Ready,
    Bytes(Stream, Vec<u8>),
    Exit(i32),
}

/// Where frames of each job go; none once the machine is gone.
type Jobs = Arc<Mutex<Option<HashMap<u32, Sender<Event>>>>>;

/// A running machine. It is killed when this is dropped, and when this process ends in any way.
#[derive(Debug)]
pub struct Session {
    name: String,
    child: Mutex<Child>,
    stdin: Mutex<ChildStdin>,
    jobs: Jobs,
    next: AtomicU32,
    deadline: Instant,
    place: Place,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Job number under which the reader reports that the agent is ready, and that caches are flushed.
const CONTROL: u32 = 0;

fn read_frames(mut from: impl std::io::Read, jobs: &Jobs) {
    loop {
        let (job, event) = match FromGuest::read(&mut from) {
            Ok(Some(FromGuest::Ready | FromGuest::Flushed)) => (CONTROL, Event::Ready),
            Ok(Some(FromGuest::Output { job, bytes })) => {
                (job, Event::Bytes(Stream::Stdout, bytes))
            }
            Ok(Some(FromGuest::Error { job, bytes })) => (job, Event::Bytes(Stream::Stderr, bytes)),
            Ok(Some(FromGuest::Exit { job, code })) => (job, Event::Exit(code)),
            Ok(None) | Err(_) => break,
        };
        let mut jobs = lock(jobs);
        let Some(jobs) = jobs.as_mut() else { break };
        // Nobody waits any more for a job whose handle was dropped.
        if let Some(to) = jobs.get(&job)
            && to.send(event).is_err()
        {
            jobs.remove(&job);
        }
    }
    // Dropping the senders wakes everybody who waits.
    lock(jobs).take();
}

impl Session {
    pub(crate) fn start(
        name: String,
        mut command: Command,
        log: File,
        place: Place,
        deadline: Instant,
    ) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = leash::spawn(command)?;
        let stdin = child.stdin.take().context("No pipe")?;
        let stdout = child.stdout.take().context("No pipe")?;
        let (send, ready) = channel();
        let jobs: Jobs = Arc::new(Mutex::new(Some(HashMap::from([(CONTROL, send)]))));
        let session = Self {
            name,
            child: Mutex::new(child),
            stdin: Mutex::new(stdin),
            jobs: Arc::clone(&jobs),
            next: AtomicU32::new(CONTROL + 1),
            deadline,
            place,
        };
        std::thread::spawn(move || read_frames(BufReader::new(stdout), &jobs));
        match ready.recv_timeout(BOOT) {
            Ok(_) => Ok(session),
            Err(RecvTimeoutError::Disconnected) => Err(session.dead()),
            Err(RecvTimeoutError::Timeout) => {
                Err(session.timed_out("boot", BOOT, String::new()).into())
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a bash script to its end. Several threads may each run one at the same time. Processes that
    /// it leaves in the background go on, but should have their output redirected.
    ///
    /// # Errors
    /// [`VmError::TimedOut`] (the script and its children are killed), [`VmError::Dead`]; an exit status
    /// is no error here, see [`ExecOutput::ok`].
    pub fn exec(&self, script: &str, timeout: Duration) -> Result<ExecOutput> {
        self.exec_with(script, timeout, &mut |_, _| {})
    }

    /// [`Session::exec`] that hands over each line as it comes, without its line end.
    ///
    /// # Errors
    /// As [`Session::exec`].
    pub fn exec_with(
        &self,
        script: &str,
        timeout: Duration,
        lines: &mut dyn FnMut(Stream, &str),
    ) -> Result<ExecOutput> {
        self.spawn(script)?.wait_with(timeout, lines)
    }

    /// Starts a bash script and returns at once.
    ///
    /// # Errors
    /// [`VmError::Dead`], or a script longer than 120 KiB.
    pub fn spawn(&self, script: &str) -> Result<Running<'_>> {
        if script.len() > MAX_SCRIPT {
            bail!(
                "Script of {} bytes: write it to the share and run it from there",
                script.len()
            );
        }
        let job = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, events) = channel();
        match lock(&self.jobs).as_mut() {
            Some(jobs) => jobs.insert(job, send),
            None => return Err(self.dead()),
        };
        let what = script
            .trim_start()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        self.send(&ToGuest::Run { job, script })?;
        Ok(Running {
            session: self,
            job,
            events,
            what,
            begun: Instant::now(),
            ended: false,
        })
    }

    fn send(&self, frame: &ToGuest<'_>) -> Result<()> {
        let sent = frame.write(&mut *lock(&self.stdin));
        sent.map_err(|_| self.dead())
    }

    /// The folder of the host that the machine sees as /host. What a process in the machine wrote is
    /// there once it closed the file.
    #[must_use]
    pub fn share(&self) -> &Path {
        &self.place.share
    }

    /// Copies a file of the host into the share and returns its path in the machine.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn put(&self, file: &Path, name: &str) -> Result<String> {
        let to = self.place.share.join(name);
        // A new file, not new contents: the machine may hold pages of the old one.
        let _ = fs::remove_file(&to);
        fs::copy(file, &to)
            .with_context(|| format!("Cannot copy {} to {}", file.display(), to.display()))?;
        Ok(format!("/host/{name}"))
    }

    /// Path on the host of what the machine sees as /host/`name`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.share.join(name)
    }

    /// Copies a file of the host to any path in the machine, with these permission bits.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn install(&self, file: &Path, guest_path: &str, mode: u32) -> Result<()> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let from = self.put(file, &format!(".install-{n}"))?;
        let script = format!("install -D -m {mode:o} {from} '{guest_path}' && rm {from}");
        self.exec(&script, Duration::from_secs(60))?.ok()?;
        Ok(())
    }

    /// Installs the plugin where each Debian CRIU looks for plugins.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn install_plugin(&self, so: &Path) -> Result<()> {
        self.install(so, "/usr/lib/criu/amdgpu_plugin.so", 0o644)
    }

    /// Loads a kernel module file after those that it depends on, with parameters.
    ///
    /// # Errors
    /// When one does not load; with the kernel's last messages.
    pub fn load_module(&self, ko: &Path, parameters: &str) -> Result<()> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let name = ko.file_stem().unwrap_or_default().to_string_lossy();
        let at = self.put(ko, &format!("{name}-{n}.ko"))?;
        let script = format!(
            "d=$(modinfo -F depends {at} | tr , ' '); [ -z \"$d\" ] || modprobe -a $d || exit\n\
             insmod {at} {parameters} || {{ r=$?; dmesg | tail -n 15; exit $r; }}"
        );
        self.exec(&script, Duration::from_secs(120))?.ok()?;
        Ok(())
    }

    /// Loads the simulator; `parameters` as for insmod, for example `preset=NAME`.
    ///
    /// # Errors
    /// As [`Session::load_module`].
    pub fn load_kfd_sim(&self, ko: &Path, parameters: &str) -> Result<()> {
        self.load_module(ko, parameters)
    }

    /// Unloads the simulator, so that it can be loaded again with other GPUs.
    ///
    /// # Errors
    /// When something still uses it.
    pub fn unload_kfd_sim(&self) -> Result<()> {
        self.exec("rmmod amdgpu", Duration::from_secs(60))?.ok()?;
        Ok(())
    }

    /// Last lines of the console: kernel messages of level warning and worse.
    #[must_use]
    pub fn console_tail(&self, lines: usize) -> String {
        tail(&self.place.console_text(), lines)
    }

    /// False once the machine is gone.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        lock(&self.jobs).is_some()
    }

    /// Ends the machine at once, as a power failure would.
    pub fn kill(&self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
        lock(&self.jobs).take();
    }

    /// Flushes what the machine still has to write to the share, and ends it.
    ///
    /// # Errors
    /// When it is dead already or does not answer.
    pub fn close(self) -> Result<()> {
        let (send, flushed) = channel();
        match lock(&self.jobs).as_mut() {
            Some(jobs) => jobs.insert(CONTROL, send),
            None => return Err(self.dead()),
        };
        self.send(&ToGuest::Stop)?;
        match flushed.recv_timeout(GRACE) {
            Ok(_) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(self.dead()),
            Err(RecvTimeoutError::Timeout) => Err(self
                .timed_out("flush before power off", GRACE, String::new())
                .into()),
        }
    }

    fn timed_out(&self, what: &str, limit: Duration, output: String) -> VmError {
        VmError::TimedOut {
            name: self.name.clone(),
            what: what.to_owned(),
            limit,
            output,
            console: self.console_tail(CONSOLE_LINES),
        }
    }

    /// Why the machine is gone.
    fn dead(&self) -> anyhow::Error {
        // The pipe may end a little before the process does.
        let mut status = None;
        for _ in 0..40 {
            status = lock(&self.child).try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let console = self.place.console_text();
        let panic = console.lines().find(|l| l.contains("Kernel panic"));
        let reason = match (panic, status) {
            (Some(line), _) => line.trim().to_owned(),
            (None, Some(status)) => {
                format!("QEMU ended ({status}) {}", tail(&self.place.qemu_text(), 5))
            }
            (None, None) => "QEMU runs but closed its channel".to_owned(),
        };
        VmError::Dead {
            name: self.name.clone(),
            reason,
            console: tail(&console, CONSOLE_LINES),
        }
        .into()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A script that runs in a machine. Dropped before its end it is killed.
#[derive(Debug)]
pub struct Running<'a> {
    session: &'a Session,
    job: u32,
    events: Receiver<Event>,
    what: String,
    begun: Instant,
    ended: bool,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready => f.write_str("Ready"),
            Self::Bytes(stream, bytes) => write!(f, "{stream:?} {} bytes", bytes.len()),
            Self::Exit(code) => write!(f, "Exit {code}"),
        }
    }
}

impl Running<'_> {
    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Session::exec`]; the time counts from now.
    pub fn wait(self, timeout: Duration) -> Result<ExecOutput> {
        self.wait_with(timeout, &mut |_, _| {})
    }

    /// Waits for its end and hands over each line as it comes.
    ///
    /// # Errors
    /// As [`Session::exec`]; the time counts from now.
    pub fn wait_with(
        mut self,
        timeout: Duration,
        lines: &mut dyn FnMut(Stream, &str),
    ) -> Result<ExecOutput> {
        let session = self.session;
        let until = (Instant::now() + timeout).min(session.deadline);
        let (mut out, mut err) = (Lines::default(), Lines::default());
        loop {
            match self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Event::Bytes(Stream::Stdout, b)) => out.push(&b, |l| lines(Stream::Stdout, l)),
                Ok(Event::Bytes(Stream::Stderr, b)) => err.push(&b, |l| lines(Stream::Stderr, l)),
                Ok(Event::Ready) => {}
                Ok(Event::Exit(code)) => {
                    self.ended = true;
                    return Ok(ExecOutput {
                        what: std::mem::take(&mut self.what),
                        code,
                        stdout: out.finish(|l| lines(Stream::Stdout, l)),
                        stderr: err.finish(|l| lines(Stream::Stderr, l)),
                        elapsed: self.begun.elapsed(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.ended = true;
                    return Err(session.dead());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let whole = session.deadline <= Instant::now();
                    let printed = format!("{}{}", out.finish(|_| {}), err.finish(|_| {}));
                    let error = session.timed_out(&self.what, timeout, tail(&printed, 40));
                    self.stop();
                    if whole {
                        session.kill();
                        return Err(anyhow::Error::new(error).context("The machine's time is over"));
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Kills the script and the processes of its session.
    pub fn kill(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let until = Instant::now() + GRACE;
        if self.session.send(&ToGuest::Kill { job: self.job }).is_err() {
            return;
        }
        // Until the exit comes, or the machine is gone or stuck, which the next command will tell.
        loop {
            match self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Event::Exit(_)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop();
        if let Some(jobs) = lock(&self.session.jobs).as_mut() {
            jobs.remove(&self.job);
        }
    }
}

/// Cuts a stream of bytes into lines, and keeps all of it.
#[derive(Default)]
struct Lines {
    all: Vec<u8>,
    told: usize,
}

impl Lines {
    fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        // Only the new bytes are searched: output without line ends must not cost its square.
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.all.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let end = self.all.len() - 1;
                line(&String::from_utf8_lossy(&self.all[self.told..end]));
                self.told = end + 1;
            }
        }
    }

    fn finish(&mut self, mut line: impl FnMut(&str)) -> String {
        if self.told < self.all.len() {
            line(&String::from_utf8_lossy(&self.all[self.told..]));
            self.told = self.all.len();
        }
        String::from_utf8_lossy(&self.all).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn lines_are_told_once_and_kept() {
        let mut told = Vec::new();
        let mut lines = Lines::default();
        lines.push(b"a\nb", |l| told.push(l.to_owned()));
        lines.push(b"c\n\nd", |l| told.push(l.to_owned()));
        assert_eq!(told, ["a", "bc", ""]);
        assert_eq!(lines.finish(|l| told.push(l.to_owned())), "a\nbc\n\nd");
        assert_eq!(told, ["a", "bc", "", "d"]);
    }
}
