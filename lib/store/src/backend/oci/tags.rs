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
/// Pages of one list. Some registries send a hundred tags in each, whatever is asked for.
const MOST_PAGES: usize = 20_000;

#[derive(Deserialize)]
struct Page {
    tags: Option<Vec<String>>,
}

/// Keys of all tags of this kind.
pub(super) async fn list(registry: &Registry, kind: Kind) -> Result<BTreeSet<Key>, BackendError> {
    list_within(registry, kind, MOST_PAGES).await
}

async fn list_within(
    registry: &Registry,
    kind: Kind,
    pages: usize,
) -> Result<BTreeSet<Key>, BackendError> {
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
        if seen.len() > pages {
            let refused = Refused::Pages(pages);
            return Err(BackendError::failed(LISTING, object, refused));
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
    use crate::StoreName;
    use crate::backend::Variables;
    use crate::backend::oci::Location;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_list_without_end_is_refused() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.expect("bind");
        let location = Location {
            host: listener.local_addr().expect("address").to_string(),
            repository: "r".to_owned(),
            plain: true,
        };
        let server = tokio::spawn(async move {
            for page in 0.. {
                let (mut client, _) = listener.accept().await.expect("accept");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && client.read_buf(&mut head).await.is_ok() {}
                let answer = format!(
                    "HTTP/1.1 200 x\r\nContent-Length: 11\r\nConnection: close\r\n\
                     Link: </v2/r/default/tags/list?last={page}>; rel=\"next\"\r\n\r\n{{\"tags\":[]}}"
                );
                let _ = client.write_all(answer.as_bytes()).await;
            }
        });
        let (name, variables) = (StoreName::default(), Variables::only([]));
        let registry = Registry::new(&location, &name, &variables).expect("registry");
        let error = list_within(&registry, Kind::Pack, 5).await;
        server.abort();
        let error =
            std::error::Error::source(&error.expect_err("refused")).map(ToString::to_string);
        assert_eq!(
            error.as_deref(),
            Some("The list of tags has more than 5 pages")
        );
    }

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
