//! Our line in a CRIU configuration file of the runtimes, among the site's.
//!
//! It stands between two lines of ours, and is taken out again as it was put in, whoever has changed the rest meanwhile: a script
//! that is no longer there would make every dump fail.

use std::path::Path;

use super::change::Change;
use super::error::InstallError;
use super::file::{Content, remove};
use super::host::Host;
use super::plan::utf8;
use super::put::folder;
use super::record::Record;

/// runc reads this one; crun too, unless it has its own.
const RUNC: &str = "/etc/criu/runc.conf";
const CRUN: &str = "/etc/criu/crun.conf";

const BEGIN: &str = "# rocferry: begin. `rocferry-agent uninstall` takes this out.\n";
/// The same, after a line that had no end.
const BEGIN_AFTER: &str =
    "\n# rocferry: begin. `rocferry-agent uninstall` takes this and the line end before it out.\n";
const END: &str = "# rocferry: end\n";

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The line is there.
    There,
    /// The site has a script of its own, which stays alone.
    Other,
}

/// The files that are to have it: a new one of crun's would hide the one that it reads now.
pub(super) fn files(host: &Host) -> Vec<&'static Path> {
    let crun = Path::new(CRUN);
    let mut files = vec![Path::new(RUNC)];
    if host.real(crun).exists() {
        files.push(crun);
    }
    files
}

/// Adds the script, or renews it.
pub(super) fn add(
    host: &Host,
    record: &mut Record,
    path: &Path,
    script: &Path,
) -> Result<Added, InstallError> {
    let real = host.real(path);
    let (before, mode) = read(&real)?;
    let site = without(before.as_deref().unwrap_or_default());
    if has_script(&site) {
        if Some(&site) != before.as_ref() {
            write(&real, site, mode)?;
            record.forget(path)?;
        }
        return Ok(Added::Other);
    }
    if let Some(parent) = path.parent() {
        folder(host, record, parent)?;
    }
    let made = match record.of(path) {
        Some(Change::Lines { made, .. }) => *made,
        _ => before.is_none(),
    };
    record.set(Change::Lines {
        path: path.to_owned(),
        made,
    })?;
    let begin = match site.is_empty() || site.ends_with('\n') {
        true => BEGIN,
        false => BEGIN_AFTER,
    };
    let now = format!("{site}{begin}action-script {}\n{END}", utf8(script)?);
    if before.as_ref() != Some(&now) {
        write(&real, now, mode)?;
    }
    Ok(Added::There)
}

/// Takes it out. `made`: the file was made for it, and goes if nothing else has come into it.
pub(super) fn undo(host: &Host, path: &Path, made: bool) -> Result<(), InstallError> {
    let real = host.real(path);
    let (Some(before), mode) = read(&real)? else {
        return Ok(());
    };
    let site = without(&before);
    if made && site.is_empty() {
        return remove(&real);
    }
    if site != before {
        write(&real, site, mode)?;
    }
    Ok(())
}

/// The site's part.
fn without(text: &str) -> String {
    for begin in [BEGIN_AFTER, BEGIN] {
        if let Some((front, rest)) = text.split_once(begin)
            && let Some((_, back)) = rest.split_once(END)
        {
            return format!("{front}{back}");
        }
    }
    text.to_owned()
}

fn has_script(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("--").unwrap_or(line);
        line.strip_prefix("action-script")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '='))
    })
}

fn read(path: &Path) -> Result<(Option<String>, u32), InstallError> {
    match Content::read(path)? {
        None => Ok((None, 0o644)),
        Some(Content::File { bytes, mode }) => match String::from_utf8(bytes) {
            Ok(text) => Ok((Some(text), mode)),
            Err(_) => Err(InstallError::Damaged {
                path: path.to_owned(),
                reason: "it is no text".to_owned(),
            }),
        },
        // Replaced by a file it would not be the site's any more.
        Some(Content::Link(_)) => Err(InstallError::Kind {
            path: path.to_owned(),
        }),
    }
}

fn write(path: &Path, text: String, mode: u32) -> Result<(), InstallError> {
    let bytes = text.into_bytes();
    Content::File { bytes, mode }.write(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn host() -> (tempfile::TempDir, Host, Record) {
        let dir = tempfile::tempdir().expect("a folder");
        let host = Host::new(&dir.path().join("root"));
        fs::create_dir_all(host.real(Path::new("/etc"))).expect("made");
        let record = Record::open(&dir.path().join("state")).expect("a record");
        (dir, host, record)
    }

    fn add_to(host: &Host, record: &mut Record) -> Added {
        let script = Path::new("/usr/libexec/rocferry/rocferry-action");
        add(host, record, Path::new(RUNC), script).expect("added")
    }

    #[test]
    fn the_sites_lines_stay_and_come_back_whoever_changes_them() {
        for site in ["", "tcp-close\n", "tcp-close", "# nothing\n\n"] {
            let (_dir, host, mut record) = host();
            let path = host.real(Path::new(RUNC));
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, site).expect("written");
            for _ in 0..2 {
                assert_eq!(add_to(&host, &mut record), Added::There);
                let text = fs::read_to_string(&path).expect("there");
                assert!(text.starts_with(site), "{text}");
                assert_eq!(text.matches("action-script /usr").count(), 1, "{text}");
            }
            let changed = format!("link-remap\n{}", fs::read_to_string(&path).expect("there"));
            fs::write(&path, changed).expect("written");
            undo(&host, Path::new(RUNC), false).expect("taken out");
            let text = fs::read_to_string(&path).expect("there");
            assert_eq!(text, format!("link-remap\n{site}"));
        }
    }

    #[test]
    fn a_file_that_was_made_goes_unless_somebody_uses_it() {
        for more in ["", "tcp-close\n"] {
            let (_dir, host, mut record) = host();
            assert_eq!(add_to(&host, &mut record), Added::There);
            let path = host.real(Path::new(RUNC));
            let text = fs::read_to_string(&path).expect("there");
            fs::write(&path, format!("{text}{more}")).expect("written");
            assert_eq!(add_to(&host, &mut record), Added::There);
            let Some(Change::Lines { made: true, .. }) = record.of(Path::new(RUNC)) else {
                panic!("{record:?}");
            };
            undo(&host, Path::new(RUNC), true).expect("taken out");
            match more {
                "" => assert!(!path.exists()),
                _ => assert_eq!(fs::read_to_string(&path).expect("there"), more),
            }
        }
    }

    #[test]
    fn the_sites_own_script_stays_alone() {
        for line in [
            "action-script /x\n",
            "--action-script=/x\n",
            "  action-script\t/x",
        ] {
            let (_dir, host, mut record) = host();
            let path = host.real(Path::new(RUNC));
            assert_eq!(add_to(&host, &mut record), Added::There);
            let text = fs::read_to_string(&path).expect("there");
            fs::write(&path, format!("{text}{line}")).expect("written");
            assert_eq!(add_to(&host, &mut record), Added::Other);
            assert_eq!(fs::read_to_string(&path).expect("there"), line);
            assert_eq!(record.of(Path::new(RUNC)), None);
        }
        assert!(!has_script("# action-script x\naction-scripts x\n"));
    }
}
