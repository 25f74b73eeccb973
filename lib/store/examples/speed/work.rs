//! What runs in processes of its own: the store's part, and sending and receiving a stream.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ObjectStoreExt, WriteMultipart};
use rocferry_image::manifest::CheckpointId;
use rocferry_store::envelope::TrustPolicy;
use rocferry_store::pull::PullOptions;
use rocferry_store::push::{Facts, PushOptions};
use rocferry_store::seal::{KeyConfig, WrappingKey};
use rocferry_store::{Progress, Store, StoreName, StoreOptions, backend};
use serde_json::json;
use tokio::sync::mpsc;

use crate::Done;
use crate::data::BufferCuts;

/// As large as those of the store, and as many at once.
const PART: usize = 8 << 20;
const IN_FLIGHT: usize = 3;

/// Does one of these, and says how it went as a JSON object:
///
/// - `push DIR URL`, `push-sealed DIR URL`: stores a directory,
/// - `pull URL ID DIR`: reads a checkpoint,
/// - `upload BUCKET KEY`: from standard input to an object,
/// - `download BUCKET KEY`: from an object to standard output.
///
/// URLs are those of stores. Server and credentials come from the environment.
pub(crate) fn work(arguments: &[String]) -> Done<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match arguments.as_slice() {
            ["push", dir, url] => push(dir, url, &KeyConfig::new()).await,
            ["push-sealed", dir, url] => {
                let mut keys = KeyConfig::new();
                keys.add_key(WrappingKey::from_file(&[1; 32])?);
                push(dir, url, &keys).await
            }
            ["pull", url, id, dir] => pull(url, id, dir).await,
            ["upload", bucket, key] => upload(bucket, key).await,
            ["download", bucket, key] => download(bucket, key).await,
            _ => Err(format!("{arguments:?}: unknown").into()),
        }
    })
}

async fn open(url: &str, keys: &KeyConfig) -> Done<Store> {
    let backend = backend::open(url, &StoreName::default())?;
    Ok(Store::open(backend, keys, StoreOptions::default()).await?)
}

async fn push(dir: &str, url: &str, keys: &KeyConfig) -> Done<()> {
    let store = open(url, keys).await?;
    let mut upload = store.push(PushOptions::default()).await?;
    let progress = upload.progress().clone();
    upload.add_tree(Path::new(dir), BufferCuts).await?;
    let manifest = upload.finish(Facts::default()).await?;
    report(Some(&manifest.id), &progress)
}

async fn pull(url: &str, id: &str, dir: &str) -> Done<()> {
    let store = open(url, &KeyConfig::new()).await?;
    let policy = TrustPolicy {
        unsigned: true,
        ..TrustPolicy::default()
    };
    let object = store.checkpoint(&id.parse()?, &policy).await?;
    let progress = Progress::new();
    let (manifest, options) = (Arc::new(object.manifest), PullOptions::default());
    store
        .pull(manifest, Path::new(dir), &options, &progress)
        .await?;
    report(None, &progress)
}

fn report(id: Option<&CheckpointId>, progress: &Progress) -> Done<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let peak: u64 = peak.ok_or("No VmHWM")?.trim().parse()?;
    let report = json!({
        "id": id.map(ToString::to_string),
        "moved": progress.snapshot().moved,
        "peak_rss": peak << 10,
    });
    Ok(writeln!(std::io::stdout(), "{report}")?)
}

fn bucket(name: &str) -> Done<AmazonS3> {
    let builder = AmazonS3Builder::from_env().with_bucket_name(name);
    Ok(builder.with_allow_http(true).build()?)
}

async fn upload(name: &str, key: &str) -> Done<()> {
    let started = bucket(name)?.put_multipart(&key.into()).await?;
    let mut upload = WriteMultipart::new_with_chunk_size(started, PART);
    let (sender, mut parts) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || read(&sender));
    while let Some(part) = parts.recv().await {
        upload.wait_for_capacity(IN_FLIGHT).await?;
        upload.put(part);
    }
    reading.await??;
    upload.finish().await?;
    Ok(())
}

fn read(sender: &mpsc::Sender<Bytes>) -> Done<()> {
    let mut input = std::io::stdin().lock();
    loop {
        let mut part = Vec::with_capacity(PART);
        input.by_ref().take(PART as u64).read_to_end(&mut part)?;
        if part.is_empty() || sender.blocking_send(part.into()).is_err() {
            return Ok(());
        }
    }
}

async fn download(name: &str, key: &str) -> Done<()> {
    let found = bucket(name)?.get(&key.into()).await?;
    let (sender, mut pieces) = mpsc::channel::<Bytes>(64);
    let writing = tokio::task::spawn_blocking(move || {
        let mut output = std::io::stdout().lock();
        while let Some(piece) = pieces.blocking_recv() {
            output.write_all(&piece)?;
        }
        output.flush()
    });
    let mut stream = found.into_stream().boxed();
    while let Some(piece) = stream.try_next().await? {
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    drop(sender);
    Ok(writing.await??)
}
