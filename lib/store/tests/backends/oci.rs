//! A registry, with a real one.

use super::child;
use super::suite::*;
use crate::macros::conformance;
use crate::servers::{self, proxy::Proxy, proxy::Request, proxy::Rule};
use async_trait::async_trait;
use rocferry_image::manifest::PackId;
use rocferry_store::backend::oci::Location;
use rocferry_store::backend::{
    Backend, BackendError, Existing, Oci, Options, RetryPolicy, Retrying, Variables, open_with,
};
use rocferry_store::{Key, Kind, StoreName};
use rocferry_vm::{Registry, RegistryOptions};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod access;
mod faults;
mod keeping;

/// A repository of a registry.
pub(crate) struct Repository {
    registry: Arc<Registry>,
    name: String,
}

#[async_trait]
impl Place for Repository {
    /// As stores are opened: docker-registry has an internal error for whoever reads a tag that it writes.
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        Arc::new(Retrying::new(Arc::new(self.backend(tenant)), quick()))
    }

    async fn litter(&self, tenant: &StoreName) {
        let own = format!("{}/{}/{tenant}", self.registry.host(), self.name);
        for tag in [
            "latest",
            "packs.README",
            "packs",
            "store.",
            // Of our form, and not ours.
            "store",
            "packs.0123456789abcdef0123456789abcdef",
            "checkpoints.20261130t014415-0123456789ab",
        ] {
            push_foreign(&own, tag).await;
        }
    }
}

/// Pushes an image that has nothing to do with us.
async fn push_foreign(repository: &str, tag: &str) {
    use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
    use oci_client::secrets::RegistryAuth;
    let client = Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    });
    let layers = [ImageLayer::oci_v1(b"foreign".to_vec(), None)];
    let config = Config::oci_v1(b"{}".to_vec(), None);
    let image = format!("{repository}:{tag}").parse().expect("reference");
    // `store.` is a tag by the rules.
    client
        .push(&image, &layers, config, &RegistryAuth::Anonymous, None)
        .await
        .unwrap_or_else(|error| panic!("{tag}: {error}"));
}

impl Repository {
    fn location(&self, host: &str) -> Location {
        Location {
            host: host.to_owned(),
            repository: self.name.clone(),
            plain: true,
        }
    }

    fn backend(&self, tenant: &StoreName) -> Oci {
        self.backend_at(&self.registry.host(), tenant, &nobody())
    }

    /// By way of a proxy, for instance.
    fn backend_at(&self, host: &str, tenant: &StoreName, variables: &Variables) -> Oci {
        Oci::open(&self.location(host), tenant, variables, quick()).expect("open")
    }
}

/// Without credentials, whatever the machine has.
fn nobody() -> Variables {
    Variables::only([])
}

fn quick() -> RetryPolicy {
    RetryPolicy {
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
        deadline: Duration::from_secs(20),
    }
}

fn on(registry: Arc<Registry>) -> Repository {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("team/place{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Repository { registry, name }
}

pub(crate) async fn fresh() -> Repository {
    on(servers::registry())
}

conformance!(fresh);

async fn behind(
    place: &Repository,
    rules: impl Fn(&Request) -> Rule + Send + Sync + 'static,
) -> (Proxy, Oci) {
    let proxy = Proxy::start(&place.registry.host(), rules).await;
    let host = proxy.address.to_string();
    let backend = place.backend_at(&host, &tenant(), &nobody());
    (proxy, backend)
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_temporary() {
    let location = Location {
        host: servers::nobody(),
        repository: "r".to_owned(),
        plain: true,
    };
    let backend = Oci::open(&location, &tenant(), &nobody(), RetryPolicy::NEVER).expect("open");
    for error in all_errors(&backend).await {
        assert!(!error.is_permanent(), "{error:?}");
    }
}

#[tokio::test]
async fn the_store_opens_by_its_url() {
    let place = fresh().await;
    let options = Options {
        retry: quick(),
        variables: nobody(),
    };
    let url = format!("oci://{}/{}", place.registry.host(), place.name);
    let opened = open_with(&url, &tenant(), &options).expect("open");
    put(&*opened, &Key::Store, &bytes(1, 10)).await;
    assert_eq!(
        get(&place.backend(&tenant()), &Key::Store).await,
        bytes(1, 10)
    );
}

#[test]
fn a_large_object_needs_little_memory() {
    const NAME: &str = "oci::a_large_object_needs_little_memory";
    if child::argument().is_none() {
        return child::run(NAME, "", &[]);
    }
    within_memory(64);
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

#[test]
fn names_of_repositories_have_rules() {
    for (repository, name) in [("Upper", "default"), ("a//b", "default"), ("team", "-x")] {
        let location = Location {
            host: "localhost".to_owned(),
            repository: repository.to_owned(),
            plain: true,
        };
        let name = StoreName::new(name).expect("name");
        let error = Oci::open(&location, &name, &nobody(), quick()).expect_err("refused");
        assert!(matches!(error, BackendError::Url { .. }), "{error:?}");
    }
}
