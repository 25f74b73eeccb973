//! Cases over two machines at once, on a network with a store in it.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rocferry_vm::{Lab, Net, Servers, Session, Stream, Userland};

use crate::guest::{self, Programs};
use crate::test::Tally;

/// Their names.
pub(crate) const CASES: [&str; 2] = ["machines/podman", "machines/pod"];

/// The host's side of the network.
const ENDPOINT: &str = "http://10.77.0.1:7070";
const PORT: &str = "10.77.0.1:7070";
const BUCKET: &str = "checkpoints";
const KEY: &str = "rocferry";
const SECRET: &str = "only-for-tests";

/// What the legs tell each other.
const KEPT: &str = "kept";
const KNOWN: &str = "known.json";

/// Runs those with these names.
pub(crate) fn run(
    lab: &Lab,
    programs: &Programs,
    names: &[String],
    tally: &mut Tally,
) -> Result<()> {
    println!("[test] two machines and a store");
    let net = Net::new()?;
    let data = tempfile::tempdir()?;
    let _store = Store::start(&net, data.path())?;
    let there = guest::start_in(lab, Userland::Sid, programs, (&net, 1))?;
    let here = guest::start_in(lab, Userland::Sid, programs, (&net, 0))?;
    for name in names {
        case(&[&here, &there], name, tally)?;
    }
    here.close()?;
    there.close()
}

/// Runs one: three legs, the first and the last on the same machine.
fn case(machines: &[&Session; 2], name: &str, tally: &mut Tally) -> Result<()> {
    let kept = tempfile::tempdir()?;
    let known = format!(
        "{{\"store\":\"s3://{BUCKET}/{name}\",\"environment\":{{\"AWS_ENDPOINT_URL\":\"{ENDPOINT}\",\
         \"AWS_REGION\":\"us-east-1\",\"AWS_ACCESS_KEY_ID\":\"{KEY}\",\"AWS_SECRET_ACCESS_KEY\":\"{SECRET}\"}}}}"
    );
    fs::write(kept.path().join(KNOWN), known)?;
    let begun = Instant::now();
    for (leg, machine) in [("first", 0), ("second", 1), ("third", 0)] {
        let session = machines[machine];
        let there = session.path(KEPT);
        copy(kept.path(), &there)?;
        let script = format!("/host/bin/scenarios leg {name} {leg}");
        let mut good = false;
        let limit = Duration::from_secs(1200);
        session.exec_with(&script, limit, &mut |stream, line| {
            let is_good = stream == Stream::Stdout && line.starts_with("ok ");
            good |= is_good;
            if !is_good {
                guest::show(stream, &format!("  {leg}: {line}"));
                tally.count("sid", stream, line);
            }
        })?;
        if !good {
            if tally.failed.is_empty() {
                bail!("The leg {leg} of {name} has no result");
            }
            return Ok(());
        }
        copy(&there, kept.path())?;
    }
    let line = format!("ok {name} ({:.1} s)", begun.elapsed().as_secs_f32());
    println!("  sid: {line}");
    tally.count("sid", Stream::Stdout, &line);
    Ok(())
}

/// The files of a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// An S3 server on the host's side of the network.
struct Store(Child);

impl Store {
    fn start(net: &Net, data: &Path) -> Result<Self> {
        // The server takes folders for buckets.
        fs::create_dir(data.join(BUCKET))?;
        let mut command = net.command(Servers::open()?.s3_program()?);
        command
            .args(["--quiet", "--keep-alive", "--port", PORT, "posix"])
            .arg(data)
            .env("ROOT_ACCESS_KEY", KEY)
            .env("ROOT_SECRET_KEY", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command.spawn().context("Cannot start the S3 server")?;
        Ok(Self(child))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
