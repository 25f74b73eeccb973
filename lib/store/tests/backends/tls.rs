//! Servers with TLS.

use super::child;
use super::suite::*;
use crate::servers;
use rocferry_store::Kind;
use rocferry_store::backend::{
    Backend, BackendError, ErrorClass, Options, RetryPolicy, Variables, open_with,
};
use rocferry_vm::{RegistryOptions, S3Server};
use std::sync::Arc;

/// Opens both stores of `S3-URL ACCESS-KEY SECRET-KEY REGISTRY-URL`.
fn open(argument: &str) -> [Arc<dyn Backend>; 2] {
    let words: Vec<&str> = argument.split(' ').collect();
    let options = Options {
        variables: Variables::only([
            ("AWS_ACCESS_KEY_ID".to_owned(), words[1].to_owned()),
            ("AWS_SECRET_ACCESS_KEY".to_owned(), words[2].to_owned()),
        ]),
        retry: RetryPolicy::default(),
    };
    [words[0], words[3]].map(|url| open_with(url, &tenant(), &options).expect("open"))
}

/// Works with a server whose certificate is trusted.
#[tokio::main(flavor = "current_thread")]
async fn work(argument: &str) {
    for backend in open(argument) {
        let content = bytes(1, 9 << 20);
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        writer.write(content.clone()).await.expect("write");
        writer.finish().await.expect("finish");
        assert!(get(&*backend, &pack(1)).await == content);
        assert_eq!(keys(&*backend, Kind::Pack).await, [pack(1)].into());
        backend.delete(&pack(1)).await.expect("delete");
    }
}

/// Finds out at once that one is not.
#[tokio::main(flavor = "current_thread")]
async fn be_refused(argument: &str) {
    for backend in open(argument) {
        let error = backend.head(&pack(1)).await.expect_err("not trusted");
        assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
        assert_eq!(error.class(), ErrorClass::Permanent);
        assert!(format!("{error:?}").contains("UnknownIssuer"), "{error:?}");
    }
}

#[test]
fn certificates_are_looked_at() {
    const NAME: &str = "tls::certificates_are_looked_at";
    if let Some(argument) = child::argument() {
        return work(&argument);
    }
    let servers = servers::servers();
    let s3 = servers
        .start_secure_s3()
        .unwrap_or_else(|error| panic!("{error:#}"));
    let options = RegistryOptions {
        secure: true,
        ..RegistryOptions::default()
    };
    let registry = servers::other_registry(&servers, options);
    let argument = format!(
        "s3://{}?endpoint={} {} {} oci://{}/r?https",
        S3Server::bucket(),
        s3.endpoint(),
        s3.access_key(),
        s3.secret_key(),
        registry.host()
    );
    be_refused(&argument);
    let both = [s3.certificate(), registry.certificate()];
    let both = both.map(|file| std::fs::read_to_string(file).expect("certificate"));
    let trusted = tempfile::NamedTempFile::new().expect("file");
    std::fs::write(trusted.path(), both.concat()).expect("write");
    let variable = format!("SSL_CERT_FILE={}", trusted.path().display());
    let output = child::output(NAME, &argument, &[variable]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn a_machine_that_trusts_nobody_is_told_so() {
    const NAME: &str = "tls::a_machine_that_trusts_nobody_is_told_so";
    if child::argument().is_some() {
        let options = Options {
            variables: Variables::only([]),
            retry: RetryPolicy::default(),
        };
        for url in ["s3://bucket/prefix", "oci://localhost/store"] {
            // Where a client can be had without, that is well.
            if let Err(error) = open_with(url, &tenant(), &options) {
                let error = error.to_string();
                assert!(error.contains("CA certificates"), "{url}: {error}");
            }
        }
        return;
    }
    let nobody = [
        "env",
        "SSL_CERT_FILE=/dev/null",
        "SSL_CERT_DIR=/nonexistent",
    ];
    child::run(NAME, "once", &nobody);
}
