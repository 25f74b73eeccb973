//! Who may use a registry.

use super::*;

/// A file of credentials for a registry, and what names it.
fn credentials(host: &str, user: &str, password: &str) -> (tempfile::TempDir, Variables) {
    use base64::Engine;
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("auth.json");
    let text = format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"{auth}\"}}}}}}");
    fs::write(&file, text).expect("write");
    let variables =
        Variables::only([("REGISTRY_AUTH_FILE".to_owned(), file.display().to_string())]);
    (dir, variables)
}

#[tokio::test]
async fn a_registry_with_passwords() {
    let options = RegistryOptions {
        password: true,
        ..RegistryOptions::default()
    };
    let registry = servers::other_registry(&servers::servers(), options);
    let place = on(Arc::new(registry));
    let host = place.registry.host();
    let (_dir, right) = credentials(&host, Registry::USER, Registry::PASSWORD);
    let backend = place.backend_at(&host, &tenant(), &right);
    put(&backend, &pack(1), &bytes(1, 10)).await;
    assert_eq!(get(&backend, &pack(1)).await, bytes(1, 10));
    backend.delete(&pack(1)).await.expect("delete");

    let (_dir, wrong) = credentials(&host, Registry::USER, "wrong");
    for variables in [wrong, nobody()] {
        let backend = place.backend_at(&host, &tenant(), &variables);
        for error in all_errors(&backend).await {
            assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
        }
    }

    // One that is replaced while the store is open.
    let (dir, variables) = credentials(&host, Registry::USER, "old");
    let backend = place.backend_at(&host, &tenant(), &variables);
    backend.head(&pack(1)).await.expect_err("denied");
    let (new, _) = credentials(&host, Registry::USER, Registry::PASSWORD);
    fs::copy(new.path().join("auth.json"), dir.path().join("auth.json")).expect("copy");
    backend.head(&pack(1)).await.expect("let in now");
}

/// What a registry with a token service does, before one that lets everybody in. `valid` requests pass with
/// a token.
fn token_service(valid: usize) -> impl Fn(&Request) -> Rule + Send + Sync + 'static {
    let used: Mutex<std::collections::HashMap<String, usize>> = Mutex::default();
    let tokens = AtomicUsize::new(0);
    move |request| {
        let authorization = request
            .headers
            .get("authorization")
            .cloned()
            .unwrap_or_default();
        let host = request.headers.get("host").cloned().unwrap_or_default();
        if let Some(query) = request.path.strip_prefix("/token?") {
            // `rocferry:pw`.
            if authorization != "Basic cm9jZmVycnk6cHc=" {
                let body = "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}".to_owned();
                return Rule::Answer(401, vec![], body);
            }
            assert!(query.contains("service=reg"), "{query}");
            let scope = query
                .split('&')
                .find_map(|part| part.strip_prefix("scope="));
            let number = tokens.fetch_add(1, Ordering::Relaxed);
            let token = format!("{number}.{}", scope.expect("scope"));
            return Rule::Answer(200, vec![], format!("{{\"access_token\":\"{token}\"}}"));
        }
        let wanted = match request.method.as_str() {
            "GET" | "HEAD" if !request.path.contains("/uploads/") => "pull",
            "DELETE" if request.path.contains("/manifests/") => "delete",
            _ => "push",
        };
        if let Some(token) = authorization.strip_prefix("Bearer ") {
            let mut used = used.lock().expect("used");
            let used = used.entry(token.to_owned()).or_default();
            *used += 1;
            if token.contains(wanted) && *used <= valid {
                return Rule::PassWithout(&["authorization"]);
            }
        }
        let repository = request.path.trim_start_matches("/v2/");
        let repository = ["/manifests/", "/blobs/", "/tags/"]
            .iter()
            .find_map(|part| repository.split_once(part))
            .map_or("", |(repository, _)| repository);
        let challenge = format!(
            "Bearer realm=\"http://{host}/token\",service=\"reg\",scope=\"repository:{repository}:{wanted}\""
        );
        Rule::Answer(401, vec![("WWW-Authenticate", challenge)], String::new())
    }
}

#[tokio::test]
async fn a_registry_with_tokens() {
    let place = fresh().await;
    // Also where tokens end long before they should.
    for valid in [usize::MAX, 3] {
        let proxy = Proxy::start(&place.registry.host(), token_service(valid)).await;
        let host = proxy.address.to_string();
        let (_dir, right) = credentials(&host, "rocferry", "pw");
        let backend = place.backend_at(&host, &tenant(), &right);
        let content = bytes(1, 20 << 20);
        let mut writer = backend.writer(&pack(1)).await.expect("writer");
        writer.write(content.clone()).await.expect("write");
        writer.finish().await.expect("finish");
        assert!(get(&backend, &pack(1)).await == content);
        assert_eq!(keys(&backend, Kind::Pack).await.len(), 1);
        backend.delete(&pack(1)).await.expect("delete");
        if valid == usize::MAX {
            assert_eq!(
                proxy.count("GET", "/token"),
                3,
                "one for each kind of action"
            );
        }
        let (_dir, wrong) = credentials(&host, "rocferry", "wrong");
        let backend = place.backend_at(&host, &tenant(), &wrong);
        for error in all_errors(&backend).await {
            assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
        }
    }
    // A service that is away is no refusal.
    let rules = |request: &Request| {
        if request.path.starts_with("/token") {
            return Rule::Answer(503, vec![("Retry-After", "5".to_owned())], String::new());
        }
        let host = request.headers.get("host").cloned().unwrap_or_default();
        let challenge = format!("Bearer realm=\"http://{host}/token\"");
        Rule::Answer(401, vec![("WWW-Authenticate", challenge)], String::new())
    };
    let (_proxy, backend) = behind(&place, rules).await;
    for error in all_errors(&backend).await {
        assert!(
            matches!(&error, BackendError::Unavailable { retry_after: Some(wait), .. }
                if wait.as_secs() == 5),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_is_always_refused_is_denied() {
    let place = fresh().await;
    let proxy = Proxy::start(&place.registry.host(), token_service(0)).await;
    let host = proxy.address.to_string();
    let (_dir, right) = credentials(&host, "rocferry", "pw");
    let backend = place.backend_at(&host, &tenant(), &right);
    let error = backend.head(&pack(1)).await.expect_err("denied");
    assert!(matches!(error, BackendError::Denied { .. }), "{error:?}");
    assert!(proxy.seen().len() < 6, "not asked for ever");
}
