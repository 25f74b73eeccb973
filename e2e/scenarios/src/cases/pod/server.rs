//! A server to which connections come all the time, and the kubelet's probes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::tool::{checkpoint, id, pulled, stored};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case, until};
use crate::containers::{Contents, Pod, PodOptions, run};
use crate::proc;

pub(crate) const CASES: &[Case] = &[
    case("pod/a_server_under_load", 900, under_load),
    case("pod/probes_are_answered_while_it_is_kept", 600, probed),
];

const PORT: u16 = 8080;
const COMMAND: &[&str] = &["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/work"];
const TIMEOUT: Duration = Duration::from_secs(1);

/// A pod with a server that has a page, and answers.
fn server(lab: &mut Lab) -> Result<(Pod, Ipv4Addr)> {
    let mut pod = Pod::start(lab, "serve", &PodOptions::default())?;
    pod.run(&Contents::new("web", COMMAND))?;
    for page in ["healthz", "page"] {
        fs::write(pod.root("web").join("work").join(page), "from the pod")?;
    }
    let address = pod.address().context("no network")?;
    until("a server", || Ok(get(address, "/page").is_ok()))?;
    Ok((pod, address))
}

/// The answer to a request.
fn get(address: Ipv4Addr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, PORT)), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(!text.is_empty(), "no answer");
    Ok(text)
}

/// Requests from several sides, one after the other each.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn new(address: Ipv4Addr) -> Self {
        let (stop, answered) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let ask = |_| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if get(address, "/page").is_ok_and(|text| text.contains("from the pod")) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        let threads = (0..4).map(ask).collect();
        Self {
            stop,
            answered,
            threads,
        }
    }

    fn goes_on(&self) -> Result<()> {
        let before = self.answered.load(Ordering::Relaxed);
        until("answers", || {
            Ok(self.answered.load(Ordering::Relaxed) > before + 3)
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn no_rules(pod: &Pod) -> Result<()> {
    let sandbox = pod.sandbox().to_string();
    let tables = run(&["nsenter", "-n", "-t", &sandbox, "nft", "list", "tables"])?.ok()?;
    ensure!(!tables.contains("rocferry"), "{tables}");
    Ok(())
}

/// Three dumps while requests come, and connections that do not end: none fails, and it serves on each time.
fn under_load(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let (pod, address) = server(lab)?;
    let load = Load::new(address);
    load.goes_on()?;
    let mut last = String::new();
    for _ in 0..3 {
        // A request that is not complete: its process waits in the server all the time.
        let mut idle = TcpStream::connect((address, PORT))?;
        idle.write_all(b"GET /pa")?;
        let report = stored(&agent, &pod, "--leave-running")?;
        load.goes_on()?;
        // It was closed in the copy, not here. What the server says is its own affair: a read with a time-out ends when
        // a process is stopped, and it takes that for silence.
        idle.set_read_timeout(Some(Duration::from_secs(20)))?;
        let _ = idle.write_all(b"ge HTTP/1.0\r\n\r\n");
        let mut text = String::new();
        idle.read_to_string(&mut text)?;
        ensure!(
            text.starts_with("HTTP/1."),
            "the connection was lost: {text:?}"
        );
        last = id(&report)?;
        no_rules(&pod)?;
        agent.is_idle()?;
    }
    let dir = pulled(&agent, lab, &last)?;
    ensure!(
        dir.join("containers/web/checkpoint/inventory.img")
            .is_file(),
        "no images"
    );
    // A failure takes the rules away, too.
    agent
        .run_with("dump-done=fail", &checkpoint(&pod, "--stop"))?
        .is(2)?;
    no_rules(&pod)?;
    load.goes_on()
}

fn probed(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let (pod, address) = server(lab)?;
    let file = lab.folder("specification")?.join("containers.json");
    fs::write(
        &file,
        r#"[{"name": "web", "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 3}}]"#,
    )?;
    let file = file.to_str().context("path")?;
    let words = [
        &checkpoint(&pod, "--keep-frozen")[..],
        &["--containers", file],
    ]
    .concat();
    agent.run(&words)?.is(0)?;
    ensure!(pod.is_frozen()?, "the pod runs");
    let answers = || -> Result<()> {
        let alive = get(address, "/healthz")?;
        ensure!(alive.contains(" 200 "), "{alive}");
        let other = get(address, "/page")?;
        ensure!(other.contains(" 503 "), "{other}");
        Ok(())
    };
    answers()?;
    // Whoever answers may die: the next start of the agent puts another one there.
    let all = proc::all()?;
    let found = all
        .iter()
        .find(|(_, command)| command.contains("answer-probes"));
    let pid = Pid::from_raw(found.context("nobody answers")?.0).context("pid")?;
    kill_process(pid, Signal::KILL)?;
    until("nobody answers", || Ok(get(address, "/healthz").is_err()))?;
    ensure!(agent.recover()? == ["held"], "it was not held");
    answers()?;
    agent.run(&["thaw", "--override", &pod.uid])?.is(0)?;
    let page = get(address, "/page")?;
    ensure!(page.contains("from the pod"), "{page}");
    no_rules(&pod)?;
    agent.is_idle()
}
