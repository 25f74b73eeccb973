//! Running the program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program, in an environment without switches.
pub(crate) fn agent() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocferry-agent"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("KFD_")) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

pub(crate) fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    agent().args(args).output().expect("run").into()
}

pub(crate) fn show(root: &Path, more: &[&str]) -> Ended {
    let args = ["topology", "show", "--root"].map(OsStr::new);
    let more = more.iter().map(OsStr::new);
    run(args.into_iter().chain([root.as_os_str()]).chain(more))
}

pub(crate) fn check(from: &Path, to: &Path, more: &[&str]) -> Ended {
    check_with(&mut agent(), from, to, more)
}

/// The same in an environment of the caller's.
pub(crate) fn check_with(agent: &mut Command, from: &Path, to: &Path, more: &[&str]) -> Ended {
    agent.args(["topology", "check", "--from"]).arg(from);
    agent.arg("--to").arg(to).args(more);
    agent.output().expect("run").into()
}

/// Runs it with a bound on memory and time, and expects it to give up with status 2.
pub(crate) fn refuses(args: &[&OsStr]) -> Ended {
    let begun = Instant::now();
    let mut shell = Command::new("sh");
    // KiB of address space.
    shell.args(["-c", "ulimit -v 200000; exec \"$0\" \"$@\""]);
    shell.arg(env!("CARGO_BIN_EXE_rocferry-agent")).args(args);
    let ended: Ended = shell.stdin(Stdio::null()).output().expect("run").into();
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    ended
}

/// Compares with a file in `tests/golden`, or writes it where `ROCFERRY_BLESS` is set.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("ROCFERRY_BLESS").is_some() {
        std::fs::write(&path, actual).expect("golden file");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "{name} is now (ROCFERRY_BLESS=1 writes it down):\n{actual}\nand was:\n{expected}"
    );
}
