use std::fs;
use std::os::unix::fs::symlink;

use tar::{Builder, Header};

use super::*;

fn spec(mounts: &[(&str, &str)]) -> Spec {
    let mounts: Vec<_> = mounts
        .iter()
        .map(|(destination, source)| {
            serde_json::json!({ "destination": destination, "source": source, "options": ["rbind"] })
        })
        .collect();
    let spec = serde_json::json!({ "root": { "path": "rootfs" }, "mounts": mounts });
    Spec::parse(Path::new("/bundle"), spec.to_string().into_bytes()).expect("JSON")
}

fn pod() -> Key {
    Key::Pod {
        uid: "u-1".parse().expect("uid"),
        container: "main".parse().expect("name"),
    }
}

fn volume(destination: &str, sub_path: &str) -> SavedVolume {
    SavedVolume {
        archive: "/c/scratch.tar".into(),
        destination: destination.to_owned(),
        sub_path: sub_path.into(),
    }
}

fn planned(key: &Key, source: &str, sub_path: &str) -> Result<PathBuf, String> {
    let ticket = Ticket {
        volumes: vec![volume("/scratch", sub_path)],
        ..Ticket::new("c", "/i")
    };
    let mut plan =
        plan(key, &ticket, &spec(&[("/scratch", source)])).map_err(|wrong| wrong.join("; "))?;
    Ok(plan.remove(0).folder)
}

#[test]
fn only_volumes_of_this_pod_are_filled() {
    let root = "/var/lib/kubelet/pods/u-1";
    let own = format!("{root}/volumes/kubernetes.io~empty-dir/scratch");
    for (source, sub_path) in [
        (own.clone(), ""),
        (format!("{own}/a/b"), "a/b"),
        (format!("{root}/volume-subpaths/scratch/main/0"), "a/b"),
    ] {
        let folder = planned(&pod(), &source, sub_path).expect(&source);
        assert_eq!(folder, Path::new(&own), "{source}");
    }
    for (source, sub_path) in [
        ("/data".to_owned(), ""),
        (format!("{own}/a"), ""),
        (format!("{own}/a"), "b"),
        (format!("{own}/../../kubernetes.io~csi/x"), ""),
        (own.replace("u-1", "u-2"), ""),
        (own.replace("~empty-dir", "~csi"), ""),
        (format!("{root}/volume-subpaths/scratch/main/0"), ""),
        (format!("{root}/volume-subpaths/scratch"), "a"),
        ("scratch".to_owned(), ""),
    ] {
        let error = planned(&pod(), &source, sub_path).expect_err(&source);
        assert!(error.contains("/scratch"), "{error}");
    }
    // Without a pod it is the administrator who names things.
    let id = Key::Container("c".parse().expect("id"));
    assert_eq!(planned(&id, "/data", ""), Ok("/data".into()));
    assert_eq!(planned(&id, "/data/a/b", "a/b"), Ok("/data".into()));
    planned(&id, "/data/a", "b").expect_err("another part");
}

#[test]
fn shared_memory_is_the_pods_and_not_the_nodes() {
    let ticket = Ticket {
        shared_memory: Some("/c/shm.tar".into()),
        ..Ticket::new("c", "/i")
    };
    let planned = |spec: &Spec| plan(&pod(), &ticket, spec);
    let good = planned(&spec(&[("/dev/shm", "/run/sandbox/shm")])).expect("a folder");
    assert_eq!(good[0].folder, Path::new("/run/sandbox/shm"));
    planned(&spec(&[("/dev/shm", "/dev/shm")])).expect_err("the node's");
    planned(&spec(&[])).expect_err("none");
}

struct Lab {
    _dir: tempfile::TempDir,
    tickets: TicketFolder,
    ticket: Ticket,
    spec: Spec,
    plan: Vec<Filling>,
    volume: PathBuf,
    root: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        for folder in ["bundle/rootfs", "volume"] {
            fs::create_dir_all(at(folder)).expect("made");
        }
        archive(&at("diff.tar"), &[("etc/changed", "diff")]);
        archive(&at("volume.tar"), &[("one", "1"), ("two", "2")]);
        let config = serde_json::json!({ "root": { "path": "rootfs" }, "mounts": [
            { "destination": "/v", "source": at("volume"), "options": ["bind"] } ] });
        let spec = Spec::parse(&at("bundle"), config.to_string().into_bytes()).expect("JSON");
        let ticket = Ticket {
            rootfs_diff: Some(at("diff.tar")),
            volumes: vec![SavedVolume {
                archive: at("volume.tar"),
                ..volume("/v", "")
            }],
            ..Ticket::new("c", "/i")
        };
        let plan = plan(&Self::key("a"), &ticket, &spec).expect("a plan");
        Self {
            tickets: TicketFolder::new(at("state")),
            volume: at("volume"),
            root: at("bundle/rootfs"),
            ticket,
            spec,
            plan,
            _dir: dir,
        }
    }

    fn key(id: &str) -> Key {
        Key::Container(id.parse().expect("id"))
    }

    fn fill(&self) -> Result<(), WrapperError> {
        fill(
            &self.tickets,
            &Self::key("a"),
            &self.ticket,
            &self.spec,
            &self.plan,
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.volume.join(name)).unwrap_or_default()
    }
}

fn archive(file: &Path, members: &[(&str, &str)]) {
    let mut builder = Builder::new(fs::File::create(file).expect("file"));
    for (name, content) in members {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_uid(rustix::process::getuid().as_raw().into());
        header.set_gid(rustix::process::getgid().as_raw().into());
        builder
            .append_data(&mut header, name, content.as_bytes())
            .expect("appended");
    }
    builder.into_inner().expect("a tar");
}

#[test]
fn a_root_is_filled_each_time_and_a_volume_once() {
    let lab = Lab::new();
    fs::create_dir(lab.root.join("etc")).expect("made");
    lab.fill().expect("filled");
    let changed = lab.root.join("etc/changed");
    assert_eq!(fs::read_to_string(&changed).expect("there"), "diff");
    assert_eq!((lab.read("one"), lab.read("two")), ("1".into(), "2".into()));
    // What the pod has done since stays; the next try has a new root file system.
    fs::write(lab.volume.join("one"), "newer").expect("written");
    fs::remove_file(&changed).expect("removed");
    lab.fill().expect("filled");
    assert_eq!(lab.read("one"), "newer");
    assert!(changed.exists());
}

#[test]
fn what_is_half_filled_is_filled_again() {
    let lab = Lab::new();
    fs::create_dir(lab.root.join("etc")).expect("made");
    // The second member cannot be made.
    fs::create_dir(lab.volume.join("two")).expect("made");
    let archive = &lab.plan[0].archive;
    let whole = fs::read(archive).expect("there");
    fs::write(archive, &whole[..1100]).expect("cut off");
    lab.fill().expect_err("cut off");
    fs::write(archive, &whole).expect("whole");
    lab.fill().expect("filled");
    assert_eq!((lab.read("one"), lab.read("two")), ("1".into(), "2".into()));
}

#[test]
fn a_missing_archive_or_folder_is_an_error() {
    let lab = Lab::new();
    fs::create_dir(lab.root.join("etc")).expect("made");
    let archive = &lab.plan[0].archive;
    fs::rename(archive, archive.with_extension("aside")).expect("moved");
    lab.fill().expect_err("no archive");
    symlink(archive.with_extension("aside"), archive).expect("linked");
    lab.fill().expect_err("a link");
    fs::remove_file(archive).expect("removed");
    fs::rename(archive.with_extension("aside"), archive).expect("moved");
    fs::rename(&lab.volume, lab.volume.with_extension("aside")).expect("moved");
    lab.fill().expect_err("no folder");
    symlink(lab.volume.with_extension("aside"), &lab.volume).expect("linked");
    lab.fill().expect_err("a link");
    assert!(!lab.volume.with_extension("aside").join("one").exists());
}
