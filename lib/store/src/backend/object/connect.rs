//! From settings to a client.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, RetryConfig};

use super::profile::{self, Profile};
use super::watch::Watching;
use crate::backend::{BackendError, Variables};
use crate::chain::chain;

/// For a connection to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// For a request to be sent and its answer to begin, and between two pieces of the answer: 8 MiB at half a
/// megabit a second.
const ANSWER: Duration = Duration::from_secs(120);

/// Where a bucket is, as the store's URL says: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&style=path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Name of the bucket.
    pub bucket: String,
    /// Beginning of all names in it, without a slash at either end; may be empty.
    pub prefix: String,
    /// The server, where it is not Amazon's: else `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or the profile.
    pub endpoint: Option<String>,
    /// Its region: else `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile, or `us-east-1`.
    pub region: Option<String>,
    /// Where the bucket's name goes.
    pub style: Option<Style>,
}

/// Where the name of a bucket stands in the addresses of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// In the path; without further settings at every server but Amazon's.
    Path,
    /// Before the server's name.
    VirtualHost,
}

/// Where access keys come from if not from a profile. Any of these settings chooses its way.
const OTHER_WAYS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

pub(super) fn connect(
    location: &Location,
    variables: &Variables,
) -> Result<AmazonS3, BackendError> {
    let refused = |reason: String| BackendError::Url {
        url: format!("s3://{}/{}", location.bucket, location.prefix),
        reason,
    };
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables.all() {
        if name.starts_with("AWS_")
            && let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>()
        {
            builder = builder.with_config(key, value);
        }
    }
    // A profile that was asked for by name wins over the ways of a machine, not over keys.
    let other_way = OTHER_WAYS.iter().any(|name| variables.get(name).is_some());
    let profile = if other_way {
        None
    } else {
        profile::read(variables).map_err(refused)?
    };
    let profile = profile.unwrap_or_default();
    let set = |key| builder.get_config_value(&key);
    let endpoint = location
        .endpoint
        .clone()
        .or_else(|| set(AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| set(AmazonS3ConfigKey::Endpoint))
        .or_else(|| profile.endpoint.clone());
    let region = location
        .region
        .clone()
        .or_else(|| set(AmazonS3ConfigKey::Region))
        .or_else(|| set(AmazonS3ConfigKey::DefaultRegion))
        .or_else(|| profile.region.clone());
    // The builder has a value where nobody has set one.
    let set_style = variables.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST");
    builder = with_profile(builder, profile);
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    let mut options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT)
        .with_read_timeout(ANSWER);
    let virtual_host = match (location.style, set_style.as_deref()) {
        (Some(style), _) => style == Style::VirtualHost,
        (None, Some(set)) => matches!(set, "true" | "1"),
        // Amazon's certificates name no bucket with a dot.
        (None, None) => endpoint.is_none() && !location.bucket.contains('.'),
    };
    builder = builder.with_virtual_hosted_style_request(virtual_host);
    if variables.get("AWS_UNSIGNED_PAYLOAD").is_none() {
        // What TLS protects need not be hashed: that would be most of an upload's work.
        let plain = endpoint
            .as_deref()
            .is_some_and(|at| at.starts_with("http://"));
        builder = builder.with_unsigned_payload(!plain);
    }
    if let Some(endpoint) = endpoint {
        let endpoint = checked(&endpoint).map_err(refused)?;
        options = options.with_allow_http(endpoint.starts_with("http://"));
        let endpoint = if virtual_host {
            with_bucket(endpoint, &location.bucket)
        } else {
            endpoint.to_owned()
        };
        // The library prefers the one for S3 alone, which may have come from the settings.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    builder
        .with_bucket_name(&location.bucket)
        .with_client_options(options)
        .with_http_connector(Watching)
        // There is one layer of retries, and it is ours.
        .with_retry(RetryConfig {
            max_retries: 0,
            retry_timeout: Duration::ZERO,
            ..RetryConfig::default()
        })
        // Not every server deletes several at once, and we have one at a time.
        .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
        .build()
        .map_err(|error| refused(chain(&error)))
}

fn with_profile(mut builder: AmazonS3Builder, profile: Profile) -> AmazonS3Builder {
    if let Some(key) = profile.access_key {
        builder = builder.with_access_key_id(key);
    }
    if let Some(key) = profile.secret_key {
        builder = builder.with_secret_access_key(key);
    }
    if let Some(token) = profile.session_token {
        builder = builder.with_token(token);
    }
    builder
}

/// An endpoint is a scheme and a host, without a slash at the end.
fn checked(endpoint: &str) -> Result<&str, String> {
    let host = endpoint
        .strip_prefix("https://")
        .or_else(|| endpoint.strip_prefix("http://"))
        .ok_or("The endpoint has to begin with https:// or http://")?;
    if host.contains('@') {
        return Err("Credentials do not belong in the endpoint".to_owned());
    }
    if host.trim_end_matches('/').is_empty() {
        return Err("The endpoint names no host".to_owned());
    }
    Ok(endpoint.trim_end_matches('/'))
}

/// The endpoint with the bucket's name in front, unless it has that already.
fn with_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) if !host.starts_with(&format!("{bucket}.")) => {
            format!("{scheme}://{bucket}.{host}")
        }
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(location: Location, variables: &[(&str, &str)]) -> Result<String, BackendError> {
        let keys = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "S")];
        let pairs = keys.iter().chain(variables);
        let variables =
            Variables::only(pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let location = Location {
            bucket: "bucket".to_owned(),
            ..location
        };
        // The client tells its settings nowhere but here.
        Ok(format!("{:?}", connect(&location, &variables)?))
    }

    fn address(location: Location, variables: &[(&str, &str)]) -> Result<String, BackendError> {
        let text = client(location, variables)?;
        let (_, rest) = text.split_once("bucket_endpoint: \"").expect("endpoint");
        Ok(rest.split('"').next().unwrap_or_default().to_owned())
    }

    #[test]
    fn addresses() {
        let at = |endpoint: &str, style| Location {
            endpoint: Some(endpoint.to_owned()),
            style,
            ..Location::default()
        };
        let own = "http://s3.example:9000";
        let in_path = "http://s3.example:9000/bucket";
        let in_host = "http://bucket.s3.example:9000";
        let of =
            |location, variables: &[(&str, &str)]| address(location, variables).expect("address");
        assert_eq!(of(at(own, None), &[]), in_path);
        assert_eq!(of(at("http://s3.example:9000/", None), &[]), in_path);
        assert_eq!(of(at(own, Some(Style::VirtualHost)), &[]), in_host);
        assert_eq!(of(at(in_host, Some(Style::VirtualHost)), &[]), in_host);
        let plain = Location::default;
        assert_eq!(of(plain(), &[("AWS_ENDPOINT_URL", own)]), in_path);
        let two = [
            ("AWS_ENDPOINT_URL", "http://other"),
            ("AWS_ENDPOINT_URL_S3", own),
        ];
        assert_eq!(of(plain(), &two), in_path);
        let one_more = [("AWS_ENDPOINT_URL_S3", "http://other")];
        assert_eq!(of(at(own, None), &one_more), in_path, "the URL wins");
        let hosted = [
            ("AWS_ENDPOINT_URL", own),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
        ];
        assert_eq!(of(plain(), &hosted), in_host);
        let region = [("AWS_REGION", "eu-central-1")];
        assert_eq!(
            of(plain(), &region),
            "https://bucket.s3.eu-central-1.amazonaws.com"
        );
    }

    #[test]
    fn content_is_hashed_where_there_is_no_tls() {
        let hashed = |endpoint: Option<&str>, variables: &[(&str, &str)]| {
            let location = Location {
                endpoint: endpoint.map(str::to_owned),
                ..Location::default()
            };
            let text = client(location, variables).expect("client");
            let hashed = text.contains("sign_payload: true");
            assert_ne!(hashed, text.contains("sign_payload: false"), "{text}");
            hashed
        };
        let (plain, secure) = (Some("http://s3.example"), Some("https://s3.example"));
        assert!(hashed(plain, &[]));
        assert!(!hashed(secure, &[]));
        assert!(!hashed(None, &[]));
        assert!(hashed(secure, &[("AWS_UNSIGNED_PAYLOAD", "false")]));
        assert!(!hashed(plain, &[("AWS_UNSIGNED_PAYLOAD", "true")]));
    }

    #[test]
    fn endpoints_that_make_no_sense_are_refused() {
        for (endpoint, reason) in [
            (
                "s3.example",
                "The endpoint has to begin with https:// or http://",
            ),
            ("http://", "The endpoint names no host"),
            (
                "http://a:b@host",
                "Credentials do not belong in the endpoint",
            ),
        ] {
            let location = Location {
                endpoint: Some(endpoint.to_owned()),
                ..Location::default()
            };
            let error = address(location, &[]).expect_err("refused").to_string();
            assert_eq!(error, format!("Store URL \"s3://bucket/\": {reason}"));
        }
    }
}
