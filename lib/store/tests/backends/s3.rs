//! S3, with a real server.

use super::child;
use super::suite::*;
use crate::macros::conformance;
use crate::servers::{self, proxy::Proxy, proxy::Rule};
use async_trait::async_trait;
use bytes::Bytes;
use rocferry_store::backend::object::{ConditionalWrites, Location};
use rocferry_store::backend::{
    Backend, BackendError, Existing, Options, RetryPolicy, Retrying, S3, Variables, open_with,
};
use rocferry_store::{Key, Kind, StoreName};
use rocferry_vm::S3Server;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A folder of a bucket.
struct Bucket {
    server: Arc<S3Server>,
    prefix: String,
}

#[async_trait]
impl Place for Bucket {
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        Arc::new(self.backend(tenant))
    }

    async fn litter(&self, tenant: &StoreName) {
        let bucket = self.server.bucket_dir(S3Server::bucket());
        let own = bucket.join(&self.prefix).join(tenant.as_str());
        let id = "0123456789abcdef0123456789abcdef";
        for name in [
            "packs/README.txt".to_owned(),
            format!("packs/{}", id.to_uppercase()),
            format!("packs/sub/{id}"),
            format!("packs/{id}.bak"),
            "checkpoints/20261130t014415-0123456789ab.json".to_owned(),
            "other/thing with spaces".to_owned(),
        ] {
            let path = own.join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("dirs");
            fs::write(path, "foreign").expect("write");
        }
        // What consoles make for a folder.
        fs::create_dir_all(own.join("packs/folder")).expect("dirs");
    }
}

impl Bucket {
    fn location(&self, endpoint: &str) -> Location {
        Location {
            bucket: S3Server::bucket().to_owned(),
            prefix: self.prefix.clone(),
            endpoint: Some(endpoint.to_owned()),
            ..Location::default()
        }
    }

    fn backend(&self, tenant: &StoreName) -> S3 {
        self.backend_at(&self.server.endpoint(), tenant)
    }

    /// By way of a proxy, for instance.
    fn backend_at(&self, endpoint: &str, tenant: &StoreName) -> S3 {
        let location = self.location(endpoint);
        S3::open(&location, tenant, &keys_of(&self.server), quick()).expect("open")
    }
}

fn keys_of(server: &S3Server) -> Variables {
    variables(server.access_key(), server.secret_key())
}

fn variables(access_key: &str, secret_key: &str) -> Variables {
    Variables::only([
        ("AWS_ACCESS_KEY_ID".to_owned(), access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), secret_key.to_owned()),
    ])
}

fn quick() -> RetryPolicy {
    RetryPolicy {
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
        deadline: Duration::from_secs(20),
    }
}

fn on(server: Arc<S3Server>) -> Bucket {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let prefix = format!("place/{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Bucket { server, prefix }
}

async fn fresh() -> Bucket {
    on(servers::s3())
}

conformance!(fresh);

async fn behind(
    bucket: &Bucket,
    rules: impl Fn(&servers::proxy::Request) -> Rule + Send + Sync + 'static,
) -> (Proxy, S3) {
    let server = bucket.server.endpoint();
    let server = server.strip_prefix("http://").expect("plain");
    let proxy = Proxy::start(server, rules).await;
    let backend = bucket.backend_at(&format!("http://{}", proxy.address), &tenant());
    (proxy, backend)
}

#[tokio::test]
async fn this_server_makes_conditional_writes() {
    let bucket = fresh().await;
    let backend = bucket.backend(&tenant());
    assert_eq!(backend.conditional_writes(), ConditionalWrites::Unknown);
    put(&backend, &pack(1), &bytes(1, 10)).await;
    assert_eq!(backend.conditional_writes(), ConditionalWrites::Yes);
}

#[tokio::test]
async fn servers_without_conditional_writes_are_found_out() {
    let bucket = fresh().await;
    // One says so, the other takes no notice.
    for silent in [false, true] {
        let data = bucket.server.bucket_dir("");
        let rules = move |request: &servers::proxy::Request| {
            if !request.headers.contains_key("if-none-match") {
                Rule::Pass
            } else if silent {
                // The condition is signed. It holds always if the object goes just before.
                let _ = fs::remove_file(data.join(request.path.trim_start_matches('/')));
                Rule::Pass
            } else {
                let body = "<Error><Code>NotImplemented</Code></Error>".to_owned();
                Rule::Answer(501, vec![], body)
            }
        };
        let (proxy, backend) = behind(&bucket, rules).await;
        let (first, second) = (pack(u8::from(silent)), pack(2 + u8::from(silent)));
        put(&backend, &first, &bytes(1, 10)).await;
        assert_eq!(backend.conditional_writes(), ConditionalWrites::No);
        for key in [first, second] {
            let put = backend.put(&key, bytes(1, 10), Existing::Keep, &[]).await;
            let seen = proxy.seen();
            let last = seen.last().expect("a request");
            match put {
                Ok(()) => assert!(!last.headers.contains_key("if-none-match")),
                Err(error) => {
                    assert!(matches!(error, BackendError::Exists { .. }), "{error:?}");
                    assert_eq!(last.method, "HEAD");
                }
            }
            assert_eq!(get(&backend, &key).await, bytes(1, 10));
            let other = backend.put(&key, bytes(2, 10), Existing::Keep, &[]).await;
            assert!(matches!(other, Err(BackendError::Exists { .. })));
        }
    }
}

#[tokio::test]
async fn wrong_credentials_are_denied() {
    let bucket = fresh().await;
    let server = &bucket.server;
    for keys in [
        variables(server.access_key(), "wrong"),
        variables("nobody", server.secret_key()),
    ] {
        let location = bucket.location(&server.endpoint());
        let backend = S3::open(&location, &tenant(), &keys, quick()).expect("open");
        let errors = all_errors(&backend).await;
        for error in errors {
            assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
            let text = format!("{error:?}");
            assert!(!text.contains(server.secret_key()), "{text}");
        }
    }
}

/// Errors of all operations on something that does not work at all.
async fn all_errors(backend: &dyn Backend) -> Vec<BackendError> {
    let key = pack(1);
    let mut writer = backend.writer(&key).await.expect("begins nothing yet");
    let write = match writer.write(bytes(1, 9 << 20)).await {
        Ok(()) => writer.finish().await,
        error => error,
    };
    vec![
        backend.get(&key, None, 10).await.expect_err("get"),
        backend.get(&key, Some(0..1), 10).await.expect_err("range"),
        backend.head(&key).await.expect_err("head"),
        backend
            .put(&key, bytes(1, 10), Existing::Keep, &[])
            .await
            .expect_err("keep"),
        backend
            .put(&key, bytes(1, 10), Existing::Replace, &[])
            .await
            .expect_err("replace"),
        backend.list(Kind::Pack).await.expect_err("list"),
        backend.delete(&key).await.expect_err("delete"),
        write.expect_err("writer"),
    ]
}

#[tokio::test]
async fn a_server_that_is_not_there_is_temporary() {
    let location = Location {
        bucket: "b".to_owned(),
        endpoint: Some(format!("http://{}", servers::nobody())),
        ..Location::default()
    };
    let policy = RetryPolicy::NEVER;
    let backend = S3::open(&location, &tenant(), &variables("k", "s"), policy).expect("open");
    for error in all_errors(&backend).await {
        assert!(!error.is_permanent(), "{error:?}");
    }
}

#[tokio::test]
async fn no_credentials_anywhere_are_denied_at_once() {
    let location = Location {
        bucket: "b".to_owned(),
        endpoint: Some(format!("http://{}", servers::nobody())),
        ..Location::default()
    };
    // As on a machine that is nobody's cloud.
    let nowhere = Variables::only([(
        "AWS_METADATA_ENDPOINT".to_owned(),
        format!("http://{}", servers::nobody()),
    )]);
    let backend = S3::open(&location, &tenant(), &nowhere, quick()).expect("open");
    let error = Retrying::new(Arc::new(backend), quick())
        .head(&pack(1))
        .await;
    let error = error.expect_err("denied");
    assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_permanent() {
    let bucket = fresh().await;
    let location = Location {
        bucket: "no-such-bucket".to_owned(),
        ..bucket.location(&bucket.server.endpoint())
    };
    let keys = keys_of(&bucket.server);
    let backend = S3::open(&location, &tenant(), &keys, quick()).expect("open");
    for error in [
        backend.get(&pack(1), None, 10).await.expect_err("get"),
        backend.head(&pack(1)).await.expect_err("head"),
        backend.list(Kind::Pack).await.expect_err("list"),
        backend
            .put(&pack(1), bytes(1, 10), Existing::Replace, &[])
            .await
            .expect_err("put"),
    ] {
        assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
        let source = std::error::Error::source(&error).expect("source");
        assert!(source.to_string().contains("NoSuchBucket"), "{source}");
    }
}

#[tokio::test]
async fn the_store_opens_by_its_url() {
    let bucket = fresh().await;
    let endpoint = bucket.server.endpoint().replace(':', "%3A");
    let url = format!(
        "s3://{}/{}?endpoint={endpoint}&region=us-east-1&style=path",
        S3Server::bucket(),
        bucket.prefix
    );
    let options = Options {
        retry: quick(),
        variables: keys_of(&bucket.server),
    };
    let opened = open_with(&url, &tenant(), &options).expect("open");
    put(&*opened, &Key::Store, &bytes(1, 10)).await;
    assert_eq!(
        get(&bucket.backend(&tenant()), &Key::Store).await,
        bytes(1, 10)
    );
}

#[tokio::test]
async fn credentials_come_from_a_profile() {
    let bucket = fresh().await;
    let (server, dir) = (&bucket.server, tempfile::tempdir().expect("dir"));
    let file = dir.path().join("credentials");
    let text = format!(
        "[node]\naws_access_key_id = {}\naws_secret_access_key = {}\nendpoint_url = {}\n",
        server.access_key(),
        server.secret_key(),
        server.endpoint()
    );
    fs::write(&file, text).expect("write");
    let profile = Variables::only([
        (
            "AWS_SHARED_CREDENTIALS_FILE".to_owned(),
            file.display().to_string(),
        ),
        ("AWS_PROFILE".to_owned(), "node".to_owned()),
        ("HOME".to_owned(), dir.path().display().to_string()),
    ]);
    let location = Location {
        endpoint: None,
        ..bucket.location("")
    };
    let backend = S3::open(&location, &tenant(), &profile, quick()).expect("open");
    put(&backend, &pack(1), &bytes(1, 10)).await;
}

#[tokio::test]
async fn answers_that_ask_to_wait_are_understood() {
    let bucket = fresh().await;
    let rules = |_: &servers::proxy::Request| {
        let body = "<Error><Code>SlowDown</Code><Message>x</Message></Error>".to_owned();
        Rule::Answer(503, vec![("Retry-After", "17".to_owned())], body)
    };
    let (proxy, backend) = behind(&bucket, rules).await;
    let error = backend.get(&pack(1), None, 10).await.expect_err("busy");
    assert!(
        matches!(&error, BackendError::Unavailable { retry_after: Some(wait), .. }
            if wait.as_secs() == 17),
        "{error:?}"
    );
    assert_eq!(
        proxy.seen().len(),
        1,
        "one layer of retries, and it is above"
    );
}

#[tokio::test]
async fn parts_are_sent_again() {
    let bucket = fresh().await;
    // The first try of each part fails, in three ways.
    let rules = {
        let tries = std::sync::Mutex::new(std::collections::HashSet::new());
        move |request: &servers::proxy::Request| {
            if request.method != "PUT" || !tries.lock().expect("tries").insert(request.path.clone())
            {
                return Rule::Pass;
            }
            match request.number % 3 {
                0 => Rule::CutBody(1 << 20),
                1 => Rule::LoseAnswer,
                _ => Rule::Answer(500, vec![], String::new()),
            }
        }
    };
    let (proxy, backend) = behind(&bucket, rules).await;
    let content = bytes(1, (30 << 20) + 5);
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    writer.write(content.clone()).await.expect("write");
    writer.finish().await.expect("finish");
    assert!(get(&bucket.backend(&tenant()), &pack(1)).await == content);
    assert_eq!(proxy.count("PUT", "partNumber="), 8, "4 parts, twice each");
}

#[tokio::test]
async fn a_lost_answer_to_the_end_of_an_upload_is_a_success() {
    let bucket = fresh().await;
    let rules = |request: &servers::proxy::Request| match request.method.as_str() {
        "POST" if request.path.contains("uploadId=") => Rule::LoseAnswer,
        _ => Rule::Pass,
    };
    let (proxy, _) = behind(&bucket, rules).await;
    let policy = RetryPolicy {
        deadline: Duration::from_secs(2),
        ..quick()
    };
    let location = bucket.location(&format!("http://{}", proxy.address));
    let keys = keys_of(&bucket.server);
    let backend = S3::open(&location, &tenant(), &keys, policy).expect("open");
    let content = bytes(1, 17 << 20);
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    writer.write(content.clone()).await.expect("write");
    // Every try loses its answer; the second one's would be that there is no such upload.
    let done = writer.finish().await;
    drop(proxy);
    assert!(get(&bucket.backend(&tenant()), &pack(1)).await == content);
    // With answers lost for ever nobody can know.
    assert!(!done.expect_err("lost").is_permanent());

    let lost = AtomicUsize::new(0);
    let rules = move |request: &servers::proxy::Request| match request.method.as_str() {
        "POST"
            if request.path.contains("uploadId=") && lost.fetch_add(1, Ordering::Relaxed) == 0 =>
        {
            Rule::LoseAnswer
        }
        _ => Rule::Pass,
    };
    let (_proxy, backend) = behind(&bucket, rules).await;
    let mut writer = backend.writer(&pack(2)).await.expect("writer");
    writer.write(content.clone()).await.expect("write");
    writer.finish().await.expect("it is there");
    assert!(get(&backend, &pack(2)).await == content);
}

#[tokio::test]
async fn a_read_that_is_cut_short_is_temporary() {
    let bucket = fresh().await;
    put(&bucket.backend(&tenant()), &pack(1), &bytes(1, 1 << 20)).await;
    let rules = |_: &servers::proxy::Request| Rule::CutAnswer(300_000);
    let (_proxy, backend) = behind(&bucket, rules).await;
    for range in [None, Some(0..1 << 20)] {
        let error = backend.get(&pack(1), range, LIMIT).await.expect_err("cut");
        assert!(!error.is_permanent(), "{error:?}");
    }
}

/// Files of uploads that the server has, finished or not.
fn remains(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => remains(&entry.path()),
            Ok(kind) if kind.is_file() => 1,
            _ => 0,
        })
        .sum()
}

#[tokio::test]
async fn given_up_uploads_are_removed_from_the_server() {
    // With a server of its own, since what is counted is the server's.
    let bucket = on(Arc::new(servers::small_s3(&servers::servers(), None)));
    let backend = bucket.backend(&tenant());
    let dir = bucket.server.bucket_dir(S3Server::bucket());
    for dropped in [false, true] {
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        writer.write(bytes(1, 25 << 20)).await.expect("write");
        if dropped {
            drop(writer);
            let mut waited = 0;
            while remains(&dir) > 0 && waited < 100 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                waited += 1;
            }
        } else {
            writer.abort().await;
        }
        assert_eq!(remains(&dir), 0, "dropped: {dropped}");
    }
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let server = servers::small_s3(&servers::servers(), Some(12));
    let bucket = on(Arc::new(server));
    let backend = bucket.backend(&tenant());
    put(&backend, &pack(1), &bytes(1, 1 << 20)).await;
    let error = backend
        .put(&pack(2), bytes(2, 16 << 20), Existing::Replace, &[])
        .await
        .expect_err("put");
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    let mut writer = backend.writer(&pack(3)).await.expect("writer");
    let error = match writer.write(bytes(3, 64 << 20)).await {
        Ok(()) => writer.finish().await,
        error => error,
    };
    let error = error.expect_err("writer");
    assert!(matches!(error, BackendError::Full { .. }), "{error:?}");
    assert_eq!(keys(&backend, Kind::Pack).await.len(), 1);
}

#[test]
fn a_large_object_needs_little_memory() {
    const NAME: &str = "s3::a_large_object_needs_little_memory";
    if child::argument().is_none() {
        return child::run(NAME, "", &[]);
    }
    within_memory(80);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn within_memory(mebibytes: u64) {
    let place = fresh().await;
    let backend = place.open(&tenant());
    write_large(&*backend, &pack(1), 16).await;
    child::forget_peak();
    let before = child::peak_kib();
    write_large(&*backend, &pack(2), 256).await;
    read_large(&*backend, &pack(2), 256).await;
    let grown = child::peak_kib().saturating_sub(before);
    println!("{grown} KiB");
    assert!(grown < mebibytes << 10, "{grown} KiB for 256 MiB");
}

#[tokio::test]
async fn an_earlier_error_ends_a_writer() {
    let bucket = fresh().await;
    let rules = |request: &servers::proxy::Request| match request.method.as_str() {
        "PUT" => Rule::Answer(403, vec![], String::new()),
        _ => Rule::Pass,
    };
    let (_proxy, backend) = behind(&bucket, rules).await;
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    let error = writer.write(bytes(1, 80 << 20)).await.expect_err("denied");
    assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
    writer
        .write(Bytes::new())
        .await
        .expect_err("of no more use");
    writer.finish().await.expect_err("not whole");
}
