//! Decisions on disk: they outlive the agent and the boot.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rule::{Decision, Source};
use crate::ticket::{PodUid, TicketError, TicketLock, read_bounded, remove_synced, write_whole};

/// Version of the format that is written, and the newest that is read.
const VERSION: u32 = 1;

const MAX_FILE: u64 = 64 << 10;

/// A decision that cannot be taken or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// The file.
    #[error(transparent)]
    File(#[from] TicketError),
    /// It was decided before, and otherwise.
    #[error("Pod {uid} is {decided:?}: that is decided once")]
    Decided {
        /// The pod.
        uid: PodUid,
        /// What was decided.
        decided: Decision,
    },
    /// What was known of the source is taken back.
    #[error("Pod {uid}: its source is {known:?}, and cannot become {wanted:?}")]
    Source {
        /// The pod.
        uid: PodUid,
        /// What is known.
        known: Source,
        /// What was brought.
        wanted: Source,
    },
}

/// What was brought here about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decided {
    version: u32,
    /// The decision.
    pub decision: Decision,
    /// What is known of the pod that it was moved from.
    #[serde(default)]
    pub source: Source,
}

impl Default for Decided {
    fn default() -> Self {
        Self {
            version: VERSION,
            decision: Decision::Undecided,
            source: Source::Unknown,
        }
    }
}

/// The folder with decisions.
#[derive(Clone, Debug)]
pub struct Decisions {
    folder: PathBuf,
}

impl Decisions {
    /// Below the agent's folder.
    #[must_use]
    pub fn below(state: &Path) -> Self {
        Self {
            folder: state.join("decisions"),
        }
    }

    /// What is known about a pod. One of which nothing was heard is undecided.
    ///
    /// # Errors
    /// A file that cannot be read, or makes no sense.
    pub fn of(&self, uid: &PodUid) -> Result<Decided, DecisionError> {
        let path = self.folder.join(file_name(uid));
        let Some(content) = read_bounded(&path, MAX_FILE)? else {
            return Ok(Decided::default());
        };
        let damaged = |reason| TicketError::Damaged {
            path: path.clone(),
            reason,
        };
        let decided: Decided =
            serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
        if decided.version != VERSION {
            let reason = format!("it has version {}", decided.version);
            return Err(damaged(reason).into());
        }
        Ok(decided)
    }

    /// Writes a decision down. On the disk when this returns. The same one may be brought again, with more about the source.
    ///
    /// # Errors
    /// It was decided otherwise; every failure to write.
    pub fn decide(
        &self,
        uid: &PodUid,
        decision: Decision,
        source: Source,
    ) -> Result<Decided, DecisionError> {
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.mode(0o700).recursive(true).create(&self.folder);
        made.map_err(TicketError::file("make", &self.folder))?;
        let _lock = TicketLock::take(&self.folder.join(format!("{uid}.lock")))?;
        let known = self.of(uid)?;
        if known.decision != Decision::Undecided && known.decision != decision {
            return Err(DecisionError::Decided {
                uid: uid.clone(),
                decided: known.decision,
            });
        }
        let source = match (known.source, source) {
            (known, Source::Unknown) => known,
            // Fenced first, and gone in the end.
            (Source::Unknown | Source::Fenced, new) => new,
            (known, new) if known == new => known,
            (known, wanted) => {
                let uid = uid.clone();
                return Err(DecisionError::Source { uid, known, wanted });
            }
        };
        let decided = Decided {
            version: VERSION,
            decision,
            source,
        };
        let text = serde_json::to_vec(&decided)
            .map_err(io::Error::other)
            .map_err(TicketError::file("encode", &self.folder))?;
        write_whole(&self.folder, &file_name(uid), &text)?;
        Ok(decided)
    }

    /// Forgets a pod that is not here any more.
    ///
    /// # Errors
    /// A file that stays.
    pub fn forget(&self, uid: &PodUid) -> Result<(), DecisionError> {
        remove_synced(&self.folder, &file_name(uid))?;
        Ok(remove_synced(&self.folder, &format!("{uid}.lock"))?)
    }
}

fn file_name(uid: &PodUid) -> String {
    format!("{uid}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid() -> PodUid {
        "u-1".parse().expect("uid")
    }

    #[test]
    fn decided_once_and_kept() {
        let dir = tempfile::tempdir().expect("folder");
        let decisions = Decisions::below(dir.path());
        assert_eq!(decisions.of(&uid()).expect("none"), Decided::default());
        let decide = |decision, source| decisions.decide(&uid(), decision, source);
        decide(Decision::Committed, Source::Unknown).expect("decided");
        decide(Decision::Aborted, Source::Unknown).expect_err("otherwise");
        decide(Decision::Undecided, Source::Unknown).expect_err("taken back");
        decide(Decision::Committed, Source::Fenced).expect("more is known");
        decide(Decision::Committed, Source::Gone).expect("gone in the end");
        decide(Decision::Committed, Source::Fenced).expect_err("back");
        decide(Decision::Committed, Source::Unknown).expect("said again");
        let known = decisions.of(&uid()).expect("read");
        assert_eq!(
            (known.decision, known.source),
            (Decision::Committed, Source::Gone)
        );
        decisions.forget(&uid()).expect("forgotten");
        assert_eq!(decisions.of(&uid()).expect("none"), Decided::default());
        decide(Decision::Aborted, Source::Unknown).expect("another life");
    }

    #[test]
    fn what_makes_no_sense_is_no_decision() {
        let dir = tempfile::tempdir().expect("folder");
        let decisions = Decisions::below(dir.path());
        std::fs::create_dir(dir.path().join("decisions")).expect("made");
        for bad in [
            "",
            "{}",
            r#"{"version":2,"decision":"Committed"}"#,
            r#"{"version":1,"decision":"committed"}"#,
            r#"{"version":1,"decision":"Committed","soruce":"Gone"}"#,
        ] {
            std::fs::write(dir.path().join("decisions/u-1.json"), bad).expect("written");
            decisions.of(&uid()).expect_err(bad);
            decisions
                .decide(&uid(), Decision::Committed, Source::Gone)
                .expect_err(bad);
        }
    }
}
