//! Operations that fail leave no descriptor behind. A process of its own, since it counts them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::path::Path;

use rocferry_kfd::kfd::{Access, Counts};
use rocferry_kfd::{Kfd, RenderNode};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_thousand_failures_leave_no_descriptor() {
    let null = || File::open("/dev/null").unwrap().into();
    let before = descriptors();
    for _ in 0..250 {
        RenderNode::open(Path::new("/dev/null")).unwrap_err();
        RenderNode::from_fd(null()).unwrap_err();
        Kfd::open(Path::new("/proc/self/stat"), Access::ReadOnly).unwrap_err();
        let kfd = Kfd::from_fd(null());
        kfd.checkpoint(&Counts::default()).unwrap_err();
    }
    assert_eq!(descriptors(), before);
}
