//! What the pod's specification says of probes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::ProbeError;
use super::port::Port;

/// A container of a pod's specification, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: String,
    ports: Vec<ContainerPort>,
    pub(super) liveness_probe: Option<Probe>,
    readiness_probe: Option<Probe>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    #[serde(default)]
    name: Option<String>,
    container_port: u16,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Probe {
    http_get: Option<HttpGet>,
    tcp_socket: Option<TcpSocket>,
    grpc: Option<Grpc>,
    period_seconds: Option<u64>,
    timeout_seconds: Option<u64>,
    failure_threshold: Option<u64>,
}

impl Probe {
    /// Is it one that the kubelet makes through the network? It counts no command that it cannot run.
    pub(super) const fn connects(&self) -> bool {
        self.http_get.is_some() || self.tcp_socket.is_some() || self.grpc.is_some()
    }

    /// Seconds that a container may be silent at least before the kubelet kills it: all of its probes' failures but the
    /// first, which may come at once, and the time-out of the last.
    pub(super) fn room(&self) -> u64 {
        let given =
            |value: Option<u64>, usual: u64| value.filter(|value| *value > 0).unwrap_or(usual);
        let failures = given(self.failure_threshold, 3).saturating_sub(1);
        failures
            .saturating_mul(given(self.period_seconds, 10))
            .saturating_add(given(self.timeout_seconds, 1))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpGet {
    #[serde(default)]
    path: Option<String>,
    port: PortName,
    #[serde(default)]
    scheme: Option<String>,
    #[serde(default)]
    host: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct TcpSocket {
    port: PortName,
    #[serde(default)]
    host: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Grpc {
    port: u16,
    #[serde(default)]
    service: Option<String>,
}

/// A port, or the name of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PortName {
    Number(u16),
    Name(String),
}

/// What is to be answered on each port.
pub(super) fn ports(containers: &[Container]) -> Result<BTreeMap<u16, Port>, ProbeError> {
    let mut ports: BTreeMap<u16, Port> = BTreeMap::new();
    for container in containers {
        let probes = [
            ("liveness", &container.liveness_probe),
            ("readiness", &container.readiness_probe),
        ];
        for (kind, probe) in probes {
            let Some(probe) = probe else { continue };
            let unanswerable = |reason: String| ProbeError::Unanswerable {
                kind,
                container: container.name.clone(),
                reason,
            };
            let alive = kind == "liveness";
            // The kubelet does not count a command that it cannot run in a frozen container.
            let port = container.add(&mut ports, probe, alive);
            match port {
                // A readiness probe may fail.
                Err(_) if !alive => {}
                port => port.map_err(unanswerable)?,
            }
        }
    }
    Ok(ports)
}

impl Container {
    fn add(
        &self,
        ports: &mut BTreeMap<u16, Port>,
        probe: &Probe,
        alive: bool,
    ) -> Result<(), String> {
        if let Some(get) = &probe.http_get {
            here(get.host.as_deref())?;
            let port = ports.entry(self.number(&get.port)?).or_default();
            port.tls |= get.scheme.as_deref() == Some("HTTPS");
            if alive {
                let path = get.path.as_deref().filter(|path| !path.is_empty());
                let path = path.unwrap_or("/");
                // As the kubelet's URL has it.
                let path = match path.starts_with('/') {
                    true => path.to_owned(),
                    false => format!("/{path}"),
                };
                port.paths.insert(path);
            }
        }
        if let Some(socket) = &probe.tcp_socket {
            here(socket.host.as_deref())?;
            // Accepting would be an answer, and for readiness the wrong one.
            if alive {
                ports.entry(self.number(&socket.port)?).or_default();
            }
        }
        if let Some(grpc) = &probe.grpc {
            let port = ports.entry(grpc.port).or_default();
            if alive {
                port.services
                    .insert(grpc.service.clone().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn number(&self, port: &PortName) -> Result<u16, String> {
        match port {
            PortName::Number(number) => Ok(*number),
            PortName::Name(name) => {
                let mut ports = self.ports.iter();
                let found = ports.find(|port| port.name.as_ref() == Some(name));
                // The kubelet takes a number in quotes as well.
                let number = found.map(|port| port.container_port);
                let number = number.or_else(|| name.parse().ok());
                number.ok_or_else(|| format!("the container has no port {name:?}"))
            }
        }
    }
}

/// A probe of another host is no business of this pod's network.
fn here(host: Option<&str>) -> Result<(), String> {
    match host {
        None | Some("") => Ok(()),
        Some(host) => Err(format!("it asks host {host:?}, not the pod")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BTreeMap<u16, Port>, ProbeError> {
        let containers: Vec<Container> = serde_json::from_str(text).expect("JSON");
        ports(&containers)
    }

    #[test]
    fn ports_of_all_kinds() {
        let found = parsed(
            r#"[{"name":"a","image":"x","ports":[{"name":"web","containerPort":8080}],
                "livenessProbe":{"httpGet":{"path":"healthz?full=1","port":"web"},"periodSeconds":3},
                "readinessProbe":{"httpGet":{"path":"/ready","port":8080}}},
              {"name":"b","livenessProbe":{"grpc":{"port":9000,"service":"worker"}},
                "readinessProbe":{"tcpSocket":{"port":7000}}},
              {"name":"c","livenessProbe":{"tcpSocket":{"port":"6000"}}},
              {"name":"d","livenessProbe":{"httpGet":{"port":8443,"scheme":"HTTPS"}}},
              {"name":"e","livenessProbe":{"exec":{"command":["true"]}}}]"#,
        );
        let found = found.expect("answerable");
        let numbers: Vec<u16> = found.keys().copied().collect();
        assert_eq!(numbers, [6000, 8080, 8443, 9000]);
        assert!(found[&8080].paths.contains("/healthz?full=1") && found[&8080].paths.len() == 1);
        assert!(found[&9000].services.contains("worker"));
        assert!(found[&8443].tls && found[&8443].paths.contains("/"));
    }

    #[test]
    fn what_cannot_be_answered_is_said() {
        for (text, word) in [
            (
                r#"[{"name":"a","livenessProbe":{"httpGet":{"port":"web"}}}]"#,
                "no port",
            ),
            (
                r#"[{"name":"a","livenessProbe":{"httpGet":{"port":1,"host":"h"}}}]"#,
                "host",
            ),
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(
                error.contains(word) && error.contains("container a"),
                "{error}"
            );
            // As readiness it just fails.
            parsed(&text.replace("liveness", "readiness")).expect("fails by itself");
        }
    }
}
