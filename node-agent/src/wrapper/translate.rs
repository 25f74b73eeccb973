//! From `create` to `restore`.

use std::ffi::OsString;
use std::path::Path;

use super::arguments::Arguments;
use super::error::WrapperError;
use super::flags::{Family, Fate};
use super::privileges::Profile;
use crate::ticket::{CriuOptions, Tcp};

/// What a restore needs besides the words of the `create`.
#[derive(Debug)]
pub(crate) struct Restore<'a> {
    pub(crate) images: &'a Path,
    pub(crate) work: &'a Path,
    pub(crate) criu: CriuOptions,
    /// Those of the new container, whatever the images have.
    pub(crate) profile: &'a Profile,
}

/// The runtime's arguments that restore what this `create` was to make.
///
/// # Errors
/// A flag that is not known, or whose effect a restore cannot have.
pub(crate) fn restore_words(
    family: Family,
    arguments: &Arguments,
    restore: &Restore<'_>,
) -> Result<Vec<OsString>, WrapperError> {
    let unfit = |word: &std::ffi::OsStr, why| WrapperError::Flag {
        flag: word.to_string_lossy().into_owned(),
        why,
    };
    if let Some(word) = arguments.unknown() {
        return Err(unfit(word, "it is not known"));
    }
    let id = match arguments.words.as_slice() {
        [id] => id,
        words => return Err(WrapperError::Words { count: words.len() }),
    };
    let mut words: Vec<OsString> = arguments.global_words().cloned().collect();
    words.extend(["restore", "--detach", "--image-path"].map(OsString::from));
    words.push(restore.images.into());
    words.push("--work-path".into());
    words.push(restore.work.into());
    for given in &arguments.options {
        let (Some(flag), Some(word)) = (given.flag, given.raw.first()) else {
            continue;
        };
        match flag.fate(family) {
            Fate::Dropped => {}
            Fate::Carried => match &given.value {
                Some(value) if flag.has_value => {
                    words.push(format!("--{}", flag.name).into());
                    words.push(value.clone());
                }
                _ => words.push(word.clone()),
            },
            Fate::NotThere => return Err(unfit(word, "this runtime does not have it")),
            Fate::Impossible => return Err(unfit(word, "a restore has nothing like it")),
        }
    }
    let options = [
        ("--tcp-established", restore.criu.tcp == Tcp::Established),
        ("--file-locks", restore.criu.file_locks),
        ("--ext-unix-sk", restore.criu.external_unix_sockets),
        ("--shell-job", restore.criu.shell_job),
    ];
    let profile = [
        ("--lsm-profile", &restore.profile.process),
        ("--lsm-mount-context", &restore.profile.mounts),
    ];
    for (flag, value) in profile {
        if let Some(value) = value {
            words.extend([flag, value].map(OsString::from));
        }
    }
    let wanted = options.into_iter().filter(|(_, wanted)| *wanted);
    words.extend(wanted.map(|(flag, _)| OsString::from(flag)));
    words.push(id.clone());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wrapper::flags::CREATE;

    fn translate(family: Family, line: &str) -> Result<String, WrapperError> {
        let all = line.split_whitespace().map(OsString::from).collect();
        let restore = Restore {
            images: Path::new("/i"),
            work: Path::new("/w"),
            criu: CriuOptions::default(),
            profile: &Profile::default(),
        };
        let words = restore_words(family, &Arguments::parse(family, all), &restore)?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn what_carries_over_and_what_not() {
        let line = "--root /r --log /l --log-format json --systemd-cgroup create --bundle /b --pid-file /p --no-pivot \
            --no-new-keyring --preserve-fds 2 --console-socket /c id";
        assert_eq!(
            translate(Family::Runc, line).expect("runc"),
            "--root /r --log /l --log-format json --systemd-cgroup restore --detach --image-path /i --work-path /w \
             --bundle /b --pid-file /p --no-pivot --console-socket /c id"
        );
        assert_eq!(
            translate(Family::Crun, line).expect("crun"),
            "--root /r --log /l --log-format json --systemd-cgroup restore --detach --image-path /i --work-path /w \
             --bundle /b --pid-file /p --console-socket /c id"
        );
    }

    #[test]
    fn profiles_are_the_new_containers() {
        let profile = Profile {
            process: Some("apparmor:p".to_owned()),
            mounts: Some("m".to_owned()),
        };
        let restore = Restore {
            images: Path::new("/i"),
            work: Path::new("/w"),
            criu: CriuOptions::default(),
            profile: &profile,
        };
        let create = ["create", "id"].map(OsString::from).to_vec();
        let words = restore_words(
            Family::Runc,
            &Arguments::parse(Family::Runc, create),
            &restore,
        );
        let words = words.expect("words").join(std::ffi::OsStr::new(" "));
        assert_eq!(
            words,
            "restore --detach --image-path /i --work-path /w --lsm-profile apparmor:p --lsm-mount-context m id"
        );
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        for (family, line, named) in [
            (
                Family::Runc,
                "create --pidfd-socket /s id",
                "--pidfd-socket",
            ),
            (
                Family::Crun,
                "create --pidfd-socket /s id",
                "--pidfd-socket",
            ),
            (Family::Crun, "create -f other.json id", "-f"),
            (Family::Runc, "create --new-thing id", "--new-thing"),
            (Family::Runc, "--new-thing create id", "--new-thing"),
        ] {
            let error = translate(family, line).expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
        translate(Family::Runc, "create a b").expect_err("two ids");
        translate(Family::Runc, "create").expect_err("no id");
    }

    proptest! {
        /// Whatever comes, each flag of the result is one that `restore` has.
        #[test]
        fn nothing_slips_through(chosen in proptest::collection::vec(0..CREATE.len(), 0..6), crun: bool) {
            let family = if crun { Family::Crun } else { Family::Runc };
            let mut line = "create".to_owned();
            for flag in chosen.iter().map(|index| &CREATE[*index]) {
                line += &format!(" --{}{}", flag.name, if flag.has_value { " v" } else { "" });
            }
            let bad = chosen.iter().any(|index| {
                matches!(CREATE[*index].fate(family), Fate::NotThere | Fate::Impossible)
            });
            match translate(family, &(line + " id")) {
                Ok(words) => {
                    prop_assert!(!bad);
                    for dropped in ["--preserve-fds", "--no-new-keyring"] {
                        prop_assert!(!words.contains(dropped), "{words}");
                    }
                }
                Err(_) => prop_assert!(bad),
            }
        }
    }
}
