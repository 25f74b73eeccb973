//! CRIU's own words.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a log that are looked through.
const MAX_LOG: u64 = 256 << 20;

/// Longest line that is kept, in bytes.
const MAX_LINE: usize = 500;

/// Most lines that are passed on.
const MAX_LINES: usize = 4;

/// The first errors in a log, the plugin's before CRIU's: what follows are their consequences. Empty if there are none, or no
/// log.
pub(crate) fn errors(log: &Path) -> String {
    let Ok(file) = File::open(log) else {
        return String::new();
    };
    let mut reader = BufReader::new(file.take(MAX_LOG));
    let (mut plugin, mut criu) = (Vec::new(), Vec::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        line.truncate(MAX_LINE);
        let text = String::from_utf8_lossy(&line);
        if let Some(words) = of_plugin(&text) {
            if plugin.len() < MAX_LINES {
                plugin.push(words.to_owned());
            }
            continue;
        }
        if !text.contains("Error (") && !text.contains("Error: ") {
            continue;
        }
        let list = match text.contains("amdgpu_plugin:") {
            true => &mut plugin,
            false => &mut criu,
        };
        if list.len() < MAX_LINES {
            list.push(words(&text).to_owned());
        }
    }
    plugin.extend(criu);
    plugin.truncate(MAX_LINES);
    plugin.join("; ")
}

/// Hooks in a restore: the plugin's errors begin with them (`plugin/src/guard.rs`), and CRIU puts nothing of its own before
/// what a plugin says.
const HOOKS: [&str; 3] = [
    "RESTORE_EXT_FILE: ",
    "UPDATE_VMA_MAP: ",
    "RESUME_DEVICES_LATE: ",
];

/// The plugin's own words about a hook that failed.
fn of_plugin(line: &str) -> Option<&str> {
    let (_, words) = line.split_once("amdgpu_plugin: ")?;
    let failed = HOOKS.iter().any(|hook| words.starts_with(hook));
    failed.then(|| words.trim())
}

/// A line without its time and place: `(00.012345)      1: Error (criu/files.c:12): text`.
fn words(line: &str) -> &str {
    let line = line.trim();
    let from = line.find("Error (").or_else(|| line.find("Error: "));
    let Some(line) = from.and_then(|from| line.get(from..)) else {
        return line;
    };
    match line.split_once("): ") {
        Some((_, text)) => text.trim(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_errors_first_and_the_plugins_before_all() {
        let dir = tempfile::tempdir().expect("folder");
        let log = dir.path().join("restore.log");
        assert_eq!(errors(&log), "");
        let text = "(00.000001) Version: 4.2\n\
            (00.1)      1: Error (criu/files.c:12): Can't open x: No such file\n\
            (00.2) Warn  (criu/x.c:1): amdgpu_plugin: no\n\
            (00.3)      1: Error (amdgpu_plugin.c:0): amdgpu_plugin: No GPU fits\n\
            (00.4) Error (criu/cr-restore.c:1): Restoring FAILED.\n";
        std::fs::write(&log, text).expect("log");
        assert_eq!(
            errors(&log),
            "amdgpu_plugin: No GPU fits; Can't open x: No such file; Restoring FAILED."
        );
        let text = "(00.1)      1: amdgpu_plugin: 1 GPUs in the checkpoint, 2 usable here\n\
            (00.2)      1: amdgpu_plugin: RESTORE_EXT_FILE: CRIU_OP RESTORE failed: Invalid argument\n\
            (00.3)      1: Error (criu/files-ext.c:53): Unable to restore 0xe\n";
        std::fs::write(&log, text).expect("log");
        assert_eq!(
            errors(&log),
            "RESTORE_EXT_FILE: CRIU_OP RESTORE failed: Invalid argument; Unable to restore 0xe"
        );
        std::fs::write(&log, [b"Error (".as_slice(), &[0xff; 100_000]].concat()).expect("log");
        assert!(errors(&log).len() < 2000);
    }
}
