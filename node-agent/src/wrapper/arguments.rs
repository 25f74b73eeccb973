//! A runtime's command line, understood just as far as needed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::flags::{CREATE, Family, Flag, GLOBAL, OTHERS, STARTERS};

/// A command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// All of it, without the program's name.
    pub(crate) all: Vec<OsString>,
    /// What stands before the command.
    pub(crate) globals: Vec<Given>,
    /// The command.
    pub(crate) command: Option<OsString>,
    /// Flags after it.
    pub(crate) options: Vec<Given>,
    /// Other words after it; the first is the container's id.
    pub(crate) words: Vec<OsString>,
}

/// A flag as it was given.
#[derive(Debug)]
pub(crate) struct Given {
    /// `None` if it is in no table.
    pub(crate) flag: Option<&'static Flag>,
    /// As it stands there, its value included.
    pub(crate) raw: Vec<OsString>,
    /// Its value.
    pub(crate) value: Option<OsString>,
}

impl Arguments {
    /// Takes a command line apart. There is none that this fails on: what is not understood is in no table.
    pub(crate) fn parse(family: Family, all: Vec<OsString>) -> Self {
        let mut queue = all.iter();
        let mut globals = Vec::new();
        let mut command = None;
        while let Some(word) = queue.next() {
            if !is_flag(word) {
                command = Some(word.clone());
                break;
            }
            globals.push(take(family, GLOBAL, word, &mut queue));
        }
        let table = match command.as_deref().map(OsStr::as_bytes) {
            Some(b"create") => CREATE,
            Some(b"run" | b"restore") => STARTERS,
            _ => OTHERS,
        };
        let (mut options, mut words) = (Vec::new(), Vec::new());
        while let Some(word) = queue.next() {
            if word == "--" {
                words.extend(queue.cloned());
                break;
            }
            if is_flag(word) {
                options.push(take(family, table, word, &mut queue));
            } else {
                words.push(word.clone());
            }
        }
        Self {
            globals,
            command,
            options,
            words,
            all,
        }
    }

    /// The command as text; empty if there is none.
    pub(crate) fn command(&self) -> &str {
        let command = self.command.as_deref().and_then(OsStr::to_str);
        command.unwrap_or_default()
    }

    /// The last value of a global flag.
    pub(crate) fn global(&self, name: &str) -> Option<&OsStr> {
        last(&self.globals, name)
    }

    /// The last value of a flag of the command.
    pub(crate) fn option(&self, name: &str) -> Option<&OsStr> {
        last(&self.options, name)
    }

    /// The container's id.
    pub(crate) fn id(&self) -> Option<&OsStr> {
        self.words.first().map(OsString::as_os_str)
    }

    /// The flags before the command, as they stand there.
    pub(crate) fn global_words(&self) -> impl Iterator<Item = &OsString> {
        self.globals.iter().flat_map(|given| &given.raw)
    }

    /// A flag that is in no table.
    pub(crate) fn unknown(&self) -> Option<&OsStr> {
        let mut given = self.globals.iter().chain(&self.options);
        let unknown = given.find(|given| given.flag.is_none())?;
        unknown.raw.first().map(OsString::as_os_str)
    }
}

fn last<'a>(given: &'a [Given], name: &str) -> Option<&'a OsStr> {
    let named = |given: &&Given| given.flag.is_some_and(|flag| flag.name == name);
    given.iter().rev().find(named)?.value.as_deref()
}

fn is_flag(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    bytes.len() > 1 && bytes[0] == b'-'
}

/// A flag with its value, which may be the next word.
fn take<'a>(
    family: Family,
    table: &'static [Flag],
    word: &OsString,
    queue: &mut impl Iterator<Item = &'a OsString>,
) -> Given {
    let bytes = word.as_bytes();
    let (name, mut value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (&bytes[..at], Some(bytes[at + 1..].to_vec())),
        None => (bytes, None),
    };
    let flag = match name.strip_prefix(b"--") {
        Some(name) => long(family, table, name),
        None => {
            let name = &name[1..];
            match (family, name) {
                (_, [letter]) => by_letter(table, *letter),
                // Go's parser takes one dash for two.
                (Family::Runc, name) => long(family, table, name),
                // `-bDIR`; an `=` is part of the value then.
                (Family::Crun, [letter, ..]) => {
                    let flag = by_letter(table, *letter).filter(|flag| flag.has_value);
                    value = flag.map(|_| bytes[2..].to_vec());
                    flag
                }
                (Family::Crun, []) => None,
            }
        }
    };
    let mut raw = vec![word.clone()];
    if flag.is_some_and(|flag| flag.has_value)
        && value.is_none()
        && let Some(next) = queue.next()
    {
        raw.push(next.clone());
        value = Some(next.as_bytes().to_vec());
    }
    Given {
        flag,
        raw,
        value: value.map(OsString::from_vec),
    }
}

fn by_letter(table: &'static [Flag], letter: u8) -> Option<&'static Flag> {
    table.iter().find(|flag| flag.short == Some(letter))
}

fn long(family: Family, table: &'static [Flag], name: &[u8]) -> Option<&'static Flag> {
    if let Some(flag) = table.iter().find(|flag| flag.name.as_bytes() == name) {
        return Some(flag);
    }
    // glibc's parser takes the beginning of a name for the name if there is no other like it.
    let mut alike = table
        .iter()
        .filter(|flag| !name.is_empty() && flag.name.as_bytes().starts_with(name));
    match (family, alike.next(), alike.next()) {
        (Family::Crun, Some(flag), None) => Some(flag),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(family: Family, line: &str) -> Arguments {
        Arguments::parse(
            family,
            line.split_whitespace().map(OsString::from).collect(),
        )
    }

    #[test]
    fn the_line_of_a_containerd_shim() {
        let line = "--root /run/containerd/runc/k8s.io --log /run/x/log.json --log-format json --systemd-cgroup \
            create --bundle /run/x --pid-file /run/x/init.pid --console-socket /tmp/pty abc123";
        let arguments = parse(Family::Runc, line);
        assert_eq!(arguments.command(), "create");
        assert_eq!(arguments.id().expect("id"), "abc123");
        assert_eq!(arguments.global("log").expect("log"), "/run/x/log.json");
        assert_eq!(arguments.option("bundle").expect("bundle"), "/run/x");
        assert_eq!(arguments.global_words().count(), 7);
        assert_eq!(arguments.unknown(), None);
    }

    #[test]
    fn the_lines_of_conmon() {
        for family in [Family::Runc, Family::Crun] {
            let line = "--systemd-cgroup --root=/run/crun create --bundle /b --pid-file /p --no-pivot --no-new-keyring \
                --preserve-fds 2 --console-socket /c id";
            let arguments = parse(family, line);
            assert_eq!(arguments.id().expect("id"), "id");
            assert_eq!(arguments.global("root").expect("root"), "/run/crun");
            assert_eq!(arguments.unknown(), None);
        }
        let arguments = parse(
            Family::Crun,
            "--log-level debug --cgroup-manager systemd start id",
        );
        assert_eq!(arguments.command(), "start");
        assert_eq!(arguments.id().expect("id"), "id");
    }

    #[test]
    fn all_ways_to_write_a_flag() {
        for (family, line) in [
            (Family::Runc, "create -b /b id"),
            (Family::Runc, "create -b=/b id"),
            (Family::Runc, "create -bundle /b id"),
            (Family::Runc, "create --bundle=/b id"),
            (Family::Runc, "create id --bundle /b"),
            (Family::Crun, "create -b/b id"),
            (Family::Crun, "create --bun /b id"),
            (Family::Crun, "create --bundle=/b -- id"),
        ] {
            let arguments = parse(family, line);
            assert_eq!(arguments.option("bundle").expect(line), "/b", "{line}");
            assert_eq!(arguments.id().expect(line), "id", "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for line in [
            "--new create id",
            "create --new id",
            "create --no id",
            "create -xy id",
        ] {
            for family in [Family::Runc, Family::Crun] {
                assert!(parse(family, line).unknown().is_some(), "{line}");
            }
        }
        // Two flags begin so.
        assert!(parse(Family::Crun, "create --p 1 id").unknown().is_some());
    }

    proptest! {
        #[test]
        fn no_word_is_lost(line in proptest::collection::vec("(--?)?[a-z=-]{0,12}", 0..12)) {
            for family in [Family::Runc, Family::Crun] {
                let all: Vec<OsString> = line.iter().map(OsString::from).collect();
                let arguments = Arguments::parse(family, all.clone());
                let mut words = arguments.global_words().count();
                words += usize::from(arguments.command.is_some());
                words += arguments.options.iter().map(|given| given.raw.len()).sum::<usize>();
                words += arguments.words.len();
                let ends = all.iter().any(|word| word == "--");
                prop_assert!(words == all.len() || ends && words + 1 == all.len());
            }
        }
    }
}
