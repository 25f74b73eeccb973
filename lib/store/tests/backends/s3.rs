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

mod access;
mod faults;
mod keeping;

/// A folder of a bucket.
pub(crate) struct Bucket {
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

pub(crate) async fn fresh() -> Bucket {
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

#[test]
fn a_large_object_needs_little_memory() {
    const NAME: &str = "s3::a_large_object_needs_little_memory";
    if child::argument().is_none() {
        return child::run(NAME, "", &[]);
    }
    within_memory(40);
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
