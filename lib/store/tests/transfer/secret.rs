//! What is sealed tells nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rocferry_store::backend::Directory;
use rocferry_store::seal::{KeyConfig, SealError};
use rocferry_store::{Store, StoreError, StoreName};

use crate::lab::{BLOCK, key_file, noise, open, push, quick};

const SECRET: &[u8] = b"correct horse battery staple";

/// A directory whose files, names and links hold the secret, in blocks of all kinds.
fn planted(dir: &Path) {
    fs::create_dir_all(dir).expect("dir");
    let secret = std::str::from_utf8(SECRET).expect("text");
    let mut compressible = b"0 ".repeat(BLOCK);
    let mut incompressible = noise(1, 2 * BLOCK);
    for content in [&mut compressible, &mut incompressible] {
        let at = content.len() / 3;
        content[at..at + SECRET.len()].copy_from_slice(SECRET);
    }
    fs::write(dir.join("compressible"), compressible).expect("file");
    fs::write(dir.join("incompressible"), incompressible).expect("file");
    fs::write(dir.join("small"), SECRET).expect("file");
    fs::write(dir.join(format!("named {secret}")), b"x").expect("file");
    std::os::unix::fs::symlink(secret, dir.join("link")).expect("link");
}

/// Files below a directory that hold the secret, or are named by it.
fn leaks(dir: &Path) -> (usize, Vec<String>) {
    let (mut seen, mut leaks) = (0, Vec::new());
    let mut waiting = vec![dir.to_owned()];
    while let Some(place) = waiting.pop() {
        for file in fs::read_dir(place).expect("dir") {
            let path = file.expect("file").path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            seen += 1;
            let name = path.display().to_string();
            let bytes = fs::read(&path).expect("content");
            let found = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET);
            if found(&bytes) || found(name.as_bytes()) {
                leaks.push(name);
            }
        }
    }
    (seen, leaks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_secret_is_found_nowhere() {
    let dir = tempfile::tempdir().expect("dir");
    let from = dir.path().join("from");
    planted(&from);
    for (name, keys, sealed) in [
        ("open", KeyConfig::new(), false),
        ("sealed", key_file(7), true),
    ] {
        let place = dir.path().join(name);
        fs::create_dir(&place).expect("dir");
        let backend = Directory::open(&place, &StoreName::default()).expect("opens");
        let store = open(Arc::new(backend), &keys).await;
        push(&store, &from).await.expect("stored");
        let (seen, leaks) = leaks(&place);
        assert!(seen >= 4, "{seen} objects");
        // Without sealing it is found, so the search works.
        assert_eq!(leaks.is_empty(), sealed, "{leaks:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_key_is_named() {
    let dir = tempfile::tempdir().expect("dir");
    let place = dir.path().join("store");
    fs::create_dir(&place).expect("dir");
    let backend = || {
        let opened = Directory::open(&place, &StoreName::default());
        Arc::new(opened.expect("opens"))
    };
    open(backend(), &key_file(7)).await;
    let error = Store::open(backend(), &key_file(8), quick()).await;
    let Err(StoreError::Seal(error @ SealError::WrongKey { .. })) = error else {
        panic!("{error:?}");
    };
    let text = error.to_string();
    assert_eq!(text.matches("key-file:").count(), 2, "{text}");
    let error = Store::open(backend(), &KeyConfig::new(), quick()).await;
    assert!(matches!(
        error,
        Err(StoreError::Seal(SealError::NoKey { .. }))
    ));
}
