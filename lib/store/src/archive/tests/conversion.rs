//! What is written for whom.

use serde_json::json;

use super::*;

fn hex(digit: &str) -> String {
    digit.repeat(64)
}

fn facts() -> Facts {
    Facts {
        image: Some("images.example:5000/team/app:v1".to_owned()),
        image_digest: Some(format!("sha256:{}", hex("d"))),
        image_id: Some(hex("1")),
    }
}

fn tar_of(names: &[&str]) -> Vec<u8> {
    names
        .iter()
        .fold(Tar::default(), |tar, name| tar.file(name, name.as_bytes()))
        .end()
}

/// A checkpoint of CRI-O.
fn crio() -> Files {
    let config = json!({
        "id": "c1", "name": "k8s_app_pod_ns_uid_0", "rootfsImageRef": hex("1"), "runtime": "runc",
        "rootfsImageName": "images.example:5000/team/app:v1", "checkpointedBy": "rocferry",
    });
    let annotations = json!({"io.kubernetes.container.hash": "h", "cdi.k8s.io/gpu": "x"});
    let spec = json!({"ociVersion": "1.1.0", "annotations": {
        "io.container.manager": "cri-o",
        "io.kubernetes.container.name": "app",
        "io.kubernetes.cri-o.Annotations": annotations.to_string(),
        "io.kubernetes.cri-o.Labels": json!({"io.kubernetes.pod.uid": "uid"}).to_string(),
        "cdi.k8s.io/gpu": "amd.com/gpu=all",
    }});
    Files::new(&[
        ("checkpoint/inventory.img", b"inventory"),
        ("checkpoint/pages-1.img", &[9; 3000]),
        ("checkpoint/rocferry-task-1.img", b"ours"),
        ("config.dump", config.to_string().as_bytes()),
        ("spec.dump", spec.to_string().as_bytes()),
        ("rootfs-diff.tar", &tar_of(&["etc/new", "var/changed"])),
        ("deleted.files", br#"["/etc/old","/gone"]"#),
        ("bind.mounts", b"[]"),
        (
            "devshm-checkpoint.tar",
            &Tar::default().member("./", b'5').end(),
        ),
        ("dump.log", b"log"),
        ("io.kubernetes.cri-o.LogPath", b"said"),
        ("network.status", b"{}"),
        ("stats-dump", b"stats"),
        ("rocferry.json", b"{}"),
    ])
}

/// A checkpoint of containerd.
fn containerd() -> Files {
    let reference = format!("images.example/app@sha256:{}", hex("d"));
    let config = json!({
        "id": "c2", "rootfsImageRef": reference, "rootfsImageName": "images.example/app:v2",
    });
    let spec = json!({"annotations": {"io.kubernetes.cri.container-name": "app"}});
    let status = json!({
        "id": "c2", "state": 1, "image_id": format!("sha256:{}", hex("2")),
        "annotations": {"io.kubernetes.container.hash": "h"},
    });
    let diff = Tar::default()
        .pax(&[("path", "etc/new"), ("size", "3")])
        .file("x", b"new")
        .file("etc/.wh.old", b"")
        .file(".wh.gone", b"")
        .member("link", b'2')
        .extension(b'L', b"var/last\0")
        .file("x", b"last");
    Files::new(&[
        ("checkpoint/inventory.img", b"inventory"),
        ("config.dump", config.to_string().as_bytes()),
        ("spec.dump", spec.to_string().as_bytes()),
        ("status.dump", status.to_string().as_bytes()),
        ("status", b"{}"),
        ("container.log", b"said"),
        ("rootfs-diff.tar", &gzip(&diff.end())),
    ])
}

/// A checkpoint of Podman.
fn podman() -> Files {
    let config = json!({
        "id": "c3", "name": "web", "rootfsImageID": hex("3"), "staticDir": "/var/lib/x",
        "rootfsImageName": "images.example/library/web:latest", "runtime": "crun",
    });
    let spec = json!({"annotations": {"io.container.manager": "libpod"}});
    Files::new(&[
        ("checkpoint/inventory.img", b"inventory"),
        ("config.dump", config.to_string().as_bytes()),
        ("spec.dump", spec.to_string().as_bytes()),
        ("rootfs-diff.tar", &tar_of(&["a"])),
        ("network.status", b"{}"),
        ("ctr.log", b"said"),
        ("devshm-checkpoint.tar", &tar_of(&["shared"])),
    ])
}

fn names(memory: &Memory) -> Vec<&str> {
    memory.files.keys().map(String::as_str).collect()
}

/// Names and contents of a nested tar.
fn nested(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(data);
    let member = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name, content)
    };
    archive.entries().unwrap().map(member).collect()
}

fn gunzip(data: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(data)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

#[test]
fn crio_for_containerd() {
    let (out, memory) = write_all(&mut crio(), Engine::Containerd, &facts()).unwrap();
    assert_eq!(
        names(&memory),
        [
            "checkpoint/inventory.img",
            "checkpoint/pages-1.img",
            "checkpoint/rocferry-task-1.img",
            "config.dump",
            "container.log",
            "dump.log",
            "rootfs-diff.tar",
            "spec.dump",
            "stats-dump",
            "status.dump",
        ]
    );
    assert_eq!(
        memory.order[..3],
        ["config.dump", "spec.dump", "status.dump"]
    );
    assert_eq!(memory.text("container.log"), "said");
    let config = memory.json("config.dump");
    let reference = format!("images.example:5000/team/app@sha256:{}", hex("d"));
    assert_eq!(config["rootfsImageRef"], reference);
    assert_eq!(config.get("checkpointedBy"), None);
    let status = memory.json("status.dump");
    assert_eq!(status["id"], "c1");
    assert_eq!(status["metadata"]["name"], "app");
    assert_eq!(status["image"]["image"], "images.example:5000/team/app:v1");
    assert_eq!(status["image_ref"], reference);
    assert_eq!(
        status["annotations"],
        json!({"io.kubernetes.container.hash": "h"})
    );
    assert_eq!(status["labels"]["io.kubernetes.pod.uid"], "uid");
    assert!(!memory.text("spec.dump").contains("cdi.k8s.io"));
    let diff = memory.content("rootfs-diff.tar");
    assert_eq!(diff[..2], [0x1f, 0x8b]);
    let found: Vec<String> = nested(&gunzip(diff))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(found, ["etc/.wh.old", ".wh.gone", "etc/new", "var/changed"]);
    // Once more, whatever the order of the list: the same bytes.
    let mut turned = crio();
    turned.entries.reverse();
    turned.contents.reverse();
    let (again, _) = write_all(&mut turned, Engine::Containerd, &facts()).unwrap();
    assert!(out == again);
}

#[test]
fn containerd_for_crio() {
    let (_, memory) = write_all(&mut containerd(), Engine::CriO, &Facts::default()).unwrap();
    assert_eq!(
        names(&memory),
        [
            "checkpoint/inventory.img",
            "config.dump",
            "deleted.files",
            "io.kubernetes.cri-o.LogPath",
            "rootfs-diff.tar",
            "spec.dump",
        ]
    );
    // The id is in the status.
    assert_eq!(memory.json("config.dump")["rootfsImageRef"], hex("2"));
    let kept = memory.json("spec.dump");
    let kept = kept["annotations"]["io.kubernetes.cri-o.Annotations"]
        .as_str()
        .unwrap();
    assert_eq!(kept, r#"{"io.kubernetes.container.hash":"h"}"#);
    assert_eq!(memory.text("deleted.files"), r#"["/etc/old","/gone"]"#);
    let diff = nested(memory.content("rootfs-diff.tar"));
    let expected: [(&str, &[u8]); 3] = [("etc/new", b"new"), ("link", b""), ("var/last", b"last")];
    assert!(
        diff.iter()
            .map(|(name, data)| (name.as_str(), &**data))
            .eq(expected)
    );
}

#[test]
fn each_for_its_own() {
    let (_, memory) = write_all(&mut crio(), Engine::CriO, &Facts::default()).unwrap();
    assert_eq!(memory.content("rootfs-diff.tar"), crio().contents[5]);
    assert_eq!(memory.text("deleted.files"), r#"["/etc/old","/gone"]"#);
    assert_eq!(memory.text("bind.mounts"), "[]");
    assert!(memory.files.contains_key("devshm-checkpoint.tar"));
    let kept = memory.json("spec.dump");
    let kept = kept["annotations"]["io.kubernetes.cri-o.Annotations"]
        .as_str()
        .unwrap();
    assert_eq!(kept, r#"{"io.kubernetes.container.hash":"h"}"#);

    let (_, memory) = write_all(&mut containerd(), Engine::Containerd, &Facts::default()).unwrap();
    assert!(memory.content("rootfs-diff.tar") == containerd().contents[6]);
    assert_eq!(memory.json("status.dump")["id"], "c2");
    assert!(memory.files.contains_key("status"));

    let (_, memory) = write_all(&mut podman(), Engine::Podman, &Facts::default()).unwrap();
    assert_eq!(names(&memory), {
        let mut names: Vec<_> = podman()
            .entries
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        names.sort();
        names
    });
    assert!(memory.content("devshm-checkpoint.tar") == podman().contents[6]);
    assert_eq!(memory.directories["checkpoint"].mode, 0o700);
}

#[test]
fn a_list_of_deleted_files_alone_makes_a_layer() {
    let mut files = crio();
    files.entries.remove(5);
    files.contents.remove(5);
    let (_, memory) = write_all(&mut files, Engine::Containerd, &facts()).unwrap();
    let diff = nested(&gunzip(memory.content("rootfs-diff.tar")));
    assert_eq!(diff.len(), 2);
}

#[test]
fn a_diff_without_deletions_changes_its_form_alone() {
    let plain = tar_of(&["etc/new"]);
    let with = |diff: &[u8]| {
        let mut files = crio();
        files.contents[5] = diff.to_vec();
        files.entries[5].kind = EntryKind::File {
            size: diff.len() as u64,
        };
        files.contents[6] = b"[]".to_vec();
        files.entries[6].kind = EntryKind::File { size: 2 };
        files
    };
    let mut packed = with(&gzip(&plain));
    let (_, memory) = write_all(&mut packed, Engine::CriO, &facts()).unwrap();
    assert!(memory.content("rootfs-diff.tar") == plain);
    let (_, memory) = write_all(&mut with(&plain), Engine::Containerd, &facts()).unwrap();
    assert!(gunzip(memory.content("rootfs-diff.tar")) == plain);
}

#[test]
fn what_is_missing_is_said() {
    let refused = |files: &mut Files, engine, facts: &Facts, expected: &str| {
        let error = write_all(files, engine, facts).expect_err(expected);
        let text = whole(&error);
        assert!(text.contains(expected), "{text:?} is not {expected:?}");
    };
    let none = Facts::default();
    let digest = "containerd needs the image's digest, and the checkpoint does not say it";
    refused(&mut crio(), Engine::Containerd, &none, digest);
    let shm = "\"devshm-checkpoint.tar\": the content of /dev/shm would be lost";
    refused(&mut podman(), Engine::Containerd, &facts(), shm);
    refused(
        &mut crio(),
        Engine::Podman,
        &facts(),
        "the configuration that Podman itself wrote",
    );
    let mut files = containerd();
    files.contents[3] = b"{}".to_vec();
    files.entries[3].kind = EntryKind::File { size: 2 };
    refused(
        &mut files,
        Engine::CriO,
        &none,
        "CRI-O needs the image's id",
    );
    let mut files = podman();
    files.add("volumes/data.tar", b"data");
    let (_, memory) = write_all(&mut files, Engine::Podman, &none).unwrap();
    assert_eq!(memory.text("volumes/data.tar"), "data");
    refused(
        &mut files,
        Engine::CriO,
        &none,
        "the content of a volume would be lost",
    );
    let mut files = Files::new(&[("config.dump", b"{}"), ("spec.dump", b"{}")]);
    refused(
        &mut files,
        Engine::CriO,
        &none,
        "has no checkpoint/inventory.img",
    );
    files.add("checkpoint/inventory.img", b"i");
    refused(&mut files, Engine::CriO, &facts(), "the container's id");
    let mut files = crio();
    files.entries.retain(|entry| entry.path != "spec.dump");
    refused(&mut files, Engine::CriO, &none, "has no spec.dump");

    let mut files = crio();
    files.contents[6] = br#"["/../../evil"]"#.to_vec();
    files.entries[6].kind = EntryKind::File { size: 15 };
    refused(&mut files, Engine::Containerd, &facts(), "has a .. part");
    let with_diff = |content: Vec<u8>| {
        let mut files = containerd();
        files.entries[6].kind = EntryKind::File {
            size: content.len() as u64,
        };
        files.contents[6] = content;
        files
    };
    let opaque = Tar::default().file("etc/.wh..wh..opq", b"").end();
    refused(
        &mut with_diff(opaque),
        Engine::CriO,
        &none,
        "a directory that was emptied",
    );
    let cut = Tar::default().file("etc/new", &[1; 600]).0;
    refused(
        &mut with_diff(cut),
        Engine::CriO,
        &none,
        "\"rootfs-diff.tar\" cannot be converted",
    );
    let evil = Tar::default().file("../.wh.evil", b"").end();
    refused(&mut with_diff(evil), Engine::CriO, &none, "has a .. part");

    let mut files = containerd();
    files.entries[4].kind = EntryKind::File { size: 1 };
    refused(
        &mut files,
        Engine::Containerd,
        &none,
        "has another size than the 1 bytes",
    );
    files.entries[4].kind = EntryKind::File { size: 3 };
    refused(
        &mut files,
        Engine::Containerd,
        &none,
        "has another size than the 3 bytes",
    );
    let mut files = containerd();
    files.entries[4].path = "../evil".to_owned();
    refused(
        &mut files,
        Engine::Containerd,
        &none,
        "cannot be in an archive",
    );
    let mut files = containerd();
    files.add("status/below", b"");
    refused(
        &mut files,
        Engine::Containerd,
        &none,
        "What it is in is no directory",
    );
    let spec = json!({"x": {"cdi.k8s.io/evil": ""}})
        .to_string()
        .into_bytes();
    let mut files = containerd();
    files.entries[2].kind = EntryKind::File {
        size: spec.len() as u64,
    };
    files.contents[2] = spec;
    refused(
        &mut files,
        Engine::Containerd,
        &none,
        "asks for CDI devices",
    );
}

#[test]
fn a_full_disk_is_the_output() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            let left = self.0.checked_sub(buf.len());
            self.0 = left.ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(buf.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (out, _) = write_all(&mut crio(), Engine::Containerd, &facts()).unwrap();
    for room in [0, 600, 3000, 9000, out.len() - 1] {
        let error = write(&mut crio(), Engine::Containerd, &facts(), Full(room));
        assert!(
            matches!(error, Err(WriteError::Io { .. })),
            "{room}: {error:?}"
        );
    }
    write(&mut crio(), Engine::Containerd, &facts(), Full(out.len())).unwrap();
}
