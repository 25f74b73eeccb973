//! What networks and servers do to requests.

use super::*;

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
async fn a_conflict_or_a_lost_answer_of_a_kept_object_is_no_failure() {
    let bucket = fresh().await;
    put(&bucket.backend(&tenant()), &pack(9), &bytes(9, 10)).await;
    for lost in [false, true] {
        let tried = AtomicUsize::new(0);
        let rules = move |request: &servers::proxy::Request| {
            if !request.headers.contains_key("if-none-match")
                || tried.fetch_add(1, Ordering::Relaxed) > 0
            {
                return Rule::Pass;
            }
            if lost {
                return Rule::LoseAnswer;
            }
            // What Amazon answers while another writer is at it.
            let body = "<Error><Code>ConditionalRequestConflict</Code></Error>".to_owned();
            Rule::Answer(409, vec![], body)
        };
        let (_proxy, backend) = behind(&bucket, rules).await;
        let backend = Retrying::new(Arc::new(backend), quick());
        let key = pack(u8::from(lost));
        put(&backend, &key, &bytes(1, 1000)).await;
        assert_eq!(get(&backend, &key).await, bytes(1, 1000));
        let other = backend.put(&key, bytes(2, 1000), Existing::Keep, &[]).await;
        assert!(matches!(other, Err(BackendError::Exists { .. })));
    }
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
