//! Topology trees of real machines, written in the notation that README.md beside this file explains.

mod expression;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a tree by path below the `topology` directory; `None` is one that may not be read.
pub(crate) type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// All trees with their names, sorted.
pub(crate) fn all() -> Vec<(String, Files)> {
    let mut names: Vec<String> = fs::read_dir(dir())
        .expect("directory of the trees")
        .filter_map(|entry| {
            let name = entry.expect("entry").file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".tree"));
            name.map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no trees in {}", dir().display());
    let with_files = |name: String| {
        let files = tree(&name);
        (name, files)
    };
    names.into_iter().map(with_files).collect()
}

/// The tree of this name.
pub(crate) fn tree(name: &str) -> Files {
    let path = dir().join(format!("{name}.tree"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}.tree: {error}"));
    expand(&text).unwrap_or_else(|error| panic!("{name}.tree: {error}"))
}

/// Where the trees lie, seen from this crate and from the fuzz targets, which use this file as well.
fn dir() -> PathBuf {
    ["tests/trees", "../lib/topology/tests/trees"]
        .map(|dir| Path::new(env!("CARGO_MANIFEST_DIR")).join(dir))
        .into_iter()
        .find(|dir| dir.is_dir())
        .expect("directory of the trees")
}

/// Expands the notation into files.
///
/// # Errors
/// What is wrong, with its line.
pub(crate) fn expand(text: &str) -> Result<Files, String> {
    let mut files = Files::new();
    let mut block: Option<(usize, &str, Vec<&str>)> = None;
    let mut close = |block: Option<(usize, &str, Vec<&str>)>| match block {
        Some((line, path, content)) => {
            expand_block(path, &content, &mut files).map_err(|e| format!("block at {line}: {e}"))
        }
        None => Ok(()),
    };
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(path) = line.strip_prefix("== ") {
            close(block.replace((index + 1, path, Vec::new())))?;
        } else if let Some((_, _, content)) = &mut block {
            content.push(line);
        } else {
            return Err(format!("line {} belongs to no file", index + 1));
        }
    }
    close(block)?;
    Ok(files)
}

/// Writes the files that one block stands for.
fn expand_block(path: &str, content: &[&str], files: &mut Files) -> Result<(), String> {
    let pattern = Pattern::parse(path)?;
    for places in pattern.places() {
        let path: String = pattern.path(&places);
        let mut text = String::new();
        for line in content {
            text.push_str(
                &substitute(line, &variables(&places)).map_err(|e| format!("{line}: {e}"))?,
            );
            text.push('\n');
        }
        files.insert(path.into(), Some(text.into_bytes()));
    }
    Ok(())
}

/// `n` and `i` are number and position in the first range, `k` and `j` those in the second.
fn variables(places: &[Place]) -> Vec<(char, i128)> {
    let names = [('n', 'i'), ('k', 'j')];
    places
        .iter()
        .zip(names)
        .flat_map(|(place, (number, index))| [(number, place.number), (index, place.index)])
        .collect()
}

/// One number out of a range.
#[derive(Clone, Copy)]
struct Place {
    number: i128,
    index: i128,
}

/// A path with up to two ranges `[FIRST-LAST]` in it.
struct Pattern<'a> {
    /// Text before, between and after the ranges.
    texts: Vec<&'a str>,
    ranges: Vec<(i128, i128)>,
}

impl<'a> Pattern<'a> {
    fn parse(path: &'a str) -> Result<Self, String> {
        let (mut texts, mut ranges, mut rest) = (Vec::new(), Vec::new(), path);
        while let Some((text, after)) = rest.split_once('[') {
            let (range, after) = after.split_once(']').ok_or("a range that does not end")?;
            let (first, last) = range.split_once('-').ok_or("a range without -")?;
            let number = |text: &str| text.parse().map_err(|_| format!("no number: {text}"));
            texts.push(text);
            ranges.push((number(first)?, number(last)?));
            rest = after;
        }
        texts.push(rest);
        if ranges.len() > 2 {
            return Err("more than two ranges".to_owned());
        }
        Ok(Self { texts, ranges })
    }

    /// Every combination of numbers, the last range counting fastest.
    fn places(&self) -> Vec<Vec<Place>> {
        let mut all = vec![Vec::new()];
        for (first, last) in self.ranges.iter().copied() {
            let each = |before: Vec<Place>| {
                (first..=last).map(move |number| {
                    let index = number - first;
                    [&before[..], &[Place { number, index }]].concat()
                })
            };
            all = all.into_iter().flat_map(each).collect();
        }
        all
    }

    fn path(&self, places: &[Place]) -> String {
        let mut path = self.texts[0].to_owned();
        for (place, text) in places.iter().zip(&self.texts[1..]) {
            path.push_str(&place.number.to_string());
            path.push_str(text);
        }
        path
    }
}

/// Puts the value of each `{EXPRESSION}` in its place.
fn substitute(line: &str, variables: &[(char, i128)]) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), line);
    while let Some((text, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}').ok_or("{ without }")?;
        out.push_str(text);
        out.push_str(&expression::value(expression, variables)?.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
