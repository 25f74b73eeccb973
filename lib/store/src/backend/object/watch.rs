//! What the S3 server really answered.
//!
//! object_store turns answers into errors that keep neither the server's error code nor its `Retry-After`,
//! and whose types cannot be named. Its HTTP service can be wrapped: this one turns a refusal into an error
//! of our own, which is then found in the chain of sources.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};

use super::failure::Refused;
use crate::backend::http::retry_after;

/// What is read of an answer that says why.
const MOST_OF_A_REASON: usize = 64 << 10;

/// Makes clients that tell what was answered.
#[derive(Debug)]
pub(super) struct Watching;

impl HttpConnector for Watching {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Watched(client)))
    }
}

#[derive(Debug)]
struct Watched(HttpClient);

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Requests for credentials go through here as well, and are understood by the library alone.
        let signed = request
            .headers()
            .get("authorization")
            .is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"));
        let may_fail_later = request.method().as_str() == "POST";
        let response = self.0.execute(request).await?;
        if !signed {
            return Ok(response);
        }
        let status = response.status();
        if status.is_success() {
            if !may_fail_later {
                return Ok(response);
            }
            // An upload's end may take long, so that the server answers first and tells then.
            let (parts, body) = response.into_parts();
            let body = read_reason(body).await?;
            if find(&body, "Error").is_none() {
                return Ok(HttpResponse::from_parts(parts, body.into()));
            }
            return Err(refusal(503, None, &body));
        }
        let wait = retry_after(
            response
                .headers()
                .get("retry-after")
                .map(|value| value.as_bytes()),
        );
        let body = read_reason(response.into_body()).await.unwrap_or_default();
        Err(refusal(status.as_u16(), wait, &body))
    }
}

async fn read_reason(body: HttpResponseBody) -> Result<Bytes, HttpError> {
    let mut stream = body.bytes_stream();
    let mut read = BytesMut::new();
    while let Some(piece) = stream.try_next().await? {
        read.extend_from_slice(&piece);
        if read.len() > MOST_OF_A_REASON {
            read.truncate(MOST_OF_A_REASON);
            break;
        }
    }
    Ok(read.freeze())
}

fn refusal(status: u16, retry_after: Option<Duration>, body: &[u8]) -> HttpError {
    let refused = Refused::Answer {
        status,
        code: find(body, "Code").unwrap_or_default(),
        message: find(body, "Message").unwrap_or_default(),
        retry_after,
    };
    HttpError::new(HttpErrorKind::Unknown, refused)
}

/// What stands between the first `<NAME>` and `</NAME>`.
fn find(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce.</Message></Error>";
        assert_eq!(find(body, "Code").as_deref(), Some("SlowDown"));
        assert_eq!(find(body, "Message").as_deref(), Some("Reduce."));
        assert!(find(body, "Error").is_some());
        assert_eq!(find(b"<Code>cut", "Code"), None);
        assert_eq!(find(b"\xff<Code>x</Code>", "Code"), None);
        assert_eq!(find(b"", "Code"), None);
    }
}
