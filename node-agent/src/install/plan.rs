//! What a host gets.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::InstallError;
use super::file::Content;
use super::host::Host;

/// Name of the plugin's file.
pub(super) const PLUGIN: &str = "amdgpu_plugin.so";
/// Name of the runtime in the configuration of engines.
pub(super) const RUNTIME: &str = "rocferry";

/// Programs: the name that they get, and whose copy each is.
const PROGRAMS: [(&str, &str); 5] = [
    ("rocferry-agent", "rocferry-agent"),
    ("rocferry-runc", "rocferry-runc"),
    // The same program wraps the runtime that its name says.
    ("rocferry-crun", "rocferry-runc"),
    ("rocferry-hook", "rocferry-hook"),
    // The same program is CRIU's action script by this name.
    (ACTION, "rocferry-hook"),
];

/// Name of CRIU's action script.
pub(super) const ACTION: &str = "rocferry-action";

/// The daemon, for systemd; the program's path is made the one of this host.
const UNIT_TEXT: &str = include_str!("../../systemd/rocferry-agent.service");
const UNIT_PROGRAM: &str = "/usr/libexec/rocferry/rocferry-agent";
/// Where the administrator's units are.
const UNITS: &str = "/etc/systemd/system";
/// Its name.
pub(super) const UNIT: &str = "rocferry-agent.service";
/// Where systemd itself is.
const SYSTEMD: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];

/// Files for Podman and CRI-O that call the hook; the program's path is made the one of this host.
const HOOKS: [(&str, &str); 2] = [
    (
        "rocferry-record.json",
        include_str!("../../hooks.d/rocferry-record.json"),
    ),
    (
        "rocferry-forget.json",
        include_str!("../../hooks.d/rocferry-forget.json"),
    ),
];

const HOOK_FOLDER: &str = "/usr/share/containers/oci/hooks.d";
const PODMAN: &str = "/etc/containers/containers.conf.d/50-rocferry.conf";
const CRIO: &str = "/etc/crio/crio.conf.d/50-rocferry.conf";

/// A file to put in place.
#[derive(Debug)]
pub(super) struct Wanted {
    /// As the host names it.
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// Where things come from and go.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// Folder with the programs and the plugin.
    pub(super) from: &'a Path,
    /// Folder for programs.
    pub(super) prefix: &'a Path,
    /// CRIU's folder of plugins.
    pub(super) plugins: PathBuf,
}

impl Places<'_> {
    /// The wrapper for the runtime that the host has.
    pub(super) fn wrapper(&self, host: &Host) -> PathBuf {
        let crun_alone = host.program("runc").is_none() && host.program("crun").is_some();
        self.prefix.join(match crun_alone {
            true => "rocferry-crun",
            false => "rocferry-runc",
        })
    }
}

/// All files but containerd's.
pub(super) fn plan(host: &Host, places: &Places<'_>) -> Result<Vec<Wanted>, InstallError> {
    // cargo gives it another name.
    let built = places.from.join(format!("lib{PLUGIN}"));
    let plugin = match given(&places.from.join(PLUGIN), 0o644) {
        Err(InstallError::Missing { .. }) if built.exists() => given(&built, 0o644)?,
        plugin => plugin?,
    };
    let mut wanted = vec![Wanted {
        path: places.plugins.join(PLUGIN),
        content: plugin,
    }];
    for (name, copy_of) in PROGRAMS {
        wanted.push(Wanted {
            path: places.prefix.join(name),
            content: given(&places.from.join(copy_of), 0o755)?,
        });
    }
    let (podman, crio) = (host.program("podman"), host.program("crio"));
    let wrapper = places.wrapper(host);
    if podman.is_some() || crio.is_some() {
        for (name, text) in HOOKS {
            wanted.push(Wanted {
                path: Path::new(HOOK_FOLDER).join(name),
                content: text_file(hook(text, &places.prefix.join("rocferry-hook"))?),
            });
        }
    }
    if podman.is_some() {
        let text = format!(
            "# Written by `rocferry-agent install`.\n[engine.runtimes]\n{RUNTIME} = [{}]\n",
            quoted(&wrapper)?
        );
        wanted.push(Wanted {
            path: PODMAN.into(),
            content: text_file(text),
        });
    }
    if crio.is_some() {
        let text = format!(
            "# Written by `rocferry-agent install`.\n[crio.runtime.runtimes.{RUNTIME}]\nruntime_path = {}\n\
             runtime_type = \"oci\"\n",
            quoted(&wrapper)?
        );
        wanted.push(Wanted {
            path: CRIO.into(),
            content: text_file(text),
        });
    }
    if SYSTEMD
        .iter()
        .any(|path| host.real(Path::new(path)).exists())
    {
        let program = places.prefix.join("rocferry-agent");
        let text = UNIT_TEXT.replace(UNIT_PROGRAM, utf8(&program)?);
        wanted.push(Wanted {
            path: Path::new(UNITS).join(UNIT),
            content: text_file(text),
        });
    }
    Ok(wanted)
}

/// A file that comes with this program.
fn given(path: &Path, mode: u32) -> Result<Content, InstallError> {
    // What it may be a link to is meant.
    let real = path.canonicalize().map_err(|_| InstallError::Missing {
        path: path.to_owned(),
    })?;
    match Content::read(&real)? {
        Some(Content::File { bytes, .. }) => Ok(Content::File { bytes, mode }),
        _ => Err(InstallError::Missing {
            path: path.to_owned(),
        }),
    }
}

fn text_file(text: String) -> Content {
    Content::File {
        bytes: text.into_bytes(),
        mode: 0o644,
    }
}

/// A file of `hooks.d` that calls this program.
fn hook(text: &str, program: &Path) -> Result<String, InstallError> {
    let damaged = |reason: String| InstallError::Damaged {
        path: program.to_owned(),
        reason,
    };
    let mut hook: Value = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    hook["hook"]["path"] = Value::String(utf8(program)?.to_owned());
    serde_json::to_string_pretty(&hook).map_err(|error| damaged(error.to_string()))
}

/// A path as a string of TOML.
fn quoted(path: &Path) -> Result<String, InstallError> {
    Ok(toml_edit::Value::from(utf8(path)?).to_string())
}

/// A path as text: the configuration of engines knows no others.
pub(super) fn utf8(path: &Path) -> Result<&str, InstallError> {
    path.to_str().ok_or_else(|| InstallError::Damaged {
        path: path.to_owned(),
        reason: "its name is no text".to_owned(),
    })
}
