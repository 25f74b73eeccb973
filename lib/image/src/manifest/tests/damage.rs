//! Every rule has something that breaks it.

use super::super::wire;
use super::sample::{Messages, bytes, wire as messages};
use super::*;
use crate::FormatError;

pub(super) type Change<T = Messages> = fn(&mut T);

pub(super) fn read(change: impl FnOnce(&mut Messages)) -> Result<Manifest, ManifestError> {
    let mut message = messages(&small());
    change(&mut message);
    Manifest::decode(&bytes(&message))
}

pub(super) fn refused(change: impl FnOnce(&mut Messages)) -> String {
    read(change).expect_err("must be refused").to_string()
}

#[test]
fn a_later_version_is_named() {
    assert_eq!(read(|_| {}), Ok(small()));
    let later = FormatError::Version {
        message: "manifest",
        version: 2,
        supported: 1,
    };
    assert_eq!(
        read(|m| {
            m.0.version = Some(2);
        }),
        Err(later.clone().into())
    );
    // Also where its other fields are no longer what they were.
    let version_2 = wire::Manifest {
        version: Some(2),
        ..wire::Manifest::default()
    };
    let strange = [
        bytes(&(version_2, Vec::new())),
        vec![0x1a, 1, 0xff, 0x20, 1],
    ]
    .concat();
    assert_eq!(Manifest::decode(&strange), Err(later.into()));
    assert_eq!(
        refused(|m| {
            m.0.version = Some(0);
        }),
        "manifest: version has the invalid value 0"
    );
    assert_eq!(
        refused(|m| {
            m.0.version = None;
        }),
        "manifest: field version is missing"
    );
    assert_eq!(
        refused(|m| {
            m.0.block_size = Some(1 << 20);
        }),
        "Manifest with blocks of 1048576 bytes, 4194304 expected"
    );
}

#[test]
fn missing_fields_are_named() {
    let cases: [(&str, Change); 20] = [
        ("manifest: field block_size", |m| {
            m.0.block_size = None;
        }),
        ("manifest: field id", |m| {
            m.0.id = None;
        }),
        ("manifest: field created_ms", |m| {
            m.0.created_ms = None;
        }),
        ("manifest: field binding", |m| {
            m.0.binding = None;
        }),
        ("manifest: field source", |m| {
            m.0.source = None;
        }),
        ("manifest: field packs", |m| {
            m.0.packs = None;
        }),
        ("manifest binding: field kind", |m| {
            binding(m).kind = None;
        }),
        ("manifest binding: field namespace", |m| {
            binding(m).namespace = None;
        }),
        ("manifest binding: field namespace_uid", |m| {
            binding(m).namespace_uid = None;
        }),
        ("manifest binding: field pod", |m| {
            binding(m).pod = None;
        }),
        ("manifest binding: field container", |m| {
            binding(m).container = None;
        }),
        ("manifest mount 0: field destination", |m| {
            source(m).mounts[0].destination = None;
        }),
        ("manifest annotation 0: field value", |m| {
            source(m).annotations[0].value = None;
        }),
        ("manifest file 1: field path", |m| {
            m.1[1].path = None;
        }),
        ("manifest file 1: field mode", |m| {
            m.1[1].mode = None;
        }),
        ("manifest file 1: field uid", |m| {
            m.1[1].uid = None;
        }),
        ("manifest file 1: field modified_ms", |m| {
            m.1[1].modified_ms = None;
        }),
        ("manifest file 1: field kind", |m| {
            m.1[1].kind = None;
        }),
        ("manifest file 2: field target", |m| {
            m.1[2].target = None;
        }),
        ("manifest span: field size", |m| {
            m.1[1].spans[0].size = None;
        }),
    ];
    for (what, change) in cases {
        assert_eq!(refused(change), format!("{what} is missing"));
    }
}

pub(super) fn binding(m: &mut Messages) -> &mut wire::Binding {
    m.0.binding.as_mut().expect("binding")
}

pub(super) fn source(m: &mut Messages) -> &mut wire::Source {
    m.0.source.as_mut().expect("source")
}

pub(super) fn span(m: &mut Messages) -> &mut wire::Span {
    &mut m.1[1].spans[0]
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let cases: [(&str, Change); 17] = [
        ("manifest binding: kind has the invalid value 3", |m| {
            binding(m).kind = Some(3);
        }),
        ("manifest file: kind has the invalid value 4", |m| {
            m.1[1].kind = Some(4);
        }),
        ("manifest file: mode has the invalid value 4096", |m| {
            m.1[0].mode = Some(0o10000);
        }),
        (
            "manifest: modified_ms has the invalid value 253402300800000",
            |m| {
                m.1[0].modified_ms = Some(253_402_300_800_000);
            },
        ),
        (
            "manifest: created_ms has the invalid value 253402300800000",
            |m| {
                m.0.created_ms = Some(253_402_300_800_000);
            },
        ),
        ("manifest: id is no identifier", |m| {
            m.0.id = Some("x".to_owned());
        }),
        ("manifest: parent is no identifier", |m| {
            m.0.parent = Some(String::new());
        }),
        ("The checkpoint is its own parent", |m| {
            m.0.parent = m.0.id.clone();
        }),
        (
            "manifest: invalid protobuf: data_key is not of 8 bytes",
            |m| {
                m.0.data_key = Some(vec![1; 7]);
            },
        ),
        (
            "manifest: invalid protobuf: packs are not of 16 bytes each",
            |m| {
                m.0.packs = Some(vec![1; 33]);
            },
        ),
        ("manifest span: encoding has the invalid value 2", |m| {
            span(m).encodings = Some(vec![0, 2]);
        }),
        ("manifest file: field target does not belong there", |m| {
            m.1[1].target = Some("x".to_owned());
        }),
        ("manifest file: field spans does not belong there", |m| {
            m.1[2].spans = m.1[1].spans.clone();
        }),
        ("manifest file: field spans does not belong there", |m| {
            m.1[1].kind = Some(1);
        }),
        (
            "manifest binding: field namespace does not belong there",
            |m| {
                binding(m).kind = Some(1);
            },
        ),
        ("pod of 3 bytes: it has control characters", |m| {
            binding(m).pod = Some("a\nb".to_owned());
        }),
        ("container of 0 bytes: it is empty", |m| {
            binding(m).container = Some(String::new());
        }),
    ];
    for (what, change) in cases {
        assert_eq!(refused(change), what);
    }
}

#[test]
fn a_field_that_is_there_twice_is_refused() {
    let message = messages(&small());
    // Each field of the manifest that there may be once; its files may be many.
    let twice = |extra: wire::Manifest| {
        let bytes = [bytes(&message), bytes(&(extra, Vec::new()))].concat();
        Manifest::decode(&bytes).expect_err("twice").to_string()
    };
    let (head, none) = (&message.0, wire::Manifest::default);
    let extras = [
        (
            "version",
            wire::Manifest {
                version: head.version,
                ..none()
            },
        ),
        (
            "block_size",
            wire::Manifest {
                block_size: head.block_size,
                ..none()
            },
        ),
        (
            "id",
            wire::Manifest {
                id: head.id.clone(),
                ..none()
            },
        ),
        (
            "created_ms",
            wire::Manifest {
                created_ms: head.created_ms,
                ..none()
            },
        ),
        (
            "parent",
            wire::Manifest {
                parent: head.parent.clone(),
                ..none()
            },
        ),
        (
            "binding",
            wire::Manifest {
                binding: head.binding.clone(),
                ..none()
            },
        ),
        (
            "source",
            wire::Manifest {
                source: head.source.clone(),
                ..none()
            },
        ),
        (
            "packs",
            wire::Manifest {
                packs: head.packs.clone(),
                ..none()
            },
        ),
    ];
    for (field, extra) in extras {
        assert_eq!(
            twice(extra),
            format!("manifest: field {field} is there twice")
        );
    }
}

#[test]
fn paths_stay_within_the_checkpoint() {
    let long = "x".repeat(256);
    let longer = vec!["x".repeat(200); 25].join("/");
    let cases = [
        ("", "it has an empty part"),
        ("/etc/passwd", "it has an empty part"),
        ("checkpoint//a", "it has an empty part"),
        ("checkpoint/", "it has an empty part"),
        ("..", "it has a . or .. part"),
        ("../a", "it has a . or .. part"),
        ("checkpoint/../../a", "it has a . or .. part"),
        (".", "it has a . or .. part"),
        ("./a", "it has a . or .. part"),
        ("a\0b", "it has a zero byte"),
        (&long, "it has a part that is too long"),
        (&longer, "it is too long"),
        ("checkpoint", "it is listed twice"),
        ("checkpoint/pages-1.img", "it is listed twice"),
        ("checkpoint/pages-1.img/a", "what it is in is no directory"),
        ("other/a", "its directory is not listed before it"),
    ];
    for (path, reason) in cases {
        let refused = read(|m| {
            m.1[2].path = Some(path.to_owned());
        });
        let path = path.chars().take(120).collect();
        assert_eq!(refused, Err(ManifestError::Path { path, reason }));
    }
    // In a link as well as in a file, and in the order of the list.
    assert_eq!(
        read(|m| m.1.swap(0, 1)),
        Err(ManifestError::Path {
            path: "checkpoint/pages-1.img".to_owned(),
            reason: "its directory is not listed before it",
        })
    );
    assert_eq!(
        refused(|m| {
            m.1[2].target = Some(String::new());
        }),
        "target of 0 bytes: it is empty"
    );
}

#[test]
fn lists_have_limits() {
    let many = |m: &mut Messages| source(m).cpu_features = vec!["a".to_owned(); MAX_LIST + 1];
    assert_eq!(refused(many), "More than 4096 entries in cpu_features");
    let many = |m: &mut Messages| {
        let mount = source(m).mounts[0].clone();
        source(m).mounts = vec![mount; MAX_LIST + 1];
    };
    assert_eq!(refused(many), "More than 4096 entries in mounts");
    let many = |m: &mut Messages| {
        let entry = source(m).annotations[0].clone();
        source(m).annotations = vec![entry; 2];
    };
    assert_eq!(
        refused(many),
        "annotation name of 1 bytes: it is there twice"
    );
    let long = |m: &mut Messages| source(m).node = Some("x".repeat(1025));
    assert_eq!(refused(long), "node of 1025 bytes: it is too long");
    let long = |m: &mut Messages| source(m).topology = Some("x".repeat((4 << 20) + 1));
    assert_eq!(refused(long), "topology of 4194305 bytes: it is too long");
    let zero = |m: &mut Messages| source(m).image = Some("a\0".to_owned());
    assert_eq!(refused(zero), "image of 2 bytes: it has a zero byte");
    // Entries of two bytes, each of which would take a hundred in memory.
    let head = bytes(&(messages(&small()).0, Vec::new()));
    let empty = [head, [0x52, 0].repeat(MAX_FILES + 1)].concat();
    let error = Manifest::decode(&empty).expect_err("no fields").to_string();
    assert_eq!(error, "manifest file 0: field kind is missing");
}

#[test]
fn what_is_too_large_is_not_looked_at() {
    let length = usize::try_from(MAX_MANIFEST).expect("64 bits") + 1;
    assert_eq!(
        Manifest::decode(&vec![0; length]),
        Err(ManifestError::TooLarge {
            bytes: MAX_MANIFEST + 1,
            limit: MAX_MANIFEST,
        })
    );
}

#[test]
fn every_truncation_is_refused_or_loses_whole_files() {
    let whole = messages(&small());
    let encoded = bytes(&whole);
    for length in 0..encoded.len() {
        // Between two files the rest is a message of its own: the envelope guards its length. Here it is
        // only the list of packs that notices.
        if let Ok(shorter) = Manifest::decode(&encoded[..length]) {
            assert_eq!(shorter.files[..], small().files[..shorter.files.len()]);
            assert!(shorter.files.len() < 3);
        }
    }
}
