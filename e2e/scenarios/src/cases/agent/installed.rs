//! `install` and `uninstall` on a host with real engines.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::tool::{Agent, case};
use crate::case::{BIN, Case, Lab};
use crate::containers::{Device, Podman, Runtime, need, run};

pub(crate) const CASES: &[Case] = &[case("agent/installed_and_taken_away", 400, installed)];

/// Where a host keeps what an installation could change.
const PLACES: [&str; 6] = [
    "/etc/criu",
    "/etc/containerd",
    "/etc/containers",
    "/usr/lib/criu",
    "/usr/libexec/rocferry",
    "/usr/share/containers",
];
const CONFIG: &str = "/etc/containerd/config.toml";
const PLUGIN: &str = "/usr/lib/criu/amdgpu_plugin.so";

/// What an administrator may have there.
const SITE: &str = r#"# The site's settings.
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "registry/pause:3"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
"#;

fn installed(lab: &mut Lab) -> Result<()> {
    need("podman")?;
    need("containerd")?;
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let site = Site::new()?;
    let before = everything()?;
    let dump = ["containerd", "--config", CONFIG, "config", "dump"];
    let read = run(&dump)?.ok()?;
    for _ in 0..2 {
        agent.run(&["install", "--from", BIN])?.is(0)?;
    }
    let plugin = fs::read(PLUGIN)?;
    ensure!(
        plugin == fs::read(format!("{BIN}/amdgpu_plugin.so"))?,
        "another plugin"
    );
    // containerd itself sees one runtime more.
    let text = fs::read_to_string(CONFIG)?;
    ensure!(text.starts_with("# The site's settings.\n"), "{text}");
    let more = run(&dump)?.ok()?;
    for word in ["/usr/libexec/rocferry/rocferry-runc", "rocferry.dev/*"] {
        ensure!(
            more.contains(word) && !read.contains(word),
            "{word}: {more}"
        );
    }

    // Containers run under it, and under what was there before.
    let scratch = lab.folder("podman")?;
    let podman = Podman::new(Runtime::Runc, &scratch)?;
    // No plain sleep, which is over once a dump has interrupted it; and no loop that forks: CRIU may meet a child that
    // the kernel has not put into its parent's cgroup yet.
    let sleep = ["/bin/busybox", "tail", "-f", "/dev/null"];
    podman.start("before", &[], &sleep)?;
    let devices = Device::of_gpus(&lab.sim, &[0])?;
    let mut words = vec!["--runtime", "rocferry", "run", "-d", "--network", "none"];
    words.extend(["--name", "under"]);
    for device in &devices {
        words.extend(["--device", &device.path]);
    }
    words.push(Podman::IMAGE);
    words.extend(sleep);
    podman.run(&words)?.ok()?;
    for name in ["before", "under"] {
        podman
            .pid(name)
            .with_context(|| format!("{:?}", podman.inspect(name, "{{json .State}}")))?;
        podman.run(&["exec", name, "/bin/busybox", "true"])?.ok()?;
    }
    ensure!(
        podman.inspect("under", "{{.OCIRuntime}}")? == "rocferry",
        "another runtime"
    );
    // The hook has seen the one with a GPU.
    let record = |name: &str| -> Result<PathBuf> {
        let id = podman.inspect(name, "{{.Id}}")?;
        Ok(Path::new("/var/lib/rocferry/containers").join(format!("{id}.json")))
    };
    ensure!(record("under")?.exists(), "no record of what it was given");
    ensure!(!record("before")?.exists(), "a record of nothing");
    let dumps = Path::new("/var/lib/rocferry/dumps");
    ensure!(!dumps.exists(), "somebody has dumped something");
    podman.run(&["container", "checkpoint", "before"])?.ok()?;
    let noted = fs::read_dir(dumps)
        .context("the dump is not noted")?
        .count();
    ensure!(noted == 1, "{noted} dumps are noted");
    fs::remove_dir_all(dumps)?;
    podman.run(&["container", "restore", "before"])?.ok()?;
    podman.pid("before").with_context(|| {
        let state = podman.inspect("before", "{{json .State}}");
        format!("after its restore: {state:?}")
    })?;
    podman
        .run(&["rm", "--force", "--time", "0", "before", "under"])?
        .ok()?;
    drop(podman);

    agent.run(&["uninstall"])?.is(0)?;
    let after = everything()?;
    for path in before.keys().chain(after.keys()) {
        ensure!(
            before.get(path) == after.get(path),
            "{} is not as it was",
            path.display()
        );
    }
    drop(site);
    Ok(())
}

/// A host before it; what is put there goes when this is dropped.
struct Site {
    config: Option<Vec<u8>>,
}

impl Site {
    fn new() -> Result<Self> {
        let config = fs::read(CONFIG).ok();
        fs::create_dir_all(Path::new(CONFIG).parent().context("path")?)?;
        fs::write(CONFIG, SITE)?;
        fs::create_dir_all(Path::new(PLUGIN).parent().context("path")?)?;
        fs::write(PLUGIN, "the C plugin, so to speak")?;
        Ok(Self { config })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = match &self.config {
            Some(config) => fs::write(CONFIG, config),
            None => fs::remove_file(CONFIG),
        };
        let _ = fs::remove_file(PLUGIN);
    }
}

/// Permissions and content of all files in those places, and the folders.
fn everything() -> Result<BTreeMap<PathBuf, (u32, Vec<u8>)>> {
    let (mut found, mut waiting) = (BTreeMap::new(), PLACES.map(PathBuf::from).to_vec());
    while let Some(path) = waiting.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let content = if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path)?.into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path)?
        };
        found.insert(path, (meta.permissions().mode(), content));
    }
    Ok(found)
}
