//! Which GPU stands in for which.

use rocferry_image::{KfdImage, TaskRecord, source_system};
use rocferry_kfd::Kfd;
use rocferry_topology::{ActualGpuId, Matcher, Mode, RenderMinor, System, UserGpuId};

use crate::config::Config;
use crate::error::RestoreError;
use crate::host::{FdStoreId, Host, log_at};

/// A GPU of the checkpoint and the one that stands in for it.
#[derive(Debug)]
pub(super) struct TaskGpu {
    pub(super) user: UserGpuId,
    /// Id on the machine of the dump, where the images tell it.
    pub(super) source: Option<ActualGpuId>,
    pub(super) source_minor: RenderMinor,
    pub(super) actual: ActualGpuId,
    pub(super) minor: RenderMinor,
    /// The file that KFD holds for it, once everything is in place.
    pub(super) render: Option<FdStoreId>,
}

/// Which GPU stands in for which, among those that this task can open.
pub(super) fn map(
    host: &dyn Host,
    config: &Config,
    criu_view: Option<&System>,
    kfd: &Kfd,
    (image, record): (&KfdImage, Option<&TaskRecord>),
) -> Result<Vec<TaskGpu>, RestoreError> {
    let pid = image.pid;
    // The kernel's own list of what the process may use: the count that RESTORE will insist on.
    let usable = kfd
        .apertures()
        .map_err(|source| RestoreError::Kfd { pid, source })?;
    let mut system = match System::read_live() {
        Ok(system) => system,
        // A container without sysfs: what CRIU saw before the namespaces were entered.
        Err(error) => criu_view.cloned().ok_or(error)?,
    };
    let source = source_system(image, record);
    if source.xnack == Some(true) {
        let possible = kfd.xnack_possible();
        system.xnack = Some(possible.map_err(|source| RestoreError::Kfd { pid, source })?);
    }
    log_at!(
        host,
        Debug,
        "{} GPUs in the checkpoint, {} usable here",
        source.gpus().count(),
        usable.len()
    );
    let matcher = Matcher::new(&source, config.checks)?;
    let mapping = matcher
        .map(&system, &usable, Mode::All)
        .inspect_err(|error| {
            for line in error.lines() {
                log_at!(host, Error, "{line}");
            }
            let switches = matcher.switches(&system, &usable, Mode::All);
            if !switches.is_empty() {
                let names: Vec<String> = switches
                    .iter()
                    .map(|switch| format!("{switch}=0"))
                    .collect();
                log_at!(host, Error, "{} would allow it", names.join(" with "));
            }
        })?;
    let mut gpus = Vec::with_capacity(mapping.len());
    for source in image.system.gpus() {
        // The mapping covers every GPU of the checkpoint and leads into the topology.
        let destination = mapping
            .actual(source.id)
            .and_then(|actual| system.gpu(actual));
        let Some(destination) = destination else {
            continue;
        };
        log_at!(
            host,
            Info,
            "GPU {} ({} at dump) is GPU {} ({}) here",
            source.id,
            source.render_minor,
            destination.id,
            destination.render_minor
        );
        gpus.push(TaskGpu {
            user: source.id,
            source: record.and_then(|record| {
                let device = record
                    .devices
                    .iter()
                    .find(|device| device.user == source.id)?;
                Some(device.actual)
            }),
            source_minor: source.render_minor,
            actual: destination.id,
            minor: destination.render_minor,
            render: None,
        });
    }
    Ok(gpus)
}
