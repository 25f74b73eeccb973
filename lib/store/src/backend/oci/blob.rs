//! Reading blobs.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use reqwest::header::{HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::auth::Action;
use super::failure::{Refused, transport};
use super::manifest::Blob;
use super::registry::{Registry, Request, refusal};
use super::upload;
use crate::Key;
use crate::backend::{BackendError, OutOfRange, range_length};

const READING: &str = "Reading";

/// The object, or a range of it; `None` if the registry does not have the blob. The whole of one is compared
/// with its hash.
pub(super) async fn read(
    registry: &Registry,
    key: &Key,
    blob: &Blob,
    range: Option<Range<u64>>,
    limit: u64,
) -> Result<Option<Bytes>, BackendError> {
    let object = key.to_string();
    let failed = |why: Refused| BackendError::failed(READING, object.clone(), why);
    let size = blob.content_size();
    let range = range.unwrap_or(0..size);
    let Some(length) = range_length(&range, size) else {
        let outside = OutOfRange { range, size };
        return Err(BackendError::failed(READING, object, outside));
    };
    let too_large = || BackendError::TooLarge {
        key: key.clone(),
        limit,
    };
    if length > limit {
        return Err(too_large());
    }
    if length == 0 {
        return Ok(Some(Bytes::new()));
    }
    let whole = length == size;
    let url = registry.url(READING, &format!("blobs/{}", blob.digest))?;
    let mut request = Request::new(Method::GET, url, Action::Pull);
    if !whole {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let bytes = HeaderValue::from_str(&bytes).map_err(|_| failed(Refused::Missing("bytes")))?;
        request.headers.insert(RANGE, bytes);
    }
    let response = registry.send(READING, &object, &request).await?;
    // One that knows no ranges sends all of it.
    let skip = match response.status() {
        StatusCode::PARTIAL_CONTENT if !whole => 0,
        StatusCode::OK => range.start,
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(refusal(READING, &object, response).await),
    };
    let capacity = usize::try_from(length).map_err(|_| too_large())?;
    let mut content = BytesMut::with_capacity(capacity);
    let mut stream = response.bytes_stream();
    let mut at = 0;
    while content.len() < capacity {
        let Some(piece) = stream.next().await else {
            return Err(BackendError::Unavailable {
                operation: READING,
                object,
                retry_after: None,
                source: Box::new(Refused::Length {
                    wanted: length,
                    got: content.len() as u64,
                }),
            });
        };
        let mut piece = piece.map_err(|error| transport(READING, &object, error))?;
        let before = skip.saturating_sub(at).min(piece.len() as u64);
        at += piece.len() as u64;
        // At most its length, which is a usize.
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let _ = piece.split_to(before);
        piece.truncate(capacity - content.len());
        content.extend_from_slice(&piece);
    }
    let content = content.freeze();
    if whole && upload::digest(&object, vec![content.clone()]).await? != blob.digest {
        return Err(failed(Refused::Hash));
    }
    Ok(Some(content))
}
