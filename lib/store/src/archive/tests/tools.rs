//! With GNU tar.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("GNU tar");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    assert!(errors.is_empty(), "{command:?}: {errors}");
    output.stdout
}

fn gnu_tar(dir: &Path) -> Command {
    let mut command = Command::new("tar");
    command.arg("--directory").arg(dir).env("LC_ALL", "C.UTF-8");
    command
}

fn long_name() -> String {
    format!("checkpoint/{}/{}/ü", "d".repeat(60), "f".repeat(60))
}

/// A directory with all that is in question: long names, holes, an empty file.
fn directory(long: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let put = |path: &str, content: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    put("config.dump", br#"{"id":"c"}"#);
    put("spec.dump", b"{}");
    put("checkpoint/inventory.img", b"inventory");
    put("checkpoint/empty", b"");
    put(long, &[5; 1500]);
    let sparse = fs::File::create(root.join("checkpoint/sparse")).unwrap();
    for part in 0..40u64 {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &[7; 4096], part << 16).unwrap();
    }
    sparse.set_len(8 << 20).unwrap();
    dir
}

#[test]
fn reads_what_gnu_tar_writes() {
    let long = long_name();
    let dir = directory(&long);
    let formats: [&[&str]; 6] = [
        &["--format=ustar"],
        &["--format=gnu"],
        &["--format=posix"],
        &["--format=gnu", "--sparse"],
        &["--format=posix", "--sparse"],
        &["--format=posix", "--sparse", "--gzip"],
    ];
    for format in formats {
        for start in [&["."][..], &["checkpoint", "config.dump", "spec.dump"]] {
            let mut command = gnu_tar(dir.path());
            let data = run(command.arg("--create").args(format).args(start));
            let (archive, memory) = read_all(&data).unwrap();
            for path in [
                "config.dump",
                "spec.dump",
                "checkpoint/empty",
                "checkpoint/sparse",
                &long,
            ] {
                let expected = fs::read(dir.path().join(path)).unwrap();
                assert!(memory.content(path) == expected, "{format:?} {path}");
            }
            let whole = memory.directories.len() + memory.files.len();
            assert_eq!(archive.members, whole, "{format:?}");
            let sparse = format.contains(&"--sparse");
            assert_eq!(data.len() < 1 << 20, sparse, "{format:?}");
            let offset = memory.files["checkpoint/sparse"].2;
            assert_eq!(offset.is_none(), sparse, "{format:?}");
        }
    }
    // The older ways of PAX are refused by name.
    for version in ["0.0", "0.1"] {
        let mut command = gnu_tar(dir.path());
        let option = format!("--sparse-version={version}");
        let data = run(command.args(["--create", "--format=posix", "--sparse", &option, "."]));
        let error = read_all(&data).expect_err(version).to_string();
        assert!(
            error.contains("checkpoint/sparse") && error.contains("not 1.0"),
            "{error}"
        );
    }
    std::os::unix::fs::symlink("config.dump", dir.path().join("evil")).unwrap();
    let error = read_all(&run(gnu_tar(dir.path()).args(["--create", "."])));
    let error = error.expect_err("link").to_string();
    assert!(
        error.contains("\"./evil\"") && error.contains("a symbolic link"),
        "{error}"
    );
}

#[test]
fn gnu_tar_reads_what_is_written() {
    let id = "1".repeat(64);
    let config = format!(r#"{{"id":"c","rootfsImageName":"a/b:c","rootfsImageRef":"{id}"}}"#);
    let long = long_name();
    let mut files = Files::new(&[
        ("config.dump", config.as_bytes()),
        ("spec.dump", b"{}"),
        ("checkpoint/inventory.img", b"inventory"),
        (&long, &[5; 1500]),
        ("checkpoint/pages-1.img", &[6; 100_000]),
    ]);
    let (data, memory) = write_all(&mut files, Engine::CriO, &Facts::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("archive.tar");
    fs::write(&file, &data).unwrap();
    let names = run(Command::new("tar")
        .arg("--list")
        .arg("--file")
        .arg(&file)
        .args(["--quoting-style=literal"]));
    let names = String::from_utf8(names).unwrap();
    let listed: Vec<&str> = names
        .lines()
        .map(|name| name.trim_end_matches('/'))
        .collect();
    assert_eq!(listed, memory.order);
    let target = dir.path().join("out");
    fs::create_dir(&target).unwrap();
    run(gnu_tar(&target)
        .args(["--extract", "--no-same-owner", "--file"])
        .arg(&file));
    for (path, (_, content, _)) in &memory.files {
        assert!(fs::read(target.join(path)).unwrap() == *content, "{path}");
    }
}
