//! Sending blobs.

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use sha2::{Digest, Sha256};

use super::Shared;
use super::auth::Action;
use super::manifest;
use super::registry::{Content, Request, header, refusal};
use crate::backend::BackendError;

pub(super) const WRITING: &str = "Writing";

/// `sha256:…` of pieces one after the other, found on a thread that may take its time.
pub(super) async fn digest(object: &str, pieces: Vec<Bytes>) -> Result<String, BackendError> {
    let hash = tokio::task::spawn_blocking(move || {
        let mut hasher = Sha256::new();
        for piece in &pieces {
            hasher.update(piece);
        }
        manifest::named(hasher.finalize().as_slice())
    });
    let hash = hash.await;
    hash.map_err(|join| BackendError::failed(WRITING, object, join))
}

/// Sends a blob in one piece.
pub(super) async fn push(
    shared: &Shared,
    object: &str,
    digest: &str,
    content: Content,
) -> Result<(), BackendError> {
    let begun = begin(shared, object).await?;
    end(shared, object, begun.url, digest, content).await
}

/// Whether the repository has a blob.
pub(super) async fn exists(
    shared: &Shared,
    object: &str,
    digest: &str,
) -> Result<bool, BackendError> {
    let url = shared.registry.url(WRITING, &format!("blobs/{digest}"))?;
    let request = Request::new(Method::HEAD, url, Action::Push);
    let response = shared.registry.send(WRITING, object, &request).await?;
    match response.status() {
        StatusCode::NOT_FOUND => Ok(false),
        status if status.is_success() => Ok(true),
        _ => Err(refusal(WRITING, object, response).await),
    }
}

/// An upload that the registry has begun.
pub(super) struct Begun {
    pub(super) url: Url,
    /// The smallest chunk that it takes, in bytes.
    pub(super) smallest: usize,
}

pub(super) async fn begin(shared: &Shared, object: &str) -> Result<Begun, BackendError> {
    let url = shared.registry.url(WRITING, "blobs/uploads/")?;
    let request = Request::new(Method::POST, url.clone(), Action::Push);
    let response = shared.registry.send(WRITING, object, &request).await?;
    if response.status() != StatusCode::ACCEPTED {
        return Err(refusal(WRITING, object, response).await);
    }
    let smallest = response.headers().get("oci-chunk-min-length");
    let smallest = smallest.and_then(|value| value.to_str().ok()?.parse().ok());
    let location = header(WRITING, object, &response, "location")?;
    Ok(Begun {
        url: join(object, &url, &location)?,
        smallest: smallest.unwrap_or_default(),
    })
}

/// Where a registry says that an upload goes on.
pub(super) fn join(object: &str, base: &Url, location: &str) -> Result<Url, BackendError> {
    let mut url = base
        .join(location)
        .map_err(|error| BackendError::failed(WRITING, object, error))?;
    // A registry behind a proxy that ends TLS may not know that it is.
    let same = url.host() == base.host() && base.scheme() == "https" && url.scheme() == "http";
    if same && url.port().is_none_or(|port| Some(port) == base.port()) {
        // Neither fails for these schemes.
        let _ = url.set_scheme("https");
        let _ = url.set_port(base.port());
    }
    Ok(url)
}

/// Ends an upload, with the rest of its content.
pub(super) async fn end(
    shared: &Shared,
    object: &str,
    mut url: Url,
    digest: &str,
    content: Content,
) -> Result<(), BackendError> {
    url.query_pairs_mut().append_pair("digest", digest);
    let mut request = Request::new(Method::PUT, url, Action::Push);
    if !matches!(content, Content::Nothing) {
        let media_type = HeaderValue::from_static("application/octet-stream");
        request.headers.insert(CONTENT_TYPE, media_type);
    }
    request.content = content;
    let response = shared.registry.send(WRITING, object, &request).await?;
    if response.status().is_success() {
        return Ok(());
    }
    Err(refusal(WRITING, object, response).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn digests_are_of_all_pieces() {
        let pieces = vec![Bytes::from("ab"), Bytes::from("c")];
        let digest = digest("x", pieces).await.expect("digest");
        assert_eq!(digest, manifest::digest_of(b"abc"));
    }

    #[test]
    fn locations_stay_protected() {
        let base = Url::parse("https://r.example:5443/v2/a/blobs/uploads/").expect("url");
        let at = |location| join("x", &base, location).expect("url").to_string();
        assert_eq!(at("/v2/u?s=1"), "https://r.example:5443/v2/u?s=1");
        assert_eq!(at("http://r.example:5443/u"), "https://r.example:5443/u");
        assert_eq!(at("http://r.example/u"), "https://r.example:5443/u");
        assert_eq!(at("http://other.example/u"), "http://other.example/u");
        assert_eq!(at("https://other.example/u"), "https://other.example/u");
    }
}
