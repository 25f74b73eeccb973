//! How long a checkpoint keeps its process from running. One JSON object a line on standard output.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::tool::{Agent, OwnCgroup, until};
use crate::case::{BIN, Lab};

/// Memory of the GPU process.
const WORKLOAD: [&str; 3] = ["--bo", "vram:256M:1", "--no-background"];
/// What the process may stand still of the time that the whole takes.
const SHARE: f64 = 0.6;
/// A disk: images belong neither in memory nor on the share.
const DISK: &str = "/data";

const ADDRESS: &str = "10.99.0.2";
const PORT: &str = "10.99.0.2:7070";
const BUCKET: &str = "checkpoints";
/// Round trip 20 ms, 50 MB/s each way. A queue that holds what is on its way.
const LINK: [&str; 6] = ["delay", "10ms", "rate", "400mbit", "limit", "10000"];

/// A store in a folder, and one in an S3 server behind a slow link.
pub(crate) fn freeze_speed(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1 vram_mib=512")?;
    let disk = Path::new(DISK);
    for folder in ["store", "state", "objects"] {
        fs::create_dir_all(disk.join(folder))?;
    }
    let server = Server::start(&disk.join("objects"))?;
    let folder = Agent::new(lab)?
        .with_state(&disk.join("state"))
        .with_store(&format!("file://{DISK}/store"), &[]);
    let s3 = Agent::new(lab)?
        .with_state(&disk.join("state"))
        .with_store(&format!("s3://{BUCKET}/rocferry"), &Server::environment());
    for (name, agent) in [("directory", folder), ("s3", s3)] {
        eprintln!("[bench] a checkpoint to {name}");
        let cgroup = OwnCgroup::new()?;
        let workload = cgroup.start(lab, &WORKLOAD)?;
        let report = agent.checkpoint(&workload, "--leave-running")?.is(0)?;
        let report = report.json()?;
        workload.advances()?;
        workload.finish()?;
        let number = |field: &str| report[field].as_u64().context("no such field");
        let (frozen, total) = (number("frozen_ms")?, number("total_ms")?);
        let ratio = frozen as f64 / total.max(1) as f64;
        println!(
            "{{\"bench\":\"freeze\",\"store\":\"{name}\",\"frozen_ms\":{frozen},\"total_ms\":{total},\
             \"ratio\":{ratio:.3},\"sent_mib\":{}}}",
            number("sent_bytes")? >> 20
        );
        ensure!(
            name != "s3" || ratio <= SHARE,
            "it stood still for {ratio:.3} of the time, more than {SHARE}"
        );
    }
    drop(server);
    Ok(())
}

/// An S3 server in a network namespace of its own.
struct Server(Child);

impl Server {
    fn start(data: &Path) -> Result<Self> {
        // The server takes folders for buckets.
        fs::create_dir_all(data.join(BUCKET))?;
        ip(&["netns", "add", "s3"])?;
        ip(&["link", "add", "to-s3", "type", "veth", "peer", "in-s3"])?;
        ip(&["link", "set", "in-s3", "netns", "s3"])?;
        ip(&["address", "add", "10.99.0.1/24", "dev", "to-s3"])?;
        ip(&["link", "set", "to-s3", "up"])?;
        let inside = ["netns", "exec", "s3", "ip"];
        let address = format!("{ADDRESS}/24");
        ip(&[&inside[..], &["address", "add", &address, "dev", "in-s3"]].concat())?;
        ip(&[&inside[..], &["link", "set", "in-s3", "up"]].concat())?;
        shape(&[], "to-s3")?;
        shape(&["ip", "netns", "exec", "s3"], "in-s3")?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", "s3", &format!("{BIN}/versitygw")]);
        command.args(["--quiet", "--keep-alive", "--port", PORT, "posix"]);
        for (name, value) in Self::keys() {
            command.env(format!("ROOT_{name}"), value);
        }
        let child = command
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let server = Self(child.context("cannot start the S3 server")?);
        until("an S3 server that answers", || {
            let limit = Duration::from_secs(1);
            Ok(std::net::TcpStream::connect_timeout(&PORT.parse()?, limit).is_ok())
        })?;
        Ok(server)
    }

    const fn keys() -> [(&'static str, &'static str); 2] {
        [
            ("ACCESS_KEY", "rocferry"),
            ("SECRET_KEY", "of-no-importance"),
        ]
    }

    fn environment() -> Vec<(String, String)> {
        let [(_, id), (_, secret)] = Self::keys();
        let pairs = [
            ("AWS_ENDPOINT_URL", format!("http://{PORT}")),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", id.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    done(Command::new("ip").args(arguments))
}

/// Makes a link slow, in one direction.
fn shape(inside: &[&str], device: &str) -> Result<()> {
    let words = [
        inside,
        &["tc", "qdisc", "add", "dev", device, "root", "netem"],
        &LINK,
    ]
    .concat();
    let (program, arguments) = words.split_first().context("no program")?;
    done(Command::new(program).args(arguments))
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.trim());
    Ok(())
}
