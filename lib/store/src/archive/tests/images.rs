//! OCI images, written and read.

use std::io::{Seek, SeekFrom};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

fn files() -> Files {
    let id = "1".repeat(64);
    let config = json!({
        "id": "c1", "name": "web", "rootfsImageRef": id, "rootfsImageName": "images.example/app:v1",
        "runtime": "crun",
    });
    let spec = json!({"annotations": {"io.kubernetes.cri-o.Annotations": "{}"}});
    Files::new(&[
        ("checkpoint/inventory.img", b"inventory"),
        ("checkpoint/pages-1.img", &[9; 300_000]),
        ("config.dump", config.to_string().as_bytes()),
        ("spec.dump", spec.to_string().as_bytes()),
    ])
}

fn image() -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let names = ImageNames {
        reference: Some("images.example/checkpoints/web:1".to_owned()),
        criu_version: Some("4.2".to_owned()),
        ..ImageNames::default()
    };
    let written = write_image(
        &mut files(),
        Engine::CriO,
        &Facts::default(),
        &names,
        &mut out,
    );
    let written = written.unwrap();
    assert_eq!(written.bytes, out.get_ref().len() as u64);
    out.into_inner()
}

fn read_whole(data: &[u8]) -> Result<(ReadImage, Memory), ImageError> {
    let mut memory = Memory::default();
    let read = read_image(&mut Cursor::new(data), &Limits::default(), &mut memory)?;
    Ok((read, memory))
}

/// The files of a layout.
fn parts(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(data);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        })
        .collect()
}

fn tar(parts: &[(String, Vec<u8>)]) -> Vec<u8> {
    let add = |tar: Tar, (name, content): &(String, Vec<u8>)| tar.file(name, content);
    parts.iter().fold(Tar::default(), add).end()
}

fn sha256(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// An image with this layer, manifest and index, digests put right.
fn made(layer: &[u8], layer_type: &str, change: impl Fn(&mut Value, &mut Value)) -> Vec<u8> {
    let descriptor = |data: &[u8], kind: &str| json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(data)), "size": data.len()});
    let blob = |data: &[u8]| (format!("blobs/sha256/{}", sha256(data)), data.to_vec());
    let config = b"{}";
    let mut manifest = json!({
        "schemaVersion": 2,
        "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [descriptor(layer, layer_type)],
        "annotations": {"org.criu.checkpoint.container.name": "web"},
    });
    let mut index = json!({"schemaVersion": 2, "manifests": []});
    change(&mut manifest, &mut index);
    let manifest = manifest.to_string().into_bytes();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    index["manifests"]
        .as_array_mut()
        .unwrap()
        .push(descriptor(&manifest, kind));
    tar(&[
        blob(config),
        blob(layer),
        blob(&manifest),
        ("index.json".to_owned(), index.to_string().into_bytes()),
        (
            "oci-layout".to_owned(),
            br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
        ),
    ])
}

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

#[test]
fn is_what_it_says() {
    let data = image();
    assert!(data == image(), "not the same bytes again");
    let parts = parts(&data);
    let json = |name: &str| {
        let part = parts.iter().find(|part| part.0 == name);
        serde_json::from_slice::<Value>(&part.unwrap().1).unwrap()
    };
    for (name, content) in &parts {
        if let Some(hex) = name.strip_prefix("blobs/sha256/") {
            assert_eq!(hex, sha256(content));
        }
    }
    let blob = |value: &Value| {
        let digest = value["digest"].as_str().unwrap();
        format!("blobs/sha256/{}", digest.strip_prefix("sha256:").unwrap())
    };
    let index = json("index.json");
    let entry = &index["manifests"][0];
    let manifest = json(&blob(entry));
    for annotations in [&entry["annotations"], &manifest["annotations"]] {
        for trigger in [
            "io.kubernetes.cri-o.annotations.checkpoint.name",
            "io.podman.annotations.checkpoint.name",
            "org.criu.checkpoint.container.name",
        ] {
            assert_eq!(annotations[trigger], "web", "{trigger}");
        }
        assert_eq!(
            annotations["io.podman.annotations.checkpoint.runtime.name"],
            "crun"
        );
        assert_eq!(annotations["org.criu.checkpoint.criu.version"], "4.2");
    }
    let name = &entry["annotations"]["org.opencontainers.image.ref.name"];
    assert_eq!(name, "images.example/checkpoints/web:1");
    let config = json(&blob(&manifest["config"]));
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        manifest["layers"][0]["digest"]
    );
    assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");

    // The layer is the archive.
    let mut archive = Vec::new();
    write(&mut files(), Engine::CriO, &Facts::default(), &mut archive).unwrap();
    assert!(parts[0].1 == archive);
    let (read, memory) = read_whole(&data).unwrap();
    assert_eq!(read.digest, entry["digest"].as_str().unwrap());
    assert_eq!(
        read.annotations["org.criu.checkpoint.container.name"],
        "web"
    );
    assert_eq!(read.archive.origin, Origin::CriO);
    // Offsets are those in the image.
    for (_, content, offset) in memory.files.values() {
        let offset = usize::try_from(offset.unwrap()).unwrap();
        assert!(data[offset..offset + content.len()] == content[..]);
    }
}

#[test]
fn may_begin_anywhere() {
    let data = [vec![1; 777], image()].concat();
    let mut input = Cursor::new(&data);
    input.seek(SeekFrom::Start(777)).unwrap();
    let mut memory = Memory::default();
    read_image(&mut input, &Limits::default(), &mut memory).unwrap();
    let (_, content, offset) = &memory.files["checkpoint/pages-1.img"];
    let offset = usize::try_from(offset.unwrap()).unwrap();
    assert!(data[offset..offset + content.len()] == content[..]);
}

#[test]
fn others_images() {
    let layer = Tar::checkpoint().end();
    let keep = |_: &mut Value, _: &mut Value| {};
    read_whole(&made(&layer, TAR, keep)).unwrap();
    let compressed = gzip(&layer);
    let (read, _) = read_whole(&made(&compressed, &format!("{TAR}+gzip"), keep)).unwrap();
    assert_eq!(read.archive.compression, Compression::Gzip);
    let data = made(&layer, TAR, keep);
    // In directories, and with what Docker wants.
    let tar = Tar::default()
        .member("blobs/", b'5')
        .member("blobs/sha256/", b'5');
    let tar = tar.file("manifest.json", b"[]");
    read_whole(&[tar.0, data].concat()).unwrap();
}

#[test]
fn hostile_images() {
    let layer = Tar::checkpoint().end();
    let keep = |_: &mut Value, _: &mut Value| {};
    let refused = |data: &[u8], expected: &str| {
        let mut memory = Memory::default();
        let error = read_image(&mut Cursor::new(data), &Limits::default(), &mut memory);
        let text = whole(&error.expect_err(expected));
        assert!(text.contains(expected), "{text:?} is not {expected:?}");
        assert!(memory.order.is_empty(), "{expected}: {:?}", memory.order);
    };
    let data = made(&layer, TAR, keep);
    let mut all = parts(&data);
    for number in 0..3 {
        let mut changed = all.clone();
        let last = changed[number].1.len() - 1;
        changed[number].1[last] ^= 1;
        refused(&tar(&changed), "has the content of");
    }
    for number in 0..5 {
        let mut fewer = all.clone();
        let (name, _) = fewer.remove(number);
        refused(&tar(&fewer), &format!("has no {name:?}"));
    }
    refused(&gzip(&data), "compressed as a whole");
    refused(&data[..data.len() - 1], "cut off");
    refused(b"", "cut off");
    let link = Tar(data[..data.len() - 1024].to_vec()).member("blobs/sha256/a", b'2');
    refused(&link.end(), "a symbolic link");
    let twice = Tar(data[..data.len() - 1024].to_vec()).file("./index.json", b"{}");
    refused(&twice.end(), "there twice");
    all[4].1 = br#"{"imageLayoutVersion":"2.0.0"}"#.to_vec();
    refused(&tar(&all), "its version is not 1");
    all[4].1 = vec![b' '; 5 << 20];
    refused(&tar(&all), "the limit is 4194304");

    let changed = |change: &dyn Fn(&mut Value, &mut Value)| made(&layer, TAR, change);
    let layers = |manifest: &mut Value, _: &mut Value| {
        let layer = manifest["layers"][0].clone();
        manifest["layers"].as_array_mut().unwrap().push(layer);
    };
    refused(&changed(&layers), "it has 2 layers");
    let none = |manifest: &mut Value, _: &mut Value| manifest["layers"] = json!([]);
    refused(&changed(&none), "it has 0 layers");
    let plain = |manifest: &mut Value, _: &mut Value| manifest["annotations"] = json!({"a": "b"});
    refused(&changed(&plain), "no annotation says");
    let size = |manifest: &mut Value, _: &mut Value| manifest["layers"][0]["size"] = json!(5);
    refused(&changed(&size), "bytes, 5 expected");
    for digest in ["sha256:../../evil", "sha512:00", "", "sha256:"] {
        let change = |manifest: &mut Value, _: &mut Value| {
            manifest["layers"][0]["digest"] = json!(digest);
        };
        refused(&changed(&change), "it is no SHA-256");
    }
    let away = |manifest: &mut Value, _: &mut Value| {
        manifest["layers"][0]["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    };
    refused(&changed(&away), "has no \"blobs/sha256/000");
    let foreign = made(&layer, "application/vnd.docker.image.rootfs.diff.tar", keep);
    refused(&foreign, "its layer is");
    // The same one twice: there is no telling which is meant.
    let both = parts(&data);
    let digest = both[2].0.replace("blobs/sha256/", "sha256:");
    let twice = |_: &mut Value, index: &mut Value| {
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let entry = json!({"mediaType": kind, "digest": digest, "size": both[2].1.len()});
        index["manifests"] = json!([entry]);
    };
    refused(&changed(&twice), "there is more than one");

    let evil = Tar::default().file("../evil", b"").end();
    refused(
        &made(&evil, TAR, keep),
        "layer of the image is refused: Member",
    );
}
