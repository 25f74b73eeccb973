//! `topology check` for checkpoints of several processes.

use std::path::PathBuf;

use rocferry_topology::{CompactTopology, GpuNode, Node, NodeId, System, UserGpuId};
use serde_json::json;
use tempfile::TempDir;

use crate::machines::{Dump, Machine, of_nodes, own_id, publish, system};
use crate::run::{check, golden};

const PAIR: [u32; 2] = [4, 7];

fn dump<'a>(dir: &'a TempDir, system: &'a System) -> Dump<'a> {
    Dump {
        dir: dir.path(),
        system,
        xnack: false,
    }
}

#[test]
fn processes_with_the_same_gpus_share_them_again() {
    let whole = system("mi300x-spx");
    let dir = TempDir::new().expect("directory");
    for (pid, file) in [(7, 3), (8, 5), (9, 40)] {
        let dump = dump(&dir, &whole);
        let image = dump.process(pid, file, of_nodes(&PAIR));
        // One of them by the C plugin would be odd, but says the same.
        dump.record(&image, file);
    }
    let machine = Machine::new("mi300x-spx");
    let usable = ["--usable", "renderD128,renderD136,renderD160"];
    let ended = check(dir.path(), machine.path(), &usable);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    golden("check-processes.txt", &ended.stdout);
    let report = check(dir.path(), machine.path(), &["-o", "json"]).json();
    let processes = report["processes"].as_array().expect("list");
    let pids: Vec<_> = processes
        .iter()
        .map(|process| process["pid"].clone())
        .collect();
    assert_eq!(pids, [json!(7), json!(8), json!(9)]);
    assert!(
        processes
            .iter()
            .all(|process| process["mapping"] == report["mapping"])
    );
}

/// One process was restored before and knows the GPUs by ids of another machine: nodes tell them.
#[test]
fn processes_may_know_a_gpu_by_different_ids() {
    let whole = system("mi300x-spx");
    let dir = TempDir::new().expect("directory");
    dump(&dir, &whole).process(7, 3, of_nodes(&PAIR));
    dump(&dir, &whole).process(8, 5, |gpu| {
        of_nodes(&PAIR)(gpu).map(|_| UserGpuId(0x100 + gpu.node.get()))
    });
    let machine = Machine::new("mi300x-spx");
    let ended = check(dir.path(), machine.path(), &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    golden("check-renamed.txt", &ended.stdout);
}

/// On a machine where the ids have changed places, who goes by ids and who goes by order do not meet.
#[test]
fn processes_that_would_part_are_rejected() {
    let whole = system("mi210-pair");
    let ids: Vec<u32> = whole.gpus().map(|gpu| gpu.id.get()).collect();
    let dir = TempDir::new().expect("directory");
    dump(&dir, &whole).process(7, 3, own_id);
    dump(&dir, &whole).process(8, 5, |gpu| Some(UserGpuId(0x100 + gpu.node.get())));
    let mut crossed = whole.clone();
    for node in &mut crossed.nodes {
        if let Node::Gpu(gpu) = node {
            let other = ids.iter().find(|id| **id != gpu.id.get());
            gpu.id = (*other.expect("two GPUs")).into();
        }
    }
    let place = TempDir::new().expect("directory");
    let crossed = publish(&CompactTopology::from(&crossed), place.path());
    let ended = check(dir.path(), &crossed, &["--all"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    golden("check-inconsistent.txt", &ended.stdout);
    let report = check(dir.path(), &crossed, &["-o", "json"]).json();
    assert_eq!(report["fits"], json!(false));
    assert_eq!(report["rejection"], json!(null));
    assert_eq!(report["reasons"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["processes"][0]["fits"], json!(true));
}

/// Each uses the copy engine of another partition, which the kernel takes back only on the partition of the same number.
/// What one of them would choose alone does not do for the other: they have to be placed together.
#[test]
fn what_processes_need_adds_up() {
    let (dir, _place, machine) = two_with_copy_engines();
    // Partitions 1 and 2 of the first card, partition 0 of the second one.
    let usable = "renderD129,renderD130,renderD136";
    let report = check(dir.path(), &machine, &["--usable", usable, "-o", "json"]).json();
    assert_eq!(report["fits"], json!(true), "{report}");
    let nodes = report["gpus"].as_array().expect("GPUs").iter();
    let nodes: Vec<_> = nodes.map(|gpu| gpu["node"].clone()).collect();
    assert_eq!(nodes, [json!(3), json!(10)]);
    // Without partition 0 the second process has nowhere to go.
    let ended = check(dir.path(), &machine, &["--usable", "renderD129,renderD130"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(
        ended
            .stdout
            .contains("partition_index differs: checkpoint 0, here 1"),
        "{ended:?}"
    );
}

/// Either fits at one CPU, both only across two.
#[test]
fn a_switch_can_help_all_together() {
    let (dir, _place, machine) = two_with_copy_engines();
    // Partitions 2 and 0 at the first CPU, 1 and 3 at the second one.
    let usable = ["--usable", "renderD130,renderD136,renderD161,renderD163"];
    let ended = check(dir.path(), &machine, &usable);
    assert_eq!(ended.status, 1, "{ended:?}");
    golden("check-together.txt", &ended.stdout);
    let relaxed = [&usable[..], &["--disable-check", "numa"]].concat();
    let ended = check(dir.path(), &machine, &relaxed);
    assert_eq!(ended.status, 0, "{ended:?}");
}

/// A checkpoint of two processes with the first two partitions of 64, of which each uses one for copying; and the machine.
fn two_with_copy_engines() -> (TempDir, TempDir, PathBuf) {
    let whole = system("mi300x-cpx");
    let dir = TempDir::new().expect("directory");
    let ids: Vec<UserGpuId> = whole.gpus().filter_map(of_nodes(&[2, 3])).collect();
    for (pid, file, gpu) in [(7, 3, ids[1]), (8, 5, ids[0])] {
        let dump = dump(&dir, &whole);
        let image = dump.process_with_queues(pid, file, of_nodes(&[2, 3]), &[gpu]);
        dump.record(&image, file);
    }
    let place = TempDir::new().expect("directory");
    let machine = publish(&CompactTopology::from(&whole), place.path());
    (dir, place, machine)
}

/// Each finds a place, but nobody can say whether one container could hold both.
#[test]
fn processes_with_other_gpus_cannot_be_judged() {
    let whole = system("mi300x-spx");
    let dir = TempDir::new().expect("directory");
    dump(&dir, &whole).process(7, 3, of_nodes(&[4, 7]));
    dump(&dir, &whole).process(8, 5, of_nodes(&[4, 8]));
    let machine = Machine::new("mi300x-spx");
    let ended = check(dir.path(), machine.path(), &[]);
    assert_eq!(ended.status, 2, "{ended:?}");
    golden("check-different.txt", &ended.stdout);
    let ended = check(dir.path(), machine.path(), &["-o", "json"]);
    assert_eq!((ended.status, &ended.json()["fits"]), (2, &json!(null)));
}

#[test]
fn reasons_name_the_processes() {
    let whole = system("mi300x-spx");
    let dir = TempDir::new().expect("directory");
    dump(&dir, &whole).process(7, 3, of_nodes(&PAIR));
    dump(&dir, &whole).process(8, 5, of_nodes(&PAIR));
    let mut small = whole.clone();
    for node in &mut small.nodes {
        if let Node::Gpu(gpu) = node {
            gpu.properties.num_gws = 0;
        }
    }
    let place = TempDir::new().expect("directory");
    let small = publish(&CompactTopology::from(&small), place.path());
    let ended = check(dir.path(), &small, &[]);
    assert_eq!(ended.status, 1);
    golden("check-both-rejected.txt", &ended.stdout);
    let relaxed = check(dir.path(), &small, &["--disable-check", "num-gws"]);
    assert_eq!(relaxed.status, 0, "{relaxed:?}");
}

/// More GPUs than can be matched: not a no.
#[test]
fn too_many_gpus_cannot_be_judged() {
    let whole = system("mi300x-spx");
    let dir = TempDir::new().expect("directory");
    dump(&dir, &whole).process(7, 3, of_nodes(&[4]));
    let Some(gpu) = whole.gpus().next() else {
        panic!("no GPU");
    };
    let nodes = (0..129_u32).map(|index| {
        Node::Gpu(GpuNode {
            node: NodeId(index),
            id: (index + 1).into(),
            ..gpu.clone()
        })
    });
    let place = TempDir::new().expect("directory");
    let many = System::new(nodes.collect(), vec![]);
    let many = publish(&CompactTopology::from(&many), place.path());
    let ended = check(dir.path(), &many, &[]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(
        ended
            .stdout
            .contains("129 GPUs are usable here, more than 128"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("--usable"), "{ended:?}");
}
