//! What cases work with: a namespace of their own.

use crate::{ControlPlane, Output};
use anyhow::{Result, bail};
use serde_json::Value;
use std::time::{Duration, Instant};

/// In which what is to happen has happened, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(150);

/// Where a case is played.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a ControlPlane,
    namespace: String,
}

impl<'a> Stage<'a> {
    pub(super) fn new(cluster: &'a ControlPlane, case: &str) -> Result<Self> {
        let namespace = case.replace('/', "-");
        cluster
            .kubectl(&["create", "namespace", &namespace])?
            .ok()?;
        let stage = Self { cluster, namespace };
        // Pods need it, and a controller makes it.
        stage.until("the default service account", || {
            let found = stage.kubectl(&["get", "serviceaccount", "default", "-o", "name"])?;
            Ok(found.status.success())
        })?;
        Ok(stage)
    }

    /// kubectl in the case's namespace.
    pub(super) fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.kubectl_with(args, None)
    }

    fn kubectl_with(&self, args: &[&str], input: Option<&str>) -> Result<Output> {
        let mut all = vec!["--namespace", self.namespace.as_str()];
        all.extend(args);
        self.cluster.kubectl_as(&self.cluster.admin(), &all, input)
    }

    pub(super) fn apply(&self, object: &Value) -> Result<Output> {
        self.kubectl_with(&["apply", "-f", "-"], Some(&object.to_string()))
    }

    /// A merge patch, of the object or of its status.
    pub(super) fn patch(
        &self,
        object: &Value,
        sub: Option<&str>,
        change: &Value,
    ) -> Result<Output> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let change = change.to_string();
        let mut args = vec!["patch", kind, name, "--type=merge", "-p", &change];
        let sub = sub.map(|sub| format!("--subresource={sub}"));
        args.extend(sub.as_deref());
        self.kubectl(&args)
    }

    /// Looks until it is so.
    fn until(&self, what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !is()? {
            if begun.elapsed() > LIMIT {
                bail!("Waited {LIMIT:?} for {what} in {}", self.namespace);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
