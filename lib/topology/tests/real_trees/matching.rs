//! Checkpoints of real machines, restored on real machines.

use rocferry_topology::{
    ActualGpuId, Checks, Mapping, Matcher, Mode, NodeId, Rejection, System, UserGpuId,
};

use crate::trees::{self, Files};
use crate::{edit, read};

/// What a process that uses the GPUs of these nodes leaves behind.
fn checkpoint(system: &System, nodes: impl Fn(NodeId) -> bool) -> System<UserGpuId> {
    system.rename(|gpu| nodes(gpu.node).then_some(UserGpuId(gpu.id.get())))
}

fn map(
    source: &System<UserGpuId>,
    destination: &System,
    mode: Mode,
) -> Result<Mapping, Box<Rejection>> {
    let matcher = Matcher::new(source, Checks::default()).expect("a real machine");
    let usable: Vec<ActualGpuId> = destination.gpus().map(|gpu| gpu.id).collect();
    matcher.map(destination, &usable, mode)
}

/// The same machine with other gpu_ids: those of the first up to the last GPU grow.
fn renumbered(mut files: Files) -> System {
    for (index, gpu) in (1..).zip(read(&files).gpus()) {
        edit(&mut files, &format!("nodes/{}/gpu_id", gpu.node), |_| {
            format!("{index}\n")
        });
    }
    read(&files)
}

/// Nodes of the destination in the order of the source's GPUs.
fn nodes(mapping: &Mapping, destination: &System) -> Vec<u32> {
    mapping
        .iter()
        .map(|(_, actual)| destination.gpu(actual).expect("usable").node.get())
        .collect()
}

#[test]
fn each_machine_fits_itself_and_stays_as_it_is() {
    for (name, files) in trees::all() {
        let system = read(&files);
        let source = checkpoint(&system, |_| true);
        for mode in [Mode::All, Mode::Subset] {
            let mapping = map(&source, &system, mode).expect(&name);
            assert!(mapping.is_identity(), "{name}");
            assert_eq!(mapping.iter().len(), system.gpus().count(), "{name}");
        }
    }
}

#[test]
fn with_other_ids_each_gpu_takes_the_place_that_it_had() {
    for (name, files) in trees::all() {
        let source = checkpoint(&read(&files), |_| true);
        let destination = renumbered(files);
        let mapping = map(&source, &destination, Mode::All).expect(&name);
        assert!(!mapping.is_identity(), "{name}");
        let expected: Vec<u32> = source.gpus().map(|gpu| gpu.node.get()).collect();
        assert_eq!(nodes(&mapping, &destination), expected, "{name}");
    }
}

/// No two of them are alike, and for each GPU that finds no place there is a reason.
#[test]
fn no_machine_fits_another() {
    let all: Vec<(String, System)> = trees::all()
        .into_iter()
        .map(|(name, files)| (name, read(&files)))
        .collect();
    for (from, source) in &all {
        let source = checkpoint(source, |_| true);
        for (to, destination) in all.iter().filter(|other| other.0 != *from) {
            let rejection = map(&source, destination, Mode::Subset).expect_err(to);
            assert!(!rejection.to_string().is_empty(), "{from} on {to}");
            assert!(!rejection.lines().is_empty(), "{from} on {to}");
        }
    }
}

#[test]
fn a_container_with_two_gpus_moves_to_two_others() {
    let files = trees::tree("mi300x-spx");
    let whole = read(&files);
    let source = checkpoint(&whole, |node| [2, 3].map(NodeId).contains(&node));
    // On the whole machine it takes its own.
    let mapping = map(&source, &whole, Mode::Subset).expect("fits");
    assert!(mapping.is_identity());
    // A container with two others, on the other socket.
    let mut masked = files;
    for (path, content) in &mut masked {
        if ["2", "3", "4", "5", "6", "9"]
            .iter()
            .any(|node| path.starts_with(format!("nodes/{node}")))
        {
            *content = None;
        }
    }
    let destination = read(&masked);
    let mapping = map(&source, &destination, Mode::All).expect("fits");
    assert_eq!(nodes(&mapping, &destination), [7, 8]);
    assert_eq!(mapping.cpus(), [(NodeId(0), NodeId(1))]);
    // From one on each socket there is no way to two on one.
    let source = checkpoint(&whole, |node| [2, 9].map(NodeId).contains(&node));
    map(&source, &destination, Mode::All).expect_err("two CPUs on one");
}

#[test]
fn partitions_of_a_card_move_to_other_partitions() {
    let whole = read(&trees::tree("mi300x-cpx"));
    let source = checkpoint(&whole, |node| (10..18).contains(&node.get()));
    let destination = renumbered(trees::tree("mi300x-cpx"));
    let usable: Vec<ActualGpuId> = destination
        .gpus()
        .filter(|gpu| gpu.node.get() >= 40)
        .map(|gpu| gpu.id)
        .collect();
    let matcher = Matcher::new(&source, Checks::default()).expect("a real machine");
    let mapping = matcher
        .map(&destination, &usable, Mode::Subset)
        .expect("fits");
    assert_eq!(
        nodes(&mapping, &destination),
        [40, 41, 42, 43, 44, 45, 46, 47]
    );
    // The machine with one partition less counts one link less on each GPU.
    let rejection = map(&source, &read(&trees::tree("mi300x-cpx-63")), Mode::Subset);
    let lines = rejection.expect_err("other link counts").lines().join("\n");
    assert!(lines.contains("io_links_count"), "{lines}");
}
