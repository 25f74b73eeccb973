//! Which objects a repository has.

use std::collections::BTreeSet;

use reqwest::header::LINK;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::auth::Action;
use super::failure::Refused;
use super::manifest;
use super::registry::{Registry, Request, read, refusal};
use crate::backend::BackendError;
use crate::{Key, Kind};

/// Tags that are asked for at a time.
const PAGE: usize = 1000;
/// Registries that know no pages send all at once.
const MOST_OF_A_PAGE: usize = 64 << 20;

#[derive(Deserialize)]
struct Page {
    tags: Option<Vec<String>>,
}

/// Keys of all tags of this kind.
pub(super) async fn list(registry: &Registry, kind: Kind) -> Result<BTreeSet<Key>, BackendError> {
    const LISTING: &str = "Listing";
    let object = kind.dir();
    let mut found = BTreeSet::new();
    let mut next = Some(registry.url(LISTING, &format!("tags/list?n={PAGE}"))?);
    let mut seen = BTreeSet::new();
    while let Some(url) = next {
        // A registry that sends us in a circle.
        if !seen.insert(url.to_string()) {
            break;
        }
        let request = Request::new(Method::GET, url.clone(), Action::Pull);
        let response = registry.send(LISTING, object, &request).await?;
        match response.status() {
            StatusCode::OK => {}
            // A repository is made by the first push to it.
            StatusCode::NOT_FOUND => return Ok(found),
            _ => return Err(refusal(LISTING, object, response).await),
        }
        let link = response.headers().get(LINK);
        next = link
            .and_then(|link| link.to_str().ok())
            .and_then(|link| next_page(&url, link));
        let body = read(LISTING, object, response, MOST_OF_A_PAGE).await?;
        let page: Page = serde_json::from_slice(&body)
            .map_err(|_| BackendError::failed(LISTING, object, Refused::Missing("tags")))?;
        let tags = page.tags.unwrap_or_default();
        found.extend(tags.iter().filter_map(|tag| manifest::key_of(tag, kind)));
    }
    Ok(found)
}

/// The address in `<…>; rel="next"`, on the same server.
fn next_page(here: &Url, link: &str) -> Option<Url> {
    let next = link.split(',').find(|link| {
        let text = link.replace(['"', ' '], "");
        text.split(';').any(|part| part == "rel=next")
    })?;
    let (_, rest) = next.split_once('<')?;
    let (address, _) = rest.split_once('>')?;
    let next = here.join(address).ok()?;
    (next.origin() == here.origin()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let here = Url::parse("https://r.example/v2/a/tags/list?n=1000").expect("url");
        let next = |link| next_page(&here, link).map(String::from);
        let wanted = Some("https://r.example/v2/a/tags/list?last=x&n=1000".to_owned());
        assert_eq!(
            next("</v2/a/tags/list?last=x&n=1000>; rel=\"next\""),
            wanted
        );
        assert_eq!(next("<list?last=x&n=1000>;rel=next"), wanted);
        assert_eq!(next("<https://other.example/>; rel=\"next\""), None);
        assert_eq!(next("</v2/>; rel=\"prev\""), None);
        assert_eq!(next("nonsense"), None);
    }
}
