//! How long the kubelet's liveness probes leave a container that does not answer.

use std::path::Path;

use super::args::{bytes, parse};
use super::error::ProbeError;
use super::spec::ports;

/// What a container's liveness probe leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The container's name.
    pub(crate) container: String,
    /// Seconds until the kubelet may kill it.
    pub(crate) seconds: u64,
}

/// The containers' liveness probes that go through the network, and the content of the file. An error: one of them can
/// be answered by nobody.
pub(crate) fn rooms(file: &Path) -> Result<(Vec<Room>, Vec<u8>), ProbeError> {
    let content = bytes(file)?;
    let containers = parse(file, &content)?;
    ports(&containers)?;
    let room = |container: &super::spec::Container| {
        let probe = container.liveness_probe.as_ref()?;
        probe.connects().then(|| Room {
            container: container.name.clone(),
            seconds: probe.room(),
        })
    };
    Ok((containers.iter().filter_map(room).collect(), content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_probes_leave_is_counted_as_the_kubelet_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("containers.json");
        let text = r#"[
            {"name":"a","livenessProbe":{"httpGet":{"port":80},"periodSeconds":3,"failureThreshold":2,"timeoutSeconds":4}},
            {"name":"b","livenessProbe":{"tcpSocket":{"port":81}}},
            {"name":"c","livenessProbe":{"exec":{"command":["true"]}}},
            {"name":"d","readinessProbe":{"tcpSocket":{"port":82}}}]"#;
        std::fs::write(&file, text).expect("written");
        let (rooms, content) = rooms(&file).expect("answerable");
        let rooms: Vec<_> = rooms
            .iter()
            .map(|room| (room.container.as_str(), room.seconds))
            .collect();
        assert_eq!(rooms, [("a", 7), ("b", 21)]);
        assert_eq!(content, text.as_bytes());
        std::fs::write(
            &file,
            r#"[{"name":"a","livenessProbe":{"httpGet":{"port":"x"}}}]"#,
        )
        .expect("written");
        super::rooms(&file).expect_err("no such port");
    }
}
