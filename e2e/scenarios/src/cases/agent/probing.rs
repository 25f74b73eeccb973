//! The kubelet's liveness probes of a frozen pod.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::tool::{Agent, OwnCgroup, case, until};
use crate::case::{Case, Lab};
use crate::containers::run;

pub(crate) const CASES: &[Case] = &[case("agent/probes_of_a_frozen_pod", 240, frozen_pod)];

/// Period, time-out and failures in a row that kill: as a pod's specification may have them.
const PERIOD: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(1);
const THRESHOLD: u32 = 2;
/// How long the pod is frozen.
const FROZEN: Duration = Duration::from_secs(60);

const NODE: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 3);
const POD: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
const HTTP: u16 = 8080;
const GRPC: u16 = 9000;
const CONTAINERS: &str = r#"[
  {"name": "web", "ports": [{"name": "http", "containerPort": 8080}],
   "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 3, "failureThreshold": 2},
   "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}},
  {"name": "worker", "livenessProbe": {"grpc": {"port": 9000}, "periodSeconds": 3, "failureThreshold": 2}}
]"#;

fn frozen_pod(lab: &mut Lab) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let agent = Agent::new(lab)?;
    let files = lab.folder("www")?;
    for name in ["healthz", "ready"] {
        fs::write(files.join(name), "from the pod")?;
    }
    let containers = files.join("containers.json");
    fs::write(&containers, CONTAINERS)?;
    let pod = Pod::start(&files)?;
    let get = |path| runtime.block_on(get(NODE, path));
    until("a pod that serves", || Ok(get("/healthz").is_ok()))?;

    // A frozen pod does not answer: what is shown below is not by itself so.
    pod.freeze(true)?;
    ensure!(get("/healthz").is_err(), "a frozen pod answers");
    pod.freeze(false)?;

    let pid = pod.server.id().to_string();
    let containers = containers.to_str().context("path")?;
    let words = ["answer-probes", "--pid", &pid, "--containers", containers];
    let mut answering = agent.start(&words)?;
    let said = answering.stderr.take().context("no standard error")?;
    let mut lines = BufReader::new(said).lines();
    let first = lines.next().context("it says nothing")??;
    ensure!(first.starts_with("Answering 8080, 9000"), "{first}");
    pod.freeze(true)?;
    let begun = Instant::now();
    let mut failures = [0; 2];
    while begun.elapsed() < FROZEN {
        let next = Instant::now() + PERIOD;
        let alive = get("/healthz").is_ok_and(|(status, _)| (200..400).contains(&status));
        let serving = runtime.block_on(health()).unwrap_or(false);
        for (failed, good) in failures.iter_mut().zip([alive, serving]) {
            *failed = if good { 0 } else { *failed + 1 };
            ensure!(
                *failed < THRESHOLD,
                "the kubelet would kill it: {failures:?}"
            );
        }
        // It gets no requests.
        let (ready, _) = get("/ready")?;
        ensure!(ready == 503, "the readiness probe gets {ready}");
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let others = runtime.block_on(self::get(OTHER, "/healthz"));
    ensure!(others.is_err(), "somebody else gets an answer: {others:?}");

    let pid = i32::try_from(answering.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.context("pid")?, Signal::TERM)?;
    let ended = answering.wait()?;
    ensure!(ended.success(), "it ends with {ended}");
    let tables = run(&["ip", "netns", "exec", "pod", "nft", "list", "tables"])?.ok()?;
    ensure!(!tables.contains("rocferry"), "{tables}");
    pod.freeze(false)?;
    for from in [NODE, OTHER] {
        let (status, body) = runtime.block_on(self::get(from, "/healthz"))?;
        ensure!(
            status == 200 && body == "from the pod",
            "{from}: {status} {body}"
        );
    }
    Ok(())
}

/// A server in a network namespace and a cgroup of its own.
struct Pod {
    cgroup: OwnCgroup,
    server: Child,
}

impl Pod {
    fn start(files: &Path) -> Result<Self> {
        for words in [
            "netns add pod",
            "link add to-pod type veth peer in-pod netns pod",
            "address add 10.98.0.1/24 dev to-pod",
            "address add 10.98.0.3/24 dev to-pod",
            "link set to-pod up",
            "-n pod address add 10.98.0.2/24 dev in-pod",
            "-n pod link set in-pod up",
            "-n pod route add default via 10.98.0.1",
        ] {
            let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
            run(&words)?.ok()?;
        }
        let cgroup = OwnCgroup::new()?;
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec ip netns exec pod busybox httpd -f -p {HTTP} -h {}",
            cgroup.path().display(),
            files.display()
        );
        let server = Command::new("sh")
            .args(["-c", &enter])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { cgroup, server })
    }

    fn freeze(&self, frozen: bool) -> Result<()> {
        let word = if frozen { "1" } else { "0" };
        fs::write(self.cgroup.path().join("cgroup.freeze"), word)?;
        until("a cgroup that does as it is told", || {
            Ok(self.cgroup.is_frozen()? == frozen)
        })
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.freeze(false);
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = run(&["ip", "netns", "del", "pod"]);
    }
}

async fn connect(from: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let to = SocketAddr::from((POD, port));
    Ok(timeout(TIMEOUT, socket.connect(to))
        .await
        .context("no connection")??)
}

/// Status and body of an HTTP probe.
async fn get(from: Ipv4Addr, path: &str) -> Result<(u16, String)> {
    let answer = async {
        let mut stream = connect(from, HTTP).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {POD}:{HTTP}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).context("no status")?;
        Ok((status.parse()?, body.to_owned()))
    };
    timeout(TIMEOUT, answer).await.context("too late")?
}

/// Whether a gRPC health probe is told SERVING.
async fn health() -> Result<bool> {
    let answer = async {
        let stream = connect(NODE, GRPC).await?;
        let (sender, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{POD}/grpc.health.v1.Health/Check"));
        let request = request
            .header("content-type", "application/grpc")
            .body(())?;
        let (response, mut body) = sender.ready().await?.send_request(request, false)?;
        // A request for the whole server: an empty message.
        body.send_data(Bytes::from_static(&[0; 5]), true)?;
        let response = response.await?;
        ensure!(response.status() == 200, "status {}", response.status());
        let mut body = response.into_body();
        let Some(data) = body.data().await else {
            bail!("no message");
        };
        let end = body.trailers().await?.context("no trailers")?;
        ensure!(
            end.get("grpc-status").is_some_and(|status| status == "0"),
            "{end:?}"
        );
        Ok(data?[..] == [0, 0, 0, 0, 2, 8, 1])
    };
    timeout(TIMEOUT, answer).await.context("too late")?
}
