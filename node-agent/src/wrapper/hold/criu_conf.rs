//! The CRIU configuration file of one container.
//!
//! The runtime takes its name from an annotation of the container and keeps that with the container, so that the next dump reads
//! the file again: it must be there then, and harmless.

use std::path::{Path, PathBuf};

use crate::ticket::{Tcp, read_bounded, write_whole};
use crate::wrapper::error::WrapperError;
use crate::wrapper::flags::Family;

/// Annotation that names the file.
pub(crate) const ANNOTATION: &str = "org.criu.config";

/// Variable of the environment that names another one, for CRIU itself. All stands in both: the runtime and CRIU ignore a file
/// that is not there, and crun 1.21 reads none of its own: either alone must do.
pub(crate) const SECOND_WAY: &str = "CRIU_CONFIG_FILE";

const NAME: &str = "criu.conf";
const SECOND: &str = "criu-second.conf";

/// Longest configuration of a site, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct CriuConf {
    folder: PathBuf,
    /// What the runtime would have CRIU read without the annotation.
    site: Vec<u8>,
}

impl CriuConf {
    /// For a container's folder. The site's own configuration of the runtime stays in force.
    pub(crate) fn new(folder: &Path, family: Family) -> Result<Self, WrapperError> {
        let files: &[&str] = match family {
            Family::Runc => &["/etc/criu/runc.conf"],
            Family::Crun => &["/etc/criu/crun.conf", "/etc/criu/runc.conf"],
        };
        let mut site = Vec::new();
        for file in files {
            if let Some(content) = read_bounded(Path::new(file), MAX_FILE)? {
                site = content;
                break;
            }
        }
        if site.last().is_some_and(|byte| *byte != b'\n') {
            site.push(b'\n');
        }
        Ok(Self {
            folder: folder.to_owned(),
            site,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Where its second copy is.
    pub(crate) fn second(&self) -> PathBuf {
        self.folder.join(SECOND)
    }

    /// Writes it for a restore, with a script or without.
    pub(crate) fn for_restore(&self, script: Option<&Path>, tcp: Tcp) -> Result<(), WrapperError> {
        let mut own = String::new();
        if tcp == Tcp::Close {
            own += "tcp-close\n";
        }
        if let Some(script) = script {
            own += &format!("action-script {}\n", word(script)?);
        }
        // A variable that is set already names what the site wants to be read.
        let mut second = match std::env::var_os(SECOND_WAY) {
            Some(file) => read_bounded(Path::new(&file), MAX_FILE)?.unwrap_or_default(),
            None => Vec::new(),
        };
        second.push(b'\n');
        second.extend(own.bytes());
        write_whole(&self.folder, SECOND, &second)?;
        let mut text = self.site.clone();
        text.extend(own.bytes());
        Ok(write_whole(&self.folder, NAME, &text)?)
    }

    /// Checks that it is what was written for a held restore: the runtime ignores a file that is not there.
    pub(crate) fn check(&self, script: &Path) -> Result<(), WrapperError> {
        let content = read_bounded(&self.path(), MAX_FILE * 2)?.unwrap_or_default();
        let line = format!("action-script {}", word(script)?);
        let text = String::from_utf8_lossy(&content);
        match text.lines().any(|known| known == line) {
            true => Ok(()),
            false => Err(WrapperError::Hold {
                reason: format!("{} does not name the script", self.path().display()),
            }),
        }
    }

    /// Is it as [`Self::harmless`] leaves it?
    pub(crate) fn is_harmless(&self) -> bool {
        let content = read_bounded(&self.path(), MAX_FILE * 2);
        matches!(content, Ok(Some(content)) if content == self.site)
    }

    /// Writes it for whatever comes after the restore.
    pub(crate) fn harmless(&self) -> Result<(), WrapperError> {
        Ok(write_whole(&self.folder, NAME, &self.site)?)
    }
}

/// A path as one word of the file, whose quotes are not the same in all versions of CRIU.
fn word(path: &Path) -> Result<&str, WrapperError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+%".contains(c);
    let text = path.to_str().filter(|text| text.chars().all(plain));
    text.ok_or_else(|| WrapperError::Hold {
        reason: format!(
            "{} cannot be written into a CRIU configuration file: set another runFolder",
            path.display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_script_comes_and_goes() {
        let dir = tempfile::tempdir().expect("folder");
        let conf = CriuConf {
            folder: dir.path().to_owned(),
            site: b"libdir /x\n".to_vec(),
        };
        let script = Path::new("/run/x/hold");
        let text = || fs::read_to_string(conf.path()).expect("file");
        conf.check(script).expect_err("not there");
        conf.for_restore(Some(script), Tcp::Close).expect("written");
        assert_eq!(text(), "libdir /x\ntcp-close\naction-script /run/x/hold\n");
        // A runtime that does not know the annotation has CRIU read this one.
        let second = fs::read_to_string(conf.second()).expect("file");
        assert!(second.ends_with("\ntcp-close\naction-script /run/x/hold\n"));
        conf.check(script).expect("there");
        conf.check(Path::new("/run/x/ho")).expect_err("another");
        conf.harmless().expect("written");
        assert_eq!(text(), "libdir /x\n");
        conf.check(script).expect_err("gone");
        conf.for_restore(None, Tcp::Established).expect("written");
        assert_eq!(text(), "libdir /x\n");
    }

    #[test]
    fn words_that_would_be_two_are_refused() {
        for path in ["/a b", "/a\"b", "/a\nb", "/a#b", "/ä"] {
            word(Path::new(path)).expect_err(path);
        }
    }
}
