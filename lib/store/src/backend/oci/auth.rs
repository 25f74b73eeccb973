//! The right to make a request.
//!
//! A registry says what it wants when it refuses: a password with each request, or a token for certain
//! actions on a repository, from a service that it names. So a request goes without, unless it is known from
//! before, and again with what is asked for. Credentials are read anew each time one is refused, since they
//! may have been replaced meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http_auth::parse_challenges;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::credentials::{self, Credentials};
use super::failure::{Refused, answer, transport};
use super::registry::read;
use crate::backend::http::retry_after;
use crate::backend::{BackendError, Variables};

/// How long a token holds that does not say so.
const TOKEN: Duration = Duration::from_secs(60);
/// A token is used until so long before its end.
const SPARE: Duration = Duration::from_secs(10);
const MOST_OF_A_TOKEN: usize = 256 << 10;

/// What a request does, for a token's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Pull,
    Push,
    Delete,
}

impl Action {
    const fn names(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
            Self::Delete => "pull,push,delete",
        }
    }
}

/// A header that gives the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permit {
    pub(super) header: HeaderValue,
    until: Option<Instant>,
}

/// What is known of a registry's wishes.
#[derive(Debug)]
pub(super) struct Auth {
    /// As people write it, for looking up credentials.
    host: String,
    repository: String,
    secure: bool,
    variables: Variables,
    permits: Mutex<HashMap<Action, Permit>>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// What a registry asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Password,
    Token {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Auth {
    pub(super) fn new(base: &Url, host: &str, repository: &str, variables: &Variables) -> Self {
        Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            secure: base.scheme() == "https",
            variables: variables.clone(),
            permits: Mutex::default(),
        }
    }

    /// What is known to be wanted, if it still holds.
    pub(super) fn permit(&self, action: Action) -> Option<Permit> {
        let permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let holds = |permit: &&Permit| permit.until.is_none_or(|until| now < until);
        permits.get(&action).filter(holds).cloned()
    }

    /// What to try after a refusal with these headers.
    pub(super) async fn challenged(
        &self,
        client: &Client,
        operation: &'static str,
        object: &str,
        action: Action,
        headers: &HeaderMap,
        refused: Option<&Permit>,
    ) -> Result<Permit, BackendError> {
        if let Some(known) = self.permit(action)
            && Some(&known) != refused
        {
            // Another request has been refused in the meantime.
            return Ok(known);
        }
        let denied = |why: Refused| BackendError::Denied {
            operation,
            object: object.to_owned(),
            source: Box::new(why),
        };
        let wanted = wanted(headers).map_err(denied)?;
        let credentials = credentials::find(&self.variables, &self.host, &self.repository).await;
        let credentials = credentials.map_err(|why| BackendError::Denied {
            operation,
            object: object.to_owned(),
            source: Box::new(why),
        })?;
        let permit = match wanted {
            Wanted::Password => match credentials {
                Some(Credentials::Password { user, password }) => Permit {
                    header: basic(&user, &password),
                    until: None,
                },
                _ => return Err(denied(Refused::NoCredentials(self.host.clone()))),
            },
            Wanted::Token {
                realm,
                service,
                scope,
            } => {
                let scope = scope_for(scope.as_deref(), &self.repository, action);
                let url = Url::parse(&realm);
                let url = url.map_err(|error| BackendError::failed(operation, object, error))?;
                if self.secure && url.scheme() != "https" {
                    return Err(denied(Refused::PlainRealm));
                }
                let request = ask(client, url, service.as_deref(), &scope, credentials);
                fetch(request, operation, object).await?
            }
        };
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        permits.insert(action, permit.clone());
        Ok(permit)
    }
}

/// The scope that the registry asks for, and in it all that `action` may come to on our repository. A registry
/// names what the one request needs, and the next one of the same action may need something else: a token for
/// the first alone would be fetched anew all the time.
fn scope_for(asked: Option<&str>, repository: &str, action: Action) -> String {
    let own = format!("repository:{repository}:");
    let mut actions: Vec<&str> = action.names().split(',').collect();
    let mut others = Vec::new();
    for scope in asked.unwrap_or_default().split_whitespace() {
        match scope.strip_prefix(&own) {
            Some(more) => {
                for action in more.split(',') {
                    if !actions.contains(&action) {
                        actions.push(action);
                    }
                }
            }
            None => others.push(scope),
        }
    }
    let own = format!("{own}{}", actions.join(","));
    others.insert(0, &own);
    others.join(" ")
}

fn basic(user: &str, password: &str) -> HeaderValue {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {text}"))
}

fn secret(text: &str) -> HeaderValue {
    // Base64 and tokens are visible ASCII; what is not gives an empty header, which is refused.
    let mut value = HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

fn wanted(headers: &HeaderMap) -> Result<Wanted, Refused> {
    let mut others = String::new();
    let mut password = false;
    for header in headers.get_all(WWW_AUTHENTICATE) {
        let text = header.to_str().unwrap_or_default();
        for challenge in parse_challenges(text).unwrap_or_default() {
            let value = |name: &str| {
                let found = challenge.params.iter();
                let found = found.filter(|(other, _)| other.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped()).next()
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = value("realm") {
                    return Ok(Wanted::Token {
                        realm,
                        service: value("service"),
                        scope: value("scope"),
                    });
                }
            } else if challenge.scheme.eq_ignore_ascii_case("basic") {
                password = true;
            }
            others.push_str(challenge.scheme);
        }
    }
    match (password, others.as_str()) {
        (true, _) => Ok(Wanted::Password),
        (false, "") => Err(Refused::Missing("WWW-Authenticate")),
        (false, others) => Err(Refused::Scheme(others.to_owned())),
    }
}

/// The request for a token.
fn ask(
    client: &Client,
    mut url: Url,
    service: Option<&str>,
    scope: &str,
    credentials: Option<Credentials>,
) -> reqwest::RequestBuilder {
    match credentials {
        Some(Credentials::Identity(token)) => {
            // Its form is that of a query.
            let mut form = url.clone();
            form.query_pairs_mut()
                .clear()
                .append_pair("grant_type", "refresh_token")
                .append_pair("client_id", "rocferry")
                .append_pair("service", service.unwrap_or_default())
                .append_pair("scope", scope)
                .append_pair("refresh_token", &token);
            client
                .post(url)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(form.query().unwrap_or_default().to_owned())
        }
        credentials => {
            let mut query = url.query_pairs_mut();
            query.append_pair("scope", scope);
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            drop(query);
            let request = client.get(url);
            match credentials {
                Some(Credentials::Password { user, password }) => {
                    request.header("Authorization", basic(&user, &password))
                }
                _ => request,
            }
        }
    }
}

async fn fetch(
    request: reqwest::RequestBuilder,
    operation: &'static str,
    object: &str,
) -> Result<Permit, BackendError> {
    let begun = Instant::now();
    let response = request
        .send()
        .await
        .map_err(|error| transport(operation, object, error))?;
    let status = response.status();
    let wait = retry_after(
        response
            .headers()
            .get(RETRY_AFTER)
            .map(HeaderValue::as_bytes),
    );
    let body = read(operation, object, response, MOST_OF_A_TOKEN).await?;
    if !status.is_success() {
        // A token service that finds fault with a request finds fault with its credentials.
        let status = match status.as_u16() {
            400 | 404 => 401,
            status => status,
        };
        return Err(answer(operation, object, status, wait, &body));
    }
    let token: Option<Token> = serde_json::from_slice(&body).ok();
    let holds = token.as_ref().and_then(|token| token.expires_in);
    let text = token.and_then(|token| token.token.or(token.access_token));
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        let refused = Refused::Missing("a token");
        return Err(BackendError::failed(operation, object, refused));
    };
    let holds = holds
        .map_or(TOKEN, Duration::from_secs)
        .saturating_sub(SPARE);
    Ok(Permit {
        header: secret(&format!("Bearer {text}")),
        until: begun.checked_add(holds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> Result<Wanted, Refused> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(value));
        }
        wanted(&headers)
    }

    #[test]
    fn wishes_are_understood() {
        let token = of(&[
            "Bearer realm=\"https://auth.example/token\",service=\"reg\",scope=\"repository:a/b:pull,push\"",
        ]);
        let wanted = Wanted::Token {
            realm: "https://auth.example/token".to_owned(),
            service: Some("reg".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(token.expect("token"), wanted);
        let both = of(&[
            "Basic realm=\"x\"",
            "Bearer realm=\"https://auth.example/token\"",
        ]);
        assert!(
            matches!(both, Ok(Wanted::Token { .. })),
            "a token is the better one"
        );
        assert_eq!(of(&["basic realm=\"x\""]).expect("basic"), Wanted::Password);
        assert!(matches!(of(&["Negotiate"]), Err(Refused::Scheme(_))));
        assert!(matches!(of(&[]), Err(Refused::Missing(_))));
        assert!(matches!(of(&["Bearer realm="]), Err(Refused::Missing(_))));
    }

    #[test]
    fn scopes_cover_the_action() {
        let of = |asked, action| scope_for(asked, "a/b", action);
        assert_eq!(of(None, Action::Pull), "repository:a/b:pull");
        let pull = Some("repository:a/b:pull");
        assert_eq!(of(pull, Action::Push), "repository:a/b:pull,push");
        let all = Some("repository:a/b:*");
        assert_eq!(of(all, Action::Delete), "repository:a/b:pull,push,delete,*");
        let two = Some("registry:catalog:* repository:a/b:push");
        assert_eq!(
            of(two, Action::Push),
            "repository:a/b:pull,push registry:catalog:*"
        );
    }

    #[test]
    fn secrets_are_not_printed() {
        let permit = Permit {
            header: basic("user", "hush"),
            until: None,
        };
        assert_eq!(permit.header.as_bytes(), b"Basic dXNlcjpodXNo");
        assert!(!format!("{permit:?}").contains("dXNl"), "{permit:?}");
    }
}
