//! An upload in chunks.
//!
//! The address of an upload changes with every answer. A chunk whose answer is lost may have arrived, in part
//! or in whole, and the specification has a request for that. But docker-registry (2.8) keeps its place in
//! the address, so that one which does not know of the chunk leads nowhere any more; and it appends a chunk
//! wherever it says that it belongs. So nothing is sent twice to a place that is not known, and an upload
//! that is lost begins anew, from a copy of what was sent in a temporary file.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION, RANGE};
use reqwest::{Method, Response, StatusCode, Url};
use sha2::{Digest, Sha256};

use super::Shared;
use super::auth::Action;
use super::failure::{self, Refused};
use super::manifest;
use super::registry::{Content, Request, refusal};
use super::upload::{self, WRITING, begin, join};
use crate::backend::BackendError;

/// Bytes of each chunk but the last, unless the registry wants more.
pub(super) const CHUNK: usize = 8 << 20;
/// More than this in a chunk is held for no registry.
const MOST_OF_A_CHUNK: usize = 64 << 20;

/// An object on its way.
#[derive(Debug)]
pub(super) struct Session {
    object: String,
    /// What a chunk has to have.
    pub(super) chunk: usize,
    /// All that has been given to [`Session::send`].
    size: u64,
    hasher: Sha256,
    /// The same again; none if there is no room for it.
    copy: Option<Arc<File>>,
    place: Mutex<Place>,
}

#[derive(Clone, Debug)]
enum Place {
    /// The registry is somewhere in an upload.
    Upload {
        url: Url,
        /// Bytes that it certainly has.
        has: u64,
        /// It may have more.
        unsure: bool,
        /// It has taken a chunk before.
        proven: bool,
    },
    /// There is none any more.
    Lost,
    /// It takes no chunks: all goes from the copy in one piece.
    OnePiece,
}

/// What can be sent.
struct Source {
    /// Where the pieces begin.
    from: u64,
    pieces: Vec<Bytes>,
    copy: Option<Arc<File>>,
}

impl Session {
    pub(super) async fn begin(shared: &Shared, object: &str) -> Result<Self, BackendError> {
        let begun = shared.retry.run(|| begin(shared, object)).await?;
        Ok(Self {
            object: object.to_owned(),
            chunk: begun.smallest.clamp(CHUNK, MOST_OF_A_CHUNK),
            size: 0,
            hasher: Sha256::new(),
            copy: tempfile::tempfile().ok().map(Arc::new),
            place: Mutex::new(Place::Upload {
                url: begun.url,
                has: 0,
                unsure: false,
                proven: false,
            }),
        })
    }

    fn place(&self) -> Place {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.clone()
    }

    fn set(&self, place: Place) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    fn unavailable(&self, source: impl Into<crate::backend::Source>) -> BackendError {
        BackendError::Unavailable {
            operation: WRITING,
            object: self.object.clone(),
            retry_after: None,
            source: source.into(),
        }
    }

    fn refused(&self, why: Refused) -> BackendError {
        BackendError::failed(WRITING, self.object.clone(), why)
    }

    /// Sends the next chunk, again and again if need be; hashes and copies it meanwhile.
    pub(super) async fn send(
        mut self,
        shared: &Shared,
        pieces: Vec<Bytes>,
    ) -> Result<Self, BackendError> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let to = self.size + bytes as u64;
        let source = Source {
            from: self.size,
            pieces: pieces.clone(),
            copy: self.copy.clone(),
        };
        let (mut hasher, copy) = (std::mem::take(&mut self.hasher), self.copy.take());
        let keeping = tokio::task::spawn_blocking(move || {
            let mut copy = copy;
            for piece in &pieces {
                hasher.update(piece);
                let kept = copy.as_deref().map(|mut file| file.write_all(piece));
                // Without a copy the upload cannot begin anew, which it may never have to.
                if kept.is_some_and(|kept| kept.is_err()) {
                    copy = None;
                }
            }
            (hasher, copy)
        });
        let sending = shared.retry.run(|| self.try_send(shared, &source, to));
        let (sent, kept) = tokio::join!(sending, keeping);
        let kept = kept.map_err(|join| BackendError::failed(WRITING, self.object.clone(), join));
        (self.hasher, self.copy) = kept?;
        self.size = to;
        if let Err(error) = sent {
            self.cancel(shared).await;
            return Err(error);
        }
        Ok(self)
    }

    /// Brings the registry up to `to`.
    async fn try_send(
        &self,
        shared: &Shared,
        source: &Source,
        to: u64,
    ) -> Result<(), BackendError> {
        loop {
            match self.place() {
                Place::OnePiece => return Ok(()),
                Place::Lost => {
                    if source.copy.is_none() && source.from > 0 {
                        return Err(self.unavailable(Refused::Lost));
                    }
                    let begun = begin(shared, &self.object).await?;
                    self.set(Place::Upload {
                        url: begun.url,
                        has: 0,
                        unsure: false,
                        proven: true,
                    });
                }
                Place::Upload {
                    url,
                    unsure: true,
                    proven,
                    ..
                } => match self.ask(shared, &url).await? {
                    Some((url, has)) if has <= to => self.set(Place::Upload {
                        url,
                        has,
                        unsure: false,
                        proven,
                    }),
                    _ => self.lose(shared, url).await,
                },
                Place::Upload { has, .. } if has >= to => return Ok(()),
                Place::Upload {
                    url, has, proven, ..
                } => {
                    let range = has..to.min(has + self.chunk as u64);
                    let Some((range, content)) = source.take(range) else {
                        return Err(self.unavailable(Refused::Lost));
                    };
                    self.patch(shared, url, range, content, proven).await?;
                }
            }
        }
    }

    /// Sends one chunk to where the registry certainly is.
    async fn patch(
        &self,
        shared: &Shared,
        url: Url,
        range: Range<u64>,
        content: Content,
        proven: bool,
    ) -> Result<(), BackendError> {
        let mut request = Request::new(Method::PATCH, url.clone(), Action::Push);
        let bytes = format!("{}-{}", range.start, range.end - 1);
        if let Ok(bytes) = HeaderValue::from_str(&bytes) {
            request.headers.insert(CONTENT_RANGE, bytes);
        }
        let media_type = HeaderValue::from_static("application/octet-stream");
        request.headers.insert(CONTENT_TYPE, media_type);
        request.content = content;
        self.set(Place::Upload {
            url: url.clone(),
            has: range.start,
            unsure: true,
            proven,
        });
        let response = shared
            .registry
            .send(WRITING, &self.object, &request)
            .await?;
        if response.status().is_success() {
            self.set(Place::Upload {
                url: self.moved(&url, &response)?,
                has: range.end,
                unsure: false,
                proven: true,
            });
            return Ok(());
        }
        let refused = refusal(WRITING, &self.object, response).await;
        match failure::status(&refused) {
            Some(400 | 404 | 405 | 411 | 415 | 416 | 501) if !proven => {
                self.lose(shared, url).await;
                self.set(Place::OnePiece);
                Ok(())
            }
            // It does not know the upload, or is somewhere else in it.
            Some(400 | 404 | 416) => {
                self.lose(shared, url).await;
                Err(self.unavailable(refused))
            }
            _ => Err(refused),
        }
    }

    /// Gives an upload up, so that another one begins.
    async fn lose(&self, shared: &Shared, url: Url) {
        self.set(Place::Lost);
        let request = Request::new(Method::DELETE, url, Action::Push);
        // It goes in the registry's own time if this does not work.
        let _ = shared.registry.send(WRITING, &self.object, &request).await;
    }

    /// The upload's address after an answer.
    fn moved(&self, base: &Url, response: &Response) -> Result<Url, BackendError> {
        let location = response.headers().get(LOCATION);
        match location.and_then(|location| location.to_str().ok()) {
            Some(location) => join(&self.object, base, location),
            None => Ok(base.clone()),
        }
    }

    /// Where the registry has got; `None` if it does not know the upload.
    async fn ask(&self, shared: &Shared, url: &Url) -> Result<Option<(Url, u64)>, BackendError> {
        let request = Request::new(Method::GET, url.clone(), Action::Push);
        let response = shared
            .registry
            .send(WRITING, &self.object, &request)
            .await?;
        let status = response.status();
        if status.is_success() {
            let range = response.headers().get(RANGE);
            let range = range.and_then(|range| range.to_str().ok());
            let has = range.map_or(0, received);
            return Ok(Some((self.moved(url, &response)?, has)));
        }
        match status {
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => {
                Ok(None)
            }
            _ => Err(refusal(WRITING, &self.object, response).await),
        }
    }

    /// Ends the upload. The registry then has the blob of the digest that is returned.
    pub(super) async fn finish(&mut self, shared: &Shared) -> Result<String, BackendError> {
        let hasher = std::mem::take(&mut self.hasher);
        let digest = manifest::named(hasher.finalize().as_slice());
        let tried = Mutex::new(false);
        let this = &*self;
        let finish = || async {
            let again = {
                let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *tried, true)
            };
            // An earlier try may have done it.
            if again && upload::exists(shared, &this.object, &digest).await? {
                return Ok(());
            }
            this.try_finish(shared, &digest).await
        };
        shared.retry.run(finish).await?;
        self.set(Place::OnePiece);
        Ok(digest)
    }

    async fn try_finish(&self, shared: &Shared, digest: &str) -> Result<(), BackendError> {
        if let Place::Upload { url, .. } = self.place() {
            let ended = upload::end(shared, &self.object, url.clone(), digest, Content::Nothing);
            return match ended.await {
                Err(error) if matches!(failure::status(&error), Some(404)) => {
                    self.lose(shared, url).await;
                    Err(self.unavailable(error))
                }
                ended => ended,
            };
        }
        let copy = self.copy.clone().ok_or_else(|| {
            let stuck = self.is_stuck();
            stuck.unwrap_or_else(|| self.unavailable(Refused::Lost))
        })?;
        let content = Content::File(copy, 0..self.size);
        upload::push(shared, &self.object, digest, content).await
    }

    /// Gives it up.
    pub(super) async fn cancel(&self, shared: &Shared) {
        if let Place::Upload { url, .. } = self.place() {
            self.lose(shared, url).await;
        }
    }

    /// The registry takes no chunks, and there is no copy to take its place.
    pub(super) fn is_stuck(&self) -> Option<BackendError> {
        match (self.place(), &self.copy) {
            (Place::OnePiece, None) => Some(self.refused(Refused::NoCopy)),
            _ => None,
        }
    }
}

impl Source {
    /// The first bytes of a range that lie together, if they can still be had.
    fn take(&self, range: Range<u64>) -> Option<(Range<u64>, Content)> {
        let Some(skip) = range.start.checked_sub(self.from) else {
            let kept = range.start..range.end.min(self.from);
            let copy = self.copy.clone()?;
            return Some((kept.clone(), Content::File(copy, kept)));
        };
        let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let begin = skip.min(piece.len());
            skip -= begin;
            let end = piece.len().min(begin.saturating_add(left));
            left -= end - begin;
            if begin < end {
                pieces.push(piece.slice(begin..end));
            }
        }
        Some((range, Content::Pieces(pieces)))
    }
}

/// Bytes that `0-LAST` stands for. One byte is told like none, and taken for none.
fn received(range: &str) -> u64 {
    let range = range.strip_prefix("bytes=").unwrap_or(range);
    match range.split_once('-').map(|(_, last)| last.trim().parse()) {
        Some(Ok(0) | Err(_)) | None => 0,
        Some(Ok(last)) => u64::saturating_add(last, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_tells_where_it_has_got() {
        assert_eq!(received("0-8388607"), 8_388_608);
        assert_eq!(received("bytes=0-99"), 100);
        assert_eq!(received("0-0"), 0);
        assert_eq!(received(""), 0);
        assert_eq!(received("0-x"), 0);
    }

    #[test]
    fn ranges_come_from_memory_or_from_the_copy() {
        let pieces = ["abc", "de", "", "f"].map(Bytes::from).to_vec();
        let mut source = Source {
            from: 100,
            pieces,
            copy: None,
        };
        let text = |source: &Source, range| match source.take(range) {
            Some((_, Content::Pieces(pieces))) => String::from_utf8(pieces.concat()).expect("text"),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&source, 100..106), "abcdef");
        assert_eq!(text(&source, 102..105), "cde");
        assert_eq!(text(&source, 103..104), "d");
        assert!(source.take(50..106).is_none());
        source.copy = Some(Arc::new(tempfile::tempfile().expect("file")));
        // Not beyond what is in the file for certain.
        let (range, content) = source.take(50..106).expect("kept");
        assert_eq!(range, 50..100);
        assert!(matches!(content, Content::File(_, kept) if kept == range));
    }
}
