//! Access keys from the files that other tools keep: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::backend::Variables;

/// What a profile sets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) access_key: Option<String>,
    pub(super) secret_key: Option<String>,
    pub(super) session_token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// The profile that `variables` choose. `None`: there is none, and none was asked for.
///
/// # Errors
/// What is wrong, when one was asked for by name and cannot be had.
pub(super) fn read(variables: &Variables) -> Result<Option<Profile>, String> {
    let asked = variables.get("AWS_PROFILE");
    let name = asked.clone().unwrap_or_else(|| "default".to_owned());
    let mut values = BTreeMap::new();
    let mut found = false;
    let files = [
        ("AWS_CONFIG_FILE", "config", format!("profile {name}")),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name.clone()),
    ];
    for (variable, file, section) in files {
        let path = match (variables.get(variable), variables.get("HOME")) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(home)) => PathBuf::from(home).join(".aws").join(file),
            (None, None) => continue,
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("Cannot read {}: {error}", path.display())),
        };
        // The default one has a short name in both files. Keys of the credentials file win.
        for section in [section.as_str(), name.as_str()] {
            if let Some(more) = section_of(&text, section) {
                found = true;
                values.extend(more);
            }
        }
    }
    let profile = Profile {
        access_key: values.remove("aws_access_key_id"),
        secret_key: values.remove("aws_secret_access_key"),
        session_token: values.remove("aws_session_token"),
        region: values.remove("region"),
        endpoint: values.remove("endpoint_url"),
    };
    match asked {
        Some(name) if !found => Err(format!("No profile {name:?} in the AWS files")),
        Some(name) if profile.access_key.is_none() => Err(format!(
            "Profile {name:?} has no access key of its own; roles, SSO and processes are not \
             supported"
        )),
        _ => Ok(found.then_some(profile)),
    }
}

/// Keys and values below `[name]`.
fn section_of(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut values = BTreeMap::new();
    let (mut inside, mut found) = (false, false);
    for line in text.lines() {
        // Indented lines belong to a nested setting.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(section) = line.trim_end().strip_prefix('[') {
            inside = section.strip_suffix(']').map(str::trim) == Some(name);
            found |= inside;
        } else if inside && let Some((key, value)) = line.split_once('=') {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found.then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# keys\n[default]\naws_access_key_id = AK1\n\
        aws_secret_access_key=SK=1\n\n[other]\naws_access_key_id=AK2\naws_secret_access_key=SK2\n\
        aws_session_token=T2\n[empty]\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  region = no\n\
        [profile other]\nregion=r2\nendpoint_url=http://s3.example\n[profile sso]\nsso_session=x\n";

    fn with(profile: Option<&str>) -> Result<Option<Profile>, String> {
        let dir = tempfile::tempdir().expect("dir");
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("credentials"), CREDENTIALS).expect("write");
        std::fs::write(path("config"), CONFIG).expect("write");
        let mut pairs = vec![
            ("AWS_CONFIG_FILE".to_owned(), path("config")),
            (
                "AWS_SHARED_CREDENTIALS_FILE".to_owned(),
                path("credentials"),
            ),
        ];
        pairs.extend(profile.map(|name| ("AWS_PROFILE".to_owned(), name.to_owned())));
        read(&Variables::only(pairs))
    }

    #[test]
    fn profiles_come_from_both_files() {
        let default = with(None).ok().flatten().expect("default");
        assert_eq!(default.access_key.as_deref(), Some("AK1"));
        assert_eq!(default.secret_key.as_deref(), Some("SK=1"));
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let other = with(Some("other")).ok().flatten().expect("other");
        assert_eq!(other.access_key.as_deref(), Some("AK2"));
        assert_eq!(other.session_token.as_deref(), Some("T2"));
        assert_eq!(other.endpoint.as_deref(), Some("http://s3.example"));
    }

    #[test]
    fn a_profile_that_was_asked_for_has_to_do() {
        let why = |name| with(Some(name)).err().expect("refused");
        assert_eq!(why("gone"), "No profile \"gone\" in the AWS files");
        for name in ["sso", "empty"] {
            assert!(why(name).contains("no access key of its own"), "{name}");
        }
        let nowhere = Variables::only([("HOME".to_owned(), "/nonexistent".to_owned())]);
        assert!(matches!(read(&nowhere), Ok(None)));
    }
}
