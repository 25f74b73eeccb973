//! From the URL of a store to its backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::object::{Location, Style};
use super::{
    Backend, BackendError, Directory, Memory, Oci, RetryPolicy, Retrying, S3, Variables, oci,
};
use crate::StoreName;

/// What a URL does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How calls are tried again. This is the one layer that does so: whoever calls need not.
    pub retry: RetryPolicy,
    /// Where settings and credentials come from.
    pub variables: Variables,
}

/// Opens the part of a store that belongs to `name`:
///
/// | URL | store |
/// |---|---|
/// | `file:///DIRECTORY` | a directory, which has to exist |
/// | `s3://BUCKET/PREFIX` | a bucket; `?endpoint=URL`, `?region=NAME`, `?style=path` or `?style=virtual-host` |
/// | `oci://HOST/REPOSITORY` | a registry; `?http` for one without TLS that is not on this machine |
/// | `memory:` | this process's memory, empty; for tests |
///
/// Credentials come from the environment and from the files that other tools keep. Calls are tried again
/// as [`RetryPolicy::default`] says. Nothing is asked of a server yet.
///
/// # Errors
/// [`BackendError::Url`], with the URL without what could be a secret.
pub fn open(url: &str, name: &StoreName) -> Result<Arc<dyn Backend>, BackendError> {
    open_with(url, name, &Options::default())
}

/// Like [`open`], with options.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(
    url: &str,
    name: &StoreName,
    options: &Options,
) -> Result<Arc<dyn Backend>, BackendError> {
    let place = Place::parse(url).map_err(|reason| BackendError::Url {
        url: without_secrets(url),
        reason,
    })?;
    let backend: Arc<dyn Backend> = match place {
        Place::Memory => Arc::new(Memory::new(name)),
        Place::Directory(path) => Arc::new(Directory::open(&path, name)?),
        Place::S3(location) => {
            let (variables, retry) = (&options.variables, options.retry);
            Arc::new(S3::open(&location, name, variables, retry)?)
        }
        Place::Oci(location) => {
            let (variables, retry) = (&options.variables, options.retry);
            Arc::new(Oci::open(&location, name, variables, retry)?)
        }
    };
    Ok(Arc::new(Retrying::new(backend, options.retry)))
}

/// A URL taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Directory(PathBuf),
    S3(Location),
    Oci(oci::Location),
}

impl Place {
    fn parse(url: &str) -> Result<Self, String> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        if Path::new(url).is_absolute() {
            return Err(format!("A directory is written file://{url}"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(
                "No URL: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY".to_owned(),
            );
        };
        match scheme {
            "file" => directory(rest),
            "s3" => s3(rest),
            "oci" => registry(rest),
            _ => Err("The scheme is none of file, s3, oci".to_owned()),
        }
    }
}

fn directory(rest: &str) -> Result<Place, String> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err("The path has to be absolute: file:///DIRECTORY".to_owned());
    }
    if path.contains(['?', '#']) {
        return Err("A directory takes no options; write %3F for ? and %23 for #".to_owned());
    }
    let bytes = unescaped(path).ok_or("There is a % without two hexadecimal digits")?;
    use std::os::unix::ffi::OsStringExt;
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    Ok(Place::Directory(path))
}

fn s3(rest: &str) -> Result<Place, String> {
    let parts = Parts::of(rest)?;
    if parts.host.is_empty() {
        return Err("It names no bucket".to_owned());
    }
    if !parts.host.bytes().all(is_plain) {
        return Err("That is no name of a bucket".to_owned());
    }
    let mut location = Location {
        bucket: parts.host.to_owned(),
        prefix: prefix(parts.path)?,
        ..Location::default()
    };
    for (option, value) in parts.options {
        let value = unescaped(value).and_then(|bytes| String::from_utf8(bytes).ok());
        let value = value.filter(|value| !value.is_empty());
        match (option, value) {
            ("endpoint", Some(value)) => location.endpoint = Some(value),
            ("region", Some(value)) => location.region = Some(value),
            ("style", Some(value)) if value == "path" => location.style = Some(Style::Path),
            ("style", Some(value)) if value == "virtual-host" => {
                location.style = Some(Style::VirtualHost);
            }
            ("style", _) => return Err("The style is path or virtual-host".to_owned()),
            ("endpoint" | "region", None) => return Err(format!("Option {option} has no value")),
            _ => return Err("The options are endpoint, region and style".to_owned()),
        }
    }
    Ok(Place::S3(location))
}

fn registry(rest: &str) -> Result<Place, String> {
    let parts = Parts::of(rest)?;
    let repository = parts.path.strip_suffix('/').unwrap_or(parts.path);
    if parts.host.is_empty() || repository.is_empty() {
        return Err("It names a registry and a repository: oci://HOST/REPOSITORY".to_owned());
    }
    let mut plain = is_this_machine(parts.host);
    for (option, value) in parts.options {
        match (option, value) {
            ("http", "") => plain = true,
            ("https", "") => plain = false,
            _ => return Err("The options are http and https".to_owned()),
        }
    }
    Ok(Place::Oci(oci::Location {
        host: parts.host.to_owned(),
        repository: repository.to_owned(),
        plain,
    }))
}

/// Whether a host and port are of a loopback address, where others take TLS for granted neither.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address: Option<std::net::IpAddr> = name.parse().ok();
    name == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// What a name in a store may consist of, so that it needs no escape anywhere.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// The path of an S3 URL without slashes at its ends.
fn prefix(path: &str) -> Result<String, String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_plain);
    if path.is_empty() || path.split('/').all(plain) {
        Ok(path.to_owned())
    } else {
        Err("A prefix has letters, digits, -, _ and . between its slashes".to_owned())
    }
}

/// What stands after `://`.
struct Parts<'a> {
    host: &'a str,
    /// Without the slash in front.
    path: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Result<Self, String> {
        if rest.contains('#') {
            return Err("There is a #, which means nothing here".to_owned());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        if host.contains('@') {
            return Err("Credentials do not belong in the URL".to_owned());
        }
        let options = query.split('&').filter(|option| !option.is_empty());
        Ok(Self {
            host,
            path,
            options: options
                .map(|option| option.split_once('=').unwrap_or((option, "")))
                .collect(),
        })
    }
}

/// With `%41` read as the byte it stands for; `None` if it stands for none.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push(u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()?);
        rest = after;
    }
    Some(bytes)
}

/// The URL without what stands before a host, and without values of options.
fn without_secrets(url: &str) -> String {
    let (place, query) = match url.split_once('?') {
        Some((place, _)) => (place, "?…"),
        None => (url, ""),
    };
    let place = match place.split_once("://") {
        Some((scheme, rest)) => {
            // A password may hold slashes that somebody forgot to escape.
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => place.to_owned(),
    };
    format!("{place}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(url: &str) -> String {
        open(url, &StoreName::default())
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn directories() {
        let path = |url: &str| match Place::parse(url) {
            Ok(Place::Directory(path)) => path.display().to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(path("file:///var/lib/store"), "/var/lib/store");
        assert_eq!(path("file://localhost/a%20b%3f"), "/a b?");
        assert_eq!(
            why("file://relative/path"),
            "Store URL \"file://relative/path\": The path has to be absolute: file:///DIRECTORY"
        );
        assert!(why("/var/lib/store").contains("is written file:///var/lib/store"));
        assert!(why("file:///x%2").contains("hexadecimal"));
        assert!(why("file:///x?mode=1").contains("takes no options"));
        assert!(why("file:///nowhere/at/all").contains("make it first"));
    }

    #[test]
    fn buckets() {
        let of = |url: &str| match Place::parse(url) {
            Ok(Place::S3(location)) => location,
            other => panic!("{other:?}"),
        };
        let plain = Location {
            bucket: "b".to_owned(),
            prefix: "p/q".to_owned(),
            ..Location::default()
        };
        assert_eq!(of("s3://b/p/q"), plain);
        assert_eq!(of("s3://b/p/q/"), plain);
        assert_eq!(of("s3://b").prefix, "");
        let full = of("s3://b/p/q?endpoint=http%3A//h:1&region=r&style=virtual-host");
        let wanted = Location {
            endpoint: Some("http://h:1".to_owned()),
            region: Some("r".to_owned()),
            style: Some(Style::VirtualHost),
            ..plain
        };
        assert_eq!(full, wanted);
        for (url, reason) in [
            ("s3:///p", "It names no bucket"),
            ("s3://b/p//q", "A prefix has"),
            ("s3://b/../q", "A prefix has"),
            ("s3://b/p?style=odd", "The style is"),
            ("s3://b/p?region", "Option region has no value"),
            ("s3://b/p?colour=red", "The options are"),
            ("s3://b/p#x", "There is a #"),
        ] {
            assert!(why(url).contains(reason), "{}", why(url));
        }
    }

    #[test]
    fn registries() {
        let of = |url: &str| match Place::parse(url) {
            Ok(Place::Oci(location)) => location,
            other => panic!("{other:?}"),
        };
        let location = of("oci://r.example:5000/team/ckpt/");
        assert_eq!(location.host, "r.example:5000");
        assert_eq!(location.repository, "team/ckpt");
        for (url, plain) in [
            ("oci://r.example/a", false),
            ("oci://r.example/a?http", true),
            ("oci://localhost:5000/a", true),
            ("oci://127.0.0.1/a", true),
            ("oci://[::1]:5000/a", true),
            ("oci://localhost:5000/a?https", false),
            ("oci://localhost.example/a", false),
        ] {
            assert_eq!(of(url).plain, plain, "{url}");
        }
        for (url, reason) in [
            ("oci://r.example", "It names a registry and a repository"),
            ("oci:///a", "It names a registry and a repository"),
            ("oci://r.example/a?tls=no", "The options are http and https"),
            ("oci://u:p@r.example/a", "do not belong in the URL"),
            ("oci://r.example/UPPER", "is no repository"),
            ("oci://r.example/a:tag", "is no repository"),
        ] {
            assert!(why(url).contains(reason), "{}", why(url));
        }
    }

    #[test]
    fn other_things_are_refused() {
        assert!(why("").contains("No URL"));
        assert!(why("gs://bucket").contains("none of file, s3, oci"));
    }

    #[test]
    fn secrets_are_not_printed() {
        for url in [
            "s3://key:hush@bucket/prefix",
            "s3://key:hu/sh@bucket/prefix",
            "s3://bucket/prefix?secret=hush",
            "ftp://u:hush@host/x",
        ] {
            let text = why(url);
            assert!(!text.contains("hush") && !text.contains("hu/sh"), "{text}");
        }
        assert!(why("s3://key:hush@bucket").contains("do not belong in the URL"));
    }

    #[tokio::test]
    async fn memory_is_open_at_once() {
        let backend = open("memory:", &StoreName::default()).expect("open");
        assert_eq!(backend.head(&crate::Key::Store).await.expect("head"), None);
    }
}
