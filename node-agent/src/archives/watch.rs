//! Looking for archives, for as long as the daemon runs.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::{Identity, is_written, list};
use super::notes::{Note, Notes};
use super::take::{Taken, take};
use crate::counters::{Counters, add_one};
use crate::error::{Error, causes};
use crate::journal::now_ms;
use crate::settings::{Afterwards, ArchiveRule};

/// Where archives go that are refused, below the folder that they were in.
const ASIDE: &str = "rocferry-damaged";
/// How long until what could not be stored is tried again, at first and at most.
const AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

/// What the daemon knows of the folders.
#[derive(Debug)]
pub(crate) struct Watcher {
    rules: Vec<ArchiveRule>,
    notes: Notes,
    counters: Counters,
    spool: PathBuf,
    /// As they were at the last look: what has changed since is not complete.
    seen: HashMap<PathBuf, Identity>,
    /// Those that could not be stored, and when they are tried again.
    waiting: HashMap<PathBuf, (Instant, Duration)>,
}

impl Watcher {
    pub(crate) fn new(rules: Vec<ArchiveRule>, state: &Path, spool: PathBuf) -> Self {
        Self {
            rules,
            notes: Notes::new(state),
            counters: Counters::new(state),
            spool,
            seen: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Looks for ever.
    pub(crate) async fn run(mut self, interval: Duration) {
        loop {
            self.turn().await;
            tokio::time::sleep(interval).await;
        }
    }

    /// One look into all folders.
    pub(crate) async fn turn(&mut self) {
        for rule in self.rules.clone() {
            match list(&rule.folder) {
                Ok(files) => {
                    for path in files {
                        self.file(&rule, path).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, folder = %rule.folder.display(), "Archives are not looked for");
                }
            }
        }
        self.seen.retain(|path, _| path.exists());
        self.waiting.retain(|path, _| path.exists());
        self.notes.tidy();
    }

    async fn file(&mut self, rule: &ArchiveRule, path: PathBuf) {
        let Some(identity) = Identity::at(&path) else {
            return;
        };
        let id = identity.checkpoint(&path);
        if let Some(note) = self.notes.get(&id) {
            expire(rule, &path, &note);
            return;
        }
        let before = self.seen.insert(path.clone(), identity.clone());
        let waits = self.waiting.get(&path);
        let early = waits.is_some_and(|(until, _)| Instant::now() < *until);
        if before.as_ref() != Some(&identity) || early || is_written(&identity) {
            return;
        }
        let taken = take(rule, &path, &identity, &id, &self.spool).await;
        let done = taken.and_then(|taken| match taken {
            Taken::Stored { bytes, sent } => {
                let taken_ms = now_ms();
                let note = Note {
                    path: path.clone(),
                    identity,
                    taken_ms,
                };
                self.notes.put(&id, &note)?;
                tracing::info!(archive = %path.display(), checkpoint = %id, bytes, sent, "Archive taken");
                self.count("taken");
                expire(rule, &path, &note);
                Ok(())
            }
            Taken::Changed => Ok(()),
            Taken::Damaged(reason) => {
                tracing::error!(archive = %path.display(), reason, "Archive set aside");
                set_aside(&path, &reason)?;
                self.count("set_aside");
                Ok(())
            }
        });
        match done {
            Ok(()) => {
                self.waiting.remove(&path);
            }
            Err(error) => {
                let [first, most] = AGAIN;
                let wait = self.waiting.get(&path);
                let wait = wait.map_or(first, |(_, wait)| (*wait * 2).min(most));
                tracing::error!(
                    archive = %path.display(),
                    error = causes(&error),
                    again_s = wait.as_secs(),
                    "Archive not taken"
                );
                self.count(&format!("failed:{}", error.word()));
                self.waiting.insert(path, (Instant::now() + wait, wait));
            }
        }
    }

    fn count(&self, word: &str) {
        self.counters
            .count(|counts| add_one(&mut counts.archives, word));
    }
}

/// Removes an archive whose time is over, if it is still the one that was taken.
fn expire(rule: &ArchiveRule, path: &Path, note: &Note) {
    let Afterwards::DeleteAfter(time) = rule.afterwards else {
        return;
    };
    let age = Duration::from_millis(now_ms().saturating_sub(note.taken_ms));
    if age < time || Identity::at(path).as_ref() != Some(&note.identity) {
        return;
    }
    match fs::remove_file(path) {
        Ok(()) => tracing::info!(archive = %path.display(), "Archive removed: it is in the store"),
        Err(error) => tracing::warn!(%error, archive = %path.display(), "Archive stays"),
    }
}

/// Moves an archive out of the way, with the reason beside it.
fn set_aside(path: &Path, reason: &str) -> Result<(), Error> {
    let failed = |source| Error::WriteFile {
        path: path.to_owned(),
        source,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let aside = folder.join(ASIDE);
    fs::create_dir_all(&aside).map_err(failed)?;
    let mut beside = name.to_owned();
    beside.push(".reason");
    fs::write(aside.join(beside), format!("{reason}\n")).map_err(failed)?;
    fs::rename(path, aside.join(name)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self {
                dir: tempfile::tempdir().expect("a folder"),
            };
            for name in ["in", "state/spool", "store"] {
                fs::create_dir_all(place.path(name)).expect("made");
            }
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn watcher(&self, afterwards: Afterwards) -> Watcher {
            let rule = ArchiveRule {
                folder: self.path("in"),
                store: format!("file://{}", self.path("store").display()),
                tenant: "default".to_owned(),
                identity: Vec::new(),
                recipients: Vec::new(),
                key_file: Vec::new(),
                sign: None,
                afterwards,
            };
            Watcher::new(vec![rule], &self.path("state"), self.path("state/spool"))
        }

        fn counted(&self, word: &str) -> u64 {
            let counts = Counters::new(&self.path("state")).read();
            counts.archives.get(word).copied().unwrap_or(0)
        }

        /// Names of the checkpoints in the store.
        fn stored(&self) -> usize {
            let mut found = 0;
            let mut waiting = vec![self.path("store")];
            while let Some(dir) = waiting.pop() {
                for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                    let path = entry.path();
                    let of = path.parent().and_then(Path::file_name);
                    if path.is_dir() {
                        waiting.push(path);
                    } else if of.is_some_and(|name| name == "checkpoints") {
                        found += 1;
                    }
                }
            }
            found
        }
    }

    fn archive() -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in [
            ("config.dump", b"{\"id\":\"a\"}".as_slice()),
            ("spec.dump", b"{}"),
            ("checkpoint/inventory.img", b"inventory"),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, content).expect("memory");
        }
        tar.into_inner().expect("memory")
    }

    #[tokio::test]
    async fn a_complete_archive_is_taken_once_whoever_asks() {
        let place = Place::new();
        let path = place.path("in/a.tar");
        let mut watcher = place.watcher(Afterwards::Keep);
        let file = fs::File::create(&path).expect("made");
        fs::write(&path, archive()).expect("written");
        for _ in 0..3 {
            watcher.turn().await;
        }
        assert_eq!(place.stored(), 0, "it is open for writing");
        drop(file);
        watcher.turn().await;
        assert_eq!((place.stored(), place.counted("taken")), (1, 1));
        watcher.turn().await;
        // Another agent, which was killed before it could note it.
        fs::remove_dir_all(place.path("state/archives")).expect("removed");
        let mut again = place.watcher(Afterwards::Keep);
        for _ in 0..3 {
            again.turn().await;
        }
        assert_eq!((place.stored(), place.counted("taken")), (1, 2));
        assert!(path.exists());
        // Another archive of the same name.
        fs::remove_file(&path).expect("removed");
        again.turn().await;
        let mut other = archive();
        other.extend([0; 512]);
        fs::write(&path, other).expect("written");
        for _ in 0..2 {
            again.turn().await;
        }
        assert_eq!(place.stored(), 2);
    }

    #[tokio::test]
    async fn one_that_is_not_to_stay_is_removed_in_time() {
        let place = Place::new();
        let path = place.path("in/a.tar");
        fs::write(&path, archive()).expect("written");
        let mut watcher = place.watcher(Afterwards::DeleteAfter(Duration::from_secs(3600)));
        for _ in 0..3 {
            watcher.turn().await;
        }
        assert!(path.exists() && place.stored() == 1);
        let mut watcher = place.watcher(Afterwards::DeleteAfter(Duration::ZERO));
        watcher.turn().await;
        assert!(!path.exists());
        watcher.turn().await;
        assert_eq!(place.stored(), 1);
        let notes = fs::read_dir(place.path("state/archives")).expect("there");
        assert_eq!(notes.count(), 0);
    }

    #[tokio::test]
    async fn a_damaged_one_is_set_aside_with_the_reason_and_others_are_taken() {
        let place = Place::new();
        let whole = archive();
        let cut = whole.get(..whole.len() / 2).expect("half");
        fs::write(place.path("in/a.tar"), cut).expect("written");
        fs::write(place.path("in/b.tar"), &whole).expect("written");
        fs::write(place.path("in/c.tar.zst"), b"\x28\xb5\x2f\xfdbroken").expect("written");
        let mut watcher = place.watcher(Afterwards::Keep);
        for _ in 0..3 {
            watcher.turn().await;
        }
        assert_eq!((place.stored(), place.counted("set_aside")), (1, 2));
        let aside = place.path("in").join(ASIDE);
        for name in ["a.tar", "c.tar.zst"] {
            assert!(aside.join(name).exists() && !place.path("in").join(name).exists());
        }
        let reason = fs::read_to_string(aside.join("a.tar.reason")).expect("there");
        assert!(reason.contains("cut off"), "{reason}");
    }

    #[tokio::test]
    async fn without_a_store_it_waits_and_is_not_lost() {
        let place = Place::new();
        fs::write(place.path("in/a.tar"), archive()).expect("written");
        fs::remove_dir(place.path("store")).expect("removed");
        let mut watcher = place.watcher(Afterwards::DeleteAfter(Duration::ZERO));
        for _ in 0..3 {
            watcher.turn().await;
        }
        assert!(place.path("in/a.tar").exists());
        assert_eq!(place.counted("taken"), 0);
        let failed: u64 = Counters::new(&place.path("state"))
            .read()
            .archives
            .iter()
            .filter(|(word, _)| word.starts_with("failed:"))
            .map(|(_, count)| count)
            .sum();
        assert_eq!(failed, 1, "once, and then it waits");
        fs::create_dir(place.path("store")).expect("made");
        watcher.waiting.clear();
        watcher.turn().await;
        assert!(!place.path("in/a.tar").exists());
        assert_eq!(place.counted("taken"), 1);
    }
}
