//! Archives of other engines, in and out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rocferry_image::manifest::Manifest;
use rocferry_store::archive::{Engine, ImageNames, Origin};
use rocferry_store::interchange::{Form, InterchangeError};
use rocferry_store::pull::PullOptions;
use rocferry_store::push::Facts;
use rocferry_store::seal::KeyConfig;
use rocferry_store::{Kind, Store};

use crate::lab::{BLOCK, assert_same, memory, noise, open, options, pull, push, sample};

/// What an engine leaves, as far as it has to be there.
fn checkpoint(dir: &Path) {
    let write = |path: &str, bytes: &[u8]| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, bytes).expect("file");
    };
    let digest = "a".repeat(64);
    let config = format!(
        r#"{{"id":"{id}","name":"work","rootfsImage":"{digest}","rootfsImageRef":"{digest}",
        "rootfsImageName":"localhost/work:1","runtime":"runc"}}"#,
        id = "b".repeat(64)
    );
    write("config.dump", config.as_bytes());
    let spec = r#"{"ociVersion":"1.0.0","annotations":{"io.kubernetes.cri-o.Annotations":"{}",
        "io.kubernetes.container.name":"work"},"mounts":[]}"#;
    write("spec.dump", spec.as_bytes());
    write("checkpoint/inventory.img", b"inventory");
    let mut pages = noise(1, 2 * BLOCK + 77);
    pages.extend(vec![0; BLOCK]);
    write("checkpoint/pages-1.img", &pages);
    // Whole seconds: an archive in the GNU format holds no more.
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000);
    for path in [
        "config.dump",
        "spec.dump",
        "checkpoint/inventory.img",
        "checkpoint/pages-1.img",
        "checkpoint",
    ] {
        let file = File::open(dir.join(path)).expect("file");
        file.set_modified(time).expect("time");
    }
}

fn tar(args: &[&str]) {
    let done = Command::new("tar").args(args).status().expect("tar");
    assert!(done.success(), "tar {args:?}");
}

async fn import(
    store: &Store,
    file: &Path,
    form: Form,
) -> Result<(Manifest, Origin), InterchangeError> {
    let mut upload = store.push(options()).await?;
    let file = File::open(file).expect("archive");
    let spool = std::env::temp_dir();
    match upload.add_archive(file, form, &spool).await {
        Ok(archive) => {
            let facts = Facts {
                source: archive.source,
                ..Facts::default()
            };
            Ok((upload.finish(facts).await?, archive.origin))
        }
        Err(error) => {
            upload.abort().await;
            Err(error)
        }
    }
}

/// Writes an archive of a checkpoint, and returns its path.
async fn export(store: &Store, manifest: &Manifest, dir: &Path) -> PathBuf {
    let path = dir.join("exported.tar");
    let out = File::create(&path).expect("file");
    let manifest = Arc::new(manifest.clone());
    let written = store
        .export(manifest, Engine::CriO, out)
        .await
        .expect("exported");
    assert_eq!(written.bytes, fs::metadata(&path).expect("meta").len());
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_goes_in_and_comes_out() {
    let dir = tempfile::tempdir().expect("dir");
    let dir = dir.path();
    let from = dir.join("from");
    checkpoint(&from);
    let store = open(memory(), &KeyConfig::new()).await;
    let (name, text) = (|name: &str| dir.join(name), from.display().to_string());
    let archive = |name: &str| dir.join(name).display().to_string();
    tar(&["-C", &text, "-cf", &archive("plain.tar"), "."]);
    tar(&["-C", &text, "-czf", &archive("gzip.tar"), "."]);
    tar(&[
        "-C",
        &text,
        "-S",
        "--format=posix",
        "-cf",
        &archive("sparse.tar"),
        ".",
    ]);
    let mut first: Option<Manifest> = None;
    for file in ["plain.tar", "gzip.tar", "sparse.tar"] {
        let (manifest, _) = import(&store, &name(file), Form::Archive)
            .await
            .expect("imported");
        assert_eq!(manifest.source.image.as_deref(), Some("localhost/work:1"));
        let to = name(&format!("to-{file}"));
        pull(&store, &manifest, &to, &PullOptions::default())
            .await
            .expect("read");
        assert_same(&from, &to);
        // The same blocks, however it was packed.
        if let Some(first) = &first {
            assert_eq!(first.packs, manifest.packs, "{file}");
        }
        first = Some(manifest);
    }
    let manifest = first.expect("imported");
    // What is exported has the same files, for GNU tar as well as for us.
    let path = export(&store, &manifest, dir).await;
    fs::create_dir(name("unpacked")).expect("dir");
    tar(&[
        "-C",
        &archive("unpacked"),
        "-xf",
        &path.display().to_string(),
    ]);
    let pages = |place: &str| fs::read(name(place).join("checkpoint/pages-1.img")).expect("pages");
    assert!(pages("unpacked") == pages("from"));
    let (again, _) = import(&store, &path, Form::Archive)
        .await
        .expect("imported");
    assert_eq!(
        again.plain_size() / BLOCK as u64,
        manifest.plain_size() / BLOCK as u64
    );
    // And as an image.
    let image = name("image.tar");
    let out = File::create(&image).expect("file");
    let names = ImageNames::default();
    let written = store
        .export_image(Arc::new(manifest.clone()), Engine::CriO, names, out)
        .await;
    assert!(written.expect("exported").digest.starts_with("sha256:"));
    let (again, _) = import(&store, &image, Form::Image).await.expect("imported");
    let to = name("from-image");
    pull(&store, &again, &to, &PullOptions::default())
        .await
        .expect("read");
    assert!(pages("from-image") == pages("from"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_archive_leaves_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let dir = dir.path();
    let from = dir.join("from");
    checkpoint(&from);
    // The last member is the one that is refused: everything before it was seen by then.
    std::os::unix::fs::symlink("/etc/shadow", from.join("zz")).expect("link");
    let archive = dir.join("archive.tar");
    let text = archive.display().to_string();
    tar(&[
        "-C",
        &from.display().to_string(),
        "--sort=name",
        "-cf",
        &text,
        ".",
    ]);
    let store = open(memory(), &KeyConfig::new()).await;
    let error = import(&store, &archive, Form::Archive)
        .await
        .expect_err("refused");
    assert!(matches!(error, InterchangeError::Read(_)), "{error:?}");
    for kind in [Kind::Pack, Kind::Index, Kind::Checkpoint, Kind::Lease] {
        assert_eq!(store.backend().list(kind).await.expect("list"), []);
    }
    // Links that came from a directory do not get into an archive.
    let from = dir.join("sample");
    sample(&from, 1);
    let (manifest, _) = push(&store, &from).await.expect("stored");
    let out = tempfile::tempfile().expect("file");
    let error = store.export(Arc::new(manifest), Engine::Podman, out).await;
    assert!(matches!(error, Err(InterchangeError::Link { .. })));
    assert_eq!(store.backend().list(Kind::Lease).await.expect("list"), []);
}
