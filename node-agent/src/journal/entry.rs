//! The journal's folder, and a record in it that is being worked on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};

use super::record::VERSION;
use super::{After, JournalError, Phase, PodParts, Record, Subject, Work};
use crate::process;

/// Largest record, in bytes.
const MAX_RECORD: u64 = 1 << 20;

/// How long a lock may be in the way that somebody took only to look.
const LOOK: Duration = Duration::from_secs(1);

/// Endings of the files that lie beside a record: what the answering of probes says, and what it needs.
pub(crate) const BESIDE: [&str; 2] = ["answers", "containers"];

/// The folder.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Folder with everything that the agent keeps on this node.
    state: PathBuf,
}

impl Journal {
    /// Below this folder, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(state: &Path) -> Result<Self, JournalError> {
        let journal = Self {
            state: state.to_owned(),
        };
        for dir in [journal.records(), journal.spool()] {
            fs::create_dir_all(&dir).map_err(file("make", &dir))?;
        }
        Ok(journal)
    }

    /// Folder with everything that the agent keeps on this node.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    fn records(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// Where images lie while they are written and read.
    #[must_use]
    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    /// Writes a new record. `spooled`: it gets a folder of its own, empty.
    ///
    /// # Errors
    /// [`JournalError::Busy`] if another agent works on the same container.
    pub fn begin(
        &self,
        work: Work,
        after: After,
        subject: Subject,
        spooled: bool,
    ) -> Result<Entry, JournalError> {
        self.begin_of(work, after, subject, None, spooled)
    }

    /// The same for a pod: nobody may work on one of its containers either.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_pod(
        &self,
        work: Work,
        after: After,
        subject: Subject,
        parts: PodParts,
        spooled: bool,
    ) -> Result<Entry, JournalError> {
        self.begin_of(work, after, subject, Some(parts), spooled)
    }

    fn begin_of(
        &self,
        work: Work,
        after: After,
        subject: Subject,
        pod: Option<PodParts>,
        spooled: bool,
    ) -> Result<Entry, JournalError> {
        let turn = self.turn()?;
        for (other, free) in self.list()? {
            let mut own = pod.iter().flat_map(|pod| &pod.parts);
            if !free && (other.concerns(&subject) || own.any(|part| other.concerns(&part.subject)))
            {
                return Err(JournalError::Busy {
                    name: subject.name,
                    work: format!("{} since record {}", other.work, other.id),
                });
            }
        }
        let spool = self.spool();
        let dir = tempfile::Builder::new()
            .prefix(&format!("{work}-"))
            .tempdir_in(&spool)
            .map_err(file("make", &spool))?;
        let id = dir.path().file_name().and_then(|name| name.to_str());
        let id = id.unwrap_or_default().to_owned();
        let boot_id = Path::new("/proc/sys/kernel/random/boot_id");
        let record = Record {
            version: VERSION,
            id,
            boot: process::boot_id().map_err(file("read", boot_id))?,
            begun_ms: now_ms(),
            subject,
            work,
            phase: Phase::Begun,
            after,
            was_frozen: false,
            spool: spooled.then(|| dir.path().to_owned()),
            checkpoint: None,
            members: Vec::new(),
            pod,
        };
        let lock = self.lock(&record.id)?.ok_or_else(|| JournalError::Busy {
            name: record.subject.name.clone(),
            work: record.work.to_string(),
        })?;
        let entry = Entry {
            journal: self.clone(),
            record,
            _lock: lock,
        };
        entry.write()?;
        if spooled {
            // From here on it is the record's.
            let _ = dir.keep();
        }
        drop(turn);
        Ok(entry)
    }

    /// One agent at a time looks and begins.
    fn turn(&self) -> Result<File, JournalError> {
        let path = self.records().join("lock");
        let lock = open_lock(&path)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| file("lock", &path)(errno.into()))?;
        Ok(lock)
    }

    /// Locks a record; `None` if somebody else works on it.
    fn lock(&self, id: &str) -> Result<Option<File>, JournalError> {
        let path = self.records().join(format!("{id}.lock"));
        let lock = open_lock(&path)?;
        let begun = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(lock)),
                // Who only looks has it for a moment, see `is_free`.
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < LOOK => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(file("lock", &path)(errno.into())),
            }
        }
    }

    /// Does nobody work on this record? Looking is shared: it is in nobody's way who looks as well, and for a moment only in
    /// that of one who takes the record.
    fn is_free(&self, id: &str) -> Result<bool, JournalError> {
        let path = self.records().join(format!("{id}.lock"));
        let lock = open_lock(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                // A child that was just forked may still have the file: closing alone would not end the lock.
                let _ = flock(&lock, FlockOperation::Unlock);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(file("lock", &path)(errno.into())),
        }
    }

    /// Takes a record over whose agent is gone; `None` if that one is still there, or the record is not.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn take(&self, id: &str) -> Result<Option<Entry>, JournalError> {
        let Some(lock) = self.lock(id)? else {
            return Ok(None);
        };
        let path = self.path(id);
        if !path.exists() {
            let _ = fs::remove_file(self.records().join(format!("{id}.lock")));
            return Ok(None);
        }
        Ok(Some(Entry {
            record: read(&path)?,
            journal: self.clone(),
            _lock: lock,
        }))
    }

    /// All records, the oldest first, and whether nobody works on them.
    ///
    /// # Errors
    /// The first one that cannot be read: none may be overlooked.
    pub fn list(&self) -> Result<Vec<(Record, bool)>, JournalError> {
        let dir = self.records();
        let mut list = Vec::new();
        for entry in fs::read_dir(&dir).map_err(file("read", &dir))? {
            let entry = entry.map_err(file("read", &dir))?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            match read(&entry.path()) {
                Ok(record) => list.push((record, self.is_free(id)?)),
                // Finished meanwhile.
                Err(JournalError::File { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        list.sort_by(|(a, _), (b, _)| (a.begun_ms, &a.id).cmp(&(b.begun_ms, &b.id)));
        Ok(list)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.records().join(format!("{id}.json"))
    }
}

/// A record that this process works on.
#[derive(Debug)]
pub struct Entry {
    journal: Journal,
    record: Record,
    _lock: File,
}

impl Entry {
    /// What it says.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Changes it. On the disk when this returns.
    ///
    /// # Errors
    /// [`JournalError`]; what is on the disk is as before then.
    pub fn change(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), JournalError> {
        let before = self.record.clone();
        change(&mut self.record);
        let written = self.write();
        if written.is_err() {
            self.record = before;
        }
        written
    }

    /// The next phase.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn advance(&mut self, phase: Phase) -> Result<(), JournalError> {
        self.change(|record| record.phase = phase)
    }

    /// A file of the record's own, beside it: what must outlive its images.
    #[must_use]
    pub fn beside(&self, ending: &str) -> PathBuf {
        self.journal
            .records()
            .join(format!("{}.{ending}", self.record.id))
    }

    /// All is done: removes its files, then the record.
    ///
    /// # Errors
    /// Something cannot be removed: then the record stays.
    pub fn finish(mut self) -> Result<(), JournalError> {
        self.remove_spool()?;
        let answering = self
            .record
            .pod
            .as_ref()
            .and_then(|pod| pod.answering.as_ref());
        if answering.is_some() {
            for ending in BESIDE {
                let _ = fs::remove_file(self.beside(ending));
            }
        }
        let path = self.journal.path(&self.record.id);
        fs::remove_file(&path).map_err(file("remove", &path))?;
        let _ = fs::remove_file(path.with_extension("lock"));
        sync(&self.journal.records())
    }

    /// Removes the files. The record stays.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove_spool(&mut self) -> Result<(), JournalError> {
        let Some(dir) = self.record.spool.clone() else {
            return Ok(());
        };
        // A record names no folder but its own.
        if dir.parent() != Some(&self.journal.spool()) {
            return Err(JournalError::Damaged {
                path: self.journal.path(&self.record.id),
                reason: format!("{} is not in the spool", dir.display()),
            });
        }
        match fs::remove_dir_all(&dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(file("remove", &dir)(source))
            }
            _ => Ok(()),
        }
    }

    fn write(&self) -> Result<(), JournalError> {
        let path = self.journal.path(&self.record.id);
        let dir = self.journal.records();
        let write = || -> io::Result<()> {
            let mut temporary = tempfile::Builder::new()
                .prefix(".record-")
                .tempfile_in(&dir)?;
            let mut text = serde_json::to_vec_pretty(&self.record)?;
            text.push(b'\n');
            temporary.write_all(&text)?;
            temporary.as_file().sync_all()?;
            temporary.persist(&path)?;
            Ok(())
        };
        write().map_err(file("write", &path))?;
        sync(&dir)
    }
}

fn read(path: &Path) -> Result<Record, JournalError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(file("read", path))?;
    opened
        .take(MAX_RECORD)
        .read_to_end(&mut bytes)
        .map_err(file("read", path))?;
    let damaged = |error: serde_json::Error| JournalError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    // The version first: a newer record may have other fields.
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    match version.and_then(|version| u32::try_from(version).ok()) {
        Some(version) if version > VERSION => Err(JournalError::Version {
            path: path.to_owned(),
            version,
            known: VERSION,
        }),
        _ => serde_json::from_value(value).map_err(damaged),
    }
}

fn open_lock(path: &Path) -> Result<File, JournalError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(file("make", path))
}

fn sync(dir: &Path) -> Result<(), JournalError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(file("write", dir))
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::File { what, path, source }
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::PodPart;
    use crate::runtime::RuntimeKind;

    fn subject(name: &str) -> Subject {
        Subject {
            runtime: RuntimeKind::Bare,
            name: name.to_owned(),
            id: name.to_owned(),
            init: None,
            cgroup: None,
            program: None,
            root: None,
        }
    }

    #[test]
    fn a_record_is_there_until_it_is_finished() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let mut entry = journal
            .begin(Work::Checkpoint, After::Stop, subject("7"), true)
            .expect("a record");
        entry.advance(Phase::Criu).expect("written");
        let spool = entry.record().spool.clone().expect("a folder");
        assert!(spool.is_dir());
        let list = journal.list().expect("it can be read");
        assert_eq!(list, vec![(entry.record().clone(), false)]);
        assert!(
            journal
                .take(&entry.record().id)
                .expect("no error")
                .is_none()
        );
        // As after a crash: the lock is gone, the record is not.
        let id = entry.record().id.clone();
        drop(entry);
        let entry = journal.take(&id).expect("no error").expect("it is free");
        assert_eq!(entry.record().phase, Phase::Criu);
        entry.finish().expect("removed");
        assert!(!spool.exists());
        assert_eq!(journal.list().expect("it can be read"), vec![]);
    }

    #[test]
    fn two_agents_do_not_work_on_one_container() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let begin = |name| journal.begin(Work::Freeze, After::KeepFrozen, subject(name), false);
        let first = begin("7").expect("a record");
        assert!(matches!(begin("7"), Err(JournalError::Busy { .. })));
        let other = begin("8").expect("another container");
        other.finish().expect("removed");
        first.finish().expect("removed");
        begin("7").expect("free again").finish().expect("removed");
        let spool = fs::read_dir(journal.spool()).expect("it is there");
        assert_eq!(spool.count(), 0);
    }

    #[test]
    fn who_looks_is_not_in_the_way() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let entry = journal
            .begin(Work::Freeze, After::KeepFrozen, subject("7"), false)
            .expect("a record");
        let id = entry.record().id.clone();
        drop(entry);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        journal.list().expect("it can be read");
                    }
                });
            }
            let taken = (0..100).all(|_| {
                let list = journal.list().expect("it can be read");
                list[0].1 && journal.take(&id).expect("no error").is_some()
            });
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(taken);
        });
    }

    #[test]
    fn a_pod_and_its_containers_are_not_worked_on_at_once() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let parts = || PodParts {
            parts: ["a", "b"]
                .map(|name| PodPart {
                    subject: subject(name),
                    was_frozen: false,
                })
                .into(),
            answering: None,
        };
        let alone = |name| journal.begin(Work::Freeze, After::KeepFrozen, subject(name), false);
        let whole = || {
            let (work, after) = (Work::Freeze, After::KeepFrozen);
            journal.begin_pod(work, after, subject("pod"), parts(), false)
        };
        let first = whole().expect("a record");
        for name in ["pod", "a", "b"] {
            assert!(
                matches!(alone(name), Err(JournalError::Busy { .. })),
                "{name}"
            );
        }
        alone("c").expect("another").finish().expect("removed");
        first.finish().expect("removed");
        let one = alone("b").expect("a record");
        assert!(matches!(whole(), Err(JournalError::Busy { .. })));
        one.finish().expect("removed");
        let record = whole().expect("a record").record().clone();
        let read = journal.list().expect("it can be read");
        assert_eq!(read, vec![(record, true)]);
    }

    #[test]
    fn records_of_the_version_before_are_read() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let text = r#"{"version":1,"id":"x","boot":"b","begun_ms":1,"subject":{"runtime":"runc","name":"c",
            "id":"c","init":null,"cgroup":"/sys/fs/cgroup/c","program":null,"root":null},"work":"freeze",
            "phase":"held","after":"keep-frozen","was_frozen":false,"spool":null,"checkpoint":null}"#;
        fs::write(journal.path("x"), text).expect("written");
        let list = journal.list().expect("it can be read");
        assert!(list[0].0.pod.is_none());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_not_overlooked() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        for (text, reason) in [
            ("{", "no record"),
            ("{\"version\": 3}", "version 3"),
            ("{\"version\": 1}", "no record"),
        ] {
            fs::write(journal.path("x"), text).expect("written");
            let error = journal.list().expect_err("damaged").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn nothing_outside_of_the_spool_is_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let mut entry = journal
            .begin(Work::Checkpoint, After::Stop, subject("7"), true)
            .expect("a record");
        entry
            .change(|record| record.spool = Some(elsewhere.path().to_owned()))
            .expect("written");
        assert!(matches!(entry.finish(), Err(JournalError::Damaged { .. })));
        assert!(elsewhere.path().is_dir());
    }
}
