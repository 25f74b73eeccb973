//! Uploads that are killed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rocferry_store::backend::{Backend, Directory};
use rocferry_store::pack::PackIndex;
use rocferry_store::push::{Facts, NoCuts, PushOptions};
use rocferry_store::{Key, Kind, Store, StoreName};

use crate::lab::{assert_same, key_file, noise, open, pull};

/// What tells a test that it runs in the child: the directory with everything.
const VARIABLE: &str = "ROCFERRY_TEST_UPLOAD";
const PACKS: u64 = 2 << 20;

fn backend(dir: &Path) -> Arc<Directory> {
    let opened = Directory::open(&dir.join("store"), &StoreName::default());
    Arc::new(opened.expect("opens"))
}

async fn store_it(store: &Store, dir: &Path) {
    let options = PushOptions {
        pack_size: PACKS,
        ..PushOptions::default()
    };
    let mut upload = store.push(options).await.expect("begins");
    upload
        .add_tree(&dir.join("from"), NoCuts)
        .await
        .expect("added");
    upload.finish(Facts::default()).await.expect("stored");
}

/// The blocks of all packs that are there, with their packs; no pack is broken.
async fn blocks(store: &Store) -> Vec<(rocferry_image::manifest::BlockId, Key)> {
    let mut blocks = Vec::new();
    for (key, meta) in store.backend().list(Kind::Pack).await.expect("list") {
        let Key::Pack(pack) = key else { continue };
        let bytes = store
            .backend()
            .get(&key, None, meta.size)
            .await
            .expect("pack");
        let footer = &bytes[bytes.len() - rocferry_store::pack::FOOTER..];
        let tail = PackIndex::tail(pack, meta.size, footer).expect("whole");
        let start = usize::try_from(tail.start).expect("fits");
        let tail = &bytes[start..];
        let header = &bytes[..rocferry_store::pack::HEADER];
        let index = PackIndex::from_pack(pack, meta.size, header, tail, store.keyring());
        let entries = index.expect("whole").entries;
        blocks.extend(entries.iter().map(|entry| (entry.id, key.clone())));
    }
    blocks
}

fn child(dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("own path"))
        .args(["killed::an_upload_is_killed_fifty_times", "--exact"])
        .env(VARIABLE, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("child")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_killed_fifty_times() {
    if let Some(dir) = std::env::var_os(VARIABLE) {
        let dir = PathBuf::from(dir);
        let store = open(backend(&dir), &key_file(7)).await;
        store_it(&store, &dir).await;
        return;
    }
    let temp = tempfile::tempdir().expect("dir");
    let dir = temp.path();
    std::fs::create_dir_all(dir.join("store")).expect("dir");
    std::fs::create_dir_all(dir.join("from")).expect("dir");
    let mut random = fastrand::Rng::with_seed(5);
    let (mut kills, mut rounds, mut with_packs) = (0, 0, 0);
    while kills < 50 {
        rounds += 1;
        let content = noise(rounds, 10 << 20);
        std::fs::write(dir.join("from").join(rounds.to_string()), content).expect("file");
        let store = open(backend(dir), &key_file(7)).await;
        let listed = store
            .backend()
            .list(Kind::Checkpoint)
            .await
            .expect("list")
            .len();
        loop {
            let before = blocks(&store).await.len();
            let mut upload = child(dir);
            // From the start of the program to after the end of its work.
            let pause = random.u64(0..400);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            upload.kill().expect("killed");
            let ended = upload.wait().expect("ended");
            let all = blocks(&store).await;
            assert!(all.len() >= before, "a pack is gone");
            let names: HashSet<_> = all.iter().map(|(id, _)| id).collect();
            assert_eq!(names.len(), all.len(), "a block was sent twice");
            let now = store
                .backend()
                .list(Kind::Checkpoint)
                .await
                .expect("list")
                .len();
            if ended.success() || now > listed {
                assert_eq!(now, listed + 1);
                break;
            }
            kills += 1;
            with_packs += u32::from(all.len() > before);
        }
    }
    assert!(with_packs > 0, "no kill hit an upload");
    // Nothing was left out, and what is listed is whole.
    let store = open(backend(dir), &key_file(7)).await;
    let before = blocks(&store).await.len();
    let mut upload = store.push(PushOptions::default()).await.expect("begins");
    upload
        .add_tree(&dir.join("from"), NoCuts)
        .await
        .expect("added");
    let manifest = upload.finish(Facts::default()).await.expect("stored");
    assert_eq!(blocks(&store).await.len(), before);
    let to = dir.join("to");
    pull(
        &store,
        &manifest,
        &to,
        &rocferry_store::pull::PullOptions::default(),
    )
    .await
    .expect("read");
    assert_same(&dir.join("from"), &to);
}
