//! Who may use a bucket, and how requests are signed.

use super::*;

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
async fn content_is_hashed_for_the_signature_unless_that_is_not_wanted() {
    let bucket = fresh().await;
    for unsigned in [false, true] {
        let (proxy, _) = behind(&bucket, |_: &servers::proxy::Request| Rule::Pass).await;
        let location = bucket.location(&format!("http://{}", proxy.address));
        let keys = Variables::only([
            (
                "AWS_ACCESS_KEY_ID".to_owned(),
                bucket.server.access_key().to_owned(),
            ),
            (
                "AWS_SECRET_ACCESS_KEY".to_owned(),
                bucket.server.secret_key().to_owned(),
            ),
            ("AWS_UNSIGNED_PAYLOAD".to_owned(), unsigned.to_string()),
        ]);
        let backend = S3::open(&location, &tenant(), &keys, quick()).expect("open");
        let content = bytes(1, 9 << 20);
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        writer.write(content.clone()).await.expect("write");
        writer.finish().await.expect("finish");
        assert!(get(&backend, &pack(1)).await == content);
        let seen = proxy.seen();
        let mut hashes = seen
            .iter()
            .filter(|request| request.method == "PUT")
            .map(|request| request.headers["x-amz-content-sha256"].as_str());
        if unsigned {
            assert!(hashes.all(|hash| hash == "UNSIGNED-PAYLOAD"));
        } else {
            let found: std::collections::BTreeSet<&str> = hashes.collect();
            let parts = [&content[..8 << 20], &content[8 << 20..]];
            let wanted = parts.map(sha256);
            assert_eq!(found, wanted.iter().map(String::as_str).collect());
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
