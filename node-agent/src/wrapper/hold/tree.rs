//! The processes of a tree.

use std::collections::HashMap;
use std::fs;
use std::io;

use rustix::process::Pid;

/// A process and all its descendants that have not ended.
pub(crate) fn tree(root: Pid) -> io::Result<Vec<Pid>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Some((state, parent)) = state_and_parent(&stat) {
            children.entry(parent).or_default().push(pid);
            if !matches!(state, 'Z' | 'X') {
                alive.push(pid);
            }
        }
    }
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).into_iter().flatten());
        next += 1;
    }
    found.retain(|pid| alive.contains(pid));
    Ok(found.into_iter().filter_map(Pid::from_raw).collect())
}

/// From `/proc/PID/stat`: the name in brackets may hold anything.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn names_do_not_confuse() {
        assert_eq!(state_and_parent("7 (a) R 9 (b) S 5 1"), Some(('S', 5)));
        assert_eq!(state_and_parent("7 (a"), None);
        assert_eq!(state_and_parent(""), None);
    }

    #[test]
    fn children_are_found_and_others_not() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let own = rustix::process::getpid();
        let found = tree(own).expect("proc");
        let pid = Pid::from_child(&child);
        assert!(found.contains(&own) && found.contains(&pid));
        assert!(!found.contains(&Pid::INIT));
        assert_eq!(tree(pid).expect("proc"), [pid]);
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(tree(pid).expect("proc").is_empty());
    }
}
