//! Tests that need a process of their own: with a small disk, a limit, or nobody else's memory in it.

use std::process::Command;

/// What tells a test that it runs in the child, and gives it its argument.
const VARIABLE: &str = "ROCFERRY_TEST_CHILD";

/// The argument that the parent gave, in the child.
pub(crate) fn argument() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Runs the test `name` of this program alone in a child that `wrapper` starts: a program and its arguments,
/// the command follows. Panics with what it printed when it fails.
pub(crate) fn run(name: &str, argument: &str, wrapper: &[&str]) {
    let program = std::env::current_exe().expect("own path");
    let mut command = match wrapper {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    let output = command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, argument)
        .output()
        .unwrap_or_else(|error| panic!("Cannot run {wrapper:?}: {error}"));
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{name} in a child:\n{text}");
    assert!(text.contains("1 passed"), "{name} did not run:\n{text}");
}

/// Runs a test of this program alone in a child and returns what came of it. `wrapper`: variables (`NAME=value`),
/// then perhaps a program with its arguments.
pub(crate) fn output(name: &str, argument: &str, wrapper: &[String]) -> std::process::Output {
    let program = std::env::current_exe().expect("own path");
    let mut command = Command::new("env");
    command.args(wrapper).arg(program);
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, argument)
        .output()
        .expect("child")
}

/// The beginning of a wrapper that separates the command from the rest of the machine: `--net`, `--mount`.
pub(crate) fn alone(from: &[&str]) -> Vec<String> {
    let mut wrapper = vec!["unshare"];
    let root = std::fs::metadata("/proc/self").is_ok_and(|meta| {
        use std::os::unix::fs::MetadataExt;
        meta.uid() == 0
    });
    if !root {
        wrapper.extend(["--user", "--map-root-user"]);
    }
    wrapper.extend(from);
    wrapper.into_iter().map(str::to_owned).collect()
}

/// A wrapper that mounts a file system of this size over `dir` for the command alone.
pub(crate) fn small_disk(dir: &std::path::Path, mebibytes: u32) -> Vec<String> {
    let mut wrapper = alone(&["--mount"]);
    let script = format!("mount -t tmpfs -o size={mebibytes}m tmpfs \"$0\" && exec \"$@\"");
    wrapper.extend(["sh", "-c"].map(str::to_owned));
    wrapper.extend([script, dir.display().to_string()]);
    wrapper
}

/// The most memory that this process has had since [`forget_peak`], in KiB.
pub(crate) fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse().ok())
        .expect("VmHWM")
}

/// Makes the peak start again from what is in use now.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("clear_refs");
}
