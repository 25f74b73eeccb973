//! The control plane itself: parts of it can be taken away and given back.

use super::Stage;
use crate::Part;
use anyhow::{Result, ensure};

/// Longest that a question is waited for that nobody answers.
const SHORT: &str = "--request-timeout=3s";

/// Killed and started again, and stopped for a while: objects are there as before.
pub(super) fn outages(stage: &Stage) -> Result<()> {
    let asked = || stage.kubectl(&["get", "configmap", "kept", "-o", "name", SHORT]);
    stage
        .kubectl(&["create", "configmap", "kept", "--from-literal=a=b"])?
        .ok()?;
    for part in [Part::ApiServer, Part::Etcd, Part::Scheduler] {
        let before = stage.cluster.pid(part)?;
        stage.cluster.kill(part)?;
        ensure!(
            stage.cluster.pid(part).is_err(),
            "{} runs after it was killed",
            part.name()
        );
        if part == Part::ApiServer {
            asked()?.refused()?;
        }
        stage.cluster.restart(part)?;
        ensure!(stage.cluster.pid(part)? != before, "It is the same process");
        asked()?.ok()?;
    }
    stage.cluster.pause(Part::ApiServer)?;
    let silent = asked()?.refused();
    stage.cluster.resume(Part::ApiServer)?;
    silent?;
    asked()?.ok().map(drop)
}
