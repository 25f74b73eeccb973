//! What cannot be read ends soon, with status 2, little memory and a message that names the file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::machines::{Dump, Machine, files, own_id, system};
use crate::run::{Ended, refuses, run};

fn show(root: &Path) -> Ended {
    refuses(&[
        "topology".as_ref(),
        "show".as_ref(),
        "--root".as_ref(),
        root.as_ref(),
    ])
}

fn check(from: &Path, to: &Path) -> Ended {
    let (from_option, to_option): (&OsStr, &OsStr) = ("--from".as_ref(), "--to".as_ref());
    refuses(&[
        "topology".as_ref(),
        "check".as_ref(),
        from_option,
        from.as_ref(),
        to_option,
        to.as_ref(),
    ])
}

fn pipe(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("pipe");
}

/// A file with this content in a folder that lasts as long.
fn file(content: &[u8]) -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("file");
    fs::write(&path, content).expect("file");
    (dir, path)
}

#[test]
fn files_that_are_none() {
    let dir = TempDir::new().expect("directory");
    let machine = Machine::new("mi210-pair");
    let fifo = dir.path().join("pipe");
    pipe(&fifo);
    let sparse = dir.path().join("sparse");
    File::create(&sparse)
        .expect("file")
        .set_len(10 << 30)
        .expect("length");
    let missing = dir.path().join("missing");
    for (path, message) in [
        (&fifo, "is neither a file nor a folder"),
        (
            &PathBuf::from("/dev/zero"),
            "is neither a file nor a folder",
        ),
        (&sparse, "has more than 4194304 bytes"),
        (&missing, "No such file or directory"),
    ] {
        for ended in [
            show(path),
            check(path, machine.path()),
            check(machine.path(), path),
        ] {
            assert!(ended.stderr.contains(message), "{ended:?}");
            assert!(
                ended.stderr.contains(&path.display().to_string()),
                "{ended:?}"
            );
        }
    }
}

#[test]
fn content_that_is_none() {
    let machine = Machine::new("mi210-pair");
    let junk: Vec<u8> = (0..100_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (content, message) in [
        (&junk[..], "is no published topology: it is not text"),
        (b"", "is no published topology"),
        (b"{}", "is no published topology: missing field `version`"),
        (b"{\"version\": 1, \"gpus\": 7}", "is no published topology"),
        (b"version: 1\ngpus: [", "is no published topology"),
        (b"hello", "is no published topology"),
        (
            b"{\"version\": 2}",
            "is damaged: Version 2 is not understood, only version 1",
        ),
        (
            b"version: 1\nmasked: '7-3'\n",
            "is damaged: Invalid list of nodes \"7-3\" in masked: a range ends before it begins",
        ),
        (&[b'['; 1 << 20], "is no published topology"),
    ] {
        let (_dir, path) = file(content);
        for ended in [
            show(&path),
            check(&path, machine.path()),
            check(machine.path(), &path),
        ] {
            assert!(ended.stderr.contains(message), "{ended:?}");
            // The error, and what to do.
            assert_eq!(ended.stderr.lines().count(), 2, "{ended:?}");
            assert!(
                !ended.stderr.replace('\n', "").contains(char::is_control),
                "{ended:?}"
            );
        }
    }
}

#[test]
fn folders_that_hold_something_else() {
    let empty = TempDir::new().expect("directory");
    let machine = Machine::new("mi210-pair");
    let ended = show(empty.path());
    assert!(
        ended
            .stderr
            .contains("holds no topology: neither nodes nor sys/class/kfd/kfd/topology/nodes"),
        "{ended:?}"
    );
    let ended = check(empty.path(), machine.path());
    assert!(
        ended
            .stderr
            .contains("holds no amdgpu-kfd-*.img\nName the folder that CRIU dumped into"),
        "{ended:?}"
    );
    let whole = system("mi210-pair");
    let dump = Dump {
        dir: empty.path(),
        system: &whole,
        xnack: false,
    };
    dump.process(7, 3, own_id);
    let ended = check(machine.path(), empty.path());
    assert!(
        ended.stderr.contains("holds a checkpoint and no topology"),
        "{ended:?}"
    );
    // A machine without a GPU has nothing to place; that is no error, but no answer either way is wrong.
    let ended = check(machine.path(), Path::new("/nonexistent"));
    assert!(
        ended
            .stderr
            .contains("Cannot read /nonexistent: No such file"),
        "{ended:?}"
    );
}

#[test]
fn trees_that_block_or_are_damaged() {
    for (path, message) in [
        ("nodes/2/gpu_id", ":1: expected a gpu_id"),
        ("nodes/2/properties", "no property"),
        ("nodes/2/io_links/0/properties", "no property"),
    ] {
        let machine = Machine::from_files(&files("mi210-pair"));
        let full = machine.path().join(path);
        fs::remove_file(&full).expect("file");
        pipe(&full);
        let ended = show(machine.path());
        assert!(
            ended.stderr.contains(path) && ended.stderr.contains(message),
            "{ended:?}"
        );
        fs::remove_file(&full).expect("pipe");
        symlink("/dev/zero", &full).expect("link");
        let ended = show(machine.path());
        assert!(ended.stderr.contains(path), "{ended:?}");
    }
}

/// A folder with the checkpoint of a process with both GPUs of a machine, and our record of it.
fn checkpoint() -> TempDir {
    let dir = TempDir::new().expect("directory");
    let whole = system("mi210-pair");
    let dump = Dump {
        dir: dir.path(),
        system: &whole,
        xnack: false,
    };
    let image = dump.process(7, 3, own_id);
    dump.record(&image, 3);
    dir
}

#[test]
fn checkpoints_that_are_damaged() {
    let machine = Machine::new("mi210-pair");
    for name in ["amdgpu-kfd-3.img", "rocferry-task-7.img"] {
        let good = fs::read(checkpoint().path().join(name)).expect("image");
        let mut huge = good.clone();
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut damaged = good.clone();
        damaged[12] ^= 0xff;
        for content in [&good[..good.len() - 1], &good[..7], b"", &huge, &damaged] {
            let dir = checkpoint();
            fs::write(dir.path().join(name), content).expect("file");
            let ended = check(dir.path(), machine.path());
            let message = format!(
                "Cannot read the checkpoint in {}: {name}",
                dir.path().display()
            );
            assert!(ended.stderr.contains(&message), "{ended:?}");
            assert!(
                ended.stderr.contains("\nCheck that the dump was complete"),
                "{ended:?}"
            );
        }
        let dir = checkpoint();
        let path = dir.path().join(name);
        fs::remove_file(&path).expect("file");
        pipe(&path);
        let ended = check(dir.path(), machine.path());
        assert!(
            ended
                .stderr
                .contains(&format!("Cannot open {name}: not a plain file")),
            "{ended:?}"
        );
    }
}

#[test]
fn records_and_images_belong_together() {
    let machine = Machine::new("mi210-pair");
    let dir = checkpoint();
    fs::rename(
        dir.path().join("amdgpu-kfd-3.img"),
        dir.path().join("amdgpu-kfd-4.img"),
    )
    .expect("rename");
    let ended = check(dir.path(), machine.path());
    assert!(
        ended.stderr.contains("amdgpu-kfd-3.img is missing"),
        "{ended:?}"
    );
    // The image of a later dump by the C plugin, which leaves our record where it is.
    let dir = checkpoint();
    let whole = system("mi210-pair");
    let dump = Dump {
        dir: dir.path(),
        system: &whole,
        xnack: false,
    };
    dump.process(9, 3, own_id);
    let ended = check(dir.path(), machine.path());
    let message = "holds files of several dumps: rocferry-task-7.img does not belong to amdgpu-kfd-3.img\nDump again, into an empty folder\n";
    assert!(ended.stderr.contains(message), "{ended:?}");
}

#[test]
fn gpus_that_are_not_there() {
    let machine = Machine::new("mi210-pair");
    let path = machine.path().as_os_str();
    let args = |usable: &'static str| -> Vec<&OsStr> {
        let words = ["topology", "check", "--usable", usable, "--from"].map(OsStr::new);
        let more = [path, OsStr::new("--to"), path];
        words.into_iter().chain(more).collect()
    };
    let ended = refuses(&args("renderD128,0xbeef"));
    let message = format!(
        "No GPU 0xbeef in {}\nGPUs there: 0xa22f (renderD128), 0x324a (renderD129)\n",
        machine.path().display()
    );
    assert!(ended.stderr.ends_with(&message), "{ended:?}");
    for usable in [
        "renderD",
        "0x",
        "+7",
        "0x+7",
        "c0de",
        "",
        "4294967296",
        "-1",
    ] {
        let ended = run(args(usable));
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{usable}");
    }
}

#[test]
fn wrong_arguments() {
    let machine = Machine::new("mi210-pair");
    let path = machine.path().to_str().expect("text");
    for args in [
        &[][..],
        &["topology"],
        &["topology", "check"],
        &["topology", "check", "--from", path],
        &[
            "topology", "check", "--from", path, "--to", path, "--all", "--subset",
        ],
        &[
            "topology",
            "check",
            "--from",
            path,
            "--to",
            path,
            "--disable-check",
            "device",
        ],
        &[
            "topology", "check", "--from", path, "--to", path, "-o", "xml",
        ],
        &["topology", "show", path],
    ] {
        let ended = run(args);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
}

/// A tree of thousands of nodes is refused before they are read.
#[test]
fn trees_that_are_too_large() {
    let dir = TempDir::new().expect("directory");
    for node in 0..4097 {
        fs::create_dir_all(dir.path().join(format!("nodes/{node}"))).expect("directory");
    }
    let ended = show(dir.path());
    assert!(
        ended.stderr.contains("nodes holds more than 4096 entries"),
        "{ended:?}"
    );
}
