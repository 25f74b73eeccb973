//! What networks and registries do to requests.

use super::*;

#[tokio::test]
async fn a_registry_that_takes_no_chunks() {
    let place = fresh().await;
    for status in [405, 400, 501] {
        let rules = move |request: &Request| match request.method.as_str() {
            "PATCH" => Rule::Answer(status, vec![], String::new()),
            _ => Rule::Pass,
        };
        let (proxy, backend) = behind(&place, rules).await;
        let content = bytes(u64::from(status), (25 << 20) + 7);
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        for piece in [0..5 << 20, 5 << 20..25 << 20, 25 << 20..content.len()] {
            writer.write(content.slice(piece)).await.expect("write");
        }
        writer.finish().await.expect("finish");
        assert!(get(&place.backend(&tenant()), &pack(1)).await == content);
        assert_eq!(proxy.count("PATCH", ""), 1);
    }
}

#[tokio::test]
async fn chunks_are_sent_again() {
    let place = fresh().await;
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    // Each time in another way; docker-registry loses most of these uploads.
    let rules = move |request: &Request| {
        if request.method != "PATCH" {
            return Rule::Pass;
        }
        match counted.fetch_add(1, Ordering::Relaxed) {
            1 => Rule::Answer(500, vec![], String::new()),
            3 | 9 => Rule::LoseAnswer,
            4 => Rule::CutBody(0),
            7 => Rule::CutBody(3 << 20),
            _ => Rule::Pass,
        }
    };
    let (proxy, backend) = behind(&place, rules).await;
    let content = bytes(1, (40 << 20) + 1);
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    writer.write(content.clone()).await.expect("write");
    writer.finish().await.expect("finish");
    assert!(
        failures.load(Ordering::Relaxed) > 10,
        "all of them have happened"
    );
    assert!(proxy.count("GET", "/blobs/uploads/") > 2, "it has asked");
    assert!(get(&place.backend(&tenant()), &pack(1)).await == content);
}

#[tokio::test]
async fn lost_answers_at_the_end_are_successes() {
    let place = fresh().await;
    let lost = Mutex::new(std::collections::HashSet::new());
    // The first answer to each PUT: of a blob's end, whichever upload it ends, and of a manifest.
    let rules = move |request: &Request| {
        let what = match request.path.split_once("digest=") {
            Some((_, digest)) => digest.to_owned(),
            None => request.path.clone(),
        };
        match request.method.as_str() {
            "PUT" if lost.lock().expect("lost").insert(what) => Rule::LoseAnswer,
            _ => Rule::Pass,
        }
    };
    let (_proxy, backend) = behind(&place, rules).await;
    let content = bytes(1, 20 << 20);
    let mut writer = backend.writer(&pack(1)).await.expect("writer");
    writer.write(content.clone()).await.expect("write");
    writer.finish().await.expect("finish");
    assert!(get(&place.backend(&tenant()), &pack(1)).await == content);
    let retrying = Retrying::new(Arc::new(backend), quick());
    put(&retrying, &pack(2), &bytes(2, 10)).await;
    assert_eq!(get(&retrying, &pack(2)).await, bytes(2, 10));
}

#[tokio::test]
async fn a_registry_that_knows_no_ranges() {
    let place = fresh().await;
    let content = bytes(1, 1 << 20);
    put(&place.backend(&tenant()), &pack(1), &content).await;
    let (_proxy, backend) = behind(&place, |_: &Request| Rule::PassWithout(&["range"])).await;
    for range in [0..10, 500_000..500_100, 1_048_566..1_048_576] {
        let got = backend.get(&pack(1), Some(range.clone()), LIMIT).await;
        let range = usize::try_from(range.start).expect("small")
            ..usize::try_from(range.end).expect("small");
        assert_eq!(got.expect("range"), content.slice(range));
    }
}

#[tokio::test]
async fn a_read_that_is_cut_short_is_temporary() {
    let place = fresh().await;
    put(&place.backend(&tenant()), &pack(1), &bytes(1, 1 << 20)).await;
    let rules = |request: &Request| match request.path.contains("/blobs/") {
        true => Rule::CutAnswer(300_000),
        false => Rule::Pass,
    };
    let (_proxy, backend) = behind(&place, rules).await;
    for range in [None, Some(0..1 << 19)] {
        let error = backend.get(&pack(1), range, LIMIT).await.expect_err("cut");
        assert!(!error.is_permanent(), "{error:?}");
    }
}

#[tokio::test]
async fn a_blob_with_another_content_is_found_out() {
    let place = fresh().await;
    put(&place.backend(&tenant()), &pack(1), &bytes(1, 100)).await;
    let other = String::from_utf8(vec![b'x'; 100]).expect("text");
    let rules = move |request: &Request| match request.path.contains("/blobs/") {
        true => Rule::Answer(200, vec![], other.clone()),
        false => Rule::Pass,
    };
    let (_proxy, backend) = behind(&place, rules).await;
    let error = backend.get(&pack(1), None, LIMIT).await.expect_err("other");
    assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn pages_of_tags_are_followed() {
    let place = fresh().await;
    let own = format!("{}/{}", place.name, tenant());
    let page = |tags: &str| format!("{{\"name\":\"x\",\"tags\":{tags}}}");
    let rules = move |request: &Request| {
        if !request.path.contains("/tags/list") {
            return Rule::Pass;
        }
        let id = |n: u8| pack(n).to_string().replace('/', ".");
        if request.path.contains("last=") {
            return Rule::Answer(200, vec![], page(&format!("[\"{}\"]", id(2))));
        }
        let next = format!("</v2/{own}/tags/list?n=1&last={}>; rel=\"next\"", id(1));
        let tags = format!("[\"latest\",\"{}\"]", id(1));
        Rule::Answer(200, vec![("Link", next)], page(&tags))
    };
    for n in [1, 2, 3] {
        put(&place.backend(&tenant()), &pack(n), &bytes(1, 10)).await;
    }
    let (_proxy, backend) = behind(&place, rules).await;
    let listed = keys(&backend, Kind::Pack).await;
    assert_eq!(listed, [pack(1), pack(2)].into());
}

#[tokio::test]
async fn a_registry_that_is_busy_says_how_long() {
    let place = fresh().await;
    let rules = |_: &Request| {
        let body = "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\",\"message\":\"slow\"}]}".to_owned();
        Rule::Answer(429, vec![("Retry-After", "21".to_owned())], body)
    };
    let (proxy, backend) = behind(&place, rules).await;
    let error = backend.head(&pack(1)).await.expect_err("busy");
    assert!(
        matches!(&error, BackendError::Unavailable { retry_after: Some(wait), .. }
            if wait.as_secs() == 21),
        "{error:?}"
    );
    assert_eq!(proxy.seen().len(), 1);
}

#[tokio::test]
async fn a_blob_that_is_not_known_for_a_moment_is_waited_for() {
    let place = fresh().await;
    let unknown = AtomicUsize::new(0);
    // As docker-registry says it while another process pushes the same blob.
    let rules = move |request: &Request| {
        let manifest = request.method == "PUT" && request.path.contains("/manifests/");
        if manifest && unknown.fetch_add(1, Ordering::Relaxed) < 3 {
            let body = "{\"errors\":[{\"code\":\"DIGEST_INVALID\",\"message\":\"m\"},\
                {\"code\":\"MANIFEST_BLOB_UNKNOWN\",\"message\":\"m\"}]}";
            return Rule::Answer(400, vec![], body.to_owned());
        }
        Rule::Pass
    };
    let (proxy, backend) = behind(&place, rules).await;
    put(&backend, &pack(1), &bytes(1, 10)).await;
    assert_eq!(proxy.count("PUT", "/manifests/"), 4);

    let body = "{\"errors\":[{\"code\":\"MANIFEST_BLOB_UNKNOWN\",\"message\":\"m\"}]}";
    let rules = move |request: &Request| match request.method.as_str() {
        "PUT" if request.path.contains("/manifests/") => Rule::Answer(400, vec![], body.to_owned()),
        _ => Rule::Pass,
    };
    let (proxy, backend) = behind(&place, rules).await;
    let key = pack(2);
    let error = backend.put(&key, bytes(2, 10), Existing::Keep, &[]);
    let error = error.await.expect_err("never known");
    assert!(matches!(error, BackendError::Failed { .. }), "{error:?}");
    assert!(proxy.count("PUT", "/manifests/") < 10, "not tried for ever");
}
