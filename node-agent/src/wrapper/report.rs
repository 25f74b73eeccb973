//! Words that reach the user: what is at the end of the runtime's log becomes the engine's error.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::arguments::Arguments;

/// How much it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// The command goes on.
    Warning,
    /// It fails.
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where the runtime was told to write its log, and how.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    file: Option<PathBuf>,
    json: bool,
}

impl Report {
    /// As the command line says.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let file = arguments.global("log").and_then(|log| {
            // crun's ways to write it; its other logs are no files.
            let text = log.to_str().unwrap_or_default();
            match text.split_once(':') {
                Some(("file", path)) => Some(PathBuf::from(path)),
                Some(("journald" | "syslog", _)) => None,
                _ => Some(PathBuf::from(log)),
            }
        });
        Self {
            file,
            json: arguments.global("log-format") == Some(OsStr::new("json")),
        }
    }

    /// The last error in the log, which is the runtime's.
    pub(crate) fn last_error(&self) -> Option<String> {
        let mut file = File::open(self.file.as_ref()?).ok()?;
        let length = file.metadata().ok().filter(Metadata::is_file)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_TAIL)))
            .ok()?;
        let mut tail = Vec::new();
        file.take(MAX_TAIL).read_to_end(&mut tail).ok()?;
        last_error(&String::from_utf8_lossy(&tail))
    }

    /// Says it. An error goes to standard error as well, where there is no log.
    pub(crate) fn say(&self, level: Level, text: &str) {
        let line = line(self.json, level, text, SystemTime::now());
        let logged = self.file.as_ref().is_some_and(|file| {
            // A pipe without a reader must not stop us; nor is a log the way to any file that somebody has linked.
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o644);
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
            let file = options.open(file);
            file.and_then(|mut file| file.write_all(line.as_bytes()))
                .is_ok()
        });
        if !logged && matches!(level, Level::Error) {
            let _ = writeln!(io::stderr().lock(), "rocferry-runc: {}", one_line(text));
        }
    }
}

/// How much of a log's end is looked at, in bytes.
const MAX_TAIL: u64 = 64 << 10;

fn last_error(log: &str) -> Option<String> {
    log.lines().rev().find_map(|line| {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(line) {
            let is_error = value.get("level")?.as_str()? == "error";
            return is_error.then(|| value.get("msg")?.as_str().map(str::to_owned))?;
        }
        let (_, text) = line.split_once("level=error msg=")?;
        Some(text.trim_matches('"').to_owned())
    })
}

/// As runc and crun write it.
fn line(json: bool, level: Level, text: &str, at: SystemTime) -> String {
    let time = time(at);
    let text = format!("rocferry: {}", one_line(text));
    let level = level.word();
    match json {
        true => {
            let value = serde_json::json!({ "level": level, "msg": text, "time": time });
            format!("{value}\n")
        }
        false => format!("time=\"{time}\" level={level} msg={text:?}\n"),
    }
}

/// Longest text that is passed on, in characters: it ends in a pod's status.
const LONGEST: usize = 3000;

fn one_line(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(LONGEST).collect()
}

/// RFC 3339, UTC, whole seconds.
fn time(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        (year, left) = (year + 1, left - length);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        (month, left) = (month + 1, left - length);
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let day = left + 1;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_are_what_engines_read() {
        let at = UNIX_EPOCH + Duration::from_secs(1_796_083_200 + 3661);
        assert_eq!(time(at), "2026-12-01T01:01:01Z");
        assert_eq!(time(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        assert_eq!(
            time(UNIX_EPOCH + Duration::from_secs(951_782_400)),
            "2000-02-29T00:00:00Z"
        );
        let text = line(true, Level::Error, "a \"b\"\nc\u{1b}", at);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["level"], "error");
        assert_eq!(value["msg"], "rocferry: a \"b\" c ");
        assert_eq!(text.matches('\n').count(), 1);
        assert!(line(false, Level::Warning, "x", at).contains("level=warning msg=\"rocferry: x\""));
    }

    #[test]
    fn the_runtimes_last_error_is_found() {
        let json = r#"{"level":"error","msg":"first"}
{"level":"error","msg":"openat2 x: \"no\""}
{"level":"warning","msg":"w"}
{"half"#;
        assert_eq!(last_error(json).as_deref(), Some("openat2 x: \"no\""));
        let text = "time=\"t\" level=warning msg=w\ntime=\"t\" level=error msg=\"it is so\"\n";
        assert_eq!(last_error(text).as_deref(), Some("it is so"));
        assert_eq!(last_error("nothing\n[]\n7"), None);
    }

    #[test]
    fn it_lands_in_the_log_that_was_named() {
        let dir = tempfile::tempdir().expect("folder");
        let log = dir.path().join("log.json");
        for words in [
            vec![
                "--log".into(),
                log.clone().into_os_string(),
                "create".into(),
            ],
            vec![
                format!("--log=file:{}", log.display()).into(),
                "create".into(),
            ],
        ] {
            let arguments = Arguments::parse(super::super::flags::Family::Crun, words);
            Report::new(&arguments).say(Level::Error, "reason");
            let text = std::fs::read_to_string(&log).expect("log");
            assert!(text.contains("reason"));
            std::fs::remove_file(&log).expect("gone");
        }
    }
}
