//! `cargo xtask demo`: a GPU process moves from one machine to another whose GPUs are not the same.
//!
//! Machine A has four simulated GPUs. A process uses them: VRAM, GTT and user memory, queues, events. It is
//! dumped by unmodified CRIU with our plugin. Machine B has the same model of GPU under other ids, other
//! render nodes and in another order. The process is restored there and has to prove that it is whole.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rocferry_vm::{ExecOutput, Lab, Session, Userland};

use crate::guest::Programs;

/// Simulated GPUs of machine A, and of machine B.
const MACHINE_A: &str = "preset=gfx90a-4";
const MACHINE_B: &str = "preset=gfx90a-4 renumber=7 minor_skip=3 reverse_minors=1";

/// What the process holds.
const WORKLOAD: &str = "--bo vram:16M:2 --bo vram:256K:16 --bo vram:3M:2:nomap --bo gtt:2M:4 --bo userptr:1M:2 \
     --queues compute=1,aql=1,sdma=1 --events 16 --threads 4";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Plugin and CRIU alone, without containers: today's whole demo, and its name once there is a larger.
    #[arg(long)]
    plugin_only: bool,
    /// CRIU of Debian sid (4.2.1), trixie (4.1.1) or bookworm (3.17.1).
    #[arg(long, default_value = "sid")]
    userland: Userland,
    /// Use this plugin instead of building ours: to see the demo fail.
    #[arg(long, value_name = "FILE")]
    plugin: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let begun = Instant::now();
    let lab = Lab::open()?;
    lab.prepare(&[args.userland])?;
    let mut programs = Programs::core(&lab)?;
    if let Some(plugin) = &args.plugin {
        programs = programs.with(plugin.clone(), "amdgpu_plugin.so");
    }
    say("starting machines A and B");
    let (a, b) = start_both(&lab, args.userland, &programs)?;
    let criu = step(&a, "criu --version | head -n 1", 30)?.stdout;
    say(&format!("{} with amdgpu_plugin.so on both", criu.trim()));

    let gpus_a = load(&a, MACHINE_A)?;
    let gpus_b = load(&b, MACHINE_B)?;
    say(&format!("machine A: GPUs {gpus_a}"));
    say(&format!("machine B: GPUs {gpus_b}"));

    say("a process on A fills its GPU memory and starts its queues");
    let script = format!(
        "mkdir -p /run/d && cd / && setsid /run/bin/workload --state /run/d/state {WORKLOAD} \
         </dev/null >/dev/null 2>/run/d/log &\n\
         for i in $(seq 600); do grep -q 'phase ready' /run/d/state 2>/dev/null && break; sleep 0.1; done\n\
         grep -q 'phase ready' /run/d/state || {{ cat /run/d/log; exit 1; }}\n\
         sleep 1; cat /run/d/state"
    );
    let state = step(&a, &script, 120)?.stdout;
    let value = |name: &str| field(&state, name).unwrap_or_default().to_owned();
    let pid = value("pid");
    say(&format!(
        "pid {pid}: {} GPUs, {} BOs, {} of data on each GPU, {} queues, {} events, {} packets done",
        value("gpus_used"),
        value("bos_all"),
        per_gpu(&value("bytes_per_gpu")),
        value("queues"),
        value("events"),
        value("packets_done")
    ));

    say("criu dump on A");
    let dump = "mkdir -p /run/d/images && criu dump -t PID -D /run/d/images -L /run/plugins -v4 -o dump.log \
                --shell-job && ! kill -0 PID 2>/dev/null"
        .replace("PID", &pid);
    let dumped = timed(&a, &dump, "dump")?;
    let sizes = step(&a, "cd /run/d/images && du -cb amdgpu-pages-* | tail -n 1 | cut -f 1; du -cb * | tail -n 1 | cut -f 1", 30)?.stdout;
    let mut sizes = sizes.lines();
    let mut size = || sizes.next().map_or_else(|| "?".to_owned(), mebibytes);
    let (gpu_bytes, all_bytes) = (size(), size());
    say(&format!(
        "dumped in {dumped:.1} s: {gpu_bytes} of GPU memory, {all_bytes} in all"
    ));

    say("the images travel to B");
    step(
        &a,
        "tar -C /run/d -cf /host/images.tar images state log && sync",
        120,
    )?;
    fs::copy(a.path("images.tar"), b.path("images.tar")).context("Cannot move the images")?;
    a.close()?;
    step(
        &b,
        "mkdir -p /run/d && tar -C /run/d -xf /host/images.tar",
        120,
    )?;

    say("criu restore on B");
    let restored = timed(
        &b,
        "criu restore -d -D /run/d/images -L /run/plugins -v4 -o restore.log --shell-job --pidfile restored.pid",
        "restore",
    )?;
    let log = step(
        &b,
        "grep -a 'amdgpu_plugin: GPU .* here' /run/d/images/restore.log",
        30,
    )?
    .stdout;
    for line in log
        .lines()
        .filter_map(|line| line.split_once("amdgpu_plugin: "))
    {
        say(line.1);
    }
    say(&format!(
        "restored in {restored:.1} s; the process proves what it has"
    ));
    let proof = step(
        &b,
        &format!(
            "rm -f /run/d/state.verify; kill -USR1 {pid}\n\
             for i in $(seq 1200); do [ -e /run/d/state.verify ] && break; kill -0 {pid} || exit 1; sleep 0.1; done\n\
             cat /run/d/state.verify; n=$(grep ^packets_done /run/d/state); sleep 1; m=$(grep ^packets_done /run/d/state)\n\
             [ \"$n\" != \"$m\" ] || {{ echo 'the queues stand still'; exit 1; }}\n\
             head -n 1 /run/d/state.verify | grep -qx ok"
        ),
        180,
    );
    if let Err(error) = proof {
        println!();
        println!("{error:#}");
        println!("FAILED: the process on B is not what it was on A");
        return Ok(ExitCode::FAILURE);
    }
    b.close()?;
    println!();
    println!("  GPU memory    {gpu_bytes}");
    println!("  all images    {all_bytes}");
    println!("  dump          {dumped:.1} s");
    println!("  restore       {restored:.1} s");
    println!("  whole demo    {} s", begun.elapsed().as_secs());
    println!("  every byte, handle, queue, event, mapping and descriptor is as it was");
    println!("OK");
    Ok(ExitCode::SUCCESS)
}

fn start_both(lab: &Lab, userland: Userland, programs: &Programs) -> Result<(Session, Session)> {
    let start = |name: &str| -> Result<Session> {
        let session = lab
            .vm(userland)
            .name(name)
            .memory_mib(3072)
            .timeout(Duration::from_secs(1800))
            .start()?;
        programs.put(&session)?;
        Ok(session)
    };
    std::thread::scope(|scope| {
        let b = scope.spawn(|| start("machine-b"));
        let a = start("machine-a")?;
        let b = b
            .join()
            .map_err(|_| anyhow::anyhow!("The thread that starts B panicked"))??;
        Ok((a, b))
    })
}

/// Loads the simulator and lists its GPUs.
fn load(session: &Session, parameters: &str) -> Result<String> {
    let script = format!(
        "set -e; mkdir -p /run/bin /run/plugins; cp /host/bin/workload /run/bin/; cp /host/bin/amdgpu_plugin.so /run/plugins/\n\
         modprobe drm; modprobe -a unix_diag netlink_diag af_packet_diag inet_diag tun 2>/dev/null || true\n\
         insmod /host/bin/amdgpu.ko {parameters}\n\
         for n in $(ls /sys/class/kfd/kfd/topology/nodes | sort -n); do\n\
           d=/sys/class/kfd/kfd/topology/nodes/$n; id=$(cat $d/gpu_id); [ $id = 0 ] && continue\n\
           printf '%#06x/renderD%s ' $id $(awk '/drm_render_minor/ {{print $2}}' $d/properties)\n\
         done"
    );
    Ok(step(session, &script, 60)?.stdout.trim().to_owned())
}

/// Runs a CRIU command; on failure the part of its log that matters is shown.
fn timed(session: &Session, script: &str, what: &str) -> Result<f32> {
    let begun = Instant::now();
    let out = session.exec(script, Duration::from_secs(300))?;
    if out.code != 0 {
        let log = format!("grep -aE 'Error|amdgpu_plugin' /run/d/images/{what}.log | tail -n 30");
        let log = session.exec(&log, Duration::from_secs(30))?.stdout;
        bail!(
            "FAILED: criu {what} exits with {}\n{}{log}",
            out.code,
            out.stderr
        );
    }
    Ok(begun.elapsed().as_secs_f32())
}

fn step(session: &Session, script: &str, seconds: u64) -> Result<ExecOutput> {
    session.exec(script, Duration::from_secs(seconds))?.ok()
}

/// `0:BYTES 1:BYTES …`: one figure when all are the same.
fn per_gpu(list: &str) -> String {
    let mut sizes: Vec<_> = list
        .split(' ')
        .filter_map(|one| one.split_once(':'))
        .map(|one| one.1)
        .collect();
    sizes.dedup();
    sizes
        .into_iter()
        .map(mebibytes)
        .collect::<Vec<_>>()
        .join(" / ")
}

/// A number of bytes for a person.
fn mebibytes(bytes: &str) -> String {
    bytes
        .trim()
        .parse::<u64>()
        .map_or_else(|_| bytes.to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

fn field<'a>(state: &'a str, name: &str) -> Option<&'a str> {
    state
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

fn say(line: &str) {
    println!("[demo] {line}");
}
