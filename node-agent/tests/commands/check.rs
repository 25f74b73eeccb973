//! `topology check`: one process, or a machine.

use rocferry_topology::{CompactTopology, GpuNode, LinkKind, Node, System, UserGpuId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::machines::{Dump, Machine, of_nodes, own_id, publish, system};
use crate::run::{agent, check, check_with, golden, run};

/// A folder with a checkpoint of the GPUs of these nodes, as one process.
fn checkpoint(system: &System, nodes: &[u32]) -> TempDir {
    let dir = TempDir::new().expect("directory");
    let dump = Dump {
        dir: dir.path(),
        system,
        xnack: false,
    };
    let image = dump.process(7, 3, of_nodes(nodes));
    dump.record(&image, 3);
    dir
}

/// A published form of the machine after a change of its GPUs.
fn changed(name: &str, mut change: impl FnMut(&mut GpuNode)) -> (TempDir, std::path::PathBuf) {
    let mut system = system(name);
    for node in &mut system.nodes {
        if let Node::Gpu(gpu) = node {
            change(gpu);
        }
    }
    let dir = TempDir::new().expect("directory");
    let path = publish(&CompactTopology::from(&system), dir.path());
    (dir, path)
}

#[test]
fn two_gpus_of_eight_are_placed() {
    let machine = Machine::new("mi300x-spx");
    let dump = checkpoint(&system("mi300x-spx"), &[4, 7]);
    let usable = ["--usable", "0x1618,renderD144,46235,54554"];
    let ended = check(dump.path(), machine.path(), &usable);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    golden("check-fits.txt", &ended.stdout);
    let ended = check(
        dump.path(),
        machine.path(),
        &["--usable=0x1618,renderD144,46235,54554", "-o", "json"],
    );
    assert_eq!(ended.status, 0);
    // GPU 0x7799 (30617) of node 4 is there; the other one, of the other CPU, has to go to node 6.
    let mapping = json!({"gpus": [[30617, 30617], [13017, 46235]], "cpus": [[0, 0], [1, 1]]});
    assert_eq!(
        ended.json(),
        json!({
            "fits": true,
            "mode": "subset",
            "mapping": mapping,
            "gpus": [
                {"gpuId": 30617, "node": 4, "renderMinor": 144},
                {"gpuId": 46235, "node": 6, "renderMinor": 160},
            ],
            "rejection": null,
            "reasons": [],
            "switches": [],
            "unchecked": [],
            "processes": [{
                "pid": 7, "image": "amdgpu-kfd-3.img", "gpus": 2, "fits": true, "mapping": mapping, "rejection": null,
            }],
        })
    );
}

/// A machine onto itself, published and dumped.
#[test]
fn a_machine_fits_on_itself() {
    for name in ["mi210-pair", "mi250x-trento", "mi300x-cpx", "desktop-raven"] {
        let dir = TempDir::new().expect("directory");
        let file = publish(&CompactTopology::from(&system(name)), dir.path());
        let dumped = TempDir::new().expect("directory");
        let whole = system(name);
        let dump = Dump {
            dir: dumped.path(),
            system: &whole,
            xnack: false,
        };
        dump.process(1, 1, own_id);
        for from in [&*file, dumped.path()] {
            for mode in ["--all", "--subset"] {
                let ended = check(from, &file, &[mode, "-o", "json"]);
                assert_eq!(ended.status, 0, "{name}: {ended:?}");
                let report = ended.json();
                assert_eq!(report["mode"], json!(&mode[2..]));
                let pairs = report["mapping"]["gpus"].as_array().expect("pairs").clone();
                assert_eq!(pairs.len(), whole.gpus().count());
                assert!(pairs.iter().all(|pair| pair[0] == pair[1]), "{name}");
            }
        }
    }
}

#[test]
fn older_firmware_is_rejected_and_can_be_allowed() {
    let dump = checkpoint(&system("mi300x-spx"), &[4]);
    let (_dir, older) = changed("mi300x-spx", |gpu| {
        gpu.properties.fw_version = 170;
        gpu.properties.capability ^= 0x100;
    });
    let ended = check(dump.path(), &older, &[]);
    assert_eq!((ended.status, ended.stderr.as_str()), (1, ""));
    golden("check-firmware.txt", &ended.stdout);
    let report = check(dump.path(), &older, &["-o", "json"]).json();
    let switches = json!(["KFD_CAPABILITY_CHECK", "KFD_FW_VER_CHECK"]);
    assert_eq!(report["fits"], json!(false));
    assert_eq!(report["switches"], switches);
    assert_eq!(report["mapping"], Value::Null);
    assert_eq!(report["rejection"]["reason"], json!("no-candidate"));
    let first = &report["rejection"]["gpus"][0]["rejected"][0]["differences"][1];
    assert_eq!(
        *first,
        json!({
            "property": "fw_version", "source": 192, "destination": 170, "rule": "at-least", "switch": "KFD_FW_VER_CHECK",
        })
    );

    for more in [
        &["--disable-check", "fw-ver", "--disable-check=capability"][..],
        &["--disable-check", "KFD_FW_VER_CHECK,capability"],
    ] {
        let ended = check(dump.path(), &older, more);
        assert_eq!(ended.status, 0, "{ended:?}");
        let last = "Left out: KFD_CAPABILITY_CHECK=0, KFD_FW_VER_CHECK=0\n";
        assert!(ended.stdout.ends_with(last), "{ended:?}");
    }
    // One of them is not enough; the environment counts too, and what it cannot mean is named.
    let mut command = agent();
    command.env("KFD_FW_VER_CHECK", "no");
    command.env("KFD_NUMA_CHECK", "off");
    let ended = check_with(&mut command, dump.path(), &older, &["-o", "json"]);
    assert_eq!(ended.status, 1);
    assert_eq!(
        ended.stderr,
        "Note: KFD_NUMA_CHECK=\"off\" ignored: expected 0, NO, 1 or YES\n"
    );
    let report = ended.json();
    assert_eq!(report["unchecked"], json!(["KFD_FW_VER_CHECK"]));
    assert_eq!(report["switches"], json!(["KFD_CAPABILITY_CHECK"]));
    let mut command = agent();
    command
        .env("KFD_FW_VER_CHECK", "0")
        .env("KFD_CAPABILITY_CHECK", "NO");
    assert_eq!(check_with(&mut command, dump.path(), &older, &[]).status, 0);
}

/// What is only recorded by our own dumps: without the record, nobody can know.
#[test]
fn chips_are_compared_where_they_are_recorded() {
    let (_dir, other) = changed("mi300x-spx", |gpu| gpu.gfx_target_version = Some(90_500));
    let whole = system("mi300x-spx");
    let dump = checkpoint(&whole, &[4]);
    let ended = check(dump.path(), &other, &[]);
    assert_eq!(ended.status, 1);
    assert!(
        ended
            .stdout
            .contains("gfx_target_version differs: checkpoint 90402, here 90500"),
        "{ended:?}"
    );
    std::fs::remove_file(dump.path().join("rocferry-task-7.img")).expect("the record");
    assert_eq!(check(dump.path(), &other, &[]).status, 0);
}

#[test]
fn counts_decide_between_the_modes() {
    let machine = Machine::new("mi300x-spx");
    let dump = checkpoint(&system("mi300x-spx"), &[4, 5]);
    let ended = check(dump.path(), machine.path(), &["--all"]);
    assert_eq!(ended.status, 1);
    golden("check-count.txt", &ended.stdout);
    let ended = check(
        dump.path(),
        machine.path(),
        &["--all", "--usable", "renderD128,renderD136"],
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let ended = check(dump.path(), machine.path(), &["--usable", "renderD152"]);
    assert_eq!(ended.status, 1);
    assert!(
        ended
            .stdout
            .contains("Checkpoint holds 2 GPUs, but only 1 are free here"),
        "{ended:?}"
    );
}

/// Four GPUs that are one hive, onto four that are linked as often, but over PCIe; and onto two of each of two.
#[test]
fn hives_that_are_torn_apart_are_named() {
    let dump = checkpoint(&system("mi210-8"), &[2, 3, 4, 5]);
    let (_dir, pcie) = changed("mi210-8", |gpu| {
        for link in &mut gpu.links {
            link.kind = LinkKind::Pcie;
        }
    });
    let ended = check(dump.path(), &pcie, &[]);
    assert_eq!(ended.status, 1);
    golden("check-hive.txt", &ended.stdout);
    let machine = Machine::new("mi210-8");
    let usable = "renderD128,renderD129,renderD132,renderD133";
    let ended = check(dump.path(), machine.path(), &["--usable", usable]);
    assert_eq!(ended.status, 1);
    golden("check-links.txt", &ended.stdout);
}

/// Two partitions of 64 onto 64 other GPUs: a line for each, not for each pair.
#[test]
fn partitions_are_explained_in_few_lines() {
    let dump = checkpoint(&system("mi300x-cpx"), &[2, 3]);
    let (_dir, spx) = changed("mi300x-cpx", |gpu| gpu.properties.simd_count = 1216);
    let ended = check(dump.path(), &spx, &[]);
    assert_eq!(ended.status, 1);
    golden("check-partitions.txt", &ended.stdout);
}

#[test]
fn xnack_is_asked_about_where_it_matters() {
    let whole = system("mi210-pair");
    let dir = TempDir::new().expect("directory");
    let dump = Dump {
        dir: dir.path(),
        system: &whole,
        xnack: true,
    };
    dump.process(7, 3, own_id);
    let mut compact = CompactTopology::from(&whole);
    let place = TempDir::new().expect("directory");
    let ended = check(dir.path(), &publish(&compact, place.path()), &[]);
    assert_eq!(ended.status, 0);
    assert_eq!(
        ended.stderr,
        "Note: The checkpoint runs with XNACK on; whether the driver there allows it is not recorded\n"
    );
    compact.xnack = Some(true);
    let ended = check(dir.path(), &publish(&compact, place.path()), &[]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    compact.xnack = Some(false);
    let ended = check(
        dir.path(),
        &publish(&compact, place.path()),
        &["-o", "json"],
    );
    assert_eq!((ended.status, ended.stderr.as_str()), (1, ""));
    assert_eq!(ended.json()["rejection"], json!({"reason": "xnack"}));
}

/// The ids that an application has known since its first start are not those of the machine.
#[test]
fn user_ids_are_those_of_the_image() {
    let whole = system("mi210-pair");
    let dir = TempDir::new().expect("directory");
    let dump = Dump {
        dir: dir.path(),
        system: &whole,
        xnack: false,
    };
    // Crosswise: the first GPU goes by the second one's name.
    let ids: Vec<u32> = whole.gpus().map(|gpu| gpu.id.get()).collect();
    dump.process(7, 3, |gpu| {
        let other = ids.iter().find(|id| **id != gpu.id.get())?;
        Some(UserGpuId(*other))
    });
    let machine = Machine::new("mi210-pair");
    let report = check(dir.path(), machine.path(), &["--all", "-o", "json"]).json();
    let pairs = report["mapping"]["gpus"].as_array().expect("pairs").clone();
    assert_eq!(pairs.len(), 2);
    assert!(pairs.iter().all(|pair| pair[0] == pair[1]), "{pairs:?}");
}

#[test]
fn yaml_says_the_same() {
    let machine = Machine::new("mi210-pair");
    let ended = check(machine.path(), machine.path(), &["-o", "yaml"]);
    assert_eq!(ended.status, 0);
    golden("check-machine.yaml", &ended.stdout);
}

#[test]
fn the_help_has_the_exit_status_and_the_default() {
    let help = run(["topology", "check", "--help"]);
    assert_eq!(help.status, 0);
    for words in [
        "Exit status: 0 it fits, 1 it does not fit, 2 that cannot be told",
        "(default)",
        "KFD_FW_VER_CHECK=0",
        "sdma-fw-ver",
    ] {
        assert!(help.stdout.contains(words), "{words}: {}", help.stdout);
    }
    let help = run(["topology", "show", "--help"]);
    assert!(
        help.stdout.contains("Exit status: 0 done, 2"),
        "{}",
        help.stdout
    );
}
