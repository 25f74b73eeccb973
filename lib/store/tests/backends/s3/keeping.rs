//! What a server keeps, and what it does not.

use super::*;

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
