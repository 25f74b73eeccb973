//! The built plugin in a program that plays CRIU's part: `host/*.c`, compiled for each number of hooks that
//! a CRIU knows.
#![expect(clippy::unwrap_used, reason = "a test: a failed unwrap fails it")]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rocferry_image::{
    FdDir, FileId, FileKind, FileRecord, TaskPid, TaskRecord, names, write_image,
};
use tempfile::TempDir;

/// Hooks of CRIU 3.17 to 3.19, 4.0 and 4.1, 4.2, and the development branch after it. 0: a CRIU that does
/// not tell.
const HOOKS: [u32; 5] = [0, 10, 12, 13, 15];

/// The library, made up to date by cargo: it does not build a cdylib for the tests of its own package.
fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        // TARGET/PROFILE/deps/load-HASH
        let test = std::env::current_exe().unwrap();
        let profile_dir = test.ancestors().nth(2).unwrap();
        let profile = match profile_dir.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "rocferry-plugin"])
            .args(["--profile", profile, "--target-dir"])
            .arg(profile_dir.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "the plugin does not compile");
        profile_dir.join("libamdgpu_plugin.so")
    })
}

/// The program for a CRIU with that many hooks; `exports`: linked as CRIU is.
fn host(dir: &Path, hooks: u32, exports: bool) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host");
    let program = dir.join(format!("host-{hooks}-{exports}"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "gcc".into());
    let mut command = Command::new(compiler);
    command
        .args([
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
        ])
        .args(["-Werror", "-fno-strict-aliasing"])
        .arg(format!("-DHOOKS={hooks}"))
        .arg("-o")
        .arg(&program)
        .args(["host.c", "criu.c", "foreign.c", "images.c"].map(|file| source.join(file)));
    if exports {
        command.arg("-rdynamic");
    }
    let status = command.arg("-ldl").status().expect("no C compiler");
    assert!(status.success(), "{}", program.display());
    program
}

/// How a program ended: whether well, and what it printed.
struct Ended {
    well: bool,
    text: String,
}

/// Runs the program; `images` is called with its pid before it begins.
fn run(program: &Path, args: &[&str], images: impl FnOnce(u32)) -> Ended {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(program)
        .arg(plugin())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    images(child.id());
    drop(child.stdin.take());
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    let status = child.wait().unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ended {
        well: status.success() && text.ends_with("well\n"),
        text: format!("{text}{status}"),
    }
}

fn run_well(program: &Path, args: &[&str], images: impl FnOnce(u32)) -> String {
    let ended = run(program, args, images);
    assert!(
        ended.well,
        "{} {args:?}:\n{}",
        program.display(),
        ended.text
    );
    ended.text
}

#[test]
fn the_descriptor_is_the_only_symbol() {
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(plugin())
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().next())
        .collect();
    assert_eq!(symbols, ["CR_PLUGIN_DESC"]);
}

/// A symbol that a CRIU lacks would keep it from working at all, so none of CRIU's may be bound by name.
#[test]
fn nothing_of_criu_is_linked() {
    let output = Command::new("nm")
        .args(["--dynamic", "--undefined-only", "--format=posix"])
        .arg(plugin())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let unversioned: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().next())
        .filter(|name| {
            // What the C library has carries a version; the rest are marks for optional tools.
            !name.contains('@') && !name.starts_with("_ITM_") && *name != "__gmon_start__"
        })
        .collect();
    assert!(unversioned.is_empty(), "{unversioned:?}");
}

#[test]
fn objects_of_others_are_left_alone() {
    let dir = TempDir::new().unwrap();
    for hooks in HOOKS {
        let program = host(dir.path(), hooks, true);
        run_well(&program, &["foreign"], |_| ());
    }
}

#[test]
fn a_program_that_exports_nothing_is_refused() {
    let dir = TempDir::new().unwrap();
    for hooks in [10, 15] {
        let program = host(dir.path(), hooks, false);
        let text = run_well(&program, &["mute"], |_| ());
        assert!(text.contains("does not export"), "{text}");
    }
}

/// Bytes of no meaning, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift64 with his triple 13, 7, 17.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next().to_le_bytes()[3]).collect()
    }

    /// A frame whose length is right, around content of no meaning.
    fn framed(&mut self, most: u64) -> Vec<u8> {
        let content = self.bytes(most);
        let mut image = (content.len() as u64).to_le_bytes().to_vec();
        image.extend(content);
        image
    }
}

fn file_record(images: &Path, id: i32, kind: FileKind, pid: u32) {
    let record = FileRecord {
        kind,
        status_flags: 2,
        task: TaskPid(pid),
    };
    let dir = FdDir(fs::File::open(images).unwrap());
    write_image(&dir, &names::file_record(FileId(id)), &record).unwrap();
}

fn task_record(images: &Path, pid: u32, kfd_file: i32) {
    let record = TaskRecord {
        pid: TaskPid(pid),
        kfd_file: FileId(kfd_file),
        devices: Vec::new(),
        vmas: Vec::new(),
    };
    let dir = FdDir(fs::File::open(images).unwrap());
    write_image(&dir, &names::task_record(TaskPid(pid)), &record).unwrap();
}

#[test]
fn damaged_images_fail_with_a_line() {
    let dir = TempDir::new().unwrap();
    for hooks in [13, 15] {
        let program = host(dir.path(), hooks, true);
        let images = TempDir::new_in(dir.path()).unwrap();
        let path = images.path();
        let mut noise = Noise(0x2545_f491_4f6c_dd1d);
        let prefixes = [
            "rocferry-file-",
            "amdgpu-kfd-",
            "amdgpu-renderD-",
            "amdgpu-dmabuf_",
        ];
        for id in 0..400 {
            let prefix = prefixes[id % prefixes.len()];
            let content = if id % 3 == 0 {
                noise.bytes(300)
            } else {
                noise.framed(300)
            };
            fs::write(path.join(format!("{prefix}{id}.img")), content).unwrap();
        }
        // A length that no memory holds, an empty image, a folder in its place.
        for (at, prefix) in prefixes.iter().enumerate() {
            let image = |id: usize| path.join(format!("{prefix}{}.img", id + at));
            fs::write(image(500), u64::MAX.to_le_bytes()).unwrap();
            fs::write(image(510), (1u64 << 29).to_le_bytes()).unwrap();
            fs::write(image(520), b"").unwrap();
            fs::create_dir(image(530)).unwrap();
        }
        let folder = path.to_str().unwrap();
        let args = [
            "images",
            folder,
            "0-399:-5",
            "400-499:-95",
            "500-503:-5",
            "510-513:-5",
            "520-523:-5",
            "530-533:-5",
            "600:-95",
        ];
        run_well(&program, &args, |_| ());
    }
}

#[test]
fn images_that_do_not_belong_together_fail_with_a_line() {
    let dir = TempDir::new().unwrap();
    let program = host(dir.path(), 15, true);
    let images = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };

    let path = images("no-task-record");
    let args = ["images", path.to_str().unwrap(), "1:-5", "2:-95"];
    let text = run_well(&program, &args, |pid| {
        file_record(&path, 1, FileKind::Kfd, pid);
    });
    assert!(
        text.contains("RESTORE_EXT_FILE: Image rocferry-task-"),
        "{text}"
    );

    let path = images("damaged-task-record");
    let args = ["images", path.to_str().unwrap(), "1:-5", "2:-5"];
    let text = run_well(&program, &args, |pid| {
        file_record(&path, 1, FileKind::Kfd, pid);
        let name = names::task_record(TaskPid(pid));
        fs::write(path.join(name), Noise(7).framed(100)).unwrap();
    });
    assert!(text.contains("Cannot use the GPU images"), "{text}");

    let path = images("no-file-record");
    let args = ["images", path.to_str().unwrap(), "1:-5", "2:-95"];
    let text = run_well(&program, &args, |pid| {
        task_record(&path, pid, 1);
        let name = names::dmabuf(FileId(3));
        fs::write(path.join(name), b"").unwrap();
        let name = names::kfd(FileId(1));
        fs::write(path.join(name), Noise(7).framed(100)).unwrap();
    });
    assert!(text.contains("Cannot use the GPU images"), "{text}");

    // A second name for the plugin in CRIU's folder: dlopen gives the same library, and it is begun again.
    let path = images("begun-twice");
    let args = ["images", path.to_str().unwrap(), "--twice", "1:-5"];
    run_well(&program, &args, |pid| {
        file_record(&path, 1, FileKind::Kfd, pid);
    });

    let path = images("of-another-process");
    let args = ["images", path.to_str().unwrap(), "1:-5"];
    let text = run_well(&program, &args, |pid| {
        let of = FileId(2);
        file_record(&path, 1, FileKind::KfdAlias { of }, pid + 1);
    });
    assert!(text.contains("process"), "{text}");

    let path = images("not-in-the-inventory");
    let args = ["images", path.to_str().unwrap(), "--unnamed", "1:-95"];
    run_well(&program, &args, |pid| {
        file_record(&path, 1, FileKind::Kfd, pid);
    });
}

/// A stream hands out each image once. A file of another plugin, met before the process's own, must not use
/// up what its own will need.
#[test]
fn a_stream_is_asked_for_each_image_once() {
    let dir = TempDir::new().unwrap();
    let program = host(dir.path(), 13, true);
    let path = dir.path().join("images");
    fs::create_dir(&path).unwrap();
    let args = [
        "images",
        path.to_str().unwrap(),
        "--stream",
        "1-4:-95",
        "5:-5",
        "6:-5",
    ];
    let text = run_well(&program, &args, |pid| {
        task_record(&path, pid, 5);
        file_record(&path, 5, FileKind::Kfd, pid);
        file_record(&path, 6, FileKind::Kfd, pid);
    });
    assert!(text.contains("Image amdgpu-kfd-5.img is missing"), "{text}");
    assert!(!text.contains("Image rocferry-task-"), "{text}");
}
