//! A thread against what is granted.

use rocferry_image::criu::Thread;

use super::capabilities::{SETGID, SETUID, beyond, has, list};
use super::granted::Granted;

/// What it has beyond that, each in words.
pub(super) fn excess(granted: &Granted, thread: &Thread, is_filtered: bool) -> Vec<String> {
    let credentials = &thread.credentials;
    let mut found = Vec::new();
    for (what, asked, allowed) in [
        (
            "in its bounding set",
            credentials.bounding,
            granted.bounding,
        ),
        ("inheritable", credentials.inheritable, granted.bounding),
        ("permitted", credentials.permitted, granted.reachable),
        ("effective", credentials.effective, granted.reachable),
        ("ambient", credentials.ambient, granted.reachable),
    ] {
        let more = beyond(asked, allowed);
        if more.0 != 0 {
            found.push(format!("{} ({what})", list(more)));
        }
    }
    let becomes = |one| has(granted.reachable, one);
    if let Some(uid) = first(&credentials.uids, |uid| *uid == granted.uid)
        && !becomes(SETUID)
    {
        found.push(format!("user {uid}, not {}", granted.uid));
    }
    let is_own = |gid: &u32| *gid == granted.gid || granted.groups.contains(gid);
    let mut gids = credentials.gids.to_vec();
    gids.extend(&credentials.groups);
    if let Some(gid) = first(&gids, is_own)
        && !becomes(SETGID)
    {
        found.push(format!("group {gid}"));
    }
    if granted.no_new_privs && !credentials.no_new_privs {
        found.push("processes without no_new_privs".to_owned());
    }
    if granted.seccomp && !is_filtered {
        found.push("processes without a seccomp filter".to_owned());
    }
    found
}

/// The first that is not like this.
fn first(ids: &[u32], is_own: impl Fn(&u32) -> bool) -> Option<u32> {
    ids.iter().find(|id| !is_own(id)).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rocferry_image::criu::{Capabilities, Credentials};

    use super::super::capabilities::named;
    use super::*;

    fn granted(capabilities: &[&str]) -> Granted {
        let set = capabilities.iter().fold(0, |set, name| set | named(name).0);
        Granted {
            uid: 1000,
            gid: 1000,
            groups: vec![44],
            bounding: Capabilities(set),
            reachable: Capabilities(set),
            no_new_privs: true,
            seccomp: true,
            mounts: HashMap::new(),
            masked: Vec::new(),
        }
    }

    fn thread() -> Thread {
        Thread {
            credentials: Credentials {
                uids: [1000; 4],
                gids: [1000; 4],
                groups: vec![44],
                no_new_privs: true,
                ..Credentials::default()
            },
            seccomp: None,
        }
    }

    #[test]
    fn what_is_granted_is_no_more() {
        assert!(excess(&granted(&[]), &thread(), true).is_empty());
        let mut all = thread();
        all.credentials.bounding = named("CAP_KILL");
        all.credentials.permitted = named("CAP_KILL");
        assert!(excess(&granted(&["CAP_KILL"]), &all, true).is_empty());
    }

    #[test]
    fn each_right_beyond_is_named() {
        let admin = named("CAP_SYS_ADMIN");
        type Change<'a> = &'a dyn Fn(&mut Thread);
        let cases: [(&str, Change<'_>); 10] = [
            ("CAP_SYS_ADMIN (in its bounding set)", &|t| {
                t.credentials.bounding = admin;
            }),
            ("CAP_SYS_ADMIN (inheritable)", &|t| {
                t.credentials.inheritable = admin;
            }),
            ("CAP_SYS_ADMIN (permitted)", &|t| {
                t.credentials.permitted = admin;
            }),
            ("CAP_SYS_ADMIN (effective)", &|t| {
                t.credentials.effective = admin;
            }),
            ("CAP_SYS_ADMIN (ambient)", &|t| {
                t.credentials.ambient = admin;
            }),
            ("user 0, not 1000", &|t| t.credentials.uids[2] = 0),
            ("user 7, not 1000", &|t| t.credentials.uids[3] = 7),
            ("group 0", &|t| t.credentials.gids[1] = 0),
            ("group 6", &|t| t.credentials.groups.push(6)),
            ("processes without no_new_privs", &|t| {
                t.credentials.no_new_privs = false;
            }),
        ];
        for (words, change) in cases {
            let mut thread = thread();
            change(&mut thread);
            assert_eq!(excess(&granted(&["CAP_KILL"]), &thread, true), [words]);
        }
        let open = excess(&granted(&[]), &thread(), false);
        assert_eq!(open, ["processes without a seccomp filter"]);
        let mut any = granted(&[]);
        any.seccomp = false;
        assert!(excess(&any, &thread(), false).is_empty());
    }

    #[test]
    fn another_user_is_within_the_right_to_become_one() {
        let mut other = thread();
        other.credentials.uids = [0, 5, 5, 5];
        other.credentials.gids = [5; 4];
        assert!(excess(&granted(&["CAP_SETUID", "CAP_SETGID"]), &other, true).is_empty());
        assert_eq!(excess(&granted(&["CAP_SETUID"]), &other, true), ["group 5"]);
        assert_eq!(
            excess(&granted(&["CAP_SETGID"]), &other, true),
            ["user 0, not 1000"]
        );
        // With no_new_privs nobody comes to what they did not begin with.
        let mut bound = granted(&["CAP_SETUID", "CAP_SETGID"]);
        bound.reachable = Capabilities(0);
        assert_eq!(excess(&bound, &other, true).len(), 2);
    }
}
