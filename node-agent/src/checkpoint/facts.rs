//! What the manifest says besides the files.

use rocferry_image::manifest::Source;
use rocferry_topology::{CompactTopology, System};

use crate::preflight;
use crate::runtime::{Container, Criu, Oci, Tcp};

/// Name of the annotation that says what connections become: a restore must know.
pub(crate) const TCP: &str = "dev.rocferry.tcp";

/// Name of the annotation with the container's name.
pub(crate) const CONTAINER_NAME: &str = "dev.rocferry.name";

/// Annotations of a kubelet's container that are kept.
const KUBERNETES: [&str; 4] = [
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-uid",
    "io.kubernetes.cri.container-name",
];

pub(super) fn of(container: &Container, criu: &Criu, tcp: Tcp) -> Source {
    let kernel = rustix::system::uname();
    let text = |value: &std::ffi::CStr| Some(value.to_string_lossy().into_owned());
    // On a machine without GPUs there is none.
    let topology = System::read_live()
        .ok()
        .and_then(|system| serde_json::to_string(&CompactTopology::from(&system)).ok());
    let oci = container.oci.as_ref();
    let mut annotations = vec![
        (CONTAINER_NAME.to_owned(), container.name.clone()),
        (
            TCP.to_owned(),
            match tcp {
                Tcp::Close => "close",
                Tcp::Established => "established",
            }
            .to_owned(),
        ),
    ];
    for name in KUBERNETES {
        if let Some(value) = oci.and_then(|oci| oci.annotation(name)) {
            annotations.push((name.to_owned(), value.to_owned()));
        }
    }
    Source {
        runtime: Some(container.runtime_name()),
        container_id: Some(container.id.clone()),
        image: container
            .image
            .clone()
            .or_else(|| Some(oci?.annotation("io.kubernetes.cri.image-name")?.to_owned())),
        image_digest: container.image_digest.clone(),
        mounts: oci.map(Oci::mounts).unwrap_or_default(),
        topology,
        cpu_features: preflight::cpu_features(),
        criu_version: criu.version().ok().map(|version| version.to_string()),
        kernel_version: text(kernel.release()),
        node: text(kernel.nodename()),
        annotations,
    }
}
