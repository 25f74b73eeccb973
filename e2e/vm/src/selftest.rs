//! The harness tries itself: each userland boots and has its CRIU, files go both ways, failures are seen,
//! two machines reach each other.

use crate::{Lab, Net, Session, Stream, Userland, VmError};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_secs(30);

/// Runs all of it, with a line per check on standard error.
///
/// # Errors
/// The first check that fails.
pub fn self_test(lab: &Lab) -> Result<()> {
    lab.prepare(&Userland::ALL)?;
    for userland in Userland::ALL {
        check(&format!("{userland} has CRIU {}", userland.criu()), || {
            let out = lab
                .vm(userland)
                .name(userland.suite())
                .run("criu --version && criu check")?;
            ensure!(
                out.code == 0,
                "Status {}: {}{}",
                out.code,
                out.stdout,
                out.stderr
            );
            ensure!(
                out.stdout.contains(userland.criu()),
                "CRIU is another: {}",
                out.stdout
            );
            Ok(())
        })?;
    }
    let vm = lab.vm(Userland::Trixie).data_disk_mib(4096).start()?;
    check("files go both ways", || files(&vm))?;
    check("output comes as lines, in parallel", || output(&vm))?;
    check(
        "a command past its time is killed with its children",
        || timeout(&vm),
    )?;
    check("the data disk is a disk", || {
        let out = vm.exec("findmnt -no SOURCE,FSTYPE /data", SHORT)?.ok()?;
        ensure!(out.stdout.trim().ends_with("ext4"), "It is {}", out.stdout);
        Ok(())
    })?;
    check("a kernel panic is seen", || panic(vm))?;
    check("two machines reach each other", || network(lab))
}

fn check(what: &str, test: impl FnOnce() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    test().with_context(|| format!("FAILED: {what}"))?;
    eprintln!(
        "[self-test] {what}: ok, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn files(vm: &Session) -> Result<()> {
    let contents: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(vm.path("there"), &contents)?;
    vm.exec(
        "cmp /host/there <(cat /host/there) && cp /host/there /host/back",
        SHORT,
    )?
    .ok()?;
    ensure!(
        fs::read(vm.path("back"))? == contents,
        "The file came back changed"
    );
    for n in 0..5 {
        fs::write(vm.path("again"), format!("host {n}"))?;
        let out = vm.exec("cat /host/again", SHORT)?.ok()?;
        ensure!(
            out.stdout == format!("host {n}"),
            "The machine sees {:?}",
            out.stdout
        );
        vm.exec(&format!("echo guest {n} > /host/answer"), SHORT)?
            .ok()?;
        let seen = fs::read_to_string(vm.path("answer"))?;
        ensure!(seen == format!("guest {n}\n"), "The host sees {seen:?}");
    }
    fs::write(vm.path("tool"), "#!/bin/sh\necho it runs\n")?;
    vm.install(&vm.path("tool"), "/usr/local/bin/tool", 0o755)?;
    ensure!(vm.exec("tool", SHORT)?.ok()?.stdout == "it runs\n");
    Ok(())
}

fn output(vm: &Session) -> Result<()> {
    let slow = vm.spawn("sleep 1; echo slow")?;
    let mut seen = Vec::new();
    let script = "echo one; echo two >&2; sleep 0.2; printf three; exit 7";
    let out = vm.exec_with(script, SHORT, &mut |s, l| seen.push((s, l.to_owned())))?;
    ensure!(out.code == 7, "Status {}", out.code);
    ensure!(
        out.stdout == "one\nthree" && out.stderr == "two\n",
        "It printed {out:?}"
    );
    ensure!(
        seen.len() == 3 && seen.contains(&(Stream::Stderr, "two".to_owned())),
        "{seen:?}"
    );
    ensure!(
        vm.exec("kill -9 $$", SHORT)?.code == 137,
        "The signal is lost"
    );
    let big = vm
        .exec("head -c 20000000 /dev/zero | tr '\\0' x", SHORT)?
        .ok()?;
    ensure!(big.stdout.len() == 20_000_000, "{} bytes", big.stdout.len());
    let left = vm.exec("sleep 100 & echo left", SHORT)?.ok()?;
    ensure!(
        left.stdout == "left\n" && left.elapsed < Duration::from_secs(20),
        "{left:?}"
    );
    ensure!(slow.wait(SHORT)?.stdout == "slow\n");
    Ok(())
}

fn timeout(vm: &Session) -> Result<()> {
    let error = vm
        .exec("echo begun; sleep 321 | sleep 321", Duration::from_secs(1))
        .err()
        .context("It was not noticed")?;
    match error.downcast_ref() {
        Some(VmError::TimedOut { output, .. }) => ensure!(output == "begun", "Output {output:?}"),
        _ => return Err(error),
    }
    let left = vm.exec("pgrep -fx 'sleep 321'", SHORT)?;
    ensure!(left.code == 1, "Left behind: {}", left.stdout);
    Ok(())
}

fn panic(vm: Session) -> Result<()> {
    let error = vm
        .exec(
            "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 60",
            SHORT,
        )
        .err()
        .context("It was not noticed")?;
    match error.downcast_ref() {
        Some(VmError::Dead {
            reason, console, ..
        }) => {
            ensure!(reason.contains("Kernel panic"), "Reason {reason:?}");
            ensure!(console.contains("sysrq"), "Console {console:?}");
        }
        _ => return Err(error),
    }
    ensure!(
        !vm.is_alive() && vm.exec("true", SHORT).is_err(),
        "It lives"
    );
    drop(vm);
    Ok(())
}

fn network(lab: &Lab) -> Result<()> {
    let net = Net::new()?;
    let start = |n: u8| {
        lab.vm(Userland::Trixie)
            .name(&format!("node{n}"))
            .memory_mib(1024)
            .network(&net, n)
            .start()
    };
    let (a, b) = std::thread::scope(|s| {
        let other = s.spawn(|| start(1));
        (start(0), other.join())
    });
    let (a, b) = (a?, b.map_err(|_| anyhow::anyhow!("The thread panicked"))??);
    a.exec(&format!("ping -c 3 -i 0.2 {}", Net::address(1)), SHORT)?
        .ok()?;
    b.exec(
        &format!("ping -c 1 {} && ping -c 1 10.77.0.1", Net::address(0)),
        SHORT,
    )?
    .ok()?;
    let out = net
        .command("ping")
        .args(["-c", "1", "-w", "10", &Net::address(0)])
        .output();
    // The host may have no ping; machines are what has to reach each other.
    if let Ok(out) = out
        && out.status.code() != Some(127)
    {
        ensure!(
            out.status.success(),
            "The host's side does not reach a machine"
        );
    }
    b.close()?;
    a.close()
}
