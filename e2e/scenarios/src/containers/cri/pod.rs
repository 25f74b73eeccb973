//! A pod of containerd's, with what a kubelet does for it besides: cgroup, volumes, folder of logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::pod::Contents;
use super::{Client, Cri, config};
use crate::case::Lab;

/// How the pod is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct CriOptions {
    /// The handler of its RuntimeClass; none: containerd's default.
    pub(crate) handler: Option<&'static str>,
    /// Its annotations.
    pub(crate) annotations: Vec<(String, String)>,
    /// It is in the node's own network.
    pub(crate) host_network: bool,
}

/// A pod. It goes when this is dropped, as one that a kubelet deletes.
pub(crate) struct CriPod {
    /// Its UID.
    pub(crate) uid: String,
    /// Its name.
    pub(crate) name: &'static str,
    pub(super) options: CriOptions,
    /// Id of the sandbox.
    pub(crate) id: String,
    client: Client,
    scratch: PathBuf,
    /// Names and ids of its containers, in order.
    containers: Vec<(String, String)>,
}

static NUMBER: AtomicU32 = AtomicU32::new(1);

impl CriPod {
    /// Its namespace in Kubernetes.
    pub(crate) const NAMESPACE: &str = "team";

    /// Starts the sandbox.
    pub(crate) fn start(
        lab: &mut Lab,
        cri: &Cri,
        name: &'static str,
        options: &CriOptions,
    ) -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut pod = Self {
            uid: format!("6e2d4b51-0000-4000-8000-{number:012x}"),
            name,
            options: options.clone(),
            id: String::new(),
            client: cri.client(),
            scratch: lab.folder("pod")?,
            containers: Vec::new(),
        };
        fs::create_dir_all(pod.logs())?;
        let file = pod.file();
        fs::write(&file, config::pod(&pod).to_string())?;
        let mut words = vec!["runp"];
        if let Some(handler) = options.handler {
            words.extend(["--runtime", handler]);
        }
        words.push(text(&file)?);
        pod.id = pod
            .client
            .crictl(&words)?
            .ok()
            .with_context(|| cri.says())?;
        Ok(pod)
    }

    /// Creates and starts a container. Its id.
    pub(crate) fn run(&mut self, contents: &Contents<'_>) -> Result<String> {
        let id = self.create(contents)?;
        self.client.crictl(&["start", &id])?.ok()?;
        Ok(id)
    }

    /// Creates one, without starting it: the OCI runtime hears of it when it is started.
    pub(crate) fn create(&mut self, contents: &Contents<'_>) -> Result<String> {
        for volume in contents.volumes {
            fs::create_dir_all(self.volume(volume.name).join(volume.sub_path))?;
        }
        let before = self.containers.iter();
        let attempt = before.filter(|(name, _)| name == contents.name).count();
        fs::create_dir_all(self.logs().join(contents.name))?;
        let file = self
            .scratch
            .join(format!("{}-{attempt}.json", contents.name));
        fs::write(
            &file,
            config::container(self, contents, attempt).to_string(),
        )?;
        let pod = self.file();
        let words = ["create", &self.id, text(&file)?, text(&pod)?];
        let id = self.client.crictl(&words)?.ok()?;
        self.containers.push((contents.name.to_owned(), id.clone()));
        Ok(id)
    }

    fn file(&self) -> PathBuf {
        self.scratch.join("pod.json")
    }

    /// An emptyDir volume, on the node.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.kubelet()
            .join("volumes/kubernetes.io~empty-dir")
            .join(name)
    }

    fn kubelet(&self) -> PathBuf {
        Path::new("/var/lib/kubelet/pods").join(&self.uid)
    }

    /// Folder of its logs.
    pub(crate) fn logs(&self) -> PathBuf {
        let name = format!("{}_{}_{}", Self::NAMESPACE, self.name, self.uid);
        Path::new("/var/log/pods").join(name)
    }

    /// The log of a container's first attempt.
    pub(crate) fn log(&self, container: &str) -> PathBuf {
        self.logs().join(container).join("0.log")
    }

    pub(super) fn cgroup_path(&self) -> String {
        format!("kubepods/burstable/pod{}", self.uid)
    }

    /// The folder of its cgroup.
    pub(crate) fn cgroup(&self) -> PathBuf {
        Path::new("/sys/fs/cgroup").join(self.cgroup_path())
    }

    /// Deletes it through CRI, as a kubelet does: stopped, then removed.
    pub(crate) fn delete(&mut self) -> Result<()> {
        self.client.crictl(&["stopp", &self.id])?.ok()?;
        self.client.crictl(&["rmp", &self.id])?.ok()?;
        self.containers.clear();
        Ok(())
    }
}

impl Drop for CriPod {
    fn drop(&mut self) {
        let cgroup = self.cgroup();
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        let _ = fs::write(cgroup.join("cgroup.freeze"), "0");
        let _ = self.client.crictl(&["rmp", "--force", &self.id]);
        let begun = Instant::now();
        while cgroup.exists()
            && fs::remove_dir(&cgroup).is_err()
            && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        for dir in [self.kubelet(), self.logs()] {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}
