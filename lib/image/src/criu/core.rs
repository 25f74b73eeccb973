//! What a thread may do: `core-%u.img`.

use crate::walk::{decode, required};
use crate::wire::{CoreEntry, CredsEntry};
use crate::{FormatError, ImageDir, ImageError, names};

use super::entries::entries;

/// `CORE_MAGIC`.
const CORE_MAGIC: u32 = 0x5505_3847;

const CORE: &str = "core_entry";
const CREDS: &str = "creds_entry";

/// `task_state` of processes that have ended and were not waited for: `TASK_DEAD`, and `TASK_ZOMBIE` of later versions.
const ENDED: [u32; 2] = [2, 6];

/// A set of capabilities: bit `n` is capability `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

/// What a thread may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its identity and capabilities.
    pub credentials: Credentials,
    /// What bounds its system calls; of a thread that is not its process's first also absent if it has the first one's
    /// filters ([`super::Filters`]).
    pub seccomp: Option<Seccomp>,
}

/// What bounds the system calls of a thread: `seccomp_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// `SECCOMP_MODE_STRICT`: hardly any.
    Strict,
    /// `SECCOMP_MODE_FILTER`: this filter, and those before it. A number in [`super::Filters`].
    Filter(u32),
}

/// Identity and capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Real, effective, saved and file system user.
    pub uids: [u32; 4],
    /// Real, effective, saved and file system group.
    pub gids: [u32; 4],
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Inheritable capabilities.
    pub inheritable: Capabilities,
    /// Permitted ones.
    pub permitted: Capabilities,
    /// Effective ones.
    pub effective: Capabilities,
    /// The bounding set.
    pub bounding: Capabilities,
    /// Ambient ones.
    pub ambient: Capabilities,
    /// `no_new_privs` is set.
    pub no_new_privs: bool,
    /// Profile of a security module, as `apparmor:NAME` or `selinux:LABEL`.
    pub lsm_profile: Option<String>,
}

/// Reads that of a thread; `None` for one that has ended.
///
/// # Errors
/// A file that is missing, cannot be read or is damaged.
pub fn thread(dir: &dyn ImageDir, tid: u32) -> Result<Option<Thread>, ImageError> {
    let name = names::core(tid);
    let mut found: Option<Option<Thread>> = None;
    entries(dir, &name, CORE_MAGIC, |index, content| {
        // CRIU reads the first one.
        if index == 0 {
            found = Some(decode_thread(content)?);
        }
        Ok(())
    })?;
    let missing = FormatError::MissingField {
        message: CORE,
        index: None,
        field: "core_entry",
    };
    found.ok_or_else(|| ImageError::format(&name)(missing))
}

fn decode_thread(content: &[u8]) -> Result<Option<Thread>, FormatError> {
    let entry: CoreEntry = decode(CORE, content)?;
    let state = entry.tc.and_then(|task| task.task_state);
    let Some(thread) = entry.thread_core else {
        return match state {
            Some(state) if ENDED.contains(&state) => Ok(None),
            _ => required(CORE, None, "thread_core", None),
        };
    };
    let creds = required(CORE, None, "creds", thread.creds)?;
    Ok(Some(Thread {
        credentials: credentials(creds)?,
        seccomp: seccomp(thread.seccomp_mode, thread.seccomp_filter)?,
    }))
}

fn seccomp(mode: Option<u32>, filter: Option<u32>) -> Result<Option<Seccomp>, FormatError> {
    match mode.unwrap_or_default() {
        0 => Ok(None),
        1 => Ok(Some(Seccomp::Strict)),
        _ => {
            let filter = required(CORE, None, "seccomp_filter", filter)?;
            Ok(Some(Seccomp::Filter(filter)))
        }
    }
}

fn credentials(entry: CredsEntry) -> Result<Credentials, FormatError> {
    let need = |field, value| required(CREDS, None, field, value);
    Ok(Credentials {
        uids: [
            need("uid", entry.uid)?,
            need("euid", entry.euid)?,
            need("suid", entry.suid)?,
            need("fsuid", entry.fsuid)?,
        ],
        gids: [
            need("gid", entry.gid)?,
            need("egid", entry.egid)?,
            need("sgid", entry.sgid)?,
            need("fsgid", entry.fsgid)?,
        ],
        groups: entry.groups,
        inheritable: set("cap_inh", &entry.cap_inh)?,
        permitted: set("cap_prm", &entry.cap_prm)?,
        effective: set("cap_eff", &entry.cap_eff)?,
        bounding: set("cap_bnd", &entry.cap_bnd)?,
        ambient: set("cap_amb", &entry.cap_amb)?,
        no_new_privs: entry.no_new_privs.unwrap_or_default() != 0,
        lsm_profile: entry.lsm_profile.filter(|profile| !profile.is_empty()),
    })
}

/// Words of 32 bits, the lowest first.
fn set(field: &'static str, words: &[u32]) -> Result<Capabilities, FormatError> {
    match words {
        [] => Ok(Capabilities(0)),
        [low] => Ok(Capabilities(u64::from(*low))),
        [low, high] => Ok(Capabilities(u64::from(*low) | u64::from(*high) << 32)),
        _ => Err(FormatError::TooMany { field, limit: 2 }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use prost::Message;
    use tempfile::TempDir;

    use super::super::entries::{COMMON_MAGIC, image};
    use super::*;
    use crate::FdDir;
    use crate::wire::{TaskCoreEntry, ThreadCoreEntry};

    fn read(content: &[u8]) -> Result<Option<Thread>, ImageError> {
        let temporary = TempDir::new().expect("directory");
        fs::write(temporary.path().join("core-7.img"), content).expect("file");
        thread(&FdDir(File::open(temporary.path()).expect("directory")), 7)
    }

    fn creds() -> CredsEntry {
        CredsEntry {
            uid: Some(0),
            gid: Some(1),
            euid: Some(2),
            egid: Some(3),
            suid: Some(4),
            sgid: Some(5),
            fsuid: Some(6),
            fsgid: Some(7),
            cap_bnd: vec![1 << 21, 1],
            groups: vec![8, 9],
            lsm_profile: Some("apparmor:p".to_owned()),
            no_new_privs: Some(1),
            cap_amb: vec![3],
            ..CredsEntry::default()
        }
    }

    fn core(state: u32, creds: Option<CredsEntry>) -> Vec<u8> {
        let entry = CoreEntry {
            tc: Some(TaskCoreEntry {
                task_state: Some(state),
            }),
            thread_core: creds.map(|creds| ThreadCoreEntry {
                creds: Some(creds),
                seccomp_mode: Some(2),
                seccomp_filter: Some(6),
            }),
        };
        image(&[COMMON_MAGIC, CORE_MAGIC], &[entry.encode_to_vec()])
    }

    #[test]
    fn what_a_thread_may_do_is_read() {
        let found = read(&core(1, Some(creds())))
            .expect("image")
            .expect("alive");
        assert_eq!(found.seccomp, Some(Seccomp::Filter(6)));
        let found = found.credentials;
        assert_eq!((found.uids, found.gids), ([0, 2, 4, 6], [1, 3, 5, 7]));
        assert_eq!(found.bounding, Capabilities(1 << 21 | 1 << 32));
        assert_eq!(
            (found.ambient, found.permitted),
            (Capabilities(3), Capabilities(0))
        );
        assert!(found.no_new_privs && found.groups == [8, 9]);
        assert_eq!(found.lsm_profile.as_deref(), Some("apparmor:p"));
    }

    #[test]
    fn a_filter_has_a_number() {
        assert_eq!(seccomp(None, Some(1)).expect("none"), None);
        assert_eq!(seccomp(Some(0), None).expect("none"), None);
        let strict = seccomp(Some(1), None).expect("strict");
        assert_eq!(strict, Some(Seccomp::Strict));
        seccomp(Some(2), None).expect_err("which one?");
    }

    #[test]
    fn only_the_dead_may_have_no_credentials() {
        for dead in ENDED {
            assert_eq!(read(&core(dead, None)).expect("image"), None);
        }
        for alive in [0, 1, 3, 4, 7] {
            read(&core(alive, None)).expect_err("alive");
        }
        let mut nobody = creds();
        nobody.fsuid = None;
        read(&core(1, Some(nobody))).expect_err("no fsuid");
        let mut many = creds();
        many.cap_eff = vec![0, 0, 1];
        read(&core(1, Some(many))).expect_err("more than there are");
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let good = core(1, Some(creds()));
        for cut in 0..good.len() {
            read(&good[..cut]).expect_err("cut off");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = read(&bad);
            }
        }
    }
}
