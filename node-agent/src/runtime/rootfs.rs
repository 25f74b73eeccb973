//! The root file system of a container.

use std::io;
use std::path::{Path, PathBuf};

use crate::process;

/// Where it is, and what the container has changed in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFs {
    /// Its folder.
    pub path: PathBuf,
    /// Folder of an overlay with the changes; `None`: it is no overlay, nothing is known of changes.
    pub upper: Option<PathBuf>,
}

impl RootFs {
    /// Looks it up among the mounts of this machine.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn at(path: &Path) -> io::Result<Self> {
        let mounts = process::read(Path::new("/proc/self/mountinfo"))?;
        Ok(Self {
            path: path.to_owned(),
            upper: upper(&mounts, path),
        })
    }
}

/// The upper folder of the overlay that is mounted there last.
fn upper(mounts: &str, at: &Path) -> Option<PathBuf> {
    let mut found = None;
    for line in mounts.lines() {
        let Some((front, back)) = line.split_once(" - ") else {
            continue;
        };
        let Some(place) = front.split(' ').nth(4) else {
            continue;
        };
        if Path::new(&unescape(place)) != at {
            continue;
        }
        let mut fields = back.split(' ');
        found = match (fields.next(), fields.nth(1)) {
            (Some("overlay"), Some(options)) => options
                .split(',')
                .find_map(|option| option.strip_prefix("upperdir="))
                .map(|upper| PathBuf::from(unescape(upper))),
            _ => None,
        };
    }
    found
}

/// The kernel writes spaces, tabs, line ends and backslashes as three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                bytes.push(code);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 0:20 / / rw - ext4 /dev/root rw
90 22 0:50 / /run/c\\040d/rootfs rw,relatime shared:1 - overlay overlay rw,lowerdir=/l,upperdir=/u\\0541/diff,workdir=/w
91 22 0:51 / /run/plain/rootfs rw - tmpfs tmpfs rw,size=1k
92 22 0:52 / /run/twice rw - overlay overlay rw,upperdir=/first
93 22 0:53 / /run/twice rw - overlay overlay rw,upperdir=/second
";

    #[test]
    fn the_changes_of_an_overlay_are_in_its_upper_folder() {
        let upper = |place: &str| upper(MOUNTS, Path::new(place));
        assert_eq!(upper("/run/c d/rootfs"), Some("/u,1/diff".into()));
        assert_eq!(upper("/run/plain/rootfs"), None);
        assert_eq!(upper("/run/twice"), Some("/second".into()));
        assert_eq!(upper("/run"), None);
    }
}
