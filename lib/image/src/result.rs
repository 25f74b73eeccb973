//! What became of a restore.
//!
//! CRIU ignores the answer of the hook that resumes the GPU queues, so success of `criu restore` alone
//! proves nothing about them. Whoever started it reads this file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::frame::close_checked;
use crate::{FormatError, ImageError, names};

/// Version of the file's format.
pub const RESULT_VERSION: u32 = 1;

/// Far more than a file with every possible task.
const MAX_FILE: u64 = 64 << 20;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreResult {
    /// [`RESULT_VERSION`].
    pub version: u32,
    /// One for each process with GPU state.
    pub tasks: Vec<TaskResult>,
}

/// What became of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its pid in its innermost pid namespace.
    pub pid: u32,
    /// KFD accepted its objects (the RESTORE operation succeeded).
    pub restored: bool,
    /// The contents of all its buffer objects are in place and verified.
    pub contents: bool,
    /// Answer to the RESUME operation; `null` while it has not been sent.
    pub resume: Option<Resume>,
}

/// Answer to the RESUME operation: the text `ok`, or what went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The queues run.
    Ok,
    /// They do not.
    Failed(String),
}

impl Serialize for Resume {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ok => serializer.serialize_str("ok"),
            // A failure must never read as success.
            Self::Failed(text) if text == "ok" => serializer.serialize_str("failed"),
            Self::Failed(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Resume {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(if text == "ok" {
            Self::Ok
        } else {
            Self::Failed(text)
        })
    }
}

impl Default for RestoreResult {
    fn default() -> Self {
        Self {
            version: RESULT_VERSION,
            tasks: Vec::new(),
        }
    }
}

impl RestoreResult {
    /// Every process is restored with its contents and its queues run. False without any process.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !self.tasks.is_empty()
            && self
                .tasks
                .iter()
                .all(|task| task.restored && task.contents && task.resume == Some(Resume::Ok))
    }

    /// Writes [`names::RESULT`] into a directory, as a whole or not at all: a reader sees the old file or the
    /// new one. Not synced: a result is of no use after a crash of the machine.
    ///
    /// # Errors
    /// Every failure; the temporary file is removed.
    pub fn write(&self, dir: impl AsFd) -> Result<(), ImageError> {
        const TEMPORARY: &str = ".rocferry-result.json.tmp";
        let dir = dir.as_fd();
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(io::Error::other)
            .map_err(ImageError::io(names::RESULT, "encode"))?;
        text.push(b'\n');
        // A file left by a crash, whatever it is by now.
        match unlinkat(dir, TEMPORARY, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(ImageError::io(TEMPORARY, "remove")(error.into())),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = retry_on_intr(|| openat(dir, TEMPORARY, flags, mode))
            .map_err(|error| ImageError::io(TEMPORARY, "create")(error.into()))?;
        let mut file = File::from(fd);
        let written = file
            .write_all(&text)
            .map_err(ImageError::io(TEMPORARY, "write"))
            .and_then(|()| close_checked(file).map_err(ImageError::io(TEMPORARY, "close")))
            .and_then(|()| {
                renameat(dir, TEMPORARY, dir, names::RESULT)
                    .map_err(|error| ImageError::io(names::RESULT, "rename to")(error.into()))
            });
        if written.is_err() {
            // The first error is the one to report.
            let _ = unlinkat(dir, TEMPORARY, AtFlags::empty());
        }
        written
    }

    /// Removes [`names::RESULT`] from a directory, so that no earlier restore speaks for a later one. On success
    /// there is none, also on a file system that is read-only and never had one.
    ///
    /// # Errors
    /// A file that stays.
    pub fn remove(dir: impl AsFd) -> Result<(), ImageError> {
        let dir = dir.as_fd();
        let name = names::RESULT;
        let error = match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(error) => error,
        };
        // A read-only file system refuses before it looks.
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) | Err(_) => Err(ImageError::io(name, "remove")(error.into())),
        }
    }

    /// Reads [`names::RESULT`] from a directory; `None` when there is none.
    ///
    /// # Errors
    /// A file that cannot be read, is of a later version or no such JSON.
    pub fn read(dir: impl AsFd) -> Result<Option<Self>, ImageError> {
        let name = names::RESULT;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match retry_on_intr(|| openat(dir.as_fd(), name, flags, Mode::empty())) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(ImageError::io(name, "open")(error.into())),
        };
        let mut text = Vec::new();
        File::from(fd)
            .take(MAX_FILE + 1)
            .read_to_end(&mut text)
            .map_err(ImageError::io(name, "read"))?;
        let length = text.len() as u64;
        if length > MAX_FILE {
            return Err(ImageError::TooLarge {
                name: name.to_owned(),
                length,
                limit: MAX_FILE,
            });
        }
        let result: Self = serde_json::from_slice(&text)
            .map_err(|error| FormatError::Json {
                reason: error.to_string(),
            })
            .map_err(ImageError::format(name))?;
        if result.version != RESULT_VERSION {
            let (message, supported) = ("rocferry-result", RESULT_VERSION);
            let error = FormatError::Version {
                message,
                version: result.version,
                supported,
            };
            return Err(ImageError::format(name)(error));
        }
        Ok(Some(result))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn task(pid: u32, resume: Option<Resume>) -> TaskResult {
        TaskResult {
            pid,
            restored: true,
            contents: true,
            resume,
        }
    }

    #[test]
    fn results_come_back_and_replace_older_ones() {
        let temporary = TempDir::new().expect("directory");
        let dir = File::open(temporary.path()).expect("directory");
        assert_eq!(RestoreResult::read(&dir).expect("none"), None);
        let failed = Resume::Failed("Cannot resume queues: EBUSY \"x\"".to_owned());
        let mut result = RestoreResult {
            tasks: vec![
                task(7, Some(failed)),
                task(8, None),
                task(9, Some(Resume::Ok)),
            ],
            ..RestoreResult::default()
        };
        result.write(&dir).expect("written");
        assert_eq!(
            RestoreResult::read(&dir).expect("read"),
            Some(result.clone())
        );
        assert!(!result.is_success());
        // What a crash may have left does not matter.
        fs::write(temporary.path().join(".rocferry-result.json.tmp"), "half").expect("left over");
        result.tasks.truncate(0);
        result.tasks.push(task(9, Some(Resume::Ok)));
        result.write(&dir).expect("written");
        assert_eq!(
            RestoreResult::read(&dir).expect("read"),
            Some(result.clone())
        );
        assert!(result.is_success());
        assert_eq!(fs::read_dir(temporary.path()).expect("list").count(), 1);
    }

    #[test]
    fn the_format_stays() {
        let temporary = TempDir::new().expect("directory");
        let dir = File::open(temporary.path()).expect("directory");
        let tasks = vec![task(7, Some(Resume::Ok)), task(8, None)];
        RestoreResult {
            tasks,
            ..RestoreResult::default()
        }
        .write(&dir)
        .expect("written");
        let text = fs::read_to_string(temporary.path().join(names::RESULT)).expect("file");
        let words: String = text.split_whitespace().collect();
        assert_eq!(
            words,
            r#"{"version":1,"tasks":[{"pid":7,"restored":true,"contents":true,"resume":"ok"},{"pid":8,"restored":true,"contents":true,"resume":null}]}"#
        );
    }

    #[test]
    fn only_a_complete_restore_is_a_success() {
        let result = |task| RestoreResult {
            tasks: vec![task],
            ..RestoreResult::default()
        };
        assert!(result(task(1, Some(Resume::Ok))).is_success());
        assert!(!RestoreResult::default().is_success());
        assert!(!result(task(1, None)).is_success());
        assert!(!result(task(1, Some(Resume::Failed("no".to_owned())))).is_success());
        let one = task(1, Some(Resume::Ok));
        assert!(
            !result(TaskResult {
                restored: false,
                ..one.clone()
            })
            .is_success()
        );
        assert!(
            !result(TaskResult {
                contents: false,
                ..one
            })
            .is_success()
        );
    }

    #[test]
    fn an_old_result_is_removed() {
        let temporary = TempDir::new().expect("directory");
        let dir = File::open(temporary.path()).expect("directory");
        RestoreResult::default().write(&dir).expect("written");
        RestoreResult::remove(&dir).expect("removed");
        RestoreResult::remove(&dir).expect("none");
        assert_eq!(RestoreResult::read(&dir).expect("none"), None);
        fs::create_dir(temporary.path().join(names::RESULT)).expect("in the way");
        RestoreResult::remove(&dir).expect_err("stays");
        // No file can be removed here, and none of that name is there.
        RestoreResult::remove(File::open("/proc/self").expect("proc")).expect("none");
    }

    #[test]
    fn a_failure_never_reads_as_success() {
        let text = serde_json::to_string(&Resume::Failed("ok".to_owned())).expect("text");
        let back: Resume = serde_json::from_str(&text).expect("text");
        assert_eq!(back, Resume::Failed("failed".to_owned()));
    }

    #[test]
    fn damage_is_refused_and_nothing_is_left_behind() {
        let temporary = TempDir::new().expect("directory");
        let dir = File::open(temporary.path()).expect("directory");
        for (text, message) in [
            ("", "Invalid JSON"),
            ("{}", "Invalid JSON"),
            (r#"{"version":1,"tasks":[{"pid":1}]}"#, "Invalid JSON"),
            (
                r#"{"version":2,"tasks":[]}"#,
                "rocferry-result has format version 2",
            ),
        ] {
            fs::write(temporary.path().join(names::RESULT), text).expect("file");
            let ImageError::Format { source, .. } = RestoreResult::read(&dir).expect_err("damaged")
            else {
                panic!("{text}")
            };
            assert!(source.to_string().starts_with(message), "{source}");
        }
        fs::remove_file(temporary.path().join(names::RESULT)).expect("gone");
        fs::create_dir(temporary.path().join(names::RESULT)).expect("in the way");
        let error = RestoreResult::default()
            .write(&dir)
            .expect_err("a directory");
        assert_eq!(error.to_string(), "Cannot rename to rocferry-result.json");
        assert_eq!(fs::read_dir(temporary.path()).expect("list").count(), 1);
    }
}
