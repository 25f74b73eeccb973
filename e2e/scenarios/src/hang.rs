//! What is known of a case that does not end.
//!
//! The report is made while everything still stands: it goes out line by line, since a machine that hangs may
//! not live to its end, and what disturbs the machine most comes last.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::proc;

/// Lines of each log that are shown.
const LOG_LINES: usize = 25;

/// Where programs, logs, the simulator and the machine's own clocks stand. Each part goes to `say` once it is
/// known.
pub(crate) fn report(case_dir: &Path, say: &dyn Fn(&str)) {
    let before = progress(case_dir);
    say("  the simulator:");
    for file in ["processes", "counters", "copies"] {
        let path = format!("/sys/kernel/debug/kfd-sim/{file}");
        let text = fs::read_to_string(path).unwrap_or_default();
        // Counters that stand at zero say nothing.
        let says = |line: &&str| file != "counters" || !line.ends_with(" 0");
        let lines: Vec<_> = text.lines().filter(says).collect();
        say(&indented(&tail(&lines.join("\n"), LOG_LINES)));
    }
    for path in logs(case_dir) {
        say(&format!("  end of {}:", path.display()));
        let text = fs::read(&path).unwrap_or_default();
        say(&indented(&tail(&String::from_utf8_lossy(&text), LOG_LINES)));
    }
    say("  threads:");
    say(&threads());
    say("  timers that are overdue, and interrupts of the timer:");
    say(&overdue(
        &fs::read_to_string("/proc/timer_list").unwrap_or_default(),
    ));
    for _ in 0..2 {
        say(&indented(&timer_interrupts()));
        sleep(Duration::from_secs(1));
    }
    say("  processors and work queues:");
    for letter in ["w", "l", "t"] {
        let known = kernel_log().lines().count();
        let _ = fs::write("/proc/sysrq-trigger", letter);
        let log = kernel_log();
        let new: Vec<_> = log.lines().skip(known).collect();
        // Everything about every task is too much; its end is about the work queues.
        let from = new
            .iter()
            .position(|line| letter == "t" && line.contains("Showing busy workqueues"));
        let from = from.unwrap_or(if letter == "t" { new.len() } else { 0 });
        say(&indented(&new[from..].join("\n")));
    }
    say("  ticks of programs and bytes of logs since the report began:");
    for (what, now) in progress(case_dir) {
        let then = before.get(&what).copied().unwrap_or(0);
        say(&format!("    {}: {}", what, now.saturating_sub(then)));
    }
}

/// What grows while something goes on: processor time of each program, in ticks, and the logs, in bytes.
fn progress(case_dir: &Path) -> BTreeMap<String, u64> {
    let programs = programs().into_iter().map(|(pid, command)| {
        let stat = stat(&format!("/proc/{pid}/stat"));
        let ticks = |at: usize| stat.get(at).and_then(|text| text.parse::<u64>().ok());
        let name = command.split(' ').next().unwrap_or_default();
        let used = ticks(UTIME).unwrap_or(0) + ticks(STIME).unwrap_or(0);
        (format!("{pid} {name}"), used)
    });
    let sizes = logs(case_dir).into_iter().map(|path| {
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        (path.display().to_string(), size)
    });
    programs.chain(sizes).collect()
}

/// All programs that run, with their command lines: threads of the kernel have none.
fn programs() -> Vec<(i32, String)> {
    let mut all = proc::all().unwrap_or_default();
    all.retain(|(_, command)| !command.is_empty());
    all
}

/// Places in what [`stat`] returns.
const STATE: usize = 0;
const UTIME: usize = 11;
const STIME: usize = 12;
const START: usize = 19;
const PROCESSOR: usize = 36;
/// `sysconf(_SC_CLK_TCK)` on every x86 Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The fields of a `stat` file behind the name, which may hold anything.
fn stat(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Seconds since a program began.
fn age(pid: i32) -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let now: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let start: f64 = stat(&format!("/proc/{pid}/stat"))
        .get(START)?
        .parse()
        .ok()?;
    Some(now - start / TICKS_PER_SECOND)
}

/// The kernel's messages so far.
pub(crate) fn kernel_log() -> String {
    std::process::Command::new("dmesg")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default()
}

/// Where the threads of all programs stand in the kernel: CRIU runs others, and waits for them.
fn threads() -> String {
    let mut text = String::new();
    for (pid, command) in programs() {
        let age = age(pid).unwrap_or(f64::NAN);
        let _ = writeln!(text, "    process {pid}, {age:.1} s old: {command}");
        for tid in proc::numbers(&format!("/proc/{pid}/task")).unwrap_or_default() {
            let read = |file: &str| {
                let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}"));
                text.unwrap_or_default().trim().to_owned()
            };
            let stat = stat(&format!("/proc/{pid}/task/{tid}/stat"));
            let field = |at: usize| stat.get(at).map_or("?", String::as_str);
            let _ = writeln!(
                text,
                "    {tid} {}: {}, processor {}, {}+{} ticks, syscall {}, in {}",
                read("comm"),
                field(STATE),
                field(PROCESSOR),
                field(UTIME),
                field(STIME),
                read("syscall"),
                read("wchan"),
            );
            text += &indented(&indented(&read("stack")));
            text.push('\n');
        }
    }
    text
}

/// Logs in the folder of a case and one level below.
fn logs(dir: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten();
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect()
    };
    let mut found: Vec<_> = entries(dir)
        .into_iter()
        .flat_map(|path| {
            let below = entries(&path);
            below.into_iter().chain([path])
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    found.sort();
    found
}

/// Of the kernel's list of timers those that should have fired, with their processor, and what each
/// processor waits for next.
fn overdue(list: &str) -> String {
    let mut text = String::new();
    let mut timer = "";
    for line in list.lines() {
        let line = line.trim();
        if line.starts_with("cpu:")
            || line.starts_with("now at")
            || line.starts_with(".expires_next")
            || line.starts_with(".next_event:")
            || line.starts_with(".idle_tick")
            || line.starts_with(".tick_stopped")
            || line.starts_with(".idle_expires")
        {
            let _ = writeln!(text, "    {line}");
        } else if line.starts_with('#') && line.contains('<') {
            timer = line;
        } else if line.starts_with("# expires") && line.contains("[in -") {
            let _ = writeln!(text, "    overdue: {timer} {line}");
        }
    }
    text
}

fn timer_interrupts() -> String {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| {
            let name = line.trim_start();
            name.starts_with("LOC") || name.starts_with("RES") || name.ends_with("timer")
        })
        .collect();
    lines.join("\n")
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn overdue_timers_are_found() {
        let list = "\
now at 7734266264 nsecs

cpu: 0
 clock 0:
active timers:
 #0: <0000000068ff5c72>, tick_nohz_handler, S:01
 # expires at 7736000000-7736000000 nsecs [in 1733736 to 1733736 nsecs]
 #1: <00000000fc63e976>, hrtimer_wakeup, S:01
 # expires at 7638264515-7638314515 nsecs [in -96001749 to -95951749 nsecs]
  .expires_next   : 7736000000 nsecs
";
        let text = super::overdue(list);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(lines[..2], ["now at 7734266264 nsecs", "cpu: 0"]);
        assert!(lines[2].starts_with("overdue: #1: <00000000fc63e976>, hrtimer_wakeup"));
        assert_eq!(lines[3], ".expires_next   : 7736000000 nsecs");
        assert_eq!(lines.len(), 4);
    }
}
