//! Requests to a registry.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use oci_client::Reference;
use oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use reqwest::{Body, Client, Method, Response, StatusCode, Url};

use super::auth::{Action, Auth, Permit};
use super::failure::{Refused, answer, transport};
use super::{Location, manifest};
use crate::StoreName;
use crate::backend::http::retry_after;
use crate::backend::{BackendError, Variables};
use crate::chain::chain;

/// For a connection to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// For a request to be sent and its answer to begin, and between two pieces of the answer: a chunk of 8 MiB
/// at half a megabit a second.
const ANSWER: Duration = Duration::from_secs(120);
/// What is read of an answer that says why.
const MOST_OF_A_REASON: usize = 64 << 10;
/// What is sent from a file at a time.
const FROM_FILE: usize = 1 << 20;

/// A repository of a registry.
#[derive(Debug)]
pub(super) struct Registry {
    client: Client,
    /// `https://HOST/v2/REPOSITORY/`.
    base: Url,
    auth: Auth,
}

/// What a request carries.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Nothing,
    Pieces(Vec<Bytes>),
    /// Bytes of a file.
    File(Arc<File>, Range<u64>),
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) content: Content,
    pub(super) action: Action,
}

impl Request {
    pub(super) fn new(method: Method, url: Url, action: Action) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            content: Content::Nothing,
            action,
        }
    }
}

impl Registry {
    pub(super) fn new(
        location: &Location,
        name: &StoreName,
        variables: &Variables,
    ) -> Result<Self, BackendError> {
        let refused = |reason: String| BackendError::Url {
            url: format!("oci://{}/{}", location.host, location.repository),
            reason,
        };
        let repository = format!("{}/{name}", location.repository);
        // By the rules for names of repositories, which are the same everywhere.
        format!("localhost/{repository}:x")
            .parse::<Reference>()
            .map_err(|error| refused(format!("{repository:?} is no repository: {error}")))?;
        // Docker Hub has one name for people, and others for programs.
        let host = match location.host.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        };
        let scheme = if location.plain { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{host}/v2/{repository}/"))
            .map_err(|error| refused(chain(&error)))?;
        let client = Client::builder()
            .user_agent(concat!("rocferry/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(ANSWER)
            .build()
            .map_err(|error| refused(chain(&error)))?;
        let auth = Auth::new(&base, &location.host, &repository, variables);
        Ok(Self { client, base, auth })
    }

    /// The address of something in the repository.
    pub(super) fn url(&self, operation: &'static str, path: &str) -> Result<Url, BackendError> {
        let joined = self.base.join(path);
        joined.map_err(|error| BackendError::failed(operation, path, error))
    }

    /// Sends a request, with the right to do so. Any answer is a success.
    pub(super) async fn send(
        &self,
        operation: &'static str,
        object: &str,
        request: &Request,
    ) -> Result<Response, BackendError> {
        // A registry may send an upload elsewhere, where its credentials are nobody's business.
        let ours = self.is_registry(&request.url);
        let known = self.auth.permit(request.action).filter(|_| ours);
        let response = self.send_with(operation, object, request, known.as_ref());
        let response = response.await?;
        if response.status() != StatusCode::UNAUTHORIZED || !ours {
            return Ok(response);
        }
        let next = self
            .auth
            .challenged(
                &self.client,
                operation,
                object,
                request.action,
                response.headers(),
                known.as_ref(),
            )
            .await?;
        if known.as_ref() == Some(&next) {
            return Ok(response);
        }
        self.send_with(operation, object, request, Some(&next))
            .await
    }

    async fn send_with(
        &self,
        operation: &'static str,
        object: &str,
        request: &Request,
        permit: Option<&Permit>,
    ) -> Result<Response, BackendError> {
        let (method, url) = (request.method.clone(), request.url.clone());
        let mut builder = self.client.request(method, url);
        builder = builder.headers(request.headers.clone());
        if let Some(permit) = permit {
            builder = builder.header(AUTHORIZATION, permit.header.clone());
        }
        let sent = with_content(builder, &request.content).send().await;
        sent.map_err(|error| transport(operation, object, error))
    }

    /// Whether an address is of the registry itself and as well protected.
    fn is_registry(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// The manifest of this tag, not larger than any of ours.
    pub(super) async fn manifest(
        &self,
        operation: &'static str,
        object: &str,
        tag: &str,
    ) -> Result<Option<Bytes>, BackendError> {
        let url = self.url(operation, &format!("manifests/{tag}"))?;
        let mut request = Request::new(Method::GET, url, Action::Pull);
        let accept = HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE);
        request.headers.insert(ACCEPT, accept);
        let response = self.send(operation, object, &request).await?;
        match response.status() {
            StatusCode::OK => {
                let body = read(operation, object, response, manifest::MOST_BYTES).await?;
                Ok(Some(body))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(refusal(operation, object, response).await),
        }
    }

    pub(super) async fn put_manifest(
        &self,
        object: &str,
        tag: &str,
        body: Bytes,
    ) -> Result<(), BackendError> {
        const WRITING: &str = "Writing";
        let url = self.url(WRITING, &format!("manifests/{tag}"))?;
        let mut request = Request::new(Method::PUT, url, Action::Push);
        let media_type = HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE);
        request.headers.insert(CONTENT_TYPE, media_type);
        request.content = Content::Pieces(vec![body]);
        let response = self.send(WRITING, object, &request).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(refusal(WRITING, object, response).await)
    }

    /// Removes a manifest and the tags that name it.
    pub(super) async fn delete_manifest(
        &self,
        object: &str,
        digest: &str,
    ) -> Result<(), BackendError> {
        const DELETING: &str = "Deleting";
        let url = self.url(DELETING, &format!("manifests/{digest}"))?;
        let request = Request::new(Method::DELETE, url, Action::Delete);
        let response = self.send(DELETING, object, &request).await?;
        let status = response.status();
        match status {
            StatusCode::NOT_FOUND => Ok(()),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                let refused = Refused::NoDelete(status.as_u16());
                Err(BackendError::failed(DELETING, object, refused))
            }
            _ if status.is_success() => Ok(()),
            _ => Err(refusal(DELETING, object, response).await),
        }
    }
}

/// `Content-Length` is always said: some registries want it even where it is none.
fn with_content(builder: reqwest::RequestBuilder, content: &Content) -> reqwest::RequestBuilder {
    match content {
        Content::Nothing => builder.header(CONTENT_LENGTH, 0),
        Content::Pieces(pieces) => {
            let size: usize = pieces.iter().map(Bytes::len).sum();
            let pieces = pieces.clone().into_iter().map(Ok::<_, std::io::Error>);
            builder
                .header(CONTENT_LENGTH, size)
                .body(Body::wrap_stream(futures_util::stream::iter(pieces)))
        }
        Content::File(file, range) => builder
            .header(CONTENT_LENGTH, range.end - range.start)
            .body(Body::wrap_stream(pieces_of(file.clone(), range.clone()))),
    }
}

fn pieces_of(
    file: Arc<File>,
    range: Range<u64>,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> {
    use std::os::unix::fs::FileExt;
    futures_util::stream::try_unfold((file, range.start), move |(file, at)| async move {
        let length = FROM_FILE.min(usize::try_from(range.end - at).unwrap_or(FROM_FILE));
        if length == 0 {
            return Ok(None);
        }
        let reader = file.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            reader.read_exact_at(&mut piece, at).map(|()| piece)
        });
        let piece = read.await.map_err(std::io::Error::other)??;
        Ok(Some((Bytes::from(piece), (file, at + length as u64))))
    })
}

/// The whole of an answer, if it is not larger than this.
pub(super) async fn read(
    operation: &'static str,
    object: &str,
    response: Response,
    most: usize,
) -> Result<Bytes, BackendError> {
    let mut stream = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(piece) = stream.next().await {
        body.extend_from_slice(&piece.map_err(|error| transport(operation, object, error))?);
        if body.len() > most {
            return Err(BackendError::failed(
                operation,
                object,
                Refused::Large(most),
            ));
        }
    }
    Ok(body.freeze())
}

/// The error of an answer that is none of those expected.
pub(super) async fn refusal(
    operation: &'static str,
    object: &str,
    response: Response,
) -> BackendError {
    let status = response.status().as_u16();
    let wait = retry_after(
        response
            .headers()
            .get(RETRY_AFTER)
            .map(HeaderValue::as_bytes),
    );
    // A reason that cannot be read changes nothing of the status.
    let body = read(operation, object, response, MOST_OF_A_REASON)
        .await
        .unwrap_or_default();
    answer(operation, object, status, wait, &body)
}

/// A header of an answer that has to be there.
pub(super) fn header(
    operation: &'static str,
    object: &str,
    response: &Response,
    name: &'static str,
) -> Result<String, BackendError> {
    let value = response.headers().get(name);
    let text = value
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    text.ok_or_else(|| BackendError::failed(operation, object, Refused::Missing(name)))
}
