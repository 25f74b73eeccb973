//! A pod that is deleted through CRI while it is kept frozen.

use anyhow::Result;

use super::node::Node;
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case};
use crate::cases::pod::tool::{WRITERS, id, write_nothing_more, write_on, written};
use crate::containers::Contents;

pub(super) const CASES: &[Case] = &[case("cri/deleted_while_it_is_kept_frozen", 900, deleted)];

/// After the freeze, not one more line.
fn deleted(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let node = Node::start(lab, agent)?;
    let agent = &node.agent;
    let data = lab.folder("data")?;
    let mut pod = node.pod(lab, "writers")?;
    let command = ["/bin/sh", "-c", WRITERS];
    pod.run(&Contents {
        host_paths: &[(&data, "/data")],
        ..Contents::new("writers", &command)
    })?;
    write_on(&data)?;
    let words = ["checkpoint", "--pod", &pod.uid, "--json", "--keep-frozen"];
    let report = agent.run(&words)?.is(0)?.json()?;
    let since = written(&data);
    write_nothing_more(&data, &since)?;
    pod.delete()?;
    write_nothing_more(&data, &since)?;
    drop(pod);
    agent.recover()?;
    agent.is_idle()?;
    write_nothing_more(&data, &since)?;
    agent
        .run(&["image", "verify", "--deep", &id(&report)?])?
        .is(0)
        .map(drop)
}
