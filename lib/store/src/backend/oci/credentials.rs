//! Credentials for a registry from the files of Podman and Docker.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::Value;

use crate::backend::Variables;

/// What a helper program has to answer.
const HELPER: Duration = Duration::from_secs(30);
const MOST_OF_A_FILE: u64 = 1 << 20;

/// Who somebody is to a registry.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// Exchanged for tokens; by its nature a secret itself.
    Identity(String),
}

/// Credentials are named somewhere and cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("Cannot read {0}")]
    File(PathBuf, #[source] std::io::Error),
    #[error("{0} is no file of credentials")]
    Form(PathBuf),
    #[error("The program {0}, which {1} names, gives no credentials: {2}")]
    Helper(String, PathBuf, String),
}

/// Those for a repository; `None` if nobody has any. `host` is as people write it.
pub(super) async fn find(
    variables: &Variables,
    host: &str,
    repository: &str,
) -> Result<Option<Credentials>, Unreadable> {
    let (files, names) = (files(variables), names(host, repository));
    let search = move || {
        for file in files {
            if let Some(found) = search(&file, &names)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    };
    // Files, and programs that may ask their own servers.
    match tokio::task::spawn_blocking(search).await {
        Ok(found) => found,
        Err(join) => Err(Unreadable::File(
            PathBuf::new(),
            std::io::Error::other(join),
        )),
    }
}

/// Where to look, in the order of Podman, with Docker's file last. One that was named is the only one.
fn files(variables: &Variables) -> Vec<PathBuf> {
    if let Some(file) = variables.get("REGISTRY_AUTH_FILE") {
        return vec![file.into()];
    }
    let in_dir = |variable: &str, path: &str| {
        let dir = variables.get(variable);
        dir.map(|dir| PathBuf::from(dir).join(path))
    };
    [
        in_dir("XDG_RUNTIME_DIR", "containers/auth.json"),
        in_dir("XDG_CONFIG_HOME", "containers/auth.json")
            .or_else(|| in_dir("HOME", ".config/containers/auth.json")),
        in_dir("DOCKER_CONFIG", "config.json").or_else(|| in_dir("HOME", ".docker/config.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Names under which credentials for a repository may be kept, the narrowest first.
fn names(host: &str, repository: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut path = format!("{host}/{repository}");
    while let Some((parent, _)) = path.rsplit_once('/') {
        names.push(path.clone());
        path = parent.to_owned();
    }
    names.push(host.to_owned());
    if matches!(
        host,
        "docker.io" | "index.docker.io" | "registry-1.docker.io"
    ) {
        let others = [
            "docker.io",
            "index.docker.io",
            "https://index.docker.io/v1/",
        ];
        names.extend(others.map(str::to_owned));
    }
    for suffix in ["", "/", "/v1/", "/v2/"] {
        names.push(format!("https://{host}{suffix}"));
        names.push(format!("http://{host}{suffix}"));
    }
    names
}

fn search(file: &PathBuf, names: &[String]) -> Result<Option<Credentials>, Unreadable> {
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|open| open.take(MOST_OF_A_FILE).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unreadable::File(file.clone(), error)),
    }
    let unreadable = || Unreadable::Form(file.clone());
    let json: Value = serde_json::from_str(&text).map_err(|_| unreadable())?;
    for name in names {
        if let Some(helper) = json["credHelpers"][name].as_str() {
            let found = ask(helper, name);
            return found.map_err(|why| Unreadable::Helper(helper.to_owned(), file.clone(), why));
        }
        let entry = &json["auths"][name];
        if let Some(found) = entry_of(entry).map_err(|()| unreadable())? {
            return Ok(Some(found));
        }
        if entry.is_object()
            && let Some(helper) = json["credsStore"].as_str()
        {
            let found = ask(helper, name);
            return found.map_err(|why| Unreadable::Helper(helper.to_owned(), file.clone(), why));
        }
    }
    Ok(None)
}

/// The credentials in an entry itself; `Err`: it has some that make no sense.
fn entry_of(entry: &Value) -> Result<Option<Credentials>, ()> {
    let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty());
    if let Some(token) = text("identitytoken") {
        return Ok(Some(Credentials::Identity(token.to_owned())));
    }
    if let Some(auth) = text("auth") {
        let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim());
        let both = String::from_utf8(bytes.map_err(|_| ())?).map_err(|_| ())?;
        // Docker pads it with zero bytes now and then.
        let both = both.trim_end_matches('\0');
        let (user, password) = both.split_once(':').ok_or(())?;
        return Ok(Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }));
    }
    match (text("username"), text("password")) {
        (Some(user), Some(password)) => Ok(Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })),
        _ => Ok(None),
    }
}

/// Asks `docker-credential-HELPER`. What is wrong comes without what it printed, which may hold secrets.
fn ask(helper: &str, name: &str) -> Result<Option<Credentials>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if helper.is_empty() || !helper.bytes().all(plain) {
        return Err("that is no name of a program".to_owned());
    }
    let mut child = Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // One that reads nothing says so by its status.
        let _ = input.write_all(name.as_bytes());
    }
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > HELPER => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("it takes too long".to_owned());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut output = String::new();
    if let Some(out) = child.stdout.take() {
        let read = out.take(MOST_OF_A_FILE).read_to_string(&mut output);
        read.map_err(|error| error.to_string())?;
    }
    if !status.success() {
        // That is how they say that they have none.
        return if output.contains("credentials not found") {
            Ok(None)
        } else {
            Err(format!("it ended with {status}"))
        };
    }
    let json: Value = serde_json::from_str(&output).map_err(|_| "it prints no JSON".to_owned())?;
    match (json["Username"].as_str(), json["Secret"].as_str()) {
        (Some("<token>"), Some(token)) => Ok(Some(Credentials::Identity(token.to_owned()))),
        (Some(user), Some(password)) => Ok(Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })),
        _ => Err("it prints no user and secret".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(user: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    async fn with(text: &str, host: &str) -> Result<Option<Credentials>, Unreadable> {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("auth.json");
        std::fs::write(&file, text).expect("write");
        let file = file.display().to_string();
        let variables = Variables::only([("REGISTRY_AUTH_FILE".to_owned(), file)]);
        find(&variables, host, "team/ckpt").await
    }

    #[tokio::test]
    async fn the_narrowest_name_wins() {
        // a:1, b:2 and c:3:4.
        let text = r#"{"auths":{"reg.example":{"auth":"YTox"},"reg.example/team":{"auth":"Yjoy"},
            "https://index.docker.io/v1/":{"auth":"YzozOjQ="},"other":{}}}"#;
        let found = |host| async move { with(text, host).await.expect("readable") };
        assert!(found("reg.example").await == password("b", "2"));
        assert!(found("docker.io").await == password("c", "3:4"));
        assert!(found("other").await.is_none());
        assert!(found("reg.example:5000").await.is_none());
    }

    #[tokio::test]
    async fn odd_files_are_told() {
        for text in [
            "",
            "{",
            r#"{"auths":{"h":{"auth":"!"}}}"#,
            r#"{"auths":{"h":{"auth":"YQ=="}}}"#,
        ] {
            let error = with(text, "h").await.err().expect("refused").to_string();
            assert!(error.ends_with("is no file of credentials"), "{error}");
        }
        assert!(with("{}", "h").await.expect("readable").is_none());
        let token = with(
            r#"{"auths":{"h":{"auth":"YTox","identitytoken":"t"}}}"#,
            "h",
        )
        .await;
        assert!(token.expect("readable") == Some(Credentials::Identity("t".to_owned())));
        let helper = with(r#"{"credHelpers":{"h":"../../bin/sh"}}"#, "h").await;
        let error = helper.err().expect("refused").to_string();
        assert!(error.contains("no name of a program"), "{error}");
        let helper = with(
            r#"{"auths":{"h":{}},"credsStore":"no-such-helper-here"}"#,
            "h",
        )
        .await;
        assert!(matches!(helper, Err(Unreadable::Helper(..))));
    }

    #[test]
    fn files_are_looked_for_where_others_look() {
        let paths = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let files = files(&Variables::only(pairs));
            files
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/run/u")]),
            [
                "/run/u/containers/auth.json",
                "/h/.config/containers/auth.json",
                "/h/.docker/config.json"
            ]
        );
        assert_eq!(
            paths(&[("HOME", "/h"), ("REGISTRY_AUTH_FILE", "/a")]),
            ["/a"]
        );
        assert_eq!(paths(&[("DOCKER_CONFIG", "/d")]), ["/d/config.json"]);
    }
}
