//! What the manifest says besides the files.

use rocferry_image::manifest::Source;
use rocferry_topology::{CompactTopology, System};

use crate::pod::Pod;
use crate::preflight;
use crate::runtime::{Container, Criu, Oci, Tcp};

/// Name of the annotation that says what connections become: a restore must know.
pub(crate) const TCP: &str = "dev.rocferry.tcp";

/// Name of the annotation with the container's name.
const NAME: &str = "dev.rocferry.name";

/// Annotations of a kubelet's container that are kept.
const KUBERNETES: [&str; 4] = [
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-uid",
    "io.kubernetes.cri.container-name",
];

/// Name of the annotation that says that it is a pod's; its value is the pod's UID.
const POD: &str = "dev.rocferry.pod";

/// What is said to restore a pod: no runtime alone can.
const POD_RUNTIME: &str = "pod";

/// Of a pod.
pub(super) fn of_pod(pod: &Pod, criu: &Criu, tcp: Tcp) -> Source {
    let mut source = match pod.members.first() {
        Some(first) => of(&first.container, criu, tcp),
        None => Source::default(),
    };
    source.runtime = Some(POD_RUNTIME.to_owned());
    source.container_id = None;
    source.image = None;
    source.image_digest = None;
    source.mounts = Vec::new();
    // Not the first container's.
    let of_first = [NAME, "io.kubernetes.cri.container-name"];
    source.annotations.retain(|(name, _)| {
        !of_first.contains(&name.as_str()) && !KUBERNETES.contains(&name.as_str())
    });
    for (name, value) in [
        (NAME, pod.full_name()),
        (POD, pod.uid.to_string()),
        ("io.kubernetes.cri.sandbox-namespace", pod.namespace.clone()),
        ("io.kubernetes.cri.sandbox-name", pod.name.clone()),
        ("io.kubernetes.cri.sandbox-uid", pod.uid.to_string()),
    ] {
        source.annotations.push((name.to_owned(), value));
    }
    source
}

pub(super) fn of(container: &Container, criu: &Criu, tcp: Tcp) -> Source {
    let kernel = rustix::system::uname();
    let text = |value: &std::ffi::CStr| Some(value.to_string_lossy().into_owned());
    // On a machine without GPUs there is none.
    let topology = System::read_live()
        .ok()
        .and_then(|system| serde_json::to_string(&CompactTopology::from(&system)).ok());
    let oci = container.oci.as_ref();
    let mut annotations = vec![
        (NAME.to_owned(), container.name.clone()),
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
