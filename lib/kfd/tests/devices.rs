//! What can be checked without a GPU: which files are refused, and how, and the readers of sysfs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rocferry_kfd::kfd::{Access, Counts, Offset};
use rocferry_kfd::{DeviceNumber, Kfd, KfdError, Mapping, RenderNode, Sysfs};
use rocferry_topology::ActualGpuId;
use rustix::fs::FileType;
use rustix::io::Errno;

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

#[test]
fn other_devices_are_no_render_nodes() {
    for path in ["/dev/null", "/proc/self/stat", "/"] {
        let error = RenderNode::open(Path::new(path)).unwrap_err();
        assert!(
            matches!(error, KfdError::WrongDevice { .. }),
            "{path}: {error}"
        );
    }
    let error = RenderNode::from_fd(null()).unwrap_err();
    assert_eq!(error.to_string(), "Device 1:3 is not a render node");
    let error = RenderNode::open(Path::new("/dev/no-such")).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOENT));
}

#[test]
fn a_regular_file_is_no_kfd() {
    let error = Kfd::open(Path::new("/proc/self/stat"), Access::ReadOnly).unwrap_err();
    assert!(matches!(error, KfdError::WrongDevice { .. }), "{error}");
}

#[test]
fn the_errno_stays_with_its_operation() {
    let kfd = Kfd::from_fd(null());
    let error = kfd.version().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOTTY));
    assert_eq!(error.to_string(), "GET_VERSION failed");
    for error in [
        kfd.process_info().unwrap_err(),
        kfd.checkpoint(&Counts::default()).unwrap_err(),
        kfd.restore(&[], &[], &[1], 0).unwrap_err(),
        kfd.unpause().unwrap_err(),
        kfd.resume(1).unwrap_err(),
        kfd.apertures().unwrap_err(),
        kfd.dmabuf_info(kfd.as_fd()).unwrap_err(),
    ] {
        assert_eq!(error.errno(), Some(Errno::NOTTY), "{error}");
    }
}

#[test]
fn impossible_counts_are_refused_before_the_kernel_sees_them() {
    let kfd = Kfd::from_fd(null());
    let counts = Counts {
        priv_data_size: u64::MAX,
        ..Counts::default()
    };
    let error = kfd.checkpoint(&counts).unwrap_err();
    assert!(matches!(error, KfdError::OutOfMemory { .. }), "{error}");
}

#[test]
fn device_numbers() {
    assert_eq!(
        DeviceNumber::of(null()).unwrap(),
        Some(DeviceNumber { major: 1, minor: 3 })
    );
    assert_eq!(
        DeviceNumber::of(File::open("/proc/self/stat").unwrap()).unwrap(),
        None
    );
    let node = DeviceNumber {
        major: 226,
        minor: 128,
    };
    assert!(node.is_render_node());
    assert!(!DeviceNumber { minor: 127, ..node }.is_render_node());
    let of_kind = |kind: FileType| DeviceNumber::of_inode(kind.as_raw_mode() | 0o666, node.raw());
    assert_eq!(of_kind(FileType::CharacterDevice), Some(node));
    assert_eq!(of_kind(FileType::BlockDevice), None);
    assert_eq!(of_kind(FileType::RegularFile), None);
    assert_eq!(node.to_string(), "226:128");
}

#[test]
fn kfd_offsets() {
    let gpu = ActualGpuId(0xbeef);
    let at = |kind: u64| Offset::of_kfd(kind << 62 | 0xbeef << 46 | 0x1000);
    assert_eq!(at(3), Offset::Doorbell(gpu));
    assert_eq!(at(2), Offset::Events);
    assert_eq!(at(1), Offset::ReservedMemory(gpu));
    assert_eq!(at(0), Offset::Mmio(gpu));
}

#[test]
fn sysfs_files() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = Sysfs::new(root.path());
    assert_eq!(sysfs.kfd_device().unwrap(), None);
    assert_eq!(sysfs.kfd_processes().unwrap(), []);
    assert_eq!(sysfs.kfd_pasid(7).unwrap(), None);
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("sys/class/kfd/kfd/dev", "511:0\n");
    put("sys/class/kfd/kfd/proc/70/pasid", "32770\n");
    put("sys/class/kfd/kfd/proc/8/pasid", "-\n");
    put(
        "proc/70/fdinfo/5",
        "pos:\t0\ndrm-driver:\tamdgpu\npasid:\t32770\n",
    );
    put("proc/70/fdinfo/6", "pos:\t0\n");
    assert_eq!(
        sysfs.kfd_device().unwrap(),
        Some(DeviceNumber {
            major: 511,
            minor: 0
        })
    );
    assert_eq!(sysfs.kfd_processes().unwrap(), [8, 70]);
    assert_eq!(sysfs.kfd_pasid(70).unwrap(), Some(32770));
    assert!(matches!(sysfs.kfd_pasid(8), Err(KfdError::Parse { .. })));
    assert_eq!(sysfs.render_pasid(70, 5).unwrap(), Some(32770));
    assert_eq!(sysfs.render_pasid(70, 6).unwrap(), None);
    assert_eq!(
        sysfs.render_pasid(70, 7).unwrap_err().errno(),
        Some(Errno::NOENT)
    );
    put("sys/class/kfd/kfd/dev", "511\n");
    assert!(matches!(sysfs.kfd_device(), Err(KfdError::Parse { .. })));
}

#[test]
fn mappings_come_and_go() {
    let mapping = Mapping::anonymous(8192).unwrap();
    assert_eq!(mapping.len(), 8192);
    Mapping::anonymous(0).unwrap_err();
    let file = null();
    assert!(
        Mapping::of_file(file.as_fd(), 0, 4096).is_err(),
        "{}",
        file.as_raw_fd()
    );
}
