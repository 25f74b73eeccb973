//! What a registry keeps, and what it does not.

use super::*;

#[tokio::test]
async fn a_registry_that_deletes_nothing_says_so() {
    let options = RegistryOptions {
        keep_all: true,
        ..RegistryOptions::default()
    };
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let backend = place.backend(&tenant());
    put(&backend, &pack(1), &bytes(1, 10)).await;
    let error = backend.delete(&pack(1)).await.expect_err("not allowed");
    let source = std::error::Error::source(&error)
        .expect("source")
        .to_string();
    assert!(source.contains("storage.delete.enabled"), "{source}");
    // What only tidies up does not mind.
    backend
        .put(&Key::Store, bytes(1, 10), Existing::Replace, &[])
        .await
        .expect("put");
    backend
        .put(&Key::Store, bytes(2, 10), Existing::Replace, &[])
        .await
        .expect("replace");
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let options = RegistryOptions {
        disk_mib: Some(24),
        ..RegistryOptions::default()
    };
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let backend = place.backend(&tenant());
    put(&backend, &pack(1), &bytes(1, 1 << 20)).await;
    let mut writer = backend.writer(&pack(3)).await.expect("writer");
    let error = match writer.write(bytes(3, 64 << 20)).await {
        Ok(()) => writer.finish().await,
        error => error,
    };
    let error = error.expect_err("writer");
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    let error = backend
        .put(&pack(2), bytes(2, 32 << 20), Existing::Replace, &[])
        .await
        .expect_err("put");
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    assert_eq!(keys(&backend, Kind::Pack).await.len(), 1);
}

/// All below a folder.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// The same without some hundred bytes for each upload that docker-registry (2.8) writes when it has removed it.
fn content(dir: &Path) -> Vec<std::path::PathBuf> {
    let of_hash = |path: &Path| path.iter().any(|part| part == "hashstates");
    let mut found = files(dir);
    found.retain(|path| !of_hash(path));
    found
}

#[tokio::test]
async fn given_up_uploads_are_removed_from_the_registry() {
    let options = RegistryOptions::default();
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let backend = place.backend(&tenant());
    for dropped in [false, true] {
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        writer.write(bytes(1, 25 << 20)).await.expect("write");
        assert!(!content(&place.registry.data_dir()).is_empty());
        if dropped {
            drop(writer);
            for _ in 0..100 {
                if content(&place.registry.data_dir()).is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        } else {
            writer.abort().await;
        }
        let left = content(&place.registry.data_dir());
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "dropped: {dropped}");
    }
}

/// Runs the registry's own garbage collection over its data.
fn collect_garbage(registry: &Registry) {
    let program = servers::servers().registry_program().expect("program");
    let config = registry.data_dir().with_file_name("config.yml");
    let output = std::process::Command::new(program)
        .args(["garbage-collect", "--delete-untagged"])
        .arg(config)
        .output()
        .expect("garbage-collect");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn garbage_collection_keeps_what_a_checkpoint_needs() {
    let options = RegistryOptions::default();
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let backend = place.backend(&tenant());
    for n in 1..4 {
        put(&backend, &pack(n), &bytes(u64::from(n), 50_000)).await;
    }
    put(&backend, &Key::Index(PackId([1; 16])), &bytes(8, 100)).await;
    let manifest = Key::Checkpoint(checkpoint(1));
    let needs = [pack(1), pack(2)];
    backend
        .put(&manifest, bytes(9, 500), Existing::Keep, &needs)
        .await
        .expect("put");
    let lease = Key::Pin(checkpoint(1));
    for seed in 0..3 {
        backend
            .put(&lease, bytes(seed, 10), Existing::Replace, &[])
            .await
            .expect("put");
    }
    // Somebody removes the packs' own tags: the checkpoint still names the blobs of two of them.
    for n in 1..4 {
        backend.delete(&pack(n)).await.expect("delete");
    }
    collect_garbage(&place.registry);
    // Another process, which remembers nothing.
    let backend = place.backend(&tenant());
    assert_eq!(get(&backend, &manifest).await, bytes(9, 500));
    assert_eq!(get(&backend, &lease).await, bytes(2, 10));
    assert_eq!(
        get(&backend, &Key::Index(PackId([1; 16]))).await,
        bytes(8, 100)
    );
    let blobs = files(&place.registry.data_dir().join("docker/registry/v2/blobs"));
    let size = |seed: u64| {
        let content = bytes(seed, 50_000);
        blobs
            .iter()
            .filter(|file| fs::read(file).is_ok_and(|found| found == content))
            .count()
    };
    assert_eq!((size(1), size(2), size(3)), (1, 1, 0));
    // They can be had again under their names, without being sent.
    put(&backend, &pack(1), &bytes(1, 50_000)).await;
}

#[tokio::test]
async fn a_repository_that_was_collected_can_be_written_again() {
    let options = RegistryOptions::default();
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let backend = place.backend(&tenant());
    put(&backend, &pack(1), &bytes(1, 100)).await;
    backend.delete(&pack(1)).await.expect("delete");
    // Takes the blob that stands for nothing, of which the backend thinks that it is there.
    collect_garbage(&place.registry);
    put(&backend, &pack(2), &bytes(2, 100)).await;
    assert_eq!(get(&backend, &pack(2)).await, bytes(2, 100));
}

#[tokio::test]
async fn what_a_checkpoint_needs_has_to_be_there() {
    let place = fresh().await;
    let backend = place.backend(&tenant());
    let key = Key::Checkpoint(checkpoint(1));
    let error = backend
        .put(&key, bytes(1, 10), Existing::Keep, &[pack(1)])
        .await
        .expect_err("no such pack");
    assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
    assert_absent(&backend, &key).await;
}
