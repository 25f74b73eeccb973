//! `topology show`.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use rocferry_topology::{CompactTopology, System};
use tempfile::TempDir;

use crate::machines::{Machine, files, publish, system, write};
use crate::run::{agent, golden, run, show};

#[test]
fn machines_are_drawn() {
    for name in [
        "mi210-pair",
        "mi300x-spx",
        "mi300x-cpx",
        "mi300a",
        "desktop-raven",
    ] {
        let ended = show(Machine::new(name).path(), &[]);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{name}");
        golden(&format!("show-{name}.txt"), &ended.stdout);
        for line in ended.stdout.lines() {
            assert!(line.chars().count() < 160, "{line}");
            assert_eq!(line, line.trim_end(), "{name}");
        }
    }
}

/// What somebody sees inside a container that was given two GPUs of eight.
#[test]
fn hidden_gpus_are_named() {
    let whole = system("mi300x-spx");
    let mut compact = CompactTopology::from(&whole);
    compact.gpus.retain(|gpu| [4, 5].contains(&gpu.node.get()));
    compact.masked = "2-3,6-9".to_owned();
    let dir = TempDir::new().expect("directory");
    let ended = show(&publish(&compact, dir.path()), &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    golden("show-container.txt", &ended.stdout);
}

/// Links of every sort, which no one machine has: a hive that is no full mesh, one-way links, links that lead nowhere,
/// modes of partitions.
#[test]
fn unusual_links_are_drawn() {
    let text = r#"{
        "version": 1,
        "cpus": [
            {"node": 0, "cores": 1, "links": {"pcie": "2-3,6", "other": [{"type": 1, "nodes": "1"}]}},
            {"node": 1, "cores": 8, "links": {"pcie": "0"}}
        ],
        "models": [{"computePartition": "DPX", "memoryPartition": "NPS2", "properties": PROPERTIES}],
        "gpus": [
            {"node": 2, "gpuId": 2, "renderMinor": 128, "domain": 1, "locationId": 256, "model": 0, "links": {"pcie": "0,6", "xgmi": "3"}},
            {"node": 3, "gpuId": 3, "renderMinor": 129, "domain": 1, "locationId": 257, "model": 0, "links": {"pcie": "0,6", "xgmi": "2,4"}},
            {"node": 4, "gpuId": 4, "renderMinor": 130, "domain": 2, "locationId": 256, "model": 0, "links": {"pcie": "0,6", "xgmi": "3,5"}},
            {"node": 5, "gpuId": 5, "renderMinor": 131, "domain": 2, "locationId": 268435712, "model": 0, "links": {"xgmi": "9"}},
            {"node": 6, "gpuId": 6, "renderMinor": 132, "domain": 3, "model": 0, "links": {"pcie": "2-4"}}
        ]
    }"#;
    let properties = CompactTopology::from(&system("mi210-pair")).models[0]
        .properties
        .clone();
    let properties = serde_json::to_string(&properties).expect("JSON");
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("published");
    fs::write(&path, text.replace("PROPERTIES", &properties)).expect("file");
    let ended = show(&path, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    golden("show-unusual.txt", &ended.stdout);
}

#[test]
fn json_and_yaml_are_the_published_form() {
    let dir = TempDir::new().expect("directory");
    let machine = Machine::new("mi250x-trento");
    let json = show(machine.path(), &["-o", "json"]);
    let read: CompactTopology = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(read, CompactTopology::from(&system("mi250x-trento")));
    let yaml = show(machine.path(), &["--output", "yaml"]);
    assert!(
        yaml.stdout.starts_with("version: 1\ncpus:\n"),
        "{}",
        yaml.stdout
    );
    let table = show(machine.path(), &[]);
    for (name, text) in [("a.json", &json.stdout), ("a.yaml", &yaml.stdout)] {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("file");
        assert_eq!(show(&path, &["-o", "json"]).stdout, json.stdout, "{name}");
        assert_eq!(show(&path, &[]).stdout, table.stdout, "{name}");
    }
}

/// A copy of a root file system, of its `sys` or of the tree alone; modes of the cards come along.
#[test]
fn the_tree_is_found_in_a_root() {
    let files = files("mi210-pair");
    for place in [
        "sys/class/kfd/kfd/topology",
        "sys/devices/virtual/kfd/kfd/topology",
    ] {
        let dir = TempDir::new().expect("directory");
        write(&files, &dir.path().join(place));
        let card = dir.path().join("sys/bus/pci/devices/0000:83:00.0");
        fs::create_dir_all(&card).expect("directory");
        fs::write(card.join("current_compute_partition"), "SPX\n").expect("file");
        let ended = show(dir.path(), &["-o", "json"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        let read: CompactTopology = serde_json::from_str(&ended.stdout).expect("JSON");
        let modes = read.gpus.iter().map(|gpu| {
            let model = &read.models[gpu.model as usize];
            model.compute_partition.as_deref()
        });
        assert_eq!(modes.collect::<Vec<_>>(), [Some("SPX"), None]);
        assert_eq!(System::try_from(&read).expect("system").nodes.len(), 4);
    }
}

/// Without a driver the machine at hand is an error that says what to look at; with one, it is drawn.
#[test]
fn the_live_machine_is_the_default() {
    let ended = run(["topology", "show"]);
    match ended.status {
        0 => assert!(ended.stdout.contains("GPU"), "{ended:?}"),
        2 => {
            let message = "Error: Cannot read the topology of this machine: Cannot read /sys/class/kfd/kfd/topology/nodes: ";
            assert!(ended.stderr.starts_with(message), "{ended:?}");
            assert!(
                ended.stderr.contains("Is the amdgpu driver loaded?"),
                "{ended:?}"
            );
        }
        _ => panic!("{ended:?}"),
    }
}

/// `… | head` ends it without a word.
#[test]
fn a_reader_may_go_away() {
    let machine = Machine::new("mi210-pair");
    let mut child = agent()
        .args(["topology", "show", "-o", "json", "--root"])
        .arg(machine.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("text");
    assert_eq!(child.wait().expect("wait").code(), Some(0));
    assert_eq!(stderr, "");
}
