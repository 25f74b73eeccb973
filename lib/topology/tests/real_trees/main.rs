//! Trees of real machines (`trees/`): everything that matters is read out of each, from disk and from memory.

mod damage;
mod facts;
mod matching;
mod notation;
#[path = "../trees/mod.rs"]
mod trees;

use std::path::Path;

use rocferry_topology::System;
use trees::Files;

fn read(files: &Files) -> System {
    System::from_files(files).expect("tree")
}

/// Changes the text of one file.
fn edit(files: &mut Files, path: &str, change: impl FnOnce(&str) -> String) {
    let content = files.get_mut(Path::new(path)).expect("file");
    let text = content.as_deref().expect("readable").to_vec();
    let text = change(&String::from_utf8(text).expect("text"));
    *content = Some(text.into_bytes());
}
