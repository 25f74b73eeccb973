//! `seeds TARGET DIR DICTIONARY`: writes the inputs that a target starts from into a directory, and its
//! words as a libFuzzer dictionary.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use rocferry_fuzz::TARGETS;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, dir, dictionary] = args.as_slice() else {
        eprintln!("Usage: seeds TARGET DIR DICTIONARY");
        return ExitCode::FAILURE;
    };
    match write(name, dir.as_ref(), dictionary.as_ref()) {
        Ok(count) => {
            println!("{count} seeds in {dir}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(name: &str, dir: &Path, dictionary: &Path) -> io::Result<usize> {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| io::Error::other(format!("No target is called {name:?}")))?;
    fs::create_dir_all(dir)?;
    let seeds = (target.seeds)();
    for seed in &seeds {
        fs::write(dir.join(&seed.name), &seed.content)?;
    }
    let mut words = String::new();
    for word in (target.words)() {
        words.push('"');
        for byte in word {
            // Quote and backslash have a meaning; everything is allowed as hexadecimal.
            write!(words, "\\x{byte:02x}").map_err(io::Error::other)?;
        }
        words.push_str("\"\n");
    }
    fs::write(dictionary, words)?;
    Ok(seeds.len())
}
