//! Finding a process tree by the pid of its root.

use crate::freeze::Cgroup;
use crate::process::{self, ProcessId};
use crate::runtime::{Container, RuntimeError, RuntimeKind};

pub(super) fn find(name: &str) -> Result<Container, RuntimeError> {
    let missing = |places: String| RuntimeError::NotFound {
        name: name.to_owned(),
        runtime: "no runtime",
        places,
    };
    let pid: u32 = name
        .parse()
        .map_err(|_| missing(": the pid of a process is expected".to_owned()))?;
    let init = ProcessId::of(pid).map_err(|_| missing(": there is no such process".to_owned()))?;
    if !init.is_alive() {
        return Err(RuntimeError::NotRunning {
            name: name.to_owned(),
            state: "a zombie".to_owned(),
        });
    }
    // Only a cgroup of its own can be frozen.
    let cgroup = Cgroup::of_process(pid)
        .ok()
        .filter(|cgroup| cgroup.holds_only(&process::tree(pid)).is_ok());
    Ok(Container {
        runtime: RuntimeKind::Bare,
        name: name.to_owned(),
        id: name.to_owned(),
        init,
        cgroup,
        program: None,
        oci: None,
        image: None,
        image_digest: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_named_by_a_pid() {
        let own = std::process::id();
        let container = find(&own.to_string()).expect("it is there");
        assert_eq!(container.init.pid, own);
        // Whoever started the test is in the same cgroup, or it is the root.
        assert!(container.processes().contains(&own));
        for wrong in ["", "x", "-1", "4294967295", "0"] {
            let error = find(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("No container"), "{error}");
        }
    }
}
