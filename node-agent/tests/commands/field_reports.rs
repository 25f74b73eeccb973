//! `docs/field-reports.md` names tests: they exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("it is a room").to_owned()
}

/// All sources of the cases in test machines.
fn cases() -> String {
    let mut text = String::new();
    let mut waiting = vec![root().join("e2e/scenarios/src/cases")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).expect("list") {
            let path = entry.expect("entry").path();
            match path.is_dir() {
                true => waiting.push(path),
                false => text += &fs::read_to_string(path).expect("source"),
            }
        }
    }
    text
}

/// Why a test that is named does not exist.
fn fault(name: &str, cases: &str) -> Option<String> {
    if let Some((file, function)) = name.split_once("::") {
        let Ok(source) = fs::read_to_string(root().join(file)) else {
            return Some(format!("{name}: there is no {file}"));
        };
        let there = source.contains(&format!("fn {function}("));
        return (!there).then(|| format!("{name}: no such function"));
    }
    let there = cases.contains(&format!("\"{name}\""));
    (!there).then(|| format!("{name}: no such case"))
}

#[test]
fn each_test_that_is_named_exists() {
    let table = include_str!("../../../docs/field-reports.md");
    let cases = cases();
    let mut numbers = Vec::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", number, _, _, tests, ""] = cells.as_slice() else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else {
            continue;
        };
        numbers.push(number);
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{line}");
        for name in named {
            assert_eq!(fault(name, &cases), None, "report {number}");
        }
    }
    let wanted = [
        1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 23, 24, 25, 27, 28, 30, 31, 33, 34, 36,
        37, 44, 47,
    ];
    assert_eq!(numbers, wanted);
    // A name that is none is seen.
    for name in [
        "node-agent/src/lib.rs::nothing",
        "nowhere.rs::x",
        "agent/nothing",
    ] {
        assert!(fault(name, &cases).is_some(), "{name}");
    }
}
