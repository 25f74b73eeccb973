//! What the cases share: the agent's words for a pod, and programs for its containers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::case::Lab;
use crate::cases::agent::tool::{Agent, Ended};
use crate::containers::{Contents, Pod, run};

/// `checkpoint` of a pod.
pub(crate) fn checkpoint<'a>(pod: &'a Pod, after: &'a str) -> [&'a str; 5] {
    ["checkpoint", "--pod", &pod.uid, "--json", after]
}

/// Checkpoints a pod, and says what came of it.
pub(crate) fn stored(agent: &Agent, pod: &Pod, after: &str) -> Result<Value> {
    agent.run(&checkpoint(pod, after))?.is(0)?.json()
}

/// Id of the checkpoint in a report.
pub(crate) fn id(report: &Value) -> Result<String> {
    Ok(report["id"].as_str().context("no id")?.to_owned())
}

/// A container of a shell script. Nothing in these scripts may make processes once they run.
pub(crate) fn shell(pod: &mut Pod, name: &str, script: &str, more: Contents<'_>) -> Result<i32> {
    let command = ["/bin/sh", "-c", script];
    pod.run(&Contents {
        name,
        command: &command,
        ..more
    })
}

/// Contents to be completed by [`shell`].
pub(crate) const NOTHING: Contents<'static> = Contents::new("", &[]);

/// The files of a checkpoint, with all archives in it unpacked beside themselves (`x.tar` into `x`).
pub(crate) fn pulled(agent: &Agent, lab: &mut Lab, id: &str) -> Result<PathBuf> {
    let dir = lab.folder("pulled")?;
    let path = dir.to_str().context("path")?;
    agent.run(&["image", "pull", id, path])?.is(0)?;
    let mut waiting = vec![dir.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "tar") {
                let to = path.with_extension("");
                fs::create_dir_all(&to)?;
                let (from, to) = (path.to_str().context("path")?, to.to_str().context("path")?);
                run(&["tar", "-xf", from, "-C", to])?.ok()?;
            } else if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(dir)
}

/// Eight programs that each append numbers to a file of their own, without end.
pub(crate) const WRITERS: &str = "for k in 1 2 3 4 5 6 7 8; do ( n=0; while :; do n=$((n+1)); echo $n >> /data/$k; done ) & done; wait";

/// How much they have written so far.
pub(crate) fn written(data: &Path) -> Vec<u64> {
    let size = |k: u32| fs::metadata(data.join(k.to_string())).map_or(0, |meta| meta.len());
    (1..=8).map(size).collect()
}

/// All of them write on.
pub(crate) fn write_on(data: &Path) -> Result<()> {
    let before = written(data);
    crate::cases::agent::tool::until("eight writers that write", || {
        let now = written(data);
        Ok(before.iter().zip(&now).all(|(before, now)| now > before))
    })
}

/// None of them writes for a while.
pub(crate) fn write_nothing_more(data: &Path, since: &[u64]) -> Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(300));
    let now = written(data);
    ensure!(now == since, "they wrote on: {since:?}, then {now:?}");
    Ok(())
}

/// A finding of this kind is in a report.
pub(crate) fn finds(ended: &Ended, about: &str, words: &[&str]) -> Result<()> {
    let report = ended.json()?;
    let findings = report["findings"].as_array().context("no findings")?;
    let found = findings.iter().find(|finding| finding["about"] == about);
    let found = found.with_context(|| format!("nothing about {about}: {report}"))?;
    let text = found["text"].as_str().unwrap_or_default();
    for word in words {
        ensure!(text.contains(word), "{about} does not say {word:?}: {text}");
    }
    Ok(())
}
