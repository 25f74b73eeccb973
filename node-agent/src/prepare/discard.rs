//! `rocferry-agent discard`: removes what was prepared and is not used.

use std::path::Path;

use super::folder::Restores;
use crate::cli::{Answer, Exit};
use crate::decision::Decisions;
use crate::error::Error;
use crate::freeze::Cgroup;
use crate::journal::{Journal, Record};
use crate::node::StateArgs;
use crate::ticket::{AfterUse, Key, PodUid, State, Ticket, TicketFolder};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 what is not used is gone, 1 a container is being restored or held: it must end first, 2 it failed."
)]
pub(crate) struct DiscardArgs {
    /// The pod
    #[arg(long, value_name = "UID")]
    pod_uid: PodUid,
    /// Also what a restart of a container that went on would still need: the pod is gone
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    state: StateArgs,
}

impl DiscardArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let why = discard(self.state.folder(), &self.pod_uid, self.all)?;
        let exit = if why.is_empty() { Exit::Yes } else { Exit::No };
        Ok(Answer {
            text: String::new(),
            notes: why,
            exit,
        })
    }
}

/// What is to become of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes.
    Goes,
    /// It stays, without its files.
    Stays,
    /// It stays, with its files.
    Needed,
    /// Its container is there: nothing may go.
    Busy,
}

fn fate(ticket: &Ticket, all: bool, is_there: impl Fn(&Path) -> bool) -> Fate {
    match (&ticket.state, ticket.on_container_restart) {
        (State::Held { cgroup, .. }, _) if is_there(cgroup) => Fate::Busy,
        (State::Ready | State::Held { .. }, _) => Fate::Goes,
        // Its lock says whether somebody is at it; what a killed one has left goes with its container.
        (State::Restoring { .. }, _) => Fate::Goes,
        (State::Used { .. }, _) if all => Fate::Goes,
        (State::Used { .. }, AfterUse::RestoreAgain) => Fate::Needed,
        // It says what a restart of the container means.
        (State::Used { .. }, AfterUse::ColdStart | AfterUse::Refuse) => Fate::Stays,
    }
}

/// Removes it. What keeps it from that, a line each.
pub(crate) fn discard(state: &Path, uid: &PodUid, all: bool) -> Result<Vec<String>, Error> {
    let (tickets, restores) = (TicketFolder::new(state), Restores::below(state));
    let is_there = |cgroup: &Path| {
        let processes = Cgroup::at(cgroup).processes();
        processes.is_ok_and(|processes| !processes.is_empty())
    };
    let (mut going, mut staying, mut needed, mut busy) = (Vec::new(), 0, false, Vec::new());
    for key in keys(&tickets, uid)? {
        let Some(ticket) = tickets.ticket(&key)? else {
            continue;
        };
        match fate(&ticket, all, is_there) {
            Fate::Goes => going.push(key),
            Fate::Stays => staying += 1,
            Fate::Needed => needed = true,
            Fate::Busy => busy.push(format!(
                "The {key} is held: delete its pod, or thaw it, first"
            )),
        }
    }
    if !busy.is_empty() {
        return Ok(busy);
    }
    // Tickets before files: one without its files would fail, one that is gone is known by its pod's mark.
    for key in &going {
        tickets.remove(key)?;
    }
    if !needed {
        restores.remove_tree(uid)?;
    }
    if staying == 0 && !needed {
        if let Some(key) = any_key(uid) {
            tickets.forget_unpacked(&key)?;
        }
        Decisions::below(state).forget(uid)?;
        restores.remove(uid)?;
    }
    Ok(Vec::new())
}

/// What a killed `prepare` has left. One that came to its end stays: only the journal did not know.
pub(crate) fn discard_unfinished(journal: &Journal, record: &Record) -> Result<(), Error> {
    let uid: PodUid = record.subject.name.parse()?;
    let prepared = Restores::below(journal.state()).read(&uid)?;
    if prepared.is_some_and(|prepared| prepared.complete) {
        return Ok(());
    }
    match discard(journal.state(), &uid, true)?.pop() {
        None => Ok(()),
        Some(reason) => Err(Error::Incomplete { reason }),
    }
}

/// Containers of a pod that have a ticket.
pub(super) fn keys(tickets: &TicketFolder, uid: &PodUid) -> Result<Vec<Key>, Error> {
    let mut keys = tickets.ticket_keys()?;
    keys.retain(|key| matches!(key, Key::Pod { uid: own, .. } if own == uid));
    Ok(keys)
}

/// One for what all containers of the pod share.
fn any_key(uid: &PodUid) -> Option<Key> {
    Some(Key::Pod {
        uid: uid.clone(),
        container: "any".parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{Prepared, PreparedContainer};

    fn uid() -> PodUid {
        "u-1".parse().expect("uid")
    }

    fn key(name: &str) -> Key {
        Key::Pod {
            uid: uid(),
            container: name.parse().expect("name"),
        }
    }

    fn state(word: &str) -> State {
        let container = "c".parse().expect("id");
        match word {
            "ready" => State::Ready,
            "restoring" => State::Restoring { container },
            "held" => State::Held {
                container,
                cgroup: "/sys/fs/cgroup/there".into(),
            },
            _ => State::Used { container },
        }
    }

    #[test]
    fn what_may_still_be_needed_stays() {
        use AfterUse::{ColdStart, Refuse, RestoreAgain};
        for (word, after, all, there, wanted) in [
            ("ready", ColdStart, false, false, Fate::Goes),
            ("restoring", ColdStart, false, false, Fate::Goes),
            ("held", ColdStart, false, true, Fate::Busy),
            ("held", ColdStart, true, true, Fate::Busy),
            ("held", ColdStart, false, false, Fate::Goes),
            ("used", ColdStart, false, true, Fate::Stays),
            ("used", Refuse, false, false, Fate::Stays),
            ("used", RestoreAgain, false, false, Fate::Needed),
            ("used", RestoreAgain, true, true, Fate::Goes),
        ] {
            let ticket = Ticket {
                state: state(word),
                on_container_restart: after,
                ..Ticket::new("c", "/i")
            };
            assert_eq!(
                fate(&ticket, all, |_| there),
                wanted,
                "{word} {after:?} {all}"
            );
        }
    }

    #[test]
    fn nothing_of_the_pod_is_left_and_all_of_others() {
        let dir = tempfile::tempdir().expect("folder");
        let state = dir.path();
        std::fs::set_permissions(state, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("mode");
        let (tickets, restores) = (TicketFolder::new(state), Restores::below(state));
        let mut prepared = Prepared::new(uid(), "c".to_owned(), true);
        for name in ["a", "b"] {
            prepared.containers.push(PreparedContainer {
                name: name.parse().expect("name"),
                was: name.parse().expect("name"),
            });
            tickets
                .put(&key(name), &Ticket::new("c", "/i"))
                .expect("written");
        }
        restores.write(&prepared).expect("written");
        std::fs::create_dir(restores.tree(&uid())).expect("made");
        let other = Key::Pod {
            uid: "u-2".parse().expect("uid"),
            container: "a".parse().expect("name"),
        };
        tickets
            .put(&other, &Ticket::new("c", "/i"))
            .expect("written");
        // A restart of the first one still asks its ticket.
        let lock = tickets.lock(&key("a")).expect("lock");
        let container = || "c".parse().expect("id");
        tickets
            .change(&lock, &key("a"), |ticket| {
                ticket.state = State::Restoring {
                    container: container(),
                };
            })
            .expect("begun");
        tickets
            .change(&lock, &key("a"), |ticket| {
                ticket.state = State::Used {
                    container: container(),
                };
            })
            .expect("used");
        drop(lock);
        assert!(discard(state, &uid(), false).expect("done").is_empty());
        assert_eq!(
            tickets.ticket_keys().expect("list"),
            [key("a"), other.clone()]
        );
        assert!(!restores.tree(&uid()).exists());
        assert!(restores.read(&uid()).expect("there").is_some());
        assert!(discard(state, &uid(), true).expect("done").is_empty());
        assert_eq!(tickets.ticket_keys().expect("list"), [other]);
        assert!(restores.uids().expect("list").is_empty());
        assert!(discard(state, &uid(), true).expect("again").is_empty());
    }
}
