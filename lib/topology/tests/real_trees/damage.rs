//! What a tree may lack, what may be in it besides, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use rocferry_topology::{NodeId, System};
use tempfile::TempDir;

use crate::trees::{self, Files};
use crate::{edit, read};

/// Writes the files in the given order.
fn write<'a>(files: impl Iterator<Item = (&'a PathBuf, &'a Option<Vec<u8>>)>) -> TempDir {
    let dir = TempDir::new().expect("directory");
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, content.as_deref().expect("readable")).expect("file");
    }
    dir
}

/// File systems list directories as they were made, or by a hash of the name.
#[test]
fn the_disk_gives_the_same_in_any_order() {
    // Thousands of files are slow to make and show nothing more.
    let small = |(_, files): &(String, Files)| files.len() < 200;
    for (name, files) in trees::all().into_iter().filter(small) {
        let expected = read(&files);
        for dir in [write(files.iter()), write(files.iter().rev())] {
            assert_eq!(System::read(dir.path()).expect("tree"), expected, "{name}");
        }
    }
}

#[test]
fn a_container_sees_the_gpus_that_it_was_given() {
    let mut files = trees::tree("mi300x-spx");
    let whole = read(&files);
    // The device cgroup grants renderD144 and renderD152, nodes 4 and 5: directories stay, reading fails.
    for (path, content) in &mut files {
        let node = path
            .strip_prefix("nodes")
            .ok()
            .and_then(|path| path.iter().next());
        if node.is_some_and(|node| !["0", "1", "4", "5"].map(Some).contains(&node.to_str())) {
            *content = None;
        }
    }
    let system = read(&files);
    assert_eq!(system.masked, [2, 3, 6, 7, 8, 9].map(NodeId));
    assert_eq!(system.cpus().count(), 2);
    assert_eq!(system.hives(), [[NodeId(4), NodeId(5)]]);
    for gpu in system.gpus() {
        let before = whole.gpu(gpu.id).expect("the same GPU");
        // The raw count does not change, the number of links that lead anywhere does.
        assert_eq!(gpu.properties, before.properties);
        assert_eq!((gpu.valid_link_count(), before.valid_link_count()), (2, 8));
    }
    let minors: Vec<u32> = system.gpus().map(|gpu| gpu.render_minor.get()).collect();
    assert_eq!(minors, [144, 152]);
}

/// Without any one line of a GPU's properties the tree still reads, except for the four that no GPU is without.
#[test]
fn most_lines_may_be_absent() {
    let files = trees::tree("mi300x-spx");
    let whole = read(&files);
    let path = "nodes/4/properties";
    let text = files[Path::new(path)].as_deref().expect("readable");
    let text = String::from_utf8(text.to_vec()).expect("text");
    let mut changed = 0;
    for line in text.lines() {
        let mut files = files.clone();
        edit(&mut files, path, |text| {
            text.replacen(&format!("{line}\n"), "", 1)
        });
        let name = line.split(' ').next().expect("name");
        let needed = ["simd_count", "vendor_id", "device_id", "drm_render_minor"];
        match System::from_files(&files) {
            Ok(system) => {
                assert!(!needed.contains(&name), "{name}");
                changed += usize::from(system != whole);
                assert_eq!(system.gpus().count(), 8, "{name}");
            }
            Err(error) => {
                assert!(needed.contains(&name), "{name}: {error}");
                assert_eq!(error.to_string(), format!("{path}: no property {name}"));
            }
        }
    }
    // Lines that say something besides 0: all that the crate reads but the domain.
    assert_eq!(changed, 24);
}

#[test]
fn lines_of_other_kernels_do_not_matter() {
    for (name, files) in trees::all() {
        let expected = read(&files);
        let mut changed = files.clone();
        for (path, content) in &mut changed {
            if path.ends_with("properties") {
                let content = content.as_mut().expect("readable");
                *content = [b"new_line 1 2 three\n", &content[..], b"\nsdma_mask -1\n"].concat();
            }
        }
        // Things beside the nodes, and inside of them.
        for path in [
            "nodes/README",
            "nodes/1x/gpu_id",
            "nodes/0/io_links/x/properties",
            "nodes/0/perf/iommu/max",
        ] {
            changed.insert(path.into(), Some(b"?".to_vec()));
        }
        assert_eq!(read(&changed), expected, "{name}");
    }
}

/// A file that breaks off anywhere is read or refused by its name, never taken for something else.
#[test]
fn truncated_files_are_named() {
    let files = trees::tree("mi210-pair");
    let whole = read(&files);
    for path in [
        "nodes/2/gpu_id",
        "nodes/2/properties",
        "nodes/3/mem_banks/0/properties",
        "nodes/2/io_links/1/properties",
    ] {
        let length = files[Path::new(path)].as_deref().expect("readable").len();
        for end in 0..length {
            let mut files = files.clone();
            edit(&mut files, path, |text| text[..end].to_owned());
            match System::from_files(&files) {
                Ok(system) => assert_eq!(system.nodes.len(), whole.nodes.len()),
                Err(error) => assert!(error.to_string().starts_with(path), "{error}"),
            }
        }
    }
}

#[test]
fn damage_in_a_real_tree_is_named() {
    for (path, from, to, message) in [
        (
            "nodes/7/gpu_id",
            "13017\n",
            "nonsense\n",
            ":1: expected a gpu_id: \"nonsense\\n\"",
        ),
        (
            "nodes/7/properties",
            "hive_id ",
            "hive_id 0x",
            ":25: expected a name and an unsigned number: \"hive_id 0x7773567030725891300\"",
        ),
        (
            "nodes/7/io_links/3/properties",
            "node_to 4",
            "node_to -1",
            ":5: expected a name and an unsigned number: \"node_to -1\"",
        ),
        (
            "nodes/7/mem_banks/0/properties",
            "heap_type 1\n",
            "",
            ": no property heap_type",
        ),
        (
            "nodes/0/properties",
            "cpu_cores_count",
            "cores",
            ": no property cpu_cores_count",
        ),
    ] {
        let mut files = trees::tree("mi300x-spx");
        edit(&mut files, path, |text| text.replace(from, to));
        assert_eq!(error(&files), format!("{path}{message}"));
    }
    let mut files = trees::tree("mi300x-spx");
    edit(&mut files, "nodes/7/gpu_id", |_| "28851\n".to_owned());
    assert_eq!(error(&files), "GPU 0x70b3 is node 2 and node 7");
    files.remove(Path::new("nodes/7/properties"));
    assert_eq!(error(&files), "Cannot read nodes/7/properties");
}

fn error(files: &Files) -> String {
    match System::from_files(files) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}
