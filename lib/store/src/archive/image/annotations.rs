//! The annotations of images.

use std::collections::BTreeMap;

use super::super::Engine;
use super::super::convert::Documents;

/// By these each engine knows a checkpoint: CRI-O, Podman and containerd. The value is the container's name.
pub(super) const TRIGGERS: [&str; 3] = [
    "io.kubernetes.cri-o.annotations.checkpoint.name",
    "io.podman.annotations.checkpoint.name",
    "org.criu.checkpoint.container.name",
];

/// The one that Podman looks for besides: the runtime.
pub(super) const PODMAN_RUNTIME: &str = "io.podman.annotations.checkpoint.runtime.name";

const CRIO: &str = "io.kubernetes.cri-o.annotations.checkpoint";
const PODMAN: &str = "io.podman.annotations.checkpoint";
const CRIU: &str = "org.criu.checkpoint";

/// Names for an image, all optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageNames {
    /// Name of the image, as `podman load` and `ctr image import` take it.
    pub reference: Option<String>,
    /// Version of CRIU at the dump.
    pub criu_version: Option<String>,
    /// Release of the kernel at the dump.
    pub kernel_version: Option<String>,
    /// Name of the runtime (`runc`, `crun`), if the configuration does not say it.
    pub runtime: Option<String>,
    /// When the image was made, as RFC 3339; without it, the image has no time and the same bytes each time.
    pub created: Option<String>,
}

/// All that is known, in the spelling of each engine.
pub(super) fn make(
    documents: &Documents,
    engine: Engine,
    names: &ImageNames,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            all.insert(name, value.to_owned());
        }
    };
    let container = documents.name().unwrap_or("checkpoint");
    for trigger in TRIGGERS {
        put(trigger.to_owned(), Some(container));
    }
    let runtime = documents
        .config_text("runtime")
        .or(names.runtime.as_deref());
    put(PODMAN_RUNTIME.to_owned(), Some(runtime.unwrap_or("runc")));
    put(format!("{CRIU}.runtime.name"), runtime);
    let engine_name = match engine {
        Engine::Podman => "podman",
        Engine::CriO => "cri-o",
        Engine::Containerd => "containerd",
    };
    put(format!("{CRIU}.engine.name"), Some(engine_name));
    let image = documents.config_text("rootfsImageName");
    let id = documents.config_text("rootfsImageID");
    let id = id.or_else(|| documents.config_text("rootfsImageRef"));
    for prefix in [CRIO, PODMAN, CRIU] {
        put(format!("{prefix}.rawImageName"), image);
        put(format!("{prefix}.rootfsImageName"), image);
        put(format!("{prefix}.rootfsImageID"), id);
        put(
            format!("{prefix}.criu.version"),
            names.criu_version.as_deref(),
        );
    }
    for prefix in [PODMAN, CRIU] {
        put(
            format!("{prefix}.host.kernel"),
            names.kernel_version.as_deref(),
        );
        put(format!("{prefix}.host.arch"), Some("amd64"));
    }
    // A pod's name here would make CRI-O take the image for the checkpoint of a whole pod.
    all
}
