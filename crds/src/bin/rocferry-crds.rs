//! Writes the definitions into a folder and the reference into a file: `rocferry-crds FOLDER REFERENCE`.
//!
//! Run by `cargo xtask crds`, which itself does without the Kubernetes client's crates.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use rocferry_crds::{definitions, reference};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file] = arguments.as_slice() else {
        eprintln!("Usage: rocferry-crds FOLDER REFERENCE");
        return ExitCode::FAILURE;
    };
    match write(Path::new(folder), Path::new(file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let definitions = definitions()?;
    for definition in &definitions {
        put(&folder.join(definition.file_name()), &definition.yaml()?)?;
    }
    put(file, &reference(&definitions))
}

fn put(path: &Path, content: &str) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write(path, content)
        .map_err(|error| format!("Cannot write {}: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
