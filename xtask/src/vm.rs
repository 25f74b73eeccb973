//! `cargo xtask vm`: a test machine to look around in.

use anyhow::Result;
use rocferry_vm::{Lab, Stream, Userland, Vm, self_test};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Root file system: bookworm (CRIU 3.17.1), trixie (4.1.1) or sid (4.2.1).
    #[arg(long, default_value = "sid")]
    userland: Userland,
    /// Load the simulator with this set of GPUs, and install the plugin. Sets: gfx90a-1 (-2, -4, -8), gfx8-1, vega20,
    /// mi210-pair, mi250, mi250x, mi300x-hive8, mi300x-cpx64, mi300a.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Further parameters of the simulator, as for insmod.
    #[arg(long, value_name = "WORDS", default_value = "", requires = "preset")]
    sim_args: String,
    /// Memory in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: u32,
    /// Folder of the host to see at /host.
    #[arg(long, value_name = "DIR")]
    share: Option<PathBuf>,
    /// Size of an empty disk at /data.
    #[arg(long, value_name = "MIB")]
    data: Option<u64>,
    /// Boot with systemd as process 1 (sid alone).
    #[arg(long, requires = "command")]
    systemd: bool,
    /// Seconds that a command may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Check the machines themselves: boot, files, failures, network.
    #[arg(long, exclusive = true)]
    self_test: bool,
    /// Command to run instead of a shell; its exit status becomes ours.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let lab = Lab::open()?;
    if args.self_test {
        self_test(&lab)?;
        return Ok(ExitCode::SUCCESS);
    }
    lab.prepare(&[args.userland])?;
    let mut vm = lab.vm(args.userland).memory_mib(args.memory);
    if args.systemd {
        vm = vm.systemd();
    }
    if let Some(share) = &args.share {
        vm = vm.share(share);
    }
    if let Some(mib) = args.data {
        vm = vm.data_disk_mib(mib);
    }
    let sim = match &args.preset {
        Some(preset) => Some((
            lab.kfd_sim()?,
            lab.plugin_so()?,
            format!("preset={preset} {}", args.sim_args),
        )),
        None => None,
    };
    eprintln!("[vm] starting a machine with {}", args.userland);
    let code = if args.command.is_empty() {
        shell(vm, sim)?
    } else {
        command(vm.timeout(Duration::from_secs(args.timeout)), sim, args)?
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}

/// The simulator's module, the plugin, the module's parameters.
type Sim = (PathBuf, PathBuf, String);

fn shell(vm: Vm, sim: Option<Sim>) -> Result<i32> {
    match sim {
        None => vm.shell("", &[]),
        Some((ko, so, parameters)) => {
            let setup = format!(
                "modprobe -a $(modinfo -F depends /host/amdgpu.ko | tr , ' ')\n\
                 insmod /host/amdgpu.ko {parameters}\n\
                 install -D -m 644 /host/amdgpu_plugin.so /usr/lib/criu/amdgpu_plugin.so\n"
            );
            vm.shell(&setup, &[(&ko, "amdgpu.ko"), (&so, "amdgpu_plugin.so")])
        }
    }
}

fn command(vm: Vm, sim: Option<Sim>, args: &Args) -> Result<i32> {
    let session = vm.start()?;
    if let Some((ko, so, parameters)) = sim {
        session.load_kfd_sim(&ko, &parameters)?;
        session.install_plugin(&so)?;
    }
    // One word is a script, several are a program with its arguments.
    let script = match args.command.as_slice() {
        [script] => script.clone(),
        words => words
            .iter()
            .map(|w| quoted(w))
            .collect::<Vec<_>>()
            .join(" "),
    };
    let timeout = Duration::from_secs(args.timeout);
    let out = session.exec_with(&script, timeout, &mut |stream, line| match stream {
        Stream::Stdout => println!("{line}"),
        Stream::Stderr => eprintln!("{line}"),
    })?;
    session.close()?;
    Ok(out.code)
}

/// A word as the shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
