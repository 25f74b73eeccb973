//! Published topologies in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rocferry_topology::{CompactTopology, System};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::error::Error;

/// More than fits into etcd, where these things live.
const MAX_FILE: u64 = 4 << 20;

/// Reads JSON or YAML, whatever the name of the file.
pub(super) fn read(path: &Path) -> Result<System, Error> {
    parse(path, &text(path)?)
}

fn parse(path: &Path, text: &str) -> Result<System, Error> {
    let syntax = |reason: String| Error::Syntax {
        path: path.to_owned(),
        reason: printable(&reason),
    };
    let compact: CompactTopology = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| syntax(error.to_string()))?
    } else {
        // No writer makes references, with which a short file can stand for any amount of data; and parts of the
        // file do not belong into the message.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_aliases: 0 },
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| syntax(error.to_string()))?
    };
    System::try_from(&compact).map_err(|source| Error::Compact {
        path: path.to_owned(),
        source,
    })
}

fn text(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    // Opening a pipe would wait for somebody to write into it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
    let mode = fstat(&file)
        .map_err(|errno| unreadable(errno.into()))?
        .st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(Error::NoFile {
            path: path.to_owned(),
        });
    }
    let mut content = Vec::new();
    File::from(file)
        .take(MAX_FILE + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            limit: MAX_FILE,
        });
    }
    String::from_utf8(content).map_err(|_| Error::Syntax {
        path: path.to_owned(),
        reason: "it is not text".to_owned(),
    })
}

/// One line, without anything that a terminal would act upon: parsers quote what they have found.
fn printable(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let clean = line.chars().flat_map(|c| match c.is_control() {
        true => c.escape_default().collect::<Vec<_>>(),
        false => vec![c],
    });
    clean.take(200).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const YAML: &str = "version: 1
cpus:
- node: 0
  cores: 64
  links: {pcie: '1'}
models:
- properties: {simdCount: 440, memBanksCount: 1, cachesCount: 2, ioLinksCount: 1, maxWavesPerSimd: 8, ldsSizeInKb: 64,
    numGws: 64, waveFrontSize: 64, arrayCount: 8, simdArraysPerEngine: 1, cuPerSimdArray: 14, simdPerCu: 4,
    maxSlotsScratchCu: 32, vendorId: 4098, deviceId: 29704, numSdmaEngines: 2, numSdmaXgmiEngines: 3,
    numSdmaQueuesPerEngine: 8, numCpQueues: 24, fwVersion: 78, capability: 746037888, sdmaFwVersion: 8,
    vram: {public: true, size: 68702699520}}
gpus:
- {node: 1, gpuId: 51947, renderMinor: 128, domain: 0, uniqueId: '0x1', model: 0, links: {pcie: 0}}
masked: 2-3
";

    fn json() -> String {
        let system = parse(Path::new("a"), YAML).expect("a good file");
        serde_json::to_string(&CompactTopology::from(&system)).expect("JSON")
    }

    #[test]
    fn both_languages_say_the_same() {
        let system = parse(Path::new("a"), YAML).expect("YAML");
        assert_eq!(system.gpus().count(), 1);
        assert_eq!(system.masked.len(), 2);
        assert_eq!(parse(Path::new("a"), &json()).expect("JSON"), system);
        let lines = crate::format::to_yaml(&CompactTopology::from(&system)).expect("YAML");
        assert_eq!(parse(Path::new("a"), &lines).expect("its own YAML"), system);
    }

    #[test]
    fn messages_are_one_plain_line() {
        for text in [
            "\u{1b}[2Jversion: 1",
            "version: \"\u{1b}[2J\u{7}\"",
            "{\"version\": \"\u{1b}[2J\"}",
            "{\"version\": 1, \"masked\": [\"\u{9b}\"]}",
            "version: 1\nmasked: \"\\e[2J\"",
            "- 1\n- 2",
            "",
        ] {
            let error = parse(Path::new("a"), text).expect_err(text);
            let error = format!("{error}: {:?}", std::error::Error::source(&error));
            assert!(!error.chars().any(char::is_control), "{error:?}");
            assert!(error.len() < 400, "{error}");
        }
    }

    /// References that double a few dozen times would fill any memory.
    #[test]
    fn bombs_do_not_go_off() {
        let mut text = "version: 1\na0: &a0 [x, x]\n".to_owned();
        for level in 1..60 {
            let before = level - 1;
            text.push_str(&format!("a{level}: &a{level} [*a{before}, *a{before}]\n"));
        }
        text.push_str("cpus: *a59\n");
        let begun = std::time::Instant::now();
        assert!(matches!(
            parse(Path::new("a"), &text),
            Err(Error::Syntax { .. })
        ));
        assert!(begun.elapsed().as_secs() < 5);
        for open in ["[", "{\"a\":"] {
            let error = parse(Path::new("a"), &open.repeat(100_000)).expect_err("nested too deep");
            assert!(matches!(error, Error::Syntax { .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,80}", at in any::<prop::sample::Index>(), other in ".{0,3}") {
            let _ = parse(Path::new("a"), &text);
            for good in [YAML.to_owned(), json()] {
                let mut damaged = good;
                let at = at.index(damaged.len());
                damaged.replace_range(at..=at, &other);
                let _ = parse(Path::new("a"), &damaged);
            }
        }
    }
}
