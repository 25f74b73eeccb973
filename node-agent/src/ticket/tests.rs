use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn key() -> Key {
    Key::Pod {
        uid: "u-1".parse().expect("uid"),
        container: "main".parse().expect("name"),
    }
}

fn container() -> ContainerId {
    "c1".parse().expect("id")
}

fn held() -> State {
    State::Held {
        container: container(),
        cgroup: "/sys/fs/cgroup/x".into(),
    }
}

fn used() -> State {
    State::Used {
        container: container(),
    }
}

fn restoring() -> State {
    State::Restoring {
        container: container(),
    }
}

fn folder() -> (tempfile::TempDir, TicketFolder) {
    let dir = tempfile::tempdir().expect("folder");
    let tickets = TicketFolder::new(dir.path().join("rocferry"));
    (dir, tickets)
}

#[test]
fn tickets_come_back_as_they_were() {
    let (dir, tickets) = folder();
    assert_eq!(tickets.ticket(&key()).expect("none"), None);
    assert!(tickets.ticket_keys().expect("none").is_empty());
    let mut ticket = Ticket::new("20261130t155702-73976a8b0bd8", "/images");
    ticket.held = true;
    ticket.on_container_restart = AfterUse::Refuse;
    ticket.mounts.push(ExpectedMount {
        destination: "/data".to_owned(),
        kind: "bind".to_owned(),
    });
    ticket.devices.push(ExpectedDevice {
        path: "/dev/kfd".to_owned(),
    });
    ticket.checks_off.push("KFD_FW_VER_CHECK".to_owned());
    tickets.put(&key(), &ticket).expect("written");
    assert_eq!(tickets.ticket(&key()).expect("read"), Some(ticket.clone()));
    let other = Key::Container(container());
    assert_eq!(tickets.ticket(&other).expect("none"), None);
    tickets.put(&other, &ticket).expect("written");
    assert_eq!(tickets.ticket_keys().expect("both"), [key(), other]);
    for folder in ["rocferry", "rocferry/tickets"] {
        let mode = fs::metadata(dir.path().join(folder))
            .expect("folder")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    tickets.remove(&key()).expect("removed");
    tickets.remove(&key()).expect("removed");
    assert_eq!(tickets.ticket(&key()).expect("none"), None);
    assert_eq!(
        fs::read_dir(dir.path().join("rocferry/tickets"))
            .expect("list")
            .count(),
        2
    );
}

#[test]
fn the_format_stays() {
    let (dir, tickets) = folder();
    let mut ticket = Ticket::new("c", "/images");
    tickets.put(&key(), &ticket).expect("written");
    let file = dir.path().join("rocferry/tickets/pod_u-1_main.json");
    let text: String = fs::read_to_string(&file)
        .expect("file")
        .split_whitespace()
        .collect();
    assert_eq!(
        text,
        r#"{"version":1,"checkpoint":"c","images":"/images","held":false,"onContainerRestart":"ColdStart","mounts":[],"devices":[],"criu":{"tcp":"Close","fileLocks":false,"externalUnixSockets":false,"shellJob":false},"checksOff":[],"state":{"is":"ready"},"attempts":0}"#
    );
    // What need not be said.
    fs::write(
        &file,
        r#"{"version":1,"checkpoint":"c","images":"/images","held":true,"onContainerRestart":"Refuse",
            "state":{"is":"held","container":"c1","cgroup":"/sys/fs/cgroup/x"}}"#,
    )
    .expect("file");
    ticket.held = true;
    ticket.on_container_restart = AfterUse::Refuse;
    ticket.state = held();
    assert_eq!(tickets.ticket(&key()).expect("read"), Some(ticket));
}

#[test]
fn what_is_not_a_ticket_is_an_error_and_never_none() {
    let (dir, tickets) = folder();
    tickets
        .put(&key(), &Ticket::new("c", "/images"))
        .expect("written");
    let file = dir.path().join("rocferry/tickets/pod_u-1_main.json");
    let good = fs::read_to_string(&file).expect("file");
    for bad in [
        String::new(),
        "{}".to_owned(),
        good.replace("\"/images\"", "\"images\""),
        good.replace("\"held\": false", "\"held\": 0"),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("\"attempts\"", "\"atempts\""),
        good.replace("\"ready\"", "\"red\""),
        good.replace("\"checksOff\": []", "\"checksOff\": [\"LD_PRELOAD\"]"),
        format!("{good}x"),
        format!("{good}{}", " ".repeat(2 << 20)),
    ] {
        fs::write(&file, &bad).expect("file");
        tickets.ticket(&key()).expect_err(&bad);
    }
    fs::remove_file(&file).expect("gone");
    symlink("/etc/passwd", &file).expect("link");
    tickets.ticket(&key()).expect_err("link");
    fs::remove_file(&file).expect("gone");
    fs::create_dir(&file).expect("folder");
    tickets.ticket(&key()).expect_err("folder");
    fs::remove_dir(&file).expect("gone");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("pipe");
    tickets.ticket(&key()).expect_err("pipe");
}

#[test]
fn a_folder_that_others_write_to_is_not_believed() {
    let (dir, tickets) = folder();
    tickets
        .put(&key(), &Ticket::new("c", "/images"))
        .expect("written");
    for folder in ["rocferry", "rocferry/tickets"] {
        let folder = dir.path().join(folder);
        let set =
            |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("mode");
        set(0o770);
        let error = tickets.ticket(&key()).expect_err("unsafe");
        assert!(matches!(error, TicketError::Unsafe { .. }), "{error}");
        set(0o700);
        tickets.ticket(&key()).expect("safe");
    }
}

#[test]
fn one_at_a_time() {
    let (_dir, tickets) = folder();
    let ticket = Ticket::new("c", "/images");
    tickets.put(&key(), &ticket).expect("written");
    let lock = tickets.lock(&key()).expect("free");
    assert!(matches!(
        tickets.lock(&key()),
        Err(TicketError::Busy { .. })
    ));
    assert!(matches!(
        tickets.put(&key(), &ticket),
        Err(TicketError::Busy { .. })
    ));
    assert!(matches!(
        tickets.remove(&key()),
        Err(TicketError::Busy { .. })
    ));
    assert!(matches!(
        tickets.use_up(&key()),
        Err(TicketError::Busy { .. })
    ));
    tickets
        .lock(&Key::Container(container()))
        .expect("another one's");
    drop(lock);
    tickets.lock(&key()).expect("free again");
}

#[test]
fn used_up_at_the_thaw_and_for_good() {
    let (_dir, tickets) = folder();
    tickets
        .put(&key(), &Ticket::new("c", "/images"))
        .expect("written");
    tickets.use_up(&key()).expect_err("not held");
    let lock = tickets.lock(&key()).expect("lock");
    let enter = |state: State| tickets.change(&lock, &key(), |ticket| ticket.state = state);
    enter(held()).expect_err("not begun");
    enter(restoring()).expect("begun");
    enter(held()).expect("held");
    // The container was killed before its thaw, and is made again.
    enter(restoring()).expect("again");
    enter(held()).expect("held");
    drop(lock);
    let ticket = tickets.use_up(&key()).expect("thawed");
    assert_eq!(ticket.state, used());
    tickets.use_up(&key()).expect("said twice");
    let lock = tickets.lock(&key()).expect("lock");
    for state in [State::Ready, restoring(), held()] {
        let changed = tickets.change(&lock, &key(), |ticket| ticket.state = state);
        assert!(matches!(changed, Err(TicketError::State { .. })));
    }
    assert_eq!(
        tickets.ticket(&key()).expect("read").expect("there").state,
        used()
    );
}

#[test]
fn what_a_crash_leaves_does_not_matter() {
    let (dir, tickets) = folder();
    let ticket = Ticket::new("c", "/images");
    tickets.put(&key(), &ticket).expect("written");
    let temporary = dir.path().join("rocferry/tickets/.pod_u-1_main.json.new");
    fs::write(&temporary, "half").expect("left over");
    assert_eq!(tickets.ticket(&key()).expect("read"), Some(ticket.clone()));
    assert_eq!(tickets.ticket_keys().expect("list"), [key()]);
    tickets.put(&key(), &ticket).expect("written");
    assert!(!temporary.exists());
    // And a write that fails leaves the old one.
    fs::create_dir(&temporary).expect("in the way");
    fs::write(temporary.join("x"), "").expect("in the way");
    let mut other = ticket.clone();
    other.held = true;
    tickets.put(&key(), &other).expect_err("in the way");
    assert_eq!(tickets.ticket(&key()).expect("read"), Some(ticket));
}

#[test]
fn fences_stand_until_they_are_taken_down() {
    let (dir, tickets) = folder();
    assert_eq!(tickets.fence(&key()).expect("none"), None);
    tickets.take_down_fence(&key()).expect("none");
    let fence = Fence {
        version: FENCE_VERSION,
        request: "default/move-1".to_owned(),
        since_ms: 1,
    };
    tickets.put_up_fence(&key(), &fence).expect("up");
    assert_eq!(tickets.fence(&key()).expect("read"), Some(fence));
    assert_eq!(tickets.fence_keys().expect("list"), [key()]);
    let file = dir.path().join("rocferry/fences/pod_u-1_main.json");
    for bad in [
        "",
        "{}",
        r#"{"version":1,"request":"r"}"#,
        r#"{"version":9}"#,
    ] {
        fs::write(&file, bad).expect("file");
        tickets.fence(&key()).expect_err(bad);
    }
    tickets.take_down_fence(&key()).expect("down");
    assert_eq!(tickets.fence(&key()).expect("none"), None);
}

#[test]
fn long_reasons_are_cut_and_not_lost() {
    let (_dir, tickets) = folder();
    tickets
        .put(&key(), &Ticket::new("c", "/images"))
        .expect("written");
    let lock = tickets.lock(&key()).expect("lock");
    let ticket = tickets
        .change(&lock, &key(), |ticket| {
            ticket.note_error(&"ä".repeat(100_000));
        })
        .expect("noted");
    assert!(ticket.last_error.expect("noted").len() <= 4096);
    assert!(Path::new("/").is_absolute() && tickets.ticket(&key()).expect("read").is_some());
}

proptest! {
    #[test]
    fn damage_never_panics_and_never_reads_as_none(at in any::<prop::sample::Index>(), byte: u8) {
        let (dir, tickets) = folder();
        let ticket = Ticket::new("c", "/images");
        tickets.put(&key(), &ticket).expect("written");
        let file = dir.path().join("rocferry/tickets/pod_u-1_main.json");
        let mut content = fs::read(&file).expect("file");
        let at = at.index(content.len());
        content[at] = byte;
        fs::write(&file, content).expect("file");
        prop_assert!(!matches!(tickets.ticket(&key()), Ok(None)));
    }
}
