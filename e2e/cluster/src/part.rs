//! The programs of a control plane, and how they are started.

use crate::programs::Programs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// etcd, with the objects.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager, each controller with its own service account.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
}

/// Where etcd listens, in the cluster's network.
const ETCD: &str = "http://127.0.0.1:2379";

impl Part {
    /// All of them, in the order in which they are started.
    pub const ALL: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    /// Name of its program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    pub(crate) fn program(self, programs: &Programs) -> PathBuf {
        match self {
            Self::Etcd => programs.etcd(),
            Self::ApiServer | Self::ControllerManager | Self::Scheduler => {
                programs.kubernetes(self.name())
            }
        }
    }

    /// Its arguments; keys and data lie in `dir`, `address` is the API server's.
    pub(crate) fn arguments(self, dir: &Path, address: &str) -> Vec<OsString> {
        let mut all = Arguments {
            dir,
            all: Vec::new(),
        };
        match self {
            Self::Etcd => {
                all.word("--listen-client-urls", ETCD);
                all.word("--advertise-client-urls", ETCD);
                all.word("--listen-peer-urls", "http://127.0.0.1:2380");
                // The data ends with the test.
                all.alone("--unsafe-no-fsync");
                all.file("--data-dir", "etcd");
            }
            Self::ApiServer => api_server(&mut all, address),
            Self::ControllerManager => {
                all.file("--kubeconfig", "kube-controller-manager.conf");
                all.file("--service-account-private-key-file", "sa.key");
                all.file("--root-ca-file", "ca.crt");
                all.file("--cluster-signing-cert-file", "ca.crt");
                all.file("--cluster-signing-key-file", "ca.key");
                all.alone("--use-service-account-credentials=true");
                all.alone("--leader-elect=false");
                all.word("--bind-address", "127.0.0.1");
            }
            Self::Scheduler => {
                all.file("--kubeconfig", "kube-scheduler.conf");
                all.alone("--leader-elect=false");
                all.word("--bind-address", "127.0.0.1");
            }
        }
        all.all
    }
}

fn api_server(all: &mut Arguments<'_>, address: &str) {
    all.word("--etcd-servers", ETCD);
    all.word("--bind-address", address);
    all.word("--advertise-address", address);
    all.word("--secure-port", "6443");
    all.word("--service-cluster-ip-range", "10.96.0.0/16");
    all.file("--tls-cert-file", "apiserver.crt");
    all.file("--tls-private-key-file", "apiserver.key");
    all.file("--client-ca-file", "ca.crt");
    all.word("--authorization-mode", "Node,RBAC");
    all.word("--enable-admission-plugins", "NodeRestriction");
    all.word("--service-account-issuer", "https://kubernetes.default.svc");
    all.file("--service-account-key-file", "sa.pub");
    all.file("--service-account-signing-key-file", "sa.key");
    all.alone("--allow-privileged=true");
    all.file("--kubelet-client-certificate", "kubelet-client.crt");
    all.file("--kubelet-client-key", "kubelet-client.key");
    all.file("--kubelet-certificate-authority", "ca.crt");
    all.word("--kubelet-preferred-address-types", "InternalIP");
    all.file("--requestheader-client-ca-file", "ca.crt");
    all.word("--requestheader-allowed-names", "front-proxy");
    all.word("--requestheader-extra-headers-prefix", "X-Remote-Extra-");
    all.word("--requestheader-group-headers", "X-Remote-Group");
    all.word("--requestheader-username-headers", "X-Remote-User");
    all.file("--proxy-client-cert-file", "front-proxy.crt");
    all.file("--proxy-client-key-file", "front-proxy.key");
}

struct Arguments<'a> {
    dir: &'a Path,
    all: Vec<OsString>,
}

impl Arguments<'_> {
    fn alone(&mut self, flag: &str) {
        self.all.push(flag.into());
    }

    fn word(&mut self, flag: &str, word: &str) {
        self.all.extend([flag.into(), word.into()]);
    }

    fn file(&mut self, flag: &str, name: &str) {
        self.all.extend([flag.into(), self.dir.join(name).into()]);
    }
}
