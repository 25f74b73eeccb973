//! The programs, built from the Go module proxy and kept in the cache.

use anyhow::Result;
use rocferry_vm::{Cache, GoModule};
use std::path::PathBuf;

/// Kubernetes, nodes' programs included.
const KUBERNETES: GoModule = GoModule {
    name: "kubernetes",
    module: "k8s.io/kubernetes",
    version: "v1.37.2",
    go: "1.26.0",
    programs: &[
        ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        (
            "kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
        ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
        ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ],
    variables: &[
        ("k8s.io/component-base/version.gitVersion", "v1.37.2"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "37"),
    ],
    staging: Some("v0.37.2"),
};

/// etcd.
const ETCD: GoModule = GoModule {
    name: "etcd",
    module: "go.etcd.io/etcd/server/v3",
    version: "v3.7.3",
    go: "1.26.0",
    programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
    variables: &[],
    staging: None,
};

/// Helm.
const HELM: GoModule = GoModule {
    name: "helm",
    module: "helm.sh/helm/v4",
    version: "v4.3.2",
    go: "1.26.0",
    programs: &[("helm", "helm.sh/helm/v4/cmd/helm")],
    variables: &[],
    staging: None,
};

/// Where the programs of a control plane are. Kubernetes takes a quarter of an hour to build on two cores, once.
#[derive(Debug, Clone)]
pub struct Programs {
    cache: Cache,
    kubernetes: PathBuf,
    etcd: PathBuf,
}

impl Programs {
    /// Builds what is not in the cache. Helm is built when it is asked for.
    ///
    /// # Errors
    /// Those of [`GoModule::built`].
    pub fn open() -> Result<Self> {
        let cache = Cache::open()?;
        Ok(Self {
            etcd: ETCD.built(&cache)?,
            kubernetes: KUBERNETES.built(&cache)?,
            cache,
        })
    }

    /// A program of Kubernetes: `kubectl` and the like.
    #[must_use]
    pub fn kubernetes(&self, name: &str) -> PathBuf {
        self.kubernetes.join(name)
    }

    /// etcd.
    #[must_use]
    pub fn etcd(&self) -> PathBuf {
        self.etcd.join("etcd")
    }

    /// Helm.
    ///
    /// # Errors
    /// Those of [`GoModule::built`].
    pub fn helm(&self) -> Result<PathBuf> {
        Ok(HELM.built(&self.cache)?.join("helm"))
    }
}
