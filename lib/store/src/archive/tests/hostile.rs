//! Each refusal once.

use super::*;

/// No path of a member that is refused.
const GOOD: [&str; 4] = [
    "config.dump",
    "spec.dump",
    "checkpoint",
    "checkpoint/inventory.img",
];

fn refused(name: &str, data: &[u8], expected: &str) {
    let mut memory = Memory::default();
    let error = read(data, &Limits::default(), &mut memory);
    let error = error.expect_err(name);
    let text = whole(&error);
    assert!(
        text.contains(expected),
        "{name}: {text:?} is not {expected:?}"
    );
    assert!(text.len() < 600, "{name}: {text}");
    for path in &memory.order {
        assert!(
            GOOD.contains(&path.as_str()),
            "{name}: {path:?} reached the sink"
        );
    }
}

fn good() -> Tar {
    Tar::checkpoint()
}

#[test]
fn names() {
    let long = "p/".repeat(2049) + "x";
    let cases: &[(&str, &str)] = &[
        ("/etc/evil", "is absolute"),
        ("../evil", "has a .. part"),
        ("checkpoint/../../evil", "has a .. part"),
        ("checkpoint/..", "has a .. part"),
        ("a//evil", "an empty or . part"),
        ("a/./evil", "an empty or . part"),
        ("././evil", "an empty or . part"),
        (".//evil", "is absolute"),
        ("evil/", "ends with /"),
        ("config.dump", "there twice"),
        ("./config.dump", "there twice"),
        ("checkpoint", "there twice"),
        ("spec.dump/evil", "no directory"),
        ("checkpoint/inventory.img/a/evil", "no directory"),
        ("checkpoint/.wh.evil", "means a deletion"),
        (".wh.a/evil", "means a deletion"),
    ];
    for (name, expected) in cases {
        refused(name, &good().file(name, b"").end(), expected);
        // The same names by extension.
        let pax = good().pax(&[("path", name)]).file("good", b"");
        refused(name, &pax.end(), expected);
        let gnu = good().extension(b'L', name.as_bytes()).file("good", b"");
        refused(name, &gnu.end(), expected);
    }
    let part = "e".repeat(256);
    let limit = "is too long";
    refused(
        "long part",
        &good().pax(&[("path", &part)]).file("good", b"").end(),
        limit,
    );
    refused(
        "long path",
        &good().pax(&[("path", &long)]).file("good", b"").end(),
        limit,
    );
    refused("no name", &good().member("", b'0').end(), "name is empty");
    let bytes = good().raw(&header(b"evil\xff", b'0', 0), b"");
    refused("no text", &bytes.end(), "not UTF-8");
    let zero = good().pax(&[("path", "good\0evil")]).file("good", b"");
    refused("zero byte", &zero.end(), "zero byte");
    let zero = good().extension(b'L', b"good\0evil").file("good", b"");
    refused("zero byte", &zero.end(), "zero byte");
    let prefix = {
        let mut header = header(b"evil", b'0', 0);
        header[345..350].copy_from_slice(b"../up");
        sum(&mut header);
        good().raw(&header, b"")
    };
    refused("prefix", &prefix.end(), "has a .. part");
    let twice = good().member("./", b'5').member(".", b'5');
    refused("root", &twice.end(), "there twice");
    let twice = good().member("d/", b'5').member("./d", b'5');
    let mut memory = Memory::default();
    let error = read(&*twice.end(), &Limits::default(), &mut memory).expect_err("twice");
    assert_eq!(
        error.to_string(),
        "Member \"./d\" is refused: It is there twice"
    );
}

#[test]
fn kinds() {
    let cases: &[(u8, &str)] = &[
        (b'1', "a hard link"),
        (b'2', "a symbolic link"),
        (b'3', "a character device"),
        (b'4', "a block device"),
        (b'6', "a FIFO"),
        (b'7', "of an unknown kind"),
        (b'D', "part of a backup"),
        (b'M', "part of a backup"),
        (b'V', "part of a backup"),
        (b'Z', "of an unknown kind"),
        (b'X', "of an unknown kind"),
    ];
    for (kind, expected) in cases {
        refused(expected, &good().member("evil", *kind).end(), expected);
    }
    // A link is refused wherever it leads.
    let link = |target: &str| {
        let mut header = header(b"evil", b'2', 0);
        header[157..157 + target.len()].copy_from_slice(target.as_bytes());
        sum(&mut header);
        good().raw(&header, b"").end()
    };
    refused("link", &link("config.dump"), "a symbolic link");
    refused("link", &link("/etc/passwd"), "a symbolic link");
    let target = good().extension(b'K', b"target").file("evil", b"");
    refused("target", &target.end(), "no link, but has a target");
    let target = good().pax(&[("linkpath", "target")]).file("evil", b"");
    refused("target", &target.end(), "no link, but has a target");
    let directory = good().raw(&header(b"evil/", b'5', 512), &[0; 512]);
    refused("directory", &directory.end(), "directory with 512 bytes");
    // Sockets have no kind; what tars put instead of them has none either.
    refused(
        "socket",
        &good().member("evil", b's').end(),
        "of an unknown kind",
    );
}

#[test]
fn headers() {
    let mut broken = header(b"evil", b'0', 0);
    broken[150] ^= 1;
    refused("sum", &good().raw(&broken, b"").end(), "check sum");
    let mut old = header(b"evil", b'0', 0);
    old[257..265].fill(0);
    sum(&mut old);
    refused("old", &good().raw(&old, b"").end(), "neither ustar nor GNU");
    let with = |at: usize, bytes: &[u8]| {
        let mut header = header(b"evil", b'0', 0);
        header[at..at + bytes.len()].copy_from_slice(bytes);
        sum(&mut header);
        good().raw(&header, b"").end()
    };
    refused("mode", &with(100, b"rw-r--r-"), "mode is no number");
    refused("uid", &with(108, b"99999999"), "uid is no number");
    refused("gid", &with(116, &[0xff; 8]), "gid is no number");
    refused(
        "gid",
        &with(116, &[0x81, 0, 0, 0, 0, 0, 0, 1]),
        "gid is no number",
    );
    refused(
        "gid",
        &with(116, &[0x80, 0, 0, 1, 0, 0, 0, 0]),
        "gid is no number",
    );
    refused("size", &with(124, &[0xff; 12]), "size is no number");
    refused(
        "size",
        &with(124, &[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        "size is no number",
    );
    refused(
        "size",
        &with(124, &[0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        "size is no number",
    );
    refused("mtime", &with(136, b"77777777777x"), "mtime is no number");
    refused(
        "mtime",
        &with(136, &[0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
        "mtime is no number",
    );
    refused(
        "total",
        &with(124, &[0x80, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0]),
        "all files have",
    );
}

#[test]
fn extensions() {
    // Said to be huge: not a byte of it is asked for.
    for kind in [b'x', b'g', b'L', b'K'] {
        let huge = good().raw(&header(b"x", kind, 7 << 30), b"");
        refused("huge", &huge.end(), "has 7516192768 bytes, the limit is");
    }
    let two = good()
        .pax(&[("uid", "1")])
        .pax(&[("uid", "1")])
        .file("evil", b"");
    refused("two PAX headers", &two.end(), "two PAX header");
    let two = good()
        .extension(b'L', b"a")
        .extension(b'L', b"b")
        .file("evil", b"");
    refused("two names", &two.end(), "two long name");
    let two = good()
        .extension(b'K', b"a")
        .extension(b'K', b"b")
        .member("evil", b'2');
    refused("two targets", &two.end(), "two long name of a target");
    let two = good()
        .pax(&[("path", "a")])
        .extension(b'L', b"b")
        .file("evil", b"");
    refused("two kinds of names", &two.end(), "two names");
    let two = good()
        .pax(&[("path", "a"), ("path", "evil")])
        .file("evil", b"");
    refused("twice in PAX", &two.end(), "a key is there twice");
    let sizes = good()
        .pax(&[("size", "0")])
        .raw(&header(b"evil", b'0', 512), &[7; 512]);
    refused("two sizes", &sizes.end(), "two sizes");
    let huge = good()
        .pax(&[("size", "9223372036854775808")])
        .file("evil", b"");
    refused("size", &huge.end(), "size is no number");
    for (key, value) in [
        ("size", "-1"),
        ("size", "1e3"),
        ("uid", "99999999999"),
        ("mtime", "x"),
    ] {
        let text = format!("{key} is no number");
        refused(
            key,
            &good().pax(&[(key, value)]).file("evil", b"").end(),
            &text,
        );
    }
    for broken in [
        "5 a=b\n", "99 a=b\n", "6 a=bc", "x a=b\n", "0 \n", "4 a\n", "5 =b\n", "\n",
    ] {
        let broken_pax = good().extension(b'x', broken.as_bytes()).file("evil", b"");
        refused(broken, &broken_pax.end(), "PAX header is broken");
    }
    let global = pax_record("path", "evil");
    let global = good().extension(b'g', &global).file("evil", b"");
    refused("global", &global.end(), "for all members says \"path\"");
    refused(
        "dangling",
        &good().pax(&[("uid", "1")]).end(),
        "has no member",
    );
}

#[test]
fn sparse() {
    let map = |parts: &[(u64, u64)], size: u64| {
        let mut header = gnu(b"evil", b'S', 512);
        for (number, (offset, length)) in parts.iter().enumerate() {
            let at = 386 + 24 * number;
            header[at..at + 12].copy_from_slice(format!("{offset:011o}\0").as_bytes());
            header[at + 12..at + 24].copy_from_slice(format!("{length:011o}\0").as_bytes());
        }
        header[483..495].copy_from_slice(format!("{size:011o}\0").as_bytes());
        sum(&mut header);
        good().raw(&header, &[1; 512]).end()
    };
    refused("overlap", &map(&[(0, 256), (255, 256)], 512), "overlap");
    refused("end", &map(&[(0, 256), (257, 256)], 512), "beyond its end");
    refused("sum", &map(&[(0, 256)], 512), "as many bytes");
    // 8 GiB of zeros for nothing.
    refused(
        "hole",
        &map(&[(0, 512)], 8_000_000_000),
        "that is no checkpoint",
    );
    let mut more = gnu(b"evil", b'S', 0);
    more[482] = 1;
    sum(&mut more);
    let more = Tar(good().0).raw(&more, b"").raw(
        &{
            let mut block = [0; BLOCK];
            block[504] = 1;
            block
        },
        b"",
    );
    refused("empty block", &more.end(), "its map is empty");
    refused("not GNU", &good().member("evil", b'S').end(), "not GNU's");
    let format = |major, minor| {
        let keys = [("GNU.sparse.major", major), ("GNU.sparse.minor", minor)];
        good().pax(&keys).file("evil", b"").end()
    };
    refused("0.1", &format("0", "1"), "PAX format that is not 1.0");
    refused("2.0", &format("2", "0"), "PAX format that is not 1.0");
    let old = good().pax(&[("GNU.sparse.map", "0,0"), ("GNU.sparse.size", "1")]);
    refused(
        "0.1",
        &old.file("evil", b"").end(),
        "PAX format that is not 1.0",
    );
    let lines = |text: &str| {
        let keys = [
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "evil"),
            ("GNU.sparse.realsize", "1000"),
        ];
        let mut content = text.as_bytes().to_vec();
        content.resize(content.len().next_multiple_of(BLOCK), 0);
        good().pax(&keys).file("x", &content).end()
    };
    refused(
        "words",
        &lines("1\nzero\n1\n"),
        "something else than numbers",
    );
    refused("digits", &lines(&"9".repeat(100)), "too long");
    refused(
        "cut off",
        &lines(&("400\n".to_owned() + &"0\n".repeat(254))),
        "is cut off",
    );
    refused("zeros", &lines("7\n"), "too long");
    refused("sum", &lines("1\n0\n1\n"), "as many bytes");
    refused("no map", &lines(""), "is cut off");
}

#[test]
fn ends() {
    let whole = good().end();
    for length in 0..whole.len() {
        let error = read_all(&whole[..length]).expect_err("cut off");
        assert!(
            matches!(error, ReadError::Truncated { .. }),
            "{length}: {error}"
        );
    }
    let mut trailing = whole.clone();
    trailing.push(1);
    refused("trailing", &trailing, "something follows");
    let mut padded = whole.clone();
    padded.resize(10240, 0);
    read_all(&padded).unwrap();
    padded.extend_from_slice(b"evil");
    refused("trailing", &padded, "something follows");
    // A second tar after the first.
    let second = [whole.clone(), Tar::default().file("evil", b"").end()].concat();
    refused("two", &second, "something follows");
    let mut lone = good().0;
    lone.resize(lone.len() + BLOCK, 0);
    refused(
        "lone block",
        &Tar(lone).file("evil", b"").end(),
        "something follows",
    );

    let compressed = gzip(&whole);
    for length in 2..compressed.len() {
        assert!(read_all(&compressed[..length]).is_err(), "{length}");
    }
    let mut changed = compressed.clone();
    let last = changed.len() - 5;
    changed[last] ^= 1;
    refused("check sum", &changed, "cannot be read at byte");
    let garbage = [&compressed[..], b"evil evil evil"].concat();
    refused("garbage", &garbage, "cannot be read at byte");
    let compressed = zstd::bulk::compress(&whole, 1).unwrap();
    for length in 4..compressed.len() {
        assert!(read_all(&compressed[..length]).is_err(), "{length}");
    }
    let garbage = [&compressed[..], b"evil evil evil"].concat();
    refused("garbage", &garbage, "cannot be read at byte");
}

#[test]
fn sizes() {
    let data = good().file("f", &[0; 5000]).end();
    let try_with = |limits: Limits, data: &[u8]| {
        let error = read(data, &limits, &mut Memory::default());
        error.expect_err("limit").to_string()
    };
    let base = Limits::default();
    let error = try_with(Limits { members: 4, ..base }, &data);
    assert!(error.contains("one more than the 4"), "{error}");
    let error = try_with(
        Limits {
            total: 4000,
            ..base
        },
        &data,
    );
    assert!(error.contains("the limit is 4000"), "{error}");
    let error = try_with(
        Limits {
            path_bytes: 20,
            ..base
        },
        &data,
    );
    assert!(error.contains("more than 20 bytes"), "{error}");
    let bomb = good().file("f", &vec![0; 8 << 20]).end();
    let limits = Limits {
        expansion: 10,
        unexpanded: 1 << 20,
        ..base
    };
    for compressed in [gzip(&bomb), zstd::bulk::compress(&bomb, 1).unwrap()] {
        let error = try_with(limits, &compressed);
        assert!(error.contains("that is no checkpoint"), "{error}");
        read(&*compressed, &base, &mut Memory::default()).unwrap();
    }
    // What is not compressed is never too much.
    read(&*bomb, &limits, &mut Memory::default()).unwrap();
    // Directories that are implied count as well.
    let deep = "d/".repeat(100) + "f";
    let limits = Limits {
        members: 50,
        ..base
    };
    let error = try_with(limits, &good().pax(&[("path", &deep)]).file("x", b"").end());
    assert!(error.contains("one more than the 50"), "{error}");
    // A window that would take 128 MiB.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    std::io::Write::write_all(&mut encoder, &data).unwrap();
    let error = read_all(&encoder.finish().unwrap()).expect_err("window");
    assert!(
        whole(&error).contains("cannot be read at byte 0"),
        "{error}"
    );
}

#[test]
fn contents() {
    let tar = |config: &str, spec: &str| {
        Tar::default()
            .file("config.dump", config.as_bytes())
            .file("spec.dump", spec.as_bytes())
            .file("checkpoint/inventory.img", b"i")
    };
    refused("empty", &vec![0; 1024], "has no config.dump");
    let no = |name: &str| {
        let all = [
            ("config.dump", "{}"),
            ("spec.dump", "{}"),
            ("checkpoint/inventory.img", "i"),
        ];
        let add = |tar: Tar, file: &(&str, &str)| tar.file(file.0, file.1.as_bytes());
        let rest = all.iter().filter(|file| file.0 != name);
        rest.fold(Tar::default(), add).end()
    };
    for name in ["config.dump", "spec.dump", "checkpoint/inventory.img"] {
        refused(name, &no(name), &format!("has no {name}"));
    }
    let directory = no("config.dump");
    let directory = Tar(directory[..directory.len() - 1024].to_vec()).member("config.dump", b'5');
    let error = read_all(&directory.end()).expect_err("directory");
    assert!(error.to_string().contains("has no config.dump"), "{error}");

    for broken in ["", "{", "[]", "{}{}", "1", "null", "{\"annotations\": 5}"] {
        refused(broken, &tar("{}", broken).end(), "not the JSON");
    }
    let deep = "[".repeat(100_000);
    refused("deep", &tar(&deep, "{}").end(), "not the JSON");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(5 << 20));
    refused("large", &tar(&large, "{}").end(), "the limit is 4194304");
    let many = format!("{{\"mounts\":[{}{{}}]}}", "{},".repeat(5000));
    refused("many", &tar("{}", &many).end(), "not the JSON");
    let list = good().file("deleted.files", b"[");
    refused("list", &list.end(), "not the JSON");

    let cdi = "cdi.k8s.io/evil";
    let nested = format!("{{\\\"{cdi}\\\":\\\"\\\"}}");
    let specs = [
        format!("{{\"annotations\":{{\"{cdi}\":\"amd.com/gpu=all\"}}}}"),
        "{\"annotations\":{\"\\u0063di.k8s.io/evil\":\"amd.com/gpu=all\"}}".to_owned(),
        format!("{{\"annotations\":{{\"io.kubernetes.cri-o.Annotations\":\"{nested}\"}}}}"),
        format!("{{\"annotations\":{{}},\"x\":[{{\"y\":{{\"{cdi}\":1}}}}]}}"),
        "{\"CDIDevices\":[{\"name\":\"amd.com/gpu=all\"}]}".to_owned(),
        "{\"config\":{\"cdi_devices\":[{\"name\":\"amd.com/gpu=all\"}]}}".to_owned(),
    ];
    for spec in &specs {
        refused(spec, &tar("{}", spec).end(), "asks for CDI devices");
        refused(spec, &tar(spec, "{}").end(), "asks for CDI devices");
        for name in ["status.dump", "pod.options", "pod.dump", "network.status"] {
            let other = good().file(name, spec.as_bytes());
            refused(spec, &other.end(), "asks for CDI devices");
        }
    }
    let none = tar("{}", "{\"CDIDevices\":[],\"cdi_devices\":null}").end();
    read_all(&none).unwrap();
}
