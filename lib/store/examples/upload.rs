//! How long packs of random bytes take to an S3 server of this machine, and where the time goes.
//!
//! `cargo run --release -p rocferry-store --example upload -- [MIB]` sends them by way of a backend's writer,
//! with and without hashes of their content in the signatures, and for comparison with curl (one request for
//! each pack, without such hashes) and by copying the file. It prints one line for each: seconds, processor
//! seconds of the client and of the server, and by how much the client's memory has grown at most.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bytes::Bytes;
use rocferry_image::manifest::PackId;
use rocferry_store::backend::object::Location;
use rocferry_store::backend::{Backend, RetryPolicy, S3, Variables};
use rocferry_store::{Key, StoreName};
use rocferry_vm::{S3Server, Servers};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PACK: usize = 128 << 20;
const BLOCK: usize = 4 << 20;

fn main() -> Done<()> {
    let mebibytes: usize = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => 1024,
    };
    let packs = (mebibytes << 20).div_ceil(PACK);
    let server = Servers::open()?.start_s3(None)?;
    let scratch = server.bucket_dir("scratch");
    fs::create_dir(&scratch)?;
    make(&scratch, packs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    println!(
        "{:24} {:>7} {:>8} {:>8} {:>8}",
        "", "seconds", "client", "server", "MiB"
    );
    for round in 0..2 {
        measure("copy", &server, || copy(&scratch, packs))?;
        measure("curl", &server, || curl(&server, &scratch, packs))?;
        for (name, unsigned) in [("writer, hashed", false), ("writer, not hashed", true)] {
            for at_once in [1, 2] {
                let backend = open(&server, unsigned, &format!("{round}-{unsigned}-{at_once}"))?;
                measure(&format!("{name}, {at_once} at once"), &server, || {
                    runtime.block_on(upload(&backend, &scratch, packs, at_once))
                })?;
            }
        }
    }
    Ok(())
}

fn make(dir: &Path, packs: usize) -> Done<()> {
    let (mut random, mut block) = (fastrand::Rng::with_seed(1), vec![0; BLOCK]);
    for pack in 0..packs {
        let mut file = File::create(dir.join(pack.to_string()))?;
        for _ in 0..PACK / BLOCK {
            random.fill(&mut block);
            file.write_all(&block)?;
        }
        file.sync_all()?;
    }
    Ok(())
}

fn measure(name: &str, server: &S3Server, work: impl FnOnce() -> Done<()>) -> Done<()> {
    fs::write("/proc/self/clear_refs", "5")?;
    let memory = peak_mib()?;
    let (client, there) = (
        ticks("self", true)?,
        ticks(&server.pid().to_string(), false)?,
    );
    let begun = Instant::now();
    work()?;
    let seconds = begun.elapsed().as_secs_f64();
    let client = ticks("self", true)? - client;
    let there = ticks(&server.pid().to_string(), false)? - there;
    let grown = peak_mib()?.saturating_sub(memory);
    println!("{name:24} {seconds:7.2} {client:8.2} {there:8.2} {grown:8}");
    Ok(())
}

/// Processor seconds of a process, with those of children that have ended.
fn ticks(process: &str, children: bool) -> Done<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, rest) = stat.rsplit_once(") ").ok_or("No stat")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let places = if children { 11..15 } else { 11..13 };
    let mut sum = 0.0;
    for field in fields.get(places).ok_or("No times")? {
        sum += field.parse::<f64>()?;
    }
    Ok(sum / 100.0)
}

fn peak_mib() -> Done<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    Ok(number.ok_or("No VmHWM")?.trim().parse::<u64>()? >> 10)
}

fn copy(dir: &Path, packs: usize) -> Done<()> {
    let mut block = vec![0; BLOCK];
    for pack in 0..packs {
        // Not by a clone of the file system's.
        let mut from = File::open(dir.join(pack.to_string()))?;
        let mut to = File::create(dir.join("copy"))?;
        for _ in 0..PACK / BLOCK {
            from.read_exact(&mut block)?;
            to.write_all(&block)?;
        }
    }
    Ok(())
}

fn curl(server: &S3Server, dir: &Path, packs: usize) -> Done<()> {
    for pack in 0..packs {
        let url = format!("{}/{}/curl/{pack}", server.endpoint(), S3Server::bucket());
        let done = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--header", "Expect:"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .arg("--user")
            .arg(format!("{}:{}", server.access_key(), server.secret_key()))
            .arg("--upload-file")
            .arg(dir.join(pack.to_string()))
            .arg(url)
            .status()?;
        if !done.success() {
            return Err(format!("curl ended with {done}").into());
        }
    }
    Ok(())
}

fn open(server: &S3Server, unsigned: bool, prefix: &str) -> Done<S3> {
    let location = Location {
        bucket: S3Server::bucket().to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(server.endpoint()),
        ..Location::default()
    };
    let variables = [
        ("AWS_ACCESS_KEY_ID", server.access_key()),
        ("AWS_SECRET_ACCESS_KEY", server.secret_key()),
        (
            "AWS_UNSIGNED_PAYLOAD",
            if unsigned { "true" } else { "false" },
        ),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (name, retry) = (StoreName::default(), RetryPolicy::default());
    Ok(S3::open(
        &location,
        &name,
        &Variables::only(variables),
        retry,
    )?)
}

async fn upload(backend: &S3, dir: &Path, packs: usize, at_once: usize) -> Done<()> {
    let mut running = tokio::task::JoinSet::new();
    for pack in 0..packs {
        while running.len() >= at_once {
            running.join_next().await.ok_or("No task")???;
        }
        let (backend, file): (S3, PathBuf) = (backend.clone(), dir.join(pack.to_string()));
        running.spawn(async move {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&(pack as u64).to_be_bytes());
            let mut writer = backend.writer(&Key::Pack(PackId(id))).await?;
            for block in 0..PACK / BLOCK {
                let at = (block * BLOCK) as u64;
                writer.write(read(&file, at).await?).await?;
            }
            writer.finish().await?;
            Done::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}

async fn read(file: &Path, at: u64) -> Done<Bytes> {
    use std::os::unix::fs::FileExt;
    let file = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut block = vec![0; BLOCK];
        File::open(file)?.read_exact_at(&mut block, at)?;
        std::io::Result::Ok(Bytes::from(block))
    });
    Ok(read.await??)
}
