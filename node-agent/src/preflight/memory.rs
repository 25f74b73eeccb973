//! The memory limit of a container, against what a restore charges to it.

use super::Finding;
use super::space::Needs;
use crate::freeze::Cgroup;
use crate::image::size;
use crate::process::read;

/// What CRIU and the plugin take besides, in the container's own cgroup: page tables, buffers, staging for GPUs.
const BESIDES: u64 = 96 << 20;

/// A warning: how much CRIU really needs is known only then.
pub(super) fn check(who: &str, cgroup: Option<&Cgroup>, needs: Needs) -> Option<Finding> {
    let text = read(&cgroup?.path().join("memory.max")).ok()?;
    tight(who, text.trim().parse().ok()?, needs.of_processes())
}

fn tight(who: &str, limit: u64, memory: u64) -> Option<Finding> {
    let needed = memory.saturating_add(BESIDES);
    (needed > limit).then(|| {
        Finding::note(
            "memory-limit",
            format!(
                "{who} may use {}; its restore charges about {} to that ({} of its own, {} for CRIU), and may be killed for it",
                size(limit),
                size(needed),
                size(memory),
                size(BESIDES)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tight_limit_is_named_with_its_numbers() {
        assert_eq!(tight("main", 1 << 30, 512 << 20), None);
        let finding = tight("main", 512 << 20, 500 << 20).expect("tight");
        assert!(!finding.refuses);
        for word in ["main", "512", "500", "96"] {
            assert!(finding.text.contains(word), "{}", finding.text);
        }
    }
}
