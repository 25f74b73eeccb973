//! What the checkpoint of a whole pod would meet.

use std::path::Path;

use super::namespaces::{self, shares_network};
use super::space::{self, Needs};
use super::{
    Finding, addresses, closes, connections, criu, immovable, memory, projected, uses_gpu,
};
use crate::journal::After;
use crate::pod::{Member, Pod, volumes};
use crate::probes::Room;
use crate::runtime::{Criu, Oci, Tcp};

/// `rooms`: the liveness probes of the pod's containers, if they are known.
pub(crate) fn pod(
    pod: &Pod,
    criu: &Criu,
    tcp: Tcp,
    spool: &Path,
    rooms: Option<&[Room]>,
    after: After,
) -> Vec<Finding> {
    let processes: Vec<(&Member, Vec<u32>)> = pod
        .members
        .iter()
        .map(|member| (member, member.container.processes()))
        .collect();
    let gpu = processes.iter().any(|(_, processes)| uses_gpu(processes));
    let mut found = criu::check(criu, gpu, spool);
    let mut needs = Needs::default();
    for (member, processes) in &processes {
        let container = &member.container;
        let who = format!("Container {}", member.name);
        let own = Needs::of(container, processes);
        needs = needs.and(own);
        let mut of_container = immovable::check(container, processes);
        of_container.extend(connections::check(processes, tcp, closes(container, criu)));
        for finding in &mut of_container {
            finding.text = format!("{who}: {}", finding.text);
        }
        found.extend(of_container);
        found.extend(addresses::check(&who, processes));
        found.extend(memory::check(&who, container.cgroup.as_ref(), own));
        let mounts = container.oci.as_ref().map(Oci::mounts).unwrap_or_default();
        found.extend(projected::check(&who, processes, &mounts));
    }
    let named: Vec<_> = pod
        .members
        .iter()
        .map(|member| (member.name.as_str(), member.container.init.pid))
        .collect();
    let sandbox = pod.sandbox.as_ref().map(|sandbox| sandbox.init.pid);
    found.extend(namespaces::check(&named, sandbox));
    let mounts = pod.members.iter().map(|member| {
        let oci = member.container.oci.as_ref();
        (&member.name, oci.map(Oci::mounts).unwrap_or_default())
    });
    match volumes(mounts) {
        Ok(volumes) => {
            let bytes = volumes.iter().map(|found| space::of_files(&found.folder));
            needs = needs.with_files(bytes.fold(0, u64::saturating_add));
        }
        Err(reason) => found.push(Finding::refusal("volumes", reason)),
    }
    found.extend(space::of_dump(needs, spool));
    if let Err(error) = pod.is_alone() {
        found.push(Finding::refusal("cgroup", error.to_string()));
    }
    if let Some(above) = pod.cgroup.frozen_above() {
        let text = format!(
            "The pod is below {}, which is frozen",
            above.path().display()
        );
        found.push(Finding::refusal("frozen", text));
    }
    let on_node = pod
        .network()
        .is_none_or(|process| shares_network(process.pid));
    found.extend(probes(rooms, on_node, after));
    found.dedup();
    found
}

/// Liveness probes: answered in the pod's own network, and nowhere else.
fn probes(rooms: Option<&[Room]>, on_node: bool, after: After) -> Vec<Finding> {
    let how_long = match after {
        After::LeaveRunning => "while it is dumped",
        After::KeepFrozen => "until it is thawed",
        After::Stop => "until it is stored and stopped",
    };
    match rooms {
        None => vec![Finding::note(
            "probes",
            format!(
                "Which probes the pod has is not known (--containers): the kubelet kills a container that does not answer {how_long}"
            ),
        )],
        Some(rooms) if on_node => rooms
            .iter()
            .map(|room| {
                Finding::refusal(
                    "probes",
                    format!(
                        "Container {} is killed after {} s without an answer to its liveness probe; it stands still {how_long}, and in the \
node's own network (hostNetwork) nobody else can answer",
                        room.container, room.seconds
                    ),
                )
            })
            .collect(),
        Some(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_in_the_nodes_network_are_refused_with_their_numbers() {
        let rooms = [Room {
            container: "web".to_owned(),
            seconds: 21,
        }];
        for after in [After::LeaveRunning, After::KeepFrozen, After::Stop] {
            let found = probes(Some(&rooms), true, after);
            assert!(found[0].refuses && found[0].text.contains("web is killed after 21 s"));
            assert_eq!(probes(Some(&rooms), false, after), []);
            assert_eq!(probes(Some(&[]), true, after), []);
            let found = probes(None, true, after);
            assert!(!found[0].refuses && found[0].text.contains("--containers"));
        }
    }
}
